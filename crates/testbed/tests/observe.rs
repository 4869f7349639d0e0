//! An observer beside the real Karpenter: what it reports is what happened, and what it says would have happened does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use headstart_testbed::binaries::{self, Binary};
use headstart_testbed::peers::{self, Peer};
use headstart_testbed::{ControlPlane, Options, Program, Stages, http, workload};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const PODS: usize = 300;
/// Longer than anything here takes, so that only something broken runs into it.
const LIMIT: Duration = Duration::from_mins(5);
/// How long a node takes to be ready.
const NODE_READY: Duration = Duration::from_secs(3);
/// Karpenter's KWOK provider and ours write a node's price on this label, in dollars an hour.
const PRICE_LABEL: &str = "eks-node-viewer/instance-price";
/// Pools that run full are a matter of their own.
const THRESHOLD: &str = "--proactive-scaleup-threshold=1";

/// What the test itself has seen, in milliseconds since 1970.
#[derive(Default)]
struct Seen {
    pods: BTreeMap<String, (i64, Option<i64>)>,
    claims: BTreeMap<String, i64>,
}

/// What a burst came to.
#[derive(Debug)]
struct Burst {
    /// Milliseconds from its begin to the first and the last claim.
    first: i64,
    last: i64,
    /// Seconds that half, nearly all and all pods waited at most.
    waits: [f64; 3],
    dollars: f64,
    begin: i64,
}

struct Watches {
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

impl Watches {
    fn start(plane: &ControlPlane) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = JoinSet::new();
        let (pods, noted) = (Api::<Pod>::default_namespaced(plane.client()), Arc::clone(&seen));
        tasks.spawn(async move {
            let mut pods = std::pin::pin!(watcher(pods, watcher::Config::default()).default_backoff());
            while let Some(event) = pods.next().await {
                let at = now();
                if let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event {
                    let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    let known = seen.pods.entry(pod.uid().unwrap_or_default()).or_insert((at, None));
                    if known.1.is_none() && pod.spec.is_some_and(|spec| spec.node_name.is_some()) {
                        known.1 = Some(at);
                    }
                }
            }
        });
        let (claims, noted) = (claims(plane), Arc::clone(&seen));
        tasks.spawn(async move {
            let mut claims = std::pin::pin!(watcher(claims, watcher::Config::default()).default_backoff());
            while let Some(event) = claims.next().await {
                let at = now();
                if let Ok(watcher::Event::Apply(claim) | watcher::Event::InitApply(claim)) = event {
                    let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.claims.entry(claim.name_any()).or_insert(at);
                }
            }
        });
        Self { seen, _tasks: tasks }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn claims(plane: &ControlPlane) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim"));
    Api::all_with(plane.client(), &resource)
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        let state = is_so().await;
        if matches!(state, Ok(true)) {
            return Ok(());
        }
        ensure!(start.elapsed() < LIMIT, "waited in vain for {what}; last: {state:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn apply(plane: &ControlPlane, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("an object has no type")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(plane.client(), &namespace, &resource),
        None => Api::all_with(plane.client(), &resource),
    };
    api.patch(&object.name_any(), &PatchParams::apply("test").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

/// The rights that the chart gives an observer.
fn rights() -> Result<Vec<Value>> {
    let chart = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/headstart");
    let args = ["template", "headstart", chart.to_str().context("a path")?, "--namespace", "kube-system"];
    let more = ["--kube-version=1.36", "--set=settings.mode=observe"];
    let run = Command::new(binaries::ensure(Binary::Helm)?).args(args).args(more).output()?;
    ensure!(run.status.success(), "helm: {}", String::from_utf8_lossy(&run.stderr));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(run.stdout)?)?;
    let is_right = |object: &Value| object["apiVersion"] == "rbac.authorization.k8s.io/v1";
    Ok(objects.into_iter().filter(is_right).collect())
}

/// A NodePool that allows everything and gives up nothing: consolidation would take part in what is compared.
fn calm_pool() -> Vec<Value> {
    let mut objects = workload::open_pool();
    for pool in objects.iter_mut().filter(|object| object["kind"] == "NodePool") {
        pool["spec"]["disruption"] = json!({"consolidateAfter": "Never"});
    }
    objects
}

fn deployment(replicas: usize) -> Value {
    let container =
        json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "burst", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "burst"}},
            "template": {
                "metadata": {"labels": {"app": "burst"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        },
    })
}

