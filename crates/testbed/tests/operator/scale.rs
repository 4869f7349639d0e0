//! A hundred pods on an empty cluster, and everything that people and tools read afterwards.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use headstart_cloud::catalog::{Catalog, Source};
use headstart_cloud::port::OfferingKey;
use headstart_core::labels::{CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, NODE_POOL, REGISTERED, ZONE};
use headstart_testbed::binaries::{Binary, ensure as program};
use headstart_testbed::workload;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::harness::{Cluster, condition, deployment, eventually};

const FINALIZER: &str = "karpenter.sh/termination";

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pods_run_on_nodes_that_are_described_rightly_and_nothing_is_left() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let operator = cluster.run("headstart", &[])?;
    operator.ready().await?;
    cluster.apply_all(workload::open_pool()).await?;
    cluster.pool_says("general", "Ready", "True").await?;
    cluster.apply(deployment(100)).await?;
    cluster.running(100).await.with_context(|| operator.log())?;

    eventually("ready claims", async || {
        let claims = cluster.claims().list(&ListParams::default()).await?;
        Ok(claims.iter().all(|claim| condition(&claim.data, "Ready")["status"] == "True"))
    })
    .await
    .with_context(|| operator.log())?;
    let claims = cluster.claims().list(&ListParams::default()).await?.items;
    let nodes = cluster.nodes().list(&ListParams::default()).await?.items;
    let nodes: BTreeMap<String, Node> = nodes.into_iter().map(|node| (node.name_any(), node)).collect();
    assert_eq!(claims.len(), nodes.len(), "a node for each claim, and a claim for each node");
    let pool_uid = cluster.pools().get("general").await?.uid().context("a pool has a uid")?;
    let catalog = Catalog::load(&Source::Kwok)?;
    let (mut dollars, mut cpus) = (0.0, 0.0);
    for claim in &claims {
        let node = nodes.get(claim.data["status"]["nodeName"].as_str().unwrap_or_default());
        let node = node.with_context(|| format!("{} has no node", claim.name_any()))?;
        is_claimed_rightly(claim, node, &pool_uid)
            .with_context(|| serde_json::to_string_pretty(claim).unwrap_or_default())?;
        let (price, cpu) = is_sold_as(&catalog, claim, node)?;
        (dollars, cpus) = (dollars + price, cpus + cpu);
    }
    eprintln!("{} nodes of {cpus} CPUs for {dollars} $/h", nodes.len());
    // Karpenter buys one node of 128 CPUs for 2.43 $/h; pods that come slowly may take a second batch.
    assert!((100.0..=160.0).contains(&cpus), "{cpus} CPUs were bought for 100 pods of one");
    assert!((1.9..=3.0).contains(&dollars), "{dollars} $/h for 100 pods");
    said_what_was_bought(&operator.said("created NodeClaim for"), &claims).with_context(|| operator.log())?;

    let table = kubectl(&cluster, &["get", "nodepools,nodeclaims"]).await?;
    reads_like_karpenters(&table, &claims).with_context(|| table.clone())?;

    cluster.apply(deployment(0)).await?;
    cluster.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    eventually("everything to go", async || {
        let claims = cluster.claims().list(&ListParams::default()).await?.items;
        let nodes = cluster.nodes().list(&ListParams::default()).await?.items;
        Ok(claims.is_empty() && nodes.is_empty())
    })
    .await
    .with_context(|| operator.log())?;
    eventually("an empty pool", async || {
        Ok(cluster.pools().get("general").await?.data["status"]["nodes"] == 0)
    })
    .await?;
    Ok(())
}

