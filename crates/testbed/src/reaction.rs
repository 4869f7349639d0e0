//! How an operator reacts to a Deployment that is scaled up: the measurement behind `make bench-reaction`.

pub(crate) mod audit;
pub(crate) mod timeline;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{Stream, StreamExt};
use headstart_core::quantity::Quantity;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::control_plane::{ControlPlane, connect, create};
use crate::options::{Component, Options, Rate};
use crate::peers::{self, Peer};
use crate::{usage, workload};

use audit::Audit;
use timeline::Timeline;

pub use audit::Calls;
pub use timeline::percentile;

/// Karpenter's KWOK provider writes a node's price on this label, in dollars per hour.
const PRICE_LABEL: &str = "eks-node-viewer/instance-price";
/// Longer than anything here takes, so that only something broken runs into it.
pub(crate) const LIMIT: Duration = Duration::from_mins(10);

/// What happened after a Deployment of one-CPU pods was created on an empty cluster; times count from then, and all
/// else until the last pod ran.
#[derive(Debug, Clone)]
pub struct Reaction {
    /// How long each pod waited for the NodeClaim of the node that it ran on in the end.
    pub waits: Vec<Duration>,
    /// How long each pod took to run.
    pub starts: Vec<Duration>,
    pub first_claim: Duration,
    pub last_claim: Duration,
    /// How many times claims came, with at least a second in between.
    pub batches: usize,
    pub last_running: Duration,
    pub n_nodes: usize,
    pub dollars_per_hour: f64,
    /// Processor time of the operator.
    pub cpu: Duration,
    /// The most memory the operator has held since it was started, in MiB.
    pub peak_mib: u64,
    /// What the operator asked of the API server, leases left out.
    pub calls: Calls,
}

/// Scales a Deployment from nothing to `n_pods` on a new cluster where `peer` runs, with more in its environment.
pub async fn measure(
    peer: Peer,
    env: &[(&str, &str)],
    n_pods: usize,
    controller_manager_rate: Rate,
) -> Result<Reaction> {
    let audit = Audit::new()?;
    let extra_args = BTreeMap::from([(Component::ApiServer, audit.args())]);
    let options = Options { controller_manager_rate, extra_args, ..Options::default() };
    let plane = ControlPlane::start(options).await?;
    peers::install_crds(&plane).await?;
    let _running = peers::run(&plane, peer, env).await?;
    peers::wait_for_leader(&plane).await?;
    let client = observer(&plane).await?;
    for object in workload::calm_pool() {
        create(&client, object).await?;
    }
    wait_until_ready(&client).await?;
    let pid = plane.with_process(peer.name(), |process| process.pid())?;
    usage::rest(pid, Duration::from_secs(1), Duration::from_secs(10)).await?;

    let mut watches = Watches::start(&client).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let cpu_before = usage::cpu_time(pid)?;
    let (start, from) = (Instant::now(), Timestamp::now());
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment(n_pods))?).await?;
    let mut seen = Timeline::default();
    let all_run = watches.follow(&mut seen, start, |seen| seen.n_running() >= n_pods);
    tokio::time::timeout(LIMIT, all_run)
        .await
        .with_context(|| format!("not all of {n_pods} pods run after {} s", LIMIT.as_secs()))??;
    let (to, cpu) = (Timestamp::now(), usage::cpu_time(pid)?.saturating_sub(cpu_before));
    let memory = usage::memory(pid)?;

    // Whatever was bought counts, whether it is there yet or not.
    tokio::time::timeout(LIMIT, watches.follow(&mut seen, start, Timeline::is_complete))
        .await
        .context("a NodeClaim gets no node")??;
    let nodes = Api::<Node>::all(client).list(&ListParams::default()).await?;
    Ok(Reaction {
        waits: seen.waits()?,
        starts: seen.starts(),
        first_claim: seen.first_claim().context("pods run without a NodeClaim")?,
        last_claim: seen.last_claim().unwrap_or_default(),
        batches: seen.batches(),
        last_running: seen.last_running().unwrap_or_default(),
        n_nodes: nodes.items.len(),
        dollars_per_hour: dollars_per_hour(&nodes.items),
        cpu,
        peak_mib: memory.peak,
        calls: audit.calls(from, to)?,
    })
}

/// What nodes cost together, as their labels say.
pub fn dollars_per_hour(nodes: &[Node]) -> f64 {
    nodes.iter().filter_map(|node| node.labels().get(PRICE_LABEL)?.parse::<f64>().ok()).sum()
}

/// A client that is not the operator to the API server's books, with every right.
pub(crate) async fn observer(plane: &ControlPlane) -> Result<Client> {
    connect(&plane.kubeconfig_for("observer", &["system:masters"])?).await
}