/// Makes the pods, waits until all have a node, and tells what the test saw.
async fn burst(plane: &ControlPlane) -> Result<Burst> {
    let watches = Watches::start(plane);
    // Whatever was there before has been seen, which is nothing.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = now();
    apply(plane, deployment(PODS)).await?;
    let bound = || watches.seen().pods.values().filter(|(_, bound)| bound.is_some()).count();
    eventually("all pods to have a node", async || Ok(bound() == PODS)).await?;

    let nodes = Api::<Node>::all(plane.client()).list(&ListParams::default()).await?;
    let price = |node: &Node| node.labels().get(PRICE_LABEL)?.parse::<f64>().ok();
    let seen = watches.seen();
    let mut waits: Vec<f64> =
        seen.pods.values().map(|(made, bound)| (bound.unwrap_or(i64::MAX) - made) as f64 / 1000.0).collect();
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[((waits.len() as f64 * share).ceil() as usize).max(1) - 1];
    let made = || seen.claims.values().filter(|at| **at >= begin);
    Ok(Burst {
        first: made().min().context("no claim")? - begin,
        last: made().max().context("no claim")? - begin,
        waits: [at(0.5), at(0.95), at(1.0)],
        dollars: nodes.iter().filter_map(price).sum(),
        begin,
    })
}

async fn ready_pool(plane: &ControlPlane) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool"));
    let pools: Api<DynamicObject> = Api::all_with(plane.client(), &resource);
    eventually("a ready NodePool", async || {
        let pool = pools.get("general").await?;
        let conditions = pool.data["status"]["conditions"].as_array();
        Ok(conditions.into_iter().flatten().any(|each| each["type"] == "Ready" && each["status"] == "True"))
    })
    .await
}

/// The port of an operator that says so in its log.
async fn port(plane: &ControlPlane, name: &str, what: &str) -> Result<u16> {
    let mut port = None;
    let told = eventually("a port", async || {
        let log = std::fs::read_to_string(plane.log(name))?;
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.into_iter().find(|line| line["message"] == format!("listening for {what}"));
        port = line.and_then(|line| line["port"].as_str()?.parse().ok());
        Ok(port.is_some())
    });
    told.await?;
    port.context("it does not listen")
}

/// How many seconds a share of the pods waited at most, by a report.
fn quantile(waits: &Value, share: f64) -> Result<f64> {
    let all = waits.as_object().context("waits")?;
    let mut all: Vec<(f64, f64)> = all
        .iter()
        .map(|(tenths, count)| Ok((tenths.parse::<f64>()? / 10.0, count.as_f64().context("a count")?)))
        .collect::<Result<_>>()?;
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let rank = (all.iter().map(|(_, count)| count).sum::<f64>() * share).ceil().max(1.0);
    let mut passed = 0.0;
    for (seconds, count) in all {
        passed += count;
        if passed >= rank {
            return Ok(seconds);
        }
    }
    anyhow::bail!("no pod waited")
}

fn close(what: &str, told: f64, seen: f64, most: f64) {
    eprintln!("{what}: told {told:.2}, seen {seen:.2}");
    assert!((told - seen).abs() <= most, "{what}: told {told}, seen {seen}");
}

