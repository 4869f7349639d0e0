//! How far operators make the same fleet smaller: the measurement behind `make bench-shrink`.
//!
//! Karpenter buys a [`Fleet`] for Deployments on a cluster of its own, and some of the pods are dropped from what is
//! remembered of it. Every operator then gets a new cluster with the same nodes and the pods that are left.

mod changes;
mod copy;
mod fleet;
mod shape;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::control_plane::ControlPlane;
use crate::options::{Options, Rate};
use crate::peers::{self, Peer};
use crate::reaction::{dollars_per_hour, observer, wait_until_ready};
use crate::usage;

use changes::Changes;

pub use fleet::Fleet;
pub use shape::{SHAPES, Shape};

/// How fast kube-controller-manager works: its default would make every run longer and tell nothing.
const RATE: Rate = Rate { qps: 200, burst: 300 };

/// Who makes a fleet smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Operator {
    /// The unmodified Karpenter.
    Karpenter,
    /// Headstart, looking for savings as Karpenter does.
    Compat,
    /// Headstart, looking in its own way.
    Search,
}

impl Operator {
    pub fn name(self) -> &'static str {
        match self {
            Self::Karpenter => "Karpenter",
            Self::Compat => "Headstart, compat",
            Self::Search => "Headstart, search",
        }
    }

    fn peer(self) -> Peer {
        match self {
            Self::Karpenter => Peer::Karpenter,
            Self::Compat | Self::Search => Peer::Headstart,
        }
    }

    fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Karpenter => &[],
            Self::Compat => &[("HEADSTART_CONSOLIDATION", "compat")],
            Self::Search => &[("HEADSTART_CONSOLIDATION", "search")],
        }
    }
}

/// What became of a fleet.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub n_nodes: usize,
    pub dollars_per_hour: f64,
    /// Pods that had to go and were made anew elsewhere.
    pub evictions: usize,
    /// From when consolidation was allowed until the last NodeClaim came, was told to go, or went.
    pub last_change: Duration,
    /// Whether nothing more happened for a while; otherwise this is how far it was when patience ended.
    pub is_at_rest: bool,
}

/// Puts the fleet on a new cluster, lets the operator consolidate, and waits until it has nothing left to do. The
/// operator's log is kept in `log`.
pub async fn shrink(fleet: &Fleet, operator: Operator, log: Option<&Path>) -> Result<Outcome> {
    let plane = ControlPlane::start(Options { controller_manager_rate: RATE, ..Options::default() }).await?;
    let outcome = shrink_on(&plane, fleet, operator).await;
    if let Some(log) = log {
        let written = plane.log(operator.peer().name());
        // An operator that was never started has written nothing.
        let _ = std::fs::copy(written, log);
    }
    outcome.with_context(|| format!("{} on {}", operator.name(), fleet.shape().name))
}

async fn shrink_on(plane: &ControlPlane, fleet: &Fleet, operator: Operator) -> Result<Outcome> {
    peers::install_crds(plane).await?;
    let client = observer(plane).await?;
    copy::settle(&client, fleet).await?;
    let _running = peers::run(plane, operator.peer(), operator.env()).await?;
    peers::wait_for_leader(plane).await?;
    wait_until_ready(&client).await?;
    let pid = plane.with_process(operator.peer().name(), |process| process.pid())?;
    usage::rest(pid, Duration::from_secs(2), Duration::from_secs(20)).await?;

    let mut changes = Changes::begin(&client).await?;
    allow_consolidation(&client).await?;
    let start = Instant::now();
    let (last_change, is_at_rest) = changes.until_quiet(&client, start, fleet.n_pods()).await?;
    let nodes = Api::<Node>::all(client).list(&ListParams::default()).await?.items;
    Ok(Outcome {
        n_nodes: nodes.len(),
        dollars_per_hour: dollars_per_hour(&nodes),
        evictions: changes.evictions(),
        last_change,
        is_at_rest,
    })
}

/// With the default budget: a tenth of the nodes at once.
async fn allow_consolidation(client: &Client) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool"));
    let pools: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let allowed = json!({"spec": {"disruption": {"consolidateAfter": "0s"}}});
    pools.patch(shape::POOL, &PatchParams::default(), &Patch::Merge(&allowed)).await?;
    Ok(())
}

/// How many pods of the default namespace run.
async fn n_running(client: &Client) -> Result<usize> {
    let pods = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await?;
    let runs = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    };
    Ok(pods.iter().filter(runs).count())
}