/// Something seen by a watch.
enum Sight {
    /// All that was there before has been seen.
    Listed,
    Pod {
        at: Instant,
        uid: String,
        node: String,
        is_running: bool,
    },
    Claim {
        at: Instant,
        name: String,
        node: String,
        cpus: f64,
    },
}

impl Sight {
    fn pod(pod: &Pod, at: Instant) -> Self {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Self::Pod {
            at,
            uid: pod.uid().unwrap_or_default(),
            node: node.unwrap_or_default(),
            // What runs to its end at once may not be seen to run.
            is_running: matches!(phase, Some("Running" | "Succeeded")),
        }
    }

    fn claim(claim: &DynamicObject, at: Instant) -> Self {
        let node = claim.data["status"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let cpus = claim.data["spec"]["resources"]["requests"]["cpu"].as_str().map(str::parse::<Quantity>);
        let cpus = cpus.and_then(Result::ok).map_or(0.0, Quantity::as_f64);
        Self::Claim { at, name: claim.name_any(), node, cpus }
    }
}

/// Watches of pods and claims; what comes is stamped at once, however busy whoever reads it is.
pub(crate) struct Watches {
    sights: mpsc::UnboundedReceiver<Sight>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Returns once both have begun.
    pub(crate) async fn start(client: &Client) -> Result<Self> {
        let (sender, sights) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let pods = watcher(Api::<Pod>::default_namespaced(client.clone()), watcher::Config::default());
        tasks.spawn(send(pods, sender.clone(), Sight::pod));
        let claims = watcher(claims(client), watcher::Config::default());
        tasks.spawn(send(claims, sender, Sight::claim));
        let mut watches = Self { sights, _tasks: tasks };
        let mut n_listed = 0;
        while n_listed < 2 {
            n_listed += usize::from(matches!(watches.next().await?, Sight::Listed));
        }
        Ok(watches)
    }

    async fn next(&mut self) -> Result<Sight> {
        self.sights.recv().await.context("the watches ended")
    }

    /// Writes down what is seen until it is enough.
    pub(crate) async fn follow(
        &mut self,
        seen: &mut Timeline,
        start: Instant,
        is_enough: impl Fn(&Timeline) -> bool,
    ) -> Result<()> {
        while !is_enough(seen) {
            match self.next().await? {
                Sight::Listed => bail!("a watch was lost, and with it the times of what happened meanwhile"),
                Sight::Pod { at, uid, node, is_running } => {
                    seen.pod(at.duration_since(start), uid, &node, is_running);
                }
                Sight::Claim { at, name, node, cpus } => {
                    seen.claim(at.duration_since(start), name, &node, cpus);
                }
            }
        }
        Ok(())
    }
}

async fn send<T>(
    watch: impl Stream<Item = watcher::Result<watcher::Event<T>>> + Send + 'static,
    sights: mpsc::UnboundedSender<Sight>,
    sight: fn(&T, Instant) -> Sight,
) {
    let mut watch = std::pin::pin!(watch.default_backoff());
    while let Some(event) = watch.next().await {
        let at = Instant::now();
        let sight = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => sight(&object, at),
            Ok(watcher::Event::InitDone) => Sight::Listed,
            // A watch that fails begins anew, which is seen by its list.
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) | Err(_) => continue,
        };
        if sights.send(sight).is_err() {
            return;
        }
    }
}

pub(crate) fn claims(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim"));
    Api::all_with(client.clone(), &resource)
}

/// Waits until every NodePool is ready: a pod that comes sooner waits ten seconds for its next turn.
pub(crate) async fn wait_until_ready(client: &Client) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool"));
    let pools: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    until("ready NodePools", async || {
        let pools = pools.list(&ListParams::default()).await?;
        Ok(pools.iter().all(|pool| is_true(pool, "Ready")).then_some(()))
    })
    .await
}

/// Asks again and again until there is an answer.
pub(crate) async fn until<T>(what: &str, ask: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        ensure!(start.elapsed() < LIMIT, "waited {} s for {what}", LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Whether an object's status has this condition.
pub(crate) fn is_true(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|each| each["type"] == condition && each["status"] == "True")
}

/// A container that asks for a processor.
pub(crate) fn container() -> Value {
    json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}})
}

pub(crate) fn deployment(n_pods: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "load", "namespace": "default"},
        "spec": {
            "replicas": n_pods,
            "selector": {"matchLabels": {"app": "load"}},
            "template": {"metadata": {"labels": {"app": "load"}}, "spec": {"containers": [container()]}},
        },
    })
}
