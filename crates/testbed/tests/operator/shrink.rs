//! A fleet that is much too large: it shrinks within budgets, nobody suffers, and then there is peace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{Stream, StreamExt};
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testbed::reaction::dollars_per_hour;
use headstart_testbed::workload;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{Cluster, condition, named_deployment, number};

const APPS: usize = 6;
/// Pods of one CPU and two GiB that fit on a node of four CPUs.
const ON_EACH: usize = 3;
/// How long a pod may wait for room that is there.
const MOMENT: Duration = Duration::from_secs(5);
/// How far apart two watches tell of the same moment at most.
const ORDERLY: Duration = Duration::from_secs(1);
const MOST_OVER_BOUND: f64 = 1.15;

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_shrinks_within_budgets_and_then_rests() -> Result<()> {
    let (n_nodes, minutes) = (number("FLEET", 20), number("PEACE_MINUTES", 1));
    let n_pods = n_nodes * ON_EACH / APPS;
    let budget = n_nodes.div_ceil(10);
    let cluster = Cluster::whole().await?;
    let operator = cluster.run("headstart", &[])?;
    operator.ready().await?;
    cluster.apply_all([workload::node_class(), pool(budget)]).await?;
    cluster.pool_says("general", "Ready", "True").await?;
    for app in 0..APPS {
        cluster.apply(app_of(app, n_pods)).await?;
        cluster.apply(guard(app)).await?;
    }
    patiently(n_nodes, "all pods to run", async || Ok(cluster.n_running().await? == APPS * n_pods))
        .await
        .with_context(|| operator.log())?;
    let before = dollars(&cluster).await?;

    let stays = n_pods * 2 / 5;
    for app in 0..APPS {
        cluster.apply(app_of(app, stays)).await?;
    }
    patiently(n_nodes, "the others to go", async || Ok(cluster.n_running().await? == APPS * stays)).await?;
    let watch = Watch::begin(&cluster, budget);
    let bound = bound(APPS * stays)?;
    patiently(n_nodes, "a fleet close to the bound", async || {
        watch.has_seen_nothing_wrong()?;
        Ok(dollars(&cluster).await? <= bound * MOST_OVER_BOUND)
    })
    .await
    .with_context(|| operator.log())?;
    let after = dollars(&cluster).await?;
    eprintln!(
        "{n_nodes} nodes for ${before:.2}/h became {} for ${after:.2}/h, {:.1} % over the bound",
        cluster.nodes().list(&ListParams::default()).await?.items.len(),
        (after / bound - 1.0) * 100.0
    );

    // What is still going goes; then nothing more does.
    patiently(n_nodes, "an end", async || Ok(watch.quiet_for() >= Duration::from_mins(1))).await?;
    tokio::time::sleep(Duration::from_secs(minutes as u64 * 60)).await;
    watch.has_seen_nothing_wrong()?;
    let quiet = watch.quiet_for();
    ensure!(quiet.as_secs() >= minutes as u64 * 60, "the last change was {quiet:?} ago:\n{}", operator.log());
    ensure!(cluster.n_running().await? == APPS * stays, "not all pods run");
    Ok(())
}

/// A pool of nodes with four CPUs.
fn pool(budget: usize) -> Value {
    let mut pool = workload::node_pool(
        "general",
        &json!([
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]},
        ]),
    );
    pool["spec"]["disruption"] = json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s",
        "budgets": [{"nodes": budget.to_string()}],
    });
    pool
}

fn app_of(app: usize, replicas: usize) -> Value {
    named_deployment(&format!("app-{app}"), replicas, &json!({}))
}

fn guard(app: usize) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("app-{app}"), "namespace": "default"},
        "spec": {"maxUnavailable": "20%", "selector": {"matchLabels": {"app": format!("app-{app}")}}},
    })
}

/// What the cheapest nodes of four CPUs cost for so many pods, if they could be filled to the last.
fn bound(n_pods: usize) -> Result<f64> {
    let catalog = Catalog::load(&Source::Kwok)?;
    let of_four = catalog.types().iter().filter(|of| of.capacity.get("cpu").to_string() == "4");
    let prices =
        of_four.flat_map(|of| &of.offerings).filter(|offering| offering.capacity_type() == "on-demand");
    let cheapest = prices.map(|offering| offering.price.dollars()).fold(f64::INFINITY, f64::min);
    ensure!(cheapest.is_finite(), "nothing of four CPUs is sold");
    Ok((n_pods as f64 / ON_EACH as f64).ceil() * cheapest)
}

async fn dollars(cluster: &Cluster) -> Result<f64> {
    Ok(dollars_per_hour(&cluster.nodes().list(&ListParams::default()).await?.items))
}

