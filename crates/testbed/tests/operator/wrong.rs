//! Mistakes in what people write: each is named where they look, and none delays its neighbours.

use anyhow::{Context, Result, ensure};
use headstart_testbed::workload;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::{Cluster, eventually, named_deployment};

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_and_neighbours_are_served() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let operator = cluster.run("headstart", &[])?;
    operator.ready().await?;
    let mut twice = pool("twice");
    let taint = json!({"key": "example.com/dedicated", "value": "a", "effect": "NoSchedule"});
    twice["spec"]["template"]["spec"]["taints"] = json!([taint, taint]);
    let mut homeless = pool("homeless");
    homeless["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("missing");
    cluster.apply_all([workload::node_class(), twice, homeless, pool("good")]).await?;
    cluster.apply(named_deployment("fine", 3, &json!({}))).await?;
    cluster.apply(named_deployment("huge", 1, &asking("100k"))).await?;
    let nowhere = json!({"nodeSelector": {"topology.kubernetes.io/zone": "mars"}});
    cluster.apply(named_deployment("nowhere", 1, &nowhere)).await?;

    cluster.running(3).await.with_context(|| operator.log())?;
    let claims = cluster.claims().list(&ListParams::default()).await?.items;
    ensure!(!claims.is_empty());
    ensure!(claims.iter().all(|claim| claim.labels()["karpenter.sh/nodepool"] == "good"));

    let said = cluster.pool_says("twice", "ValidationSucceeded", "False").await?;
    ensure!(said["reason"] == "NodePoolValidationFailed", "{said}");
    let message = said["message"].as_str().unwrap_or_default();
    ensure!(message.contains("spec.template.spec.taints[1]") && message.contains("duplicate"), "{said}");
    let said = cluster.pool_says("homeless", "NodeClassReady", "False").await?;
    ensure!(said["reason"] == "NodeClassNotFound", "{said}");
    for bad in ["twice", "homeless"] {
        cluster.pool_says(bad, "Ready", "False").await?;
    }
    cluster.pool_says("good", "Ready", "True").await?;
    for (app, expected) in [("huge", "cpu"), ("nowhere", "topology.kubernetes.io/zone")] {
        let mut told = Vec::new();
        eventually(&format!("word about {app}"), async || {
            let pods = cluster.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?;
            let name = pods.items.first().context("there is no such pod")?.name_any();
            told = cluster.told(&name, "FailedScheduling").await?;
            Ok(told
                .iter()
                .any(|message| message.starts_with("Failed to schedule pod") && message.contains(expected)))
        })
        .await
        .with_context(|| format!("{told:?}\n{}", operator.log()))?;
    }
    Ok(())
}

fn pool(name: &str) -> Value {
    let linux = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]);
    workload::node_pool(name, &linux)
}

/// Pods that ask for so many CPUs.
fn asking(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}]})
}
