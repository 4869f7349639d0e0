//! What a companion is worth to Karpenter: the measurement behind `make bench-companion`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;

use crate::control_plane::{ControlPlane, create};
use crate::options::Options;
use crate::peers::{self, Peer};
use crate::reaction::timeline::Timeline;
use crate::reaction::{LIMIT, Watches, container, deployment, dollars_per_hour, observer, wait_until_ready};
use crate::workload;

/// Who shows Karpenter what is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    Nobody,
    Placeholders,
    Buffers,
}

/// What makes pods of one CPU each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A Deployment that appears with so many replicas.
    Deployment(usize),
    /// A CronJob whose one run has so many pods at once.
    CronJob(usize),
}

/// How pods came to run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How long each pod took to run.
    pub waits: Vec<Duration>,
    /// For how many more pods there were claims than there were pods, at most.
    pub n_ahead: usize,
    pub n_claims: usize,
    /// Seconds from the first pod to the first and to the last claim, less than none if the claim was there before.
    pub first_claim: f64,
    pub last_claim: f64,
    /// Seconds from the first pod until all ran.
    pub last_running: f64,
    pub dollars_per_hour: f64,
}

/// Puts a load on a new cluster where Karpenter buys nodes that take so long to be ready.
pub async fn measure(with: With, load: Load, node_ready_after: Duration) -> Result<Outcome> {
    let plane = ControlPlane::start(Options::ready_after(node_ready_after)).await?;
    peers::install_crds(&plane).await?;
    let gates: &[_] = if with == With::Buffers { &[("FEATURE_GATES", "CapacityBuffer=true")] } else { &[] };
    let _karpenter = peers::run(&plane, Peer::Karpenter, gates).await?;
    peers::wait_for_leader(&plane).await?;
    let client = observer(&plane).await?;
    for object in workload::calm_pool() {
        create(&client, object).await?;
    }
    wait_until_ready(&client).await?;
    let _companion = match with {
        With::Nobody => None,
        With::Placeholders => Some(accompany(&plane, "placeholders").await?),
        With::Buffers => Some(accompany(&plane, "buffers").await?),
    };
    // Whoever has just begun to lead has more to do than later.
    tokio::time::sleep(Duration::from_secs(3)).await;
    put(&client, load).await
}

async fn accompany(plane: &ControlPlane, with: &str) -> Result<peers::Running> {
    // Pools that run full are a matter of their own.
    peers::accompany(plane, &[("COMPANION_WITH", with), ("PROACTIVE_SCALEUP_THRESHOLD", "1")]).await
}

/// Makes what makes pods, and follows them until all run and every claim has its node.
pub async fn put(client: &Client, load: Load) -> Result<Outcome> {
    let (n_pods, object) = match load {
        Load::Deployment(n_pods) => (n_pods, deployment(n_pods)),
        Load::CronJob(n_pods) => (
            n_pods,
            workload::cron_job("load", &workload::soon()?, n_pods, &json!({"containers": [container()]})),
        ),
    };
    let mut watches = Watches::start(client).await?;
    let start = Instant::now();
    create(client, object).await?;
    let mut seen = Timeline::default();
    let is_over = |seen: &Timeline| seen.n_running() >= n_pods && seen.is_complete();
    tokio::time::timeout(LIMIT, watches.follow(&mut seen, start, is_over))
        .await
        .with_context(|| format!("not all of {n_pods} pods run after {} s", LIMIT.as_secs()))??;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let first_pod = seen.first_pod().context("no pod came")?.as_secs_f64();
    let after = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() - first_pod;
    Ok(Outcome {
        waits: seen.starts(),
        n_ahead: seen.n_ahead(),
        n_claims: seen.n_claims(),
        first_claim: after(Some(seen.first_claim().context("pods run without a NodeClaim")?)),
        last_claim: after(seen.last_claim()),
        last_running: after(seen.last_running()),
        dollars_per_hour: dollars_per_hour(&nodes.items),
    })
}
