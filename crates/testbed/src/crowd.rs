//! A big cluster as objects only, and what an operator needs to keep it in mind: the measurement behind `make bench-memory`.

mod objects;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch, PatchParams,
    WatchEvent, WatchParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::control_plane::{ControlPlane, create};
use crate::http;
use crate::options::{Component, Options};
use crate::peers::{self, Peer, Running};
use crate::reaction::audit::Audit;
use crate::reaction::{Calls, LIMIT, claims, is_true, observer, until, wait_until_ready};
use crate::template::Template;
use crate::usage::{self, Memory};
use crate::workload;

use objects::Owner;

/// How many requests are under way at once while the cluster is filled.
const AT_ONCE: usize = 32;
/// How long an operator must have done nothing before it is looked at, and how long that is waited for.
const REST: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_mins(3);
/// Types that nodes are made of, in each zone: large enough for a few dozen pods, too small for the one that comes last.
const TYPES: [&str; 4] = ["c-16x-amd64-linux", "m-16x-amd64-linux", "s-16x-amd64-linux", "m-32x-arm64-linux"];
const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];

/// How big the cluster is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub n_nodes: usize,
    pub n_pods: usize,
    /// ReplicaSets that own the pods.
    pub n_owners: usize,
}

/// What an operator needed in a big cluster.
#[derive(Debug, Clone)]
pub struct Weight {
    /// From its start until it had read everything and said so.
    pub ready: Duration,
    /// Processor time from its start until it rested.
    pub cpu: Duration,
    /// When it rested, before the pod came.
    pub resting: Memory,
    /// How many cores it used while it rested.
    pub cores: f64,
    /// From when a pod was said to fit nowhere to its NodeClaim.
    pub claim: Duration,
    /// At the end, all included.
    pub at_last: Memory,
    /// What it asked of the API server from its start until it rested, leases left out.
    pub calls: Calls,
}

