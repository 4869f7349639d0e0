//! The operator as a service: what it needs, its lease, its end, and one round from pods to nodes and back.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use headstart_testbed::{Options, workload};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::harness::{Cluster, LEASE, deployment, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_absent_is_said_once_and_picked_up_and_the_end_is_graceful() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    let operator = cluster.run("headstart", &[])?;
    eventually("the lease", async || Ok(!cluster.holder("kube-system").await?.is_empty())).await?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let holder = cluster.holder("kube-system").await?;
    assert!(holder.starts_with(&format!("{}_", host.trim())), "{holder}");

    eventually("the first reads", async || {
        let (code, unread) = operator.get("probes", "/readyz")?;
        Ok(code == 503 && unread == "not read yet: NodePool, NodeClaim, NodeClass\n")
    })
    .await?;
    assert_eq!(operator.get("probes", "/healthz")?, (200, "ok\n".to_owned()));
    cluster.install_crds().await?;
    eventually("readiness", async || Ok(operator.get("probes", "/readyz")?.0 == 200)).await?;
    let absent = operator.said("are not served");
    assert_eq!(
        absent.len(),
        3,
        "one warning a kind, and none for overlays, which are off:\n{}",
        operator.log()
    );
    assert_eq!(operator.said("may not be read"), Vec::<Value>::new(), "the manifest's rights are enough");

    let (code, metrics) = operator.get("metrics", "/metrics")?;
    assert_eq!(code, 200);
    for expected in ["karpenter_build_info{version=", "headstart_events_total{kind=\"NodePool\"}", "# EOF"] {
        assert!(metrics.contains(expected), "{expected} is missing in:\n{metrics}");
    }

    operator.signal(|process| process.terminate())?;
    assert_eq!(operator.exit_code().await?, 0, "{}", operator.log());
    assert_eq!(cluster.holder("kube-system").await?, "", "the lease was given up");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_through_its_lease_ends() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    cluster.install_crds().await?;
    let first = cluster.run("first", &[])?;
    eventually("the first leader", async || Ok(!first.said("leading").is_empty())).await?;
    let second = cluster.run("second", &[])?;
    eventually("the second to wait", async || Ok(!second.said("another one leads").is_empty())).await?;
    first.signal(|process| process.pause())?;
    eventually("the second leader", async || Ok(!second.said("leading").is_empty())).await?;
    first.signal(|process| process.resume())?;
    assert_eq!(first.exit_code().await?, 1);
    assert_eq!(first.said("the lease was lost; acting no more").len(), 1, "{}", first.log());
    second.signal(|process| process.terminate())?;
    assert_eq!(second.exit_code().await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_found_wherever_it_is() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    let namespace = json!({"metadata": {"name": "karpenter"}});
    Api::<Namespace>::all(cluster.plane.client())
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;
    let theirs = Lease {
        metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some("karpenter-0_1".to_owned()),
            lease_duration_seconds: Some(3),
            lease_transitions: Some(1),
            ..LeaseSpec::default()
        }),
    };
    cluster.leases("karpenter").create(&PostParams::default(), &theirs).await?;
    let operator = cluster.run("headstart", &[])?;
    eventually("the other to be noticed", async || {
        Ok(operator.said("another one leads").iter().any(|line| line["holder"] == "karpenter-0_1"))
    })
    .await?;
    eventually("the other to be outlived", async || {
        let lease = cluster.leases("karpenter").get(LEASE).await?.spec.unwrap_or_default();
        Ok(lease.lease_transitions == Some(2)
            && lease.holder_identity.is_some_and(|holder| holder != "karpenter-0_1"))
    })
    .await?;
    assert!(cluster.leases("kube-system").get_opt(LEASE).await?.is_none(), "there is only one");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_stops_the_start() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    let gated = cluster.run("gated", &["--feature-gates=PodDeletionCostManagement=true"])?;
    assert_eq!(gated.exit_code().await?, 1);
    assert!(
        gated.log().contains("error: feature gate PodDeletionCostManagement is enabled"),
        "{}",
        gated.log()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_nodes_and_nothing_is_left_of_them_afterwards() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let journal = cluster.plane.dir().join("journal.jsonl");
    let operator = cluster.run("headstart", &["--journal", &journal.display().to_string()])?;
    operator.ready().await?;
    cluster.apply_all(workload::open_pool()).await?;
    cluster.apply(deployment(10)).await?;
    cluster.running(10).await.with_context(|| operator.log())?;

    let (nodes, claims) = (cluster.nodes(), cluster.claims());
    let bought = claims.list(&ListParams::default()).await?.items.len();
    assert!(bought > 0);
    assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), bought, "a node for each claim");
    eventually("events about what was done", async || {
        let events = Api::<Event>::all(cluster.plane.client()).list(&ListParams::default()).await?;
        let ours = |event: &&Event| event.reporting_component.as_deref() == Some("karpenter");
        Ok(events.iter().filter(ours).count() > 0)
    })
    .await
    .with_context(|| operator.log())?;

    cluster.apply(deployment(0)).await?;
    claims.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    eventually("everything to go", async || {
        let left = claims.list(&ListParams::default()).await?.items.len()
            + nodes.list(&ListParams::default()).await?.items.len();
        Ok(left == 0)
    })
    .await
    .with_context(|| operator.log())?;

    let (_, metrics) = operator.get("metrics", "/metrics")?;
    let bad: Vec<&str> = metrics
        .lines()
        .filter(|line| line.contains("outcome=\"forbidden\"") || line.contains("outcome=\"invalid\""))
        .collect();
    assert_eq!(bad, Vec::<&str>::new(), "the manifest's rights are enough");
    assert_eq!(operator.said("a metric is measured that does not exist"), Vec::<Value>::new());

    operator.end().await?;
    let replayed = Command::new(&cluster.headstart).arg("replay").arg(&journal).output()?;
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(replayed.status.success() && said.starts_with("The same: "), "{said}");
    Ok(())
}
