//! An observer beside the real Karpenter: what it reports is what happened, and what it says would have happened does.

#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "operator/harness.rs"]
mod harness;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use headstart_testbed::binaries::{self, Binary};
use headstart_testbed::peers::{self, Peer};
use headstart_testbed::reaction::{dollars_per_hour, percentile};
use headstart_testbed::{Options, workload};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use harness::{Cluster, deployment, eventually};

const PODS: usize = 300;
/// How long a node takes to be ready.
const NODE_READY: Duration = Duration::from_secs(3);
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
    /// Seconds that half and nearly all pods waited at most.
    waits: [f64; 2],
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
    fn start(cluster: &Cluster) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = JoinSet::new();
        let (pods, noted) = (cluster.pods(), Arc::clone(&seen));
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
        let (claims, noted) = (cluster.claims(), Arc::clone(&seen));
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

/// The rights that the chart gives an observer.
fn rights() -> Result<Vec<Value>> {
    let chart = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/headstart");
    let args =
        ["template", "headstart-observe", chart.to_str().context("a path")?, "--namespace", "kube-system"];
    let more = ["--kube-version=1.36", "--set=settings.mode=observe"];
    let run = Command::new(binaries::ensure(Binary::Helm)?).args(args).args(more).output()?;
    ensure!(run.status.success(), "helm: {}", String::from_utf8_lossy(&run.stderr));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(run.stdout)?)?;
    let is_right = |object: &Value| object["apiVersion"] == "rbac.authorization.k8s.io/v1";
    Ok(objects.into_iter().filter(is_right).collect())
}

/// Makes the pods, waits until all have a node, and tells what the test saw.
async fn burst(cluster: &Cluster) -> Result<Burst> {
    let watches = Watches::start(cluster);
    // The controllers of a new cluster take seconds to begin, which is neither autoscaler's doing.
    cluster.apply(deployment(0)).await?;
    let sets: Api<ReplicaSet> = Api::namespaced(cluster.plane.client(), "default");
    eventually("a ReplicaSet", async || Ok(!sets.list(&ListParams::default()).await?.items.is_empty()))
        .await?;
    // kube-apiserver holds up for two seconds whatever is created of a kind that it has known for less than that.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let begin = now();
    cluster.apply(deployment(PODS)).await?;
    let bound = || watches.seen().pods.values().filter(|(_, bound)| bound.is_some()).count();
    eventually("all pods to have a node", async || Ok(bound() == PODS)).await?;

    let nodes = cluster.nodes().list(&ListParams::default()).await?;
    let seen = watches.seen();
    let wait =
        |(made, bound): &(i64, Option<i64>)| Some(Duration::from_millis((bound.as_ref()? - made) as u64));
    let waits: Vec<Duration> = seen.pods.values().filter_map(wait).collect();
    let at = |percent| percentile(&waits, percent).unwrap_or_default().as_secs_f64();
    let made = || seen.claims.values().filter(|at| **at >= begin);
    Ok(Burst {
        first: made().min().context("no claim")? - begin,
        last: made().max().context("no claim")? - begin,
        waits: [at(50), at(95)],
        dollars: dollars_per_hour(&nodes.items),
        begin,
    })
}

/// What decisions come to together, of what was done or would have been.
struct Told {
    first: i64,
    last: i64,
    /// How many pods waited so many tenths of a second.
    waits: BTreeMap<u64, u64>,
    dollars: f64,
}

impl Told {
    fn of(decisions: &[Value], side: &str) -> Result<Self> {
        let mut told = Self { first: i64::MAX, last: 0, waits: BTreeMap::new(), dollars: 0.0 };
        for side in decisions.iter().map(|decision| &decision[side]) {
            told.first = told.first.min(side["first"].as_i64().unwrap_or(i64::MAX));
            told.last = told.last.max(side["last"].as_i64().unwrap_or(0));
            told.dollars += side["dollars"].as_f64().context("dollars")?;
            for (tenths, count) in side["waits"].as_object().context("waits")? {
                *told.waits.entry(tenths.parse()?).or_default() += count.as_u64().context("a count")?;
            }
        }
        Ok(told)
    }

    /// How many seconds a share of the pods waited at most.
    fn wait(&self, share: f64) -> Result<f64> {
        let all: u64 = self.waits.values().sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut passed = 0;
        let reaches = |(_, count): &(&u64, &u64)| {
            passed += **count;
            passed >= rank
        };
        let (tenths, _) = self.waits.iter().find(reaches).context("no pod waited")?;
        Ok(*tenths as f64 / 10.0)
    }