/// Given Karpenter as the provisioner and an observer that may only read beside it, when 300 pods come at once, then the
/// report's figures are those of the test's own watch; and when Headstart provisions, nodes come when and for what they would
/// have, and pods wait no longer.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_what_happened_and_what_would_have_been_is_what_comes() -> Result<()> {
    let stages = Stages { node_ready_after: NODE_READY, ..Stages::default() };
    let plane = ControlPlane::start(Options { stages, ..Options::default() }).await?;
    peers::install_crds(&plane).await?;
    let _karpenter = peers::run(&plane, Peer::Karpenter, &[]).await?;
    peers::wait_for_leader(&plane).await?;
    for object in tokio::task::spawn_blocking(rights).await??.into_iter().chain(calm_pool()) {
        apply(&plane, object).await?;
    }
    ready_pool(&plane).await?;

    let headstart = match std::env::var_os(peers::HEADSTART_VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => path.into(),
        None => tokio::task::spawn_blocking(peers::build).await??,
    };
    let user = "system:serviceaccount:kube-system:headstart";
    let kubeconfig = plane.kubeconfig_for(user, &["system:serviceaccounts", "system:authenticated"])?;
    let run = |name: &str, args: &[&str]| {
        let program =
            Program::new(name, &headstart).args(["run", "--metrics-port=0", "--health-probe-port=0"]);
        program.args(["--system-namespace=kube-system", THRESHOLD]).args(args.iter().copied())
    };
    plane.spawn(run("observer", &["--mode=observe", "--kubeconfig"]).args([&kubeconfig]))?;
    let (metrics, probes) =
        (port(&plane, "observer", "metrics").await?, port(&plane, "observer", "probes").await?);
    let leases: Api<Lease> = Api::namespaced(plane.client(), "kube-system");
    eventually("an observer that is ready", async || {
        let lease = leases.get_opt("headstart-observe").await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        Ok(http::get(probes, "/readyz")?.0 == 200 && !holder.is_empty())
    })
    .await?;

    let theirs = burst(&plane).await?;
    println!("{theirs:?}");
    let mut history = Value::Null;
    eventually("an end of the decision", async || {
        history = serde_json::from_str(&http::get(metrics, "/observations")?.1)?;
        let decisions = history["decisions"].as_array().context("decisions")?;
        Ok(!decisions.is_empty() && decisions.iter().all(|decision| decision["state"] == "done"))
    })
    .await
    .with_context(|| history["decisions"].to_string())?;
    let decisions = history["decisions"].as_array().context("decisions")?;
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    let decision = &decisions[0];
    assert_eq!((&decision["pods"], &decision["bound"]), (&json!(PODS), &json!(PODS)));
    let (real, would) = (&decision["real"], &decision["would"]);
    let after = |time: &Value| {
        Ok::<_, anyhow::Error>((time.as_i64().context("a time")? - theirs.begin) as f64 / 1000.0)
    };
    close("first claim", after(&real["first"])?, theirs.first as f64 / 1000.0, 1.0);
    close("last claim", after(&real["last"])?, theirs.last as f64 / 1000.0, 1.0);
    for (share, seen) in [0.5, 0.95, 1.0].into_iter().zip(theirs.waits) {
        close("wait", quantile(&real["waits"], share)?, seen, 1.0);
    }
    let told = real["dollars"].as_f64().context("dollars")?;
    close("dollars an hour", told, theirs.dollars, theirs.dollars * 0.01);

    // The table and the page are made of the same.
    let report = |args: &[&str]| {
        let run = Command::new(&headstart).arg("report").args(args).output()?;
        ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        Ok(String::from_utf8(run.stdout)?)
    };
    let url = format!("http://127.0.0.1:{metrics}");
    let table = report(&[&url])?;
    println!("{table}");
    assert!(table.starts_with("Pods waited "), "{table}");
    let page = plane.dir().join("report.html");
    report(&[&url, "--html", page.to_str().context("a path")?])?;
    assert!(std::fs::read_to_string(&page)?.contains("ReplicaSet default/burst-"));
    let text = http::get(metrics, "/metrics")?.1;
    assert!(text.contains("headstart_observed_decisions_total{state=\"done\"} 1"), "{text}");
    assert!(!text.contains("headstart_effects_total{"), "it has done something: {text}");

    // The same once more, on a cluster that is as empty as the first one was.
    drop(plane);
    let stages = Stages { node_ready_after: NODE_READY, ..Stages::default() };
    let plane = ControlPlane::start(Options { stages, ..Options::default() }).await?;
    peers::install_crds(&plane).await?;
    for object in calm_pool() {
        apply(&plane, object).await?;
    }
    let admin = plane.kubeconfig();
    plane.spawn(run("provisioner", &["--enable-proactive-scaleup", "--kubeconfig"]).args([&admin]))?;
    let probes = port(&plane, "provisioner", "probes").await?;
    eventually("a provisioner that leads", async || {
        let log = std::fs::read_to_string(plane.log("provisioner"))?;
        Ok(http::get(probes, "/readyz")?.0 == 200 && log.contains("leading"))
    })
    .await?;
    ready_pool(&plane).await?;

    let ours = burst(&plane).await?;
    println!("{ours:?}");
    close("our first claim", after(&would["first"])?, ours.first as f64 / 1000.0, 1.0);
    // An observer takes nodes to need as long as those of the cluster's autoscaler, so that it never promises too much.
    for (share, seen) in [0.5, 0.95, 1.0].into_iter().zip(ours.waits) {
        let told = quantile(&would["waits"], share)?;
        eprintln!("our wait: told {told:.2}, seen {seen:.2}");
        assert!(told >= seen - 1.0, "told {told}, seen {seen}");
    }
    let told = would["dollars"].as_f64().context("dollars")?;
    close("our dollars an hour", told, ours.dollars, ours.dollars * 0.05);
    Ok(())
}
