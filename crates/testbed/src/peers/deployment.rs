//! The objects by which upstream's suites find an operator: its Deployment on a system node, and a scheduler pod.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;

/// What Karpenter's chart sets, where the suites do not change it.
pub(super) const ENVIRONMENT: [(&str, &str); 7] = [
    ("KUBERNETES_MIN_VERSION", "1.19.0-0"),
    ("KARPENTER_SERVICE", "karpenter"),
    ("SYSTEM_NAMESPACE", "kube-system"),
    ("LEADER_ELECTION_NAMESPACE", "kube-system"),
    ("CPU_REQUESTS", "1000"),
    ("MEMORY_LIMIT", "2147483648"),
    ("LOG_LEVEL", "info"),
];

/// Where the suites expect to see the scheduler's configuration; only the argument is looked at.
const SCHEDULER_CONFIG: &str = "/etc/kubernetes/karpenter-scheduler-config/kube-scheduler-config.yaml";

const FEATURE_GATES: &str = "StaticCapacity=true,NodeRepair=true,CapacityBuffer=true,NodeOverlay=true,\
     SpotToSpotConsolidation=true,TerminateFirstDrift=true,TerminateFirstRepair=true";

/// The environment of the Deployment's container, which the suites read and edit.
#[derive(Debug, Clone)]
pub struct Settings(pub Vec<(String, String)>);

impl Settings {
    /// As upstream's own end-to-end runs set them, with every feature gate that has specs.
    pub fn upstream() -> Self {
        let settings =
            [("FEATURE_GATES", FEATURE_GATES), ("PREFERENCE_POLICY", "Ignore"), ("ENABLE_PROFILING", "true")];
        Self(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }
}

/// Creates the system node, the operator's Deployment and the scheduler's pod.
pub async fn install(plane: &ControlPlane, settings: &Settings) -> Result<()> {
    let nodes: Api<Node> = Api::all(plane.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(system_node())?).await?;
    let pods: Api<Pod> = Api::namespaced(plane.client(), "kube-system");
    pods.create(&PostParams::default(), &serde_json::from_value(scheduler_pod())?).await?;
    let deployments: Api<Deployment> = Api::namespaced(plane.client(), "kube-system");
    let apply = PatchParams::apply("testbed").force();
    deployments.patch("karpenter", &apply, &Patch::Apply(&operator(settings))).await?;
    Ok(())
}

fn system_node() -> Value {
    let size = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    json!({
        "metadata": {"name": "system", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"kubernetes.io/os": "linux"}},
        "spec": {"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]},
        "status": {"allocatable": size, "capacity": size},
    })
}

fn scheduler_pod() -> Value {
    json!({
        "metadata": {"name": "kube-scheduler-system", "labels": {"component": "kube-scheduler"}},
        "spec": {
            "nodeName": "system",
            "containers": [{"name": "kube-scheduler", "image": "none", "command": ["kube-scheduler", format!("--config={SCHEDULER_CONFIG}")]}],
            "tolerations": [{"operator": "Exists"}],
        },
    })
}

fn operator(settings: &Settings) -> Value {
    let labels = json!({"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"});
    let env: Vec<Value> =
        settings.0.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "karpenter", "namespace": "kube-system", "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": "system-cluster-critical",
                    "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
                    "containers": [{"name": "controller", "image": "none", "env": env}],
                },
            },
        },
    })
}
