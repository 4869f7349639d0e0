//! The real Karpenter's nodes in Headstart's hands, and back again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headstart_testbed::peers::{self, Peer};
use headstart_testbed::workload;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::{Cluster, condition, eventually, named_deployment, number};

/// Long enough for everything that either does every few seconds.
const A_WHILE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn karpenters_nodes_are_taken_over_and_handed_back_untouched() -> Result<()> {
    let n = number("NODES", 10);
    let more = n.div_ceil(5);
    let cluster = Cluster::whole().await?;
    cluster.apply_all(workload::calm_pool()).await?;
    let _ports = peers::run(&cluster.plane, Peer::Karpenter, &[]).await?;
    cluster.pool_says("general", "Ready", "True").await?;
    cluster.apply(apart(n)).await?;
    cluster.running(n).await?;
    let theirs = initialized(&cluster, n).await?;
    end_karpenter(&cluster).await?;
    let tally = cluster.tally();

    let operator = cluster.run("headstart", &[])?;
    operator.ready().await.with_context(|| operator.log())?;
    tokio::time::sleep(A_WHILE).await;
    ensure!(initialized(&cluster, n).await? == theirs, "claims have changed:\n{}", operator.log());
    ensure!(tally.n() == n, "{} claims were made", tally.n() - n);

    cluster.apply(apart(n + more)).await?;
    cluster.running(n + more).await.with_context(|| operator.log())?;
    let all = initialized(&cluster, n + more).await?;
    for (uid, claim) in &theirs {
        ensure!(all.get(uid) == Some(claim), "a claim of Karpenter's has changed:\n{}", operator.log());
    }
    operator.end().await?;

    let _ports = peers::run(&cluster.plane, Peer::Karpenter, &[]).await?;
    eventually("Karpenter to lead", async || {
        let holder = cluster.holder("kube-system").await?;
        Ok(!holder.is_empty())
    })
    .await?;
    tokio::time::sleep(A_WHILE).await;
    ensure!(initialized(&cluster, n + more).await? == all, "claims have changed under Karpenter");
    ensure!(tally.n() == n + more, "claims were replaced");
    // It was awake all the while.
    cluster.apply(apart(n + more + 1)).await?;
    cluster.running(n + more + 1).await?;
    let at_last = initialized(&cluster, n + more + 1).await?;
    ensure!(all.iter().all(|(uid, claim)| at_last.get(uid) == Some(claim)), "claims have changed in the end");
    Ok(())
}

/// Pods that share no node.
fn apart(n: usize) -> Value {
    let term =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    named_deployment("apart", n, &json!({"affinity": affinity}))
}

/// Waits until there are so many claims and all are initialized, and tells what must not change about them: their spec
/// and node, that nobody has deleted them and that they have not drifted.
async fn initialized(cluster: &Cluster, n: usize) -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    eventually(&format!("{n} initialized claims"), async || {
        let claims = cluster.claims().list(&ListParams::default()).await?.items;
        let ready = claims.iter().all(|claim| condition(&claim.data, "Initialized")["status"] == "True");
        let about = |claim: &kube::api::DynamicObject| {
            let told = json!({
                "name": claim.name_any(),
                "spec": claim.data["spec"],
                "generation": claim.metadata.generation,
                "node": claim.data["status"]["nodeName"],
                "providerID": claim.data["status"]["providerID"],
                "deleted": claim.metadata.deletion_timestamp,
                "drifted": condition(&claim.data, "Drifted")["status"],
            });
            (claim.uid().unwrap_or_default(), told)
        };
        found = claims.iter().map(about).collect();
        Ok(ready && claims.len() == n)
    })
    .await?;
    Ok(found)
}

async fn end_karpenter(cluster: &Cluster) -> Result<()> {
    cluster.plane.with_process(Peer::Karpenter.name(), |process| process.terminate())??;
    eventually("Karpenter's end", async || Ok(cluster.plane.exited(Peer::Karpenter.name())?.is_some())).await
}
