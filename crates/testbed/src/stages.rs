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
    if !options.node_ready_after.is_zero() {
        register_before_ready(&mut stages);
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

/// Lets nodes say that they are not ready first, as a kubelet does: without a word about it, pods are bound to them at once.
fn register_before_ready(stages: &mut Vec<Value>) {
    let is_ready = r#".status.conditions.[] | select( .type == "Ready" ) | .status"#;
    let unready = "conditions:\n- type: Ready\n  status: 'False'\n  reason: KubeletNotReady\n  message: ''\n  \
                   lastHeartbeatTime: {{ Now | Quote }}\n  lastTransitionTime: {{ Now | Quote }}\n";
    for stage in stages.iter_mut().filter(|stage| stage["metadata"]["name"] == "node-initialize") {
        let unready = json!({"key": is_ready, "operator": "In", "values": ["False"]});
        stage["spec"]["selector"]["matchExpressions"] = json!([unready]);
    }
    stages.push(json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "node-registers"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Node"},
            "selector": {"matchExpressions": [{"key": is_ready, "operator": "DoesNotExist"}]},
            "next": {"statusTemplate": unready},
        },
    }));
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