    /// That claims came and pods waited as it says, after the begin of the burst that it tells of and give or take so many
    /// seconds, and that it cost as much, give or take a share.
    fn is_close(&self, who: &str, begin: i64, seen: &Burst, seconds: f64, share: f64) -> Result<()> {
        let after = |time: i64| (time - begin) as f64 / 1000.0;
        close(&format!("{who}: first claim"), after(self.first), seen.first as f64 / 1000.0, seconds);
        close(&format!("{who}: last claim"), after(self.last), seen.last as f64 / 1000.0, seconds);
        close(&format!("{who}: wait p50"), self.wait(0.5)?, seen.waits[0], seconds);
        close(&format!("{who}: wait p95"), self.wait(0.95)?, seen.waits[1], seconds);
        close(&format!("{who}: dollars an hour"), self.dollars, seen.dollars, seen.dollars * share);
        Ok(())
    }
}

fn close(what: &str, told: f64, seen: f64, most: f64) {
    eprintln!("{what}: told {told:.2}, seen {seen:.2}");
    assert!((told - seen).abs() <= most, "{what}: told {told}, seen {seen}");
}

/// A cluster whose nodes take a while to be ready, with a pool.
async fn cluster() -> Result<Cluster> {
    let cluster = Cluster::start(Options::ready_after(NODE_READY)).await?;
    peers::install_crds(&cluster.plane).await?;
    cluster.apply_all(workload::calm_pool()).await?;
    Ok(cluster)
}

/// Given Karpenter as the provisioner and an observer that may only read beside it, when 300 pods come at once, then the
/// report's figures are those of the test's own watch; and when Headstart provisions, they are what it said they would be.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_what_happened_and_what_would_have_been_is_what_comes() -> Result<()> {
    let there = cluster().await?;
    let _karpenter = peers::run(&there.plane, Peer::Karpenter, &[]).await?;
    peers::wait_for_leader(&there.plane).await?;
    there.apply_all(tokio::task::spawn_blocking(rights).await??).await?;
    there.pool_says("general", "Ready", "True").await?;
    let user = "system:serviceaccount:kube-system:headstart-observe";
    let kubeconfig = there.plane.kubeconfig_for(user, &["system:serviceaccounts", "system:authenticated"])?;
    let args = ["--mode=observe", "--system-namespace=kube-system", THRESHOLD];
    let observer = there.run_as(&kubeconfig, "observer", &args)?;
    observer.ready().await?;

    let theirs = burst(&there).await.with_context(|| observer.log())?;
    println!("{theirs:?}");
    let mut decisions = Vec::new();
    eventually("an end of all decisions", async || {
        let history: Value = serde_json::from_str(&observer.get("metrics", "/observations")?.1)?;
        decisions.clone_from(history["decisions"].as_array().context("decisions")?);
        Ok(!decisions.is_empty() && decisions.iter().all(|decision| decision["state"] == "done"))
    })
    .await
    .with_context(|| json!(decisions).to_string())?;
    let bound: u64 = decisions.iter().filter_map(|decision| decision["bound"].as_u64()).sum();
    assert_eq!(bound, PODS as u64, "{decisions:?}");
    let real = Told::of(&decisions, "real")?;
    real.is_close("Karpenter", theirs.begin, &theirs, 1.0, 0.01)?;

    // The table and the page are made of the same.
    let port = observer.said("listening for metrics").pop().context("it does not listen")?["port"].clone();
    let url = format!("http://127.0.0.1:{}", port.as_str().context("a port")?);
    let report = |args: &[&str]| {
        let run = Command::new(&there.headstart).arg("report").args(args).output()?;
        ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        Ok(String::from_utf8(run.stdout)?)
    };
    let table = report(&[&url])?;
    println!("{table}");
    assert!(table.starts_with("Pods waited "), "{table}");
    let page = there.plane.dir().join("report.html");
    report(&[&url, "--html", page.to_str().context("a path")?])?;
    assert!(std::fs::read_to_string(&page)?.contains("ReplicaSet default/web-"));
    let text = observer.get("metrics", "/metrics")?.1;
    let done = format!("headstart_observed_decisions_total{{state=\"done\"}} {}", decisions.len());
    assert!(text.contains(&done), "{text}");
    assert!(!text.contains("headstart_effects_total{"), "it has done something: {text}");

    // The same once more, on a cluster that is as empty as the first one was.
    drop(there);
    let here = cluster().await?;
    let provisioner = here.run("provisioner", &["--enable-proactive-scaleup", THRESHOLD])?;
    provisioner.ready().await?;
    here.pool_says("general", "Ready", "True").await?;
    let ours = burst(&here).await.with_context(|| provisioner.log())?;
    println!("{ours:?}");
    let would = Told::of(&decisions, "would")?;
    // The aim is one second, and where others use the processors as well, kube-scheduler alone may take another.
    would.is_close("Headstart", theirs.begin, &ours, 2.0, 0.05)?;
    ensure!(ours.waits[1] < theirs.waits[1], "pods wait no less");
    Ok(())
}
