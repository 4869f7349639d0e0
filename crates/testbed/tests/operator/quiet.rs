//! Pods that wait for something else than a node: nothing is bought for them.

use anyhow::{Context, Result, ensure};
use headstart_testbed::workload;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::{Cluster, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_bought_for_pods_that_do_not_wait_for_a_node() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let operator = cluster.run("headstart", &[])?;
    operator.ready().await?;
    cluster.apply(standing_node()).await?;
    cluster.apply(json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "pause"}, "value": -10,
    })).await?;
    let pods = cluster.pods();
    let phase = async |name: &str| -> Result<String> {
        Ok(pods.get(name).await?.status.and_then(|status| status.phase).unwrap_or_default())
    };
    create(&pods, "pause", 3, &json!({"priorityClassName": "pause", "terminationGracePeriodSeconds": 0}))
        .await?;
    eventually("the pause pod to run", async || Ok(phase("pause").await? == "Running")).await?;
    cluster.apply_all(workload::open_pool()).await?;
    cluster.pool_says("general", "Ready", "True").await?;
    let tally = cluster.tally();

    // It can have the pause pod's place.
    create(&pods, "important", 3, &json!({})).await?;
    eventually("the important pod to run", async || Ok(phase("important").await? == "Running"))
        .await
        .with_context(|| operator.log())?;
    ensure!(pods.get_opt("pause").await?.is_none(), "it was sent away");

    create(&pods, "theirs", 2, &json!({"schedulerName": "another"})).await?;
    create(&pods, "gated", 2, &json!({"schedulingGates": [{"name": "example.com/later"}]})).await?;
    create(&pods, "nominated", 2, &json!({"schedulerName": "another"})).await?;
    let status = json!({"status": {
        "nominatedNodeName": "standing",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }});
    pods.patch_status("nominated", &PatchParams::default(), &Patch::Strategic(status)).await?;

    // A pod that does wait shows that the others were seen and left alone.
    create(&pods, "waiting", 2, &json!({})).await?;
    eventually("the waiting pod to run", async || Ok(phase("waiting").await? == "Running"))
        .await
        .with_context(|| operator.log())?;
    let claims = cluster.claims().list(&ListParams::default()).await?.items;
    ensure!(tally.n() == 1 && claims.len() == 1, "{} claims were made:\n{}", tally.n(), operator.log());
    let asked = &claims[0].data["spec"]["resources"]["requests"];
    ensure!(asked["cpu"] == "2" && asked["pods"] == "1", "{} asks for {asked}", claims[0].name_any());
    for name in ["theirs", "gated", "nominated"] {
        ensure!(phase(name).await? == "Pending", "{name} does not wait");
    }
    Ok(())
}

/// A node of four CPUs that nobody claims.
fn standing_node() -> Value {
    let size = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "standing",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "standing"},
        },
        "status": {"allocatable": size, "capacity": size},
    })
}

async fn create(pods: &Api<Pod>, name: &str, cpu: u64, spec: &Value) -> Result<()> {
    let mut pod = workload::pod(name, &json!({}), cpu * 1000, 1024, spec);
    pod["metadata"]["uid"] = Value::Null;
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(())
}
