//! Nodes in a real cluster: what a kubelet and a cloud controller would do for an instance.

use std::collections::BTreeMap;

use headstart_core::resources::Resources;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;

use crate::record::Launched;
use crate::settings::OnEnd;
use crate::world::{NodeTask, provider_id};

const KWOK: &str = "kwok.x-k8s.io/node";

/// Does what a task says; doing it again is harmless.
pub(crate) async fn perform(cluster: &Client, task: &NodeTask) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(cluster.clone());
    let done = match task {
        NodeTask::Join(launched) => nodes.create(&PostParams::default(), &node(launched)).await.map(|_| ()),
        NodeTask::Boot { name, operation, .. } => {
            let boot = json!({ "status": { "nodeInfo": { "bootID": format!("testcloud-{operation}") } } });
            nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(boot)).await.map(|_| ())
        }
        NodeTask::Leave { name, how: OnEnd::Delete, .. } => {
            nodes.delete(name, &DeleteParams::default()).await.map(|_| ())
        }
        NodeTask::Leave { name, how: OnEnd::Dead, .. } => die(&nodes, name).await,
    };
    match done {
        // It was there before a crash, or is gone already.
        Err(Error::Api(status)) if status.code == 409 && matches!(task, NodeTask::Join(_)) => Ok(()),
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        done => done,
    }
}

/// A task in words.
pub(crate) fn describe(task: &NodeTask) -> String {
    match task {
        NodeTask::Join(launched) => format!("registering Node {}", launched.node.name),
        NodeTask::Boot { name, .. } => format!("restarting Node {name}"),
        NodeTask::Leave { name, .. } => format!("removing Node {name}"),
    }
}

/// The Node stays, kwok lets go of it, and its kubelet is silent.
async fn die(nodes: &Api<Node>, name: &str) -> Result<(), Error> {
    let (params, now) = (PatchParams::default(), Timestamp::now().to_string());
    let unmanaged = json!({ "metadata": { "annotations": { KWOK: null }, "labels": { KWOK: null } } });
    nodes.patch(name, &params, &Patch::Merge(unmanaged)).await?;
    let silent = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now,
        "message": "the instance ended",
    }] } });
    nodes.patch_status(name, &params, &Patch::Strategic(silent)).await?;
    Ok(())
}

fn node(launched: &Launched) -> Node {
    let record = &launched.node;
    let taint = |taint: &headstart_cloud::port::Taint| Taint {
        key: taint.key.clone(),
        value: (!taint.value.is_empty()).then(|| taint.value.clone()),
        effect: taint.effect.clone(),
        time_added: None,
    };
    Node {
        metadata: ObjectMeta {
            name: Some(record.name.clone()),
            labels: Some(record.labels.clone()),
            annotations: Some(record.annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(provider_id(launched).0),
            taints: Some(record.taints.iter().map(taint).collect()),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(quantities(&launched.capacity)),
            allocatable: Some(quantities(&record.allocatable)),
            phase: Some("Pending".to_owned()),
            ..NodeStatus::default()
        }),
    }
}

fn quantities(resources: &Resources) -> BTreeMap<String, Quantity> {
    resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect()
}
