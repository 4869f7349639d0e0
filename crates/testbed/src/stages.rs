//! kwok's configuration: upstream's stages with the delays a test asked for.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::binaries::{Asset, asset};
use crate::options::Stages;

/// Writes the stages to `path`, in the form `kwok --config` reads.
pub(crate) fn write(path: &Path, options: &Stages) -> Result<()> {
    let mut stages = read(Asset::KwokStages)?;
    if options.karpenter {
        for stage in read(Asset::KarpenterStages)? {
            stages.retain(|other| other["metadata"]["name"] != stage["metadata"]["name"]);
            stages.push(stage);
        }
    }
    for (name, delay) in [
        ("node-initialize", options.node_ready_after),
        ("pod-ready", options.pod_ready_after),
        ("pod-delete", options.pod_gone_after),
    ] {
        set_delay(&mut stages, name, delay);
    }
    let documents: Vec<String> = stages.iter().map(|stage| format!("---\n{stage}\n")).collect();
    std::fs::write(path, documents.concat()).with_context(|| format!("cannot write {}", path.display()))
}

fn set_delay(stages: &mut [Value], name: &str, delay: Duration) {
    if delay.is_zero() {
        return;
    }
    for stage in stages.iter_mut().filter(|stage| stage["metadata"]["name"] == name) {
        stage["spec"]["delay"] = json!({"durationMilliseconds": delay.as_millis() as u64});
    }
}

/// Lets nodes say that they are not ready from the moment they are made, as those of a kubelet do: kube-controller-manager
/// takes whoever says nothing for ready, and pods are bound to it.
pub(crate) fn unready_at_first() -> [Value; 2] {
    let group = "admissionregistration.k8s.io/v1";
    let unready = r#"Object{status: Object.status{conditions: [Object.status.conditions{
        type: "Ready", status: "False", reason: "KubeletNotReady", message: "it has just begun"}]}}"#;
    let policy = json!({
        "apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "nodes-take-a-while"},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"], "operations": ["CREATE"]},
            ]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": unready}}],
        },
    });
    let binding = json!({
        "apiVersion": group, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "nodes-take-a-while"},
        "spec": {"policyName": "nodes-take-a-while"},
    });
    [policy, binding]
}

fn read(files: Asset) -> Result<Vec<Value>> {
    asset(files)?
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(file)?;
            serde_saphyr::from_str(&text).with_context(|| format!("{} is no stage", file.display()))
        })
        .collect()
}