/// Fills a cluster and lets `peer` look after it.
pub async fn measure(peer: Peer, size: Size) -> Result<Weight> {
    let audit = Audit::new()?;
    let mut args = audit.args();
    // Nobody is there who would make service accounts, or take a new node's taint away.
    args.push("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned());
    let extra_args = BTreeMap::from([(Component::ApiServer, args)]);
    let plane = ControlPlane::start(Options { extra_args, ..Options::api_only() }).await?;
    let client = observer(&plane).await?;
    peers::install_crds(&plane).await?;

    let templates = templates(&plane, &client, peer).await.context("no node to copy was made")?;
    let nodes = add_nodes(&client, &templates, size.n_nodes).await?;
    add_pods(&client, &nodes, size).await?;
    eprintln!("  {} nodes and {} pods are there", size.n_nodes, size.n_pods);

    let (start, from) = (Instant::now(), Timestamp::now());
    let running = run(&plane, peer).await?;
    wait_until_synced(&running, size.n_nodes).await?;
    let ready = start.elapsed();
    let pid = plane.with_process(peer.name(), |process| process.pid())?;
    let cores = usage::rest(pid, REST, PATIENCE).await?;
    let (to, cpu, resting) = (Timestamp::now(), usage::cpu_time(pid)?, usage::memory(pid)?);
    untouched(&client, size.n_nodes).await?;

    let claim = buy_one(&client).await?;
    tokio::time::sleep(REST).await;
    untouched(&client, size.n_nodes + 1).await?;
    let at_last = usage::memory(pid)?;
    Ok(Weight { ready, cpu, resting, cores, claim, at_last, calls: audit.calls(from, to)? })
}

async fn run(plane: &ControlPlane, peer: Peer) -> Result<Running> {
    // The chart's limit is for smaller clusters; a process short of memory would be measured by its processor time.
    let running = peers::run(plane, peer, &[("MEMORY_LIMIT", "17179869184")]).await?;
    peers::wait_for_leader(plane).await?;
    Ok(running)
}

/// Lets the operator make a node of each type and zone, as it would, and ends it.
async fn templates(plane: &ControlPlane, client: &Client, peer: Peer) -> Result<Vec<Template>> {
    let _running = run(plane, peer).await?;
    for object in workload::calm_pool() {
        create(client, object).await?;
    }
    wait_until_ready(client).await?;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for (index, (instance_type, zone)) in kinds().enumerate() {
        let selector =
            json!({"node.kubernetes.io/instance-type": instance_type, "topology.kubernetes.io/zone": zone});
        let name = format!("template-{index}");
        let pod = workload::pod(&name, &json!({}), 1_000, 1_024, &json!({"nodeSelector": selector}));
        create(client, pod).await?;
        patch_status(&pods, &name, &objects::unschedulable()).await?;
    }
    let n = kinds().count();
    let all: Api<Node> = Api::all(client.clone());
    let made = until("a node of each kind", async || {
        let nodes = all.list(&ListParams::default()).await?.items;
        Ok((nodes.len() >= n).then_some(nodes))
    });
    for node in made.await? {
        patch_status(&all, &node.name_any(), &objects::ready_node()).await?;
    }
    let initialized = until("initialized claims", async || {
        let claims = claims(client).list(&ListParams::default()).await?.items;
        Ok((claims.len() == n && claims.iter().all(|claim| is_true(claim, "Initialized"))).then_some(()))
    });
    initialized.await?;
    // What it still writes would be written to every copy.
    let pid = plane.with_process(peer.name(), |process| process.pid())?;
    usage::rest(pid, Duration::from_secs(3), Duration::from_secs(30)).await?;
    let finished = claims(client).list(&ListParams::default()).await?.items;

    plane.with_process(peer.name(), |process| process.terminate())??;
    until("the operator's end", async || Ok(plane.exited(peer.name())?)).await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let _ = leases.delete("karpenter-leader-election", &DeleteParams::default()).await;
    let mut templates = Vec::new();
    for claim in finished {
        let node = claim.data["status"]["nodeName"].as_str().context("a NodeClaim has no node")?;
        let node = all.get(node).await?;
        templates.push(Template::new(serde_json::to_value(claim)?, serde_json::to_value(node)?)?);
    }
    for index in 0..n {
        pods.delete(&format!("template-{index}"), &DeleteParams::default().grace_period(0)).await?;
    }
    Ok(templates)
}

fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    TYPES.into_iter().flat_map(|instance_type| ZONES.into_iter().map(move |zone| (instance_type, zone)))
}

/// Copies nodes with their claims until there are so many; returns all nodes' names.
async fn add_nodes(client: &Client, templates: &[Template], n_nodes: usize) -> Result<Vec<String>> {
    ensure!(n_nodes >= templates.len(), "at least {} nodes are needed", templates.len());
    let all: Api<DynamicObject> = claims(client);
    let add = async |index: usize| -> Result<()> {
        let template = &templates[index % templates.len()];
        let name = format!("general-{index:05}");
        let claim = create(client, template.claim(&name)?).await?;
        patch_status(&all, &name, &json!({"status": template.claim_status(&name)?})).await?;
        create(client, template.node(&name, &claim.uid().unwrap_or_default())?).await?;
        Ok(())
    };
    futures::stream::iter(templates.len()..n_nodes).map(Ok).try_for_each_concurrent(AT_ONCE, add).await?;
    let nodes = Api::<Node>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    Ok(nodes.iter().map(ResourceExt::name_any).collect())
}

async fn add_pods(client: &Client, nodes: &[String], size: Size) -> Result<()> {
    let n_owners = size.n_owners.clamp(1, size.n_pods.max(1));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "ReplicaSet"));
    let add_owner = async |index: usize| -> Result<(Owner, String)> {
        let n_pods = size.n_pods / n_owners + usize::from(index < size.n_pods % n_owners);
        let owner = Owner::new(index, n_pods);
        let uid = create(client, owner.object()).await?.uid().unwrap_or_default();
        let sets: Api<DynamicObject> = Api::namespaced_with(client.clone(), owner.namespace(), &resource);
        patch_status(&sets, owner.name(), &owner.status()).await?;
        Ok((owner, uid))
    };
    let owners: Vec<(Owner, String)> =
        futures::stream::iter(0..n_owners).map(add_owner).buffered(AT_ONCE).try_collect().await?;
    let add = async |index: usize| -> Result<()> {
        let (owner, uid) = &owners[index % owners.len()];
        let pod = create(client, owner.pod(uid, index, &nodes[index % nodes.len()])).await?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), owner.namespace());
        patch_status(&pods, &pod.name_any(), &objects::running_pod(index)).await
    };
    futures::stream::iter(0..size.n_pods).map(Ok).try_for_each_concurrent(AT_ONCE, add).await
}