/// Waits as long as a fleet of this size may take.
async fn patiently(n_nodes: usize, what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let limit = Duration::from_secs(240 + 5 * n_nodes as u64);
    let start = Instant::now();
    while !is_so().await? {
        ensure!(start.elapsed() < limit, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Watches everything that may go wrong while nodes go.
struct Watch {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

struct Seen {
    wrong: Vec<String>,
    nodes: BTreeSet<String>,
    going: BTreeSet<String>,
    /// Nodes whose instance is ending, which budgets no longer count, as with Karpenter.
    ending: BTreeSet<String>,
    /// Since when more are going than may.
    too_many: Option<Instant>,
    waiting: BTreeMap<String, Instant>,
    changed: Instant,
}

impl Watch {
    fn begin(cluster: &Cluster, budget: usize) -> Self {
        let seen = Seen {
            wrong: Vec::new(),
            nodes: BTreeSet::new(),
            going: BTreeSet::new(),
            ending: BTreeSet::new(),
            too_many: None,
            waiting: BTreeMap::new(),
            changed: Instant::now(),
        };
        let seen = Arc::new(Mutex::new(seen));
        let guards = Api::<PodDisruptionBudget>::default_namespaced(cluster.plane.client());
        let tasks = vec![
            follow(changes(cluster.nodes()), &seen, move |seen, event| seen.node(event, budget)),
            follow(changes(cluster.claims()), &seen, move |seen, event| seen.claim(event, budget)),
            follow(changes(cluster.pods()), &seen, Seen::pod),
            follow(changes(guards), &seen, Seen::guard),
        ];
        Self { seen, tasks }
    }

    fn has_seen_nothing_wrong(&self) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = seen.waiting.iter().find(|(_, since)| since.elapsed() > MOMENT);
        ensure!(waits.is_none(), "{waits:?} waits for a node");
        ensure!(seen.wrong.is_empty(), "{}", seen.wrong.join("\n"));
        Ok(())
    }

    /// How long no node has come, been marked or gone.
    fn quiet_for(&self) -> Duration {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).changed.elapsed()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

type Told<K> = watcher::Event<K>;

fn changes<K>(api: Api<K>) -> impl Stream<Item = Told<K>> + Send
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    watcher(api, watcher::Config::default()).default_backoff().filter_map(async |event| event.ok())
}

fn follow<K: Send + 'static>(
    events: impl Stream<Item = Told<K>> + Send + 'static,
    seen: &Arc<Mutex<Seen>>,
    mut note: impl FnMut(&mut Seen, Told<K>) + Send + 'static,
) -> JoinHandle<()> {
    let seen = Arc::clone(seen);
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            note(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), event);
        }
    })
}

impl Seen {
    fn node(&mut self, event: Told<Node>, budget: usize) {
        let (node, is_gone) = match event {
            watcher::Event::Apply(node) | watcher::Event::InitApply(node) => (node, false),
            watcher::Event::Delete(node) => (node, true),
            watcher::Event::Init | watcher::Event::InitDone => return,
        };
        let name = node.name_any();
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let is_marked = taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted");
        let is_going = !is_gone && (is_marked || node.metadata.deletion_timestamp.is_some());
        let known = if is_gone { self.nodes.remove(&name) } else { !self.nodes.insert(name.clone()) };
        let went = if is_going { self.going.insert(name) } else { self.going.remove(&name) };
        if went || is_gone || !known {
            self.changed = Instant::now();
        }
        self.count(budget);
    }

    fn claim(&mut self, event: Told<DynamicObject>, budget: usize) {
        let (watcher::Event::Apply(claim) | watcher::Event::InitApply(claim)) = event else { return };
        let node = claim.data["status"]["nodeName"].as_str().unwrap_or_default();
        if condition(&claim.data, "InstanceTerminating")["status"] == "True" {
            self.ending.insert(node.to_owned());
        }
        self.count(budget);
    }

    /// Two watches may tell in another order than things happened, so that only what stays is wrong.
    fn count(&mut self, budget: usize) {
        let going: BTreeSet<&String> = self.going.difference(&self.ending).collect();
        if going.len() <= budget {
            self.too_many = None;
        } else if self.too_many.get_or_insert_with(Instant::now).elapsed() > ORDERLY {
            self.wrong.push(format!("{} nodes are going at once, {budget} may: {going:?}", going.len()));
        }
    }

    fn pod(&mut self, event: Told<Pod>) {
        let (pod, is_gone) = match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => (pod, false),
            watcher::Event::Delete(pod) => (pod, true),
            watcher::Event::Init | watcher::Event::InitDone => return,
        };
        let conditions =
            pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let is_waiting = !is_gone
            && conditions
                .iter()
                .any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable"));
        let name = pod.name_any();
        if is_waiting {
            self.waiting.entry(name).or_insert_with(Instant::now);
        } else if self.waiting.remove(&name).is_some_and(|since| since.elapsed() > MOMENT) {
            self.wrong.push(format!("{name} waited for a node"));
        }
    }

    fn guard(&mut self, event: Told<PodDisruptionBudget>) {
        let (watcher::Event::Apply(guard) | watcher::Event::InitApply(guard)) = event else { return };
        let status = guard.status.clone().unwrap_or_default();
        let (Some(healthy), Some(desired)) = (status.current_healthy, status.desired_healthy) else { return };
        if healthy < desired {
            self.wrong.push(format!("{} has {healthy} healthy pods and needs {desired}", guard.name_any()));
        }
    }
}