/// A claim and its node say what Karpenter's would.
fn is_claimed_rightly(claim: &DynamicObject, node: &Node, pool_uid: &str) -> Result<()> {
    for kind in ["Launched", "Registered", "Initialized", "Ready"] {
        ensure!(condition(&claim.data, kind)["status"] == "True", "{kind} is not True");
    }
    let [owner] = claim.owner_references() else { anyhow::bail!("it has not one owner") };
    ensure!((&*owner.kind, &*owner.name, &*owner.uid) == ("NodePool", "general", pool_uid));
    ensure!(owner.block_owner_deletion == Some(true));
    ensure!(claim.finalizers() == [FINALIZER] && node.finalizers() == [FINALIZER]);
    ensure!(
        claim.data["spec"]["nodeClassRef"]
            == json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
    );
    let labels = claim.labels();
    ensure!(labels[NODE_POOL] == "general" && labels["karpenter.kwok.sh/kwoknodeclass"] == "default");
    ensure!(claim.annotations().contains_key("karpenter.sh/nodepool-hash"));
    for (key, value) in labels {
        ensure!(node.labels().get(key) == Some(value), "the node's {key} is not the claim's");
    }
    for key in [REGISTERED, INITIALIZED] {
        ensure!(node.labels().get(key).map(String::as_str) == Some("true"), "the node lacks {key}");
    }
    let spec = node.spec.clone().unwrap_or_default();
    ensure!(claim.data["status"]["providerID"].as_str() == spec.provider_id.as_deref());
    ensure!(spec.taints.unwrap_or_default().is_empty(), "the node has taints left");

    // What was launched is among what was asked for, and what was asked for is what the pool allows.
    let requirements = claim.data["spec"]["requirements"].as_array().context("it requires nothing")?;
    let allowed = |key: &str| -> Vec<&str> {
        let of = requirements.iter().filter(|requirement| requirement["key"] == key);
        of.flat_map(|requirement| requirement["values"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect()
    };
    ensure!(allowed(INSTANCE_TYPE).contains(&&*labels[INSTANCE_TYPE]));
    ensure!(allowed(CAPACITY_TYPE).contains(&&*labels[CAPACITY_TYPE]));
    ensure!(allowed("kubernetes.io/os") == ["linux"] && allowed(NODE_POOL) == ["general"]);
    Ok(())
}

/// What was launched is sold at the price that the node shows, and as large as the node; returns $/h and CPUs.
fn is_sold_as(catalog: &Catalog, claim: &DynamicObject, node: &Node) -> Result<(f64, f64)> {
    let label = |key: &str| claim.labels().get(key).cloned().with_context(|| format!("{key} is missing"));
    let key = OfferingKey {
        instance_type: label(INSTANCE_TYPE)?,
        zone: label(ZONE)?,
        capacity_type: label(CAPACITY_TYPE)?,
        reservation: None,
    };
    let (instance_type, offering) = catalog.offering(&key).with_context(|| format!("{key} is not sold"))?;
    let shown = node.labels().get("eks-node-viewer/instance-price").context("the node shows no price")?;
    let price: f64 = shown.parse()?;
    ensure!((price - offering.price.nanos() as f64 / 1e9).abs() < 1e-5, "{price} is not {}", offering.price);
    let capacity = claim.data["status"]["capacity"]["cpu"].as_str().unwrap_or_default().to_owned();
    ensure!(capacity == instance_type.capacity.get("cpu").to_string(), "{capacity} CPUs");
    Ok((price, capacity.parse()?))
}

/// One line a claim, with what is cheapest for it and its price.
fn said_what_was_bought(lines: &[Value], claims: &[DynamicObject]) -> Result<()> {
    for claim in claims {
        let [line] =
            &lines.iter().filter(|line| line["NodeClaim"] == claim.name_any()).collect::<Vec<_>>()[..]
        else {
            anyhow::bail!("not one line about {}", claim.name_any())
        };
        let labels = claim.labels();
        let bought = format!("{} {} {}", labels[INSTANCE_TYPE], labels[ZONE], labels[CAPACITY_TYPE]);
        ensure!(line["cheapest"] == bought, "{line} does not name {bought}");
        ensure!(line["price"].as_str().is_some_and(|price| price.ends_with("/h")), "{line} has no price");
    }
    Ok(())
}

/// Every column is filled in.
fn reads_like_karpenters(table: &str, claims: &[DynamicObject]) -> Result<()> {
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let [pools, pool, empty, heads, rows @ ..] = &rows[..] else { anyhow::bail!("too few rows") };
    ensure!(*pools == ["NAME", "NODECLASS", "NODES", "READY", "AGE"]);
    ensure!(pool[..4] == ["nodepool.karpenter.sh/general", "default", &claims.len().to_string(), "True"]);
    ensure!(empty.is_empty());
    ensure!(*heads == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]);
    ensure!(rows.len() == claims.len());
    for claim in claims {
        let name = format!("nodeclaim.karpenter.sh/{}", claim.name_any());
        let row = rows.iter().find(|row| row[0] == name).with_context(|| format!("{name} is missing"))?;
        let labels = claim.labels();
        let node = claim.data["status"]["nodeName"].as_str().unwrap_or_default();
        let expected = [&*labels[INSTANCE_TYPE], &*labels[CAPACITY_TYPE], &*labels[ZONE], node, "True"];
        ensure!(row[1..6] == expected, "{row:?}");
    }
    Ok(())
}

async fn kubectl(cluster: &Cluster, args: &[&str]) -> Result<String> {
    let kubectl = tokio::task::spawn_blocking(|| program(Binary::Kubectl)).await??;
    let output =
        Command::new(kubectl).arg("--kubeconfig").arg(cluster.plane.kubeconfig()).args(args).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