/// Waits until an operator says that it is ready and has seen so many nodes.
async fn wait_until_synced(running: &Running, n_nodes: usize) -> Result<()> {
    let (health, metrics) = (running.health_port(), running.metrics_port());
    let synced = async || {
        let answer = tokio::task::spawn_blocking(move || {
            Ok::<_, anyhow::Error>((http::get(health, "/readyz")?, http::get(metrics, "/metrics")?))
        });
        // Nobody may be listening yet.
        let Ok(((code, _), (_, metrics))) = answer.await? else { return Ok(None) };
        let says = |name: &str, value: usize| {
            gauge(&metrics, name).is_some_and(|found| (found - value as f64).abs() < 0.5)
        };
        let all = code == 200
            && says("karpenter_cluster_state_synced", 1)
            && says("karpenter_cluster_state_node_count", n_nodes);
        Ok(all.then_some(()))
    };
    until("the operator to have read everything", synced).await
}

/// The value of a metric without labels.
fn gauge(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.strip_prefix("{}").unwrap_or(rest).strip_prefix(' ')?.trim().parse().ok()
    })
}

/// Nobody may have made, given up or lost a node.
async fn untouched(client: &Client, n: usize) -> Result<()> {
    let claims = claims(client).list_metadata(&ListParams::default()).await?;
    let nodes = Api::<Node>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    let leaving = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    let found = [
        ("NodeClaims", claims.items.len(), claims.iter().filter(|claim| leaving(&claim.metadata)).count()),
        ("Nodes", nodes.items.len(), nodes.iter().filter(|node| leaving(&node.metadata)).count()),
    ];
    for (what, there, leaving) in found {
        ensure!(there == n, "there are {there} {what} instead of {n}");
        ensure!(leaving == 0, "{leaving} {what} are being deleted");
    }
    Ok(())
}

/// Adds a pod that no node has room for, and tells how long its claim took.
async fn buy_one(client: &Client) -> Result<Duration> {
    let claims = claims(client);
    let version = claims.list_metadata(&ListParams::default().limit(1)).await?.metadata.resource_version;
    let mut changes = claims.watch(&WatchParams::default(), &version.unwrap_or_default()).await?.boxed();
    create(client, workload::pod("last", &json!({"app": "last"}), 100_000, 1_024, &json!({}))).await?;
    let start = Instant::now();
    patch_status(&Api::<Pod>::default_namespaced(client.clone()), "last", &objects::unschedulable()).await?;
    let bought = async {
        while let Some(change) = changes.try_next().await? {
            if matches!(change, WatchEvent::Added(_)) {
                return Ok(start.elapsed());
            }
        }
        bail!("the watch of NodeClaims ended")
    };
    tokio::time::timeout(LIMIT, bought).await.context("the operator buys no node")?
}

pub(crate) async fn patch_status<T>(api: &Api<T>, name: &str, status: &serde_json::Value) -> Result<()>
where
    T: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let patched = api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
    patched.with_context(|| format!("the status of {name} is refused"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_read_by_its_whole_name() {
        let metrics = "# HELP up_count x\nup_count_total 3\nup_count{a=\"b\"} 2\nup_count 1e+03\n";
        assert_eq!(gauge(metrics, "up_count"), Some(1_000.0));
        assert_eq!(gauge("up_count{} 5.0\n", "up_count"), Some(5.0));
        assert_eq!(gauge(metrics, "up"), None);
    }
}
