//! How an operator reacts to a Deployment that is scaled up: the measurement behind `make bench`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::options::{Options, Rate};
use crate::peers::{self, Peer};
use crate::workload;

/// Karpenter's KWOK provider writes a node's price on this label, in dollars per hour.
const PRICE_LABEL: &str = "eks-node-viewer/instance-price";
const LIMIT: Duration = Duration::from_mins(10);

/// What happened after a Deployment of one-CPU pods was created on an empty cluster.
#[derive(Debug, Clone, Copy)]
pub struct Reaction {
    pub first_claim: Duration,
    pub last_claim: Duration,
    pub last_running: Duration,
    pub n_nodes: usize,
    pub dollars_per_hour: f64,
    /// Processor time of the operator, start-up excluded.
    pub cpu: Duration,
    /// The most memory the operator has held, in MiB.
    pub peak_mib: u64,
}

/// Scales a Deployment from nothing to `n_pods` on a new cluster where `peer` runs.
pub async fn measure(peer: Peer, n_pods: usize, controller_manager_rate: Rate) -> Result<Reaction> {
    let plane = ControlPlane::start(Options { controller_manager_rate, ..Options::default() }).await?;
    peers::install_crds(&plane).await?;
    let _running = peers::run(&plane, peer, &[]).await?;
    peers::wait_for_leader(&plane).await?;
    for mut object in workload::open_pool() {
        if object["kind"] == "NodePool" {
            // Consolidation would take part in what is measured.
            object["spec"]["disruption"] = json!({"consolidateAfter": "Never"});
        }
        create(&plane, object).await?;
    }
    wait_until_ready(&plane).await?;
    let pid = plane.with_process(peer.name(), |process| process.pid())?;
    let cpu_before = cpu_time(pid)?;

    let deployments: Api<Deployment> = Api::default_namespaced(plane.client());
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment(n_pods))?).await?;
    let seen = tokio::time::timeout(LIMIT, watch(&plane, n_pods)).await;
    let seen =
        seen.with_context(|| format!("not all of {n_pods} pods run after {} s", LIMIT.as_secs()))??;

    let nodes = Api::<Node>::all(plane.client()).list(&ListParams::default()).await?;
    Ok(Reaction {
        first_claim: seen.claims.values().min().copied().context("pods run without a NodeClaim")?,
        last_claim: seen.claims.values().max().copied().unwrap_or_default(),
        last_running: seen.running.values().max().copied().unwrap_or_default(),
        n_nodes: nodes.items.len(),
        dollars_per_hour: nodes
            .iter()
            .filter_map(|node| node.labels().get(PRICE_LABEL)?.parse::<f64>().ok())
            .sum(),
        cpu: cpu_time(pid)?.saturating_sub(cpu_before),
        peak_mib: peak_mib(pid)?,
    })
}

/// When each object was first seen to exist, or to run, by uid.
#[derive(Default)]
struct Seen {
    claims: BTreeMap<String, Duration>,
    running: BTreeMap<String, Duration>,
}

/// Watches until `n_pods` pods run.
async fn watch(plane: &ControlPlane, n_pods: usize) -> Result<Seen> {
    let start = Instant::now();
    let claims: Api<DynamicObject> = Api::all_with(
        plane.client(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim")),
    );
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let mut claims = watcher(claims, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let mut pods = watcher(pods, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let mut seen = Seen::default();
    while seen.running.len() < n_pods {
        tokio::select! {
            claim = claims.try_next() => {
                let claim = claim?.context("the watch of NodeClaims ended")?;
                seen.claims.entry(claim.uid().unwrap_or_default()).or_insert_with(|| start.elapsed());
            }
            pod = pods.try_next() => {
                let pod = pod?.context("the watch of pods ended")?;
                if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
                    seen.running.entry(pod.uid().unwrap_or_default()).or_insert_with(|| start.elapsed());
                }
            }
        }
    }
    Ok(seen)
}

/// Waits until every NodePool is ready: a pod that comes sooner waits ten seconds for its next turn.
async fn wait_until_ready(plane: &ControlPlane) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool"));
    let pools: Api<DynamicObject> = Api::all_with(plane.client(), &resource);
    let start = Instant::now();
    let is_ready = |pool: &DynamicObject| {
        let conditions = pool.data["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    while !pools.list(&ListParams::default()).await?.iter().all(is_ready) {
        ensure!(start.elapsed() < LIMIT, "the NodePool does not become ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn create(plane: &ControlPlane, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.as_ref().context("an object does not say its kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    Api::<DynamicObject>::all_with(plane.client(), &resource).create(&PostParams::default(), &object).await?;
    Ok(())
}

fn deployment(n_pods: usize) -> Value {
    let container =
        json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}});
    json!({
        "metadata": {"name": "load"},
        "spec": {
            "replicas": n_pods,
            "selector": {"matchLabels": {"app": "load"}},
            "template": {"metadata": {"labels": {"app": "load"}}, "spec": {"containers": [container]}},
        },
    })
}

/// User and system time of a process, from the kernel's books.
fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the operator has ended")?;
    // The name in parentheses may hold spaces; the fields after it do not. User and system time are 12th and 13th.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|index| fields.get(*index)?.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

fn peak_mib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("the operator has ended")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("the kernel tells no peak memory")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024)
}
