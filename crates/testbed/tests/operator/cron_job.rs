//! A CronJob whose nodes are there before its pods are, and one that is deleted before its time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use headstart_testbed::workload;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{Cluster, eventually};

/// How many pods a run has.
const PODS: usize = 20;

fn cron_job(name: &str, schedule: &str, architecture: &str) -> Value {
    let spec = json!({
        "nodeSelector": {"kubernetes.io/arch": architecture},
        "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}],
    });
    workload::cron_job(name, schedule, PODS, &spec)
}

/// Pods that kube-scheduler ever found no node for, by name, until it is dropped.
struct Refused {
    pods: Arc<Mutex<BTreeSet<String>>>,
    task: JoinHandle<()>,
}

impl Refused {
    fn watch(cluster: &Cluster) -> Self {
        let pods = Arc::new(Mutex::new(BTreeSet::new()));
        let (noted, api) = (Arc::clone(&pods), cluster.pods());
        let task = tokio::spawn(async move {
            let mut seen =
                std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff().applied_objects());
            loop {
                if let Ok(Some(pod)) = seen.try_next().await
                    && is_refused(&pod)
                {
                    noted.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.name_any());
                }
            }
        });
        Self { pods, task }
    }

    fn names(&self) -> BTreeSet<String> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Refused {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn is_refused(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.reason.as_deref() == Some("Unschedulable"))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Given two CronJobs for the same minute of which one is deleted, when the minute comes, then the pods of the other find
/// nodes that were ready before they were made, nobody finds that they fit nowhere, and nothing was bought for the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_finds_its_nodes_ready_and_a_deleted_one_buys_nothing() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let operator =
        cluster.run("headstart", &["--enable-proactive-scaleup", "--proactive-scaleup-threshold=1"])?;
    operator.ready().await?;
    cluster.apply_all(workload::open_pool()).await?;
    cluster.pool_says("general", "Ready", "True").await?;
    let (claims, refused) = (cluster.tally(), Refused::watch(&cluster));

    let schedule = workload::soon()?;
    cluster.apply(cron_job("deleted", &schedule, "arm64")).await?;
    let cron_jobs: Api<CronJob> = Api::default_namespaced(cluster.plane.client());
    cron_jobs.delete("deleted", &DeleteParams::default()).await?;
    // It is seen after the end of the other, so that what is bought for it is bought in the knowledge of that.
    cluster.apply(cron_job("report", &schedule, "amd64")).await?;

    let mut nodes = BTreeSet::new();
    eventually("ready nodes", async || {
        let all = cluster.nodes().list(&ListParams::default()).await?.items;
        nodes = all.iter().map(ResourceExt::name_any).collect();
        Ok(!all.is_empty() && all.len() == claims.n() && all.iter().all(is_ready))
    })
    .await
    .with_context(|| operator.log())?;
    let pods = cluster.pods().list(&ListParams::default()).await?.items;
    ensure!(pods.is_empty(), "{} pods were there before their nodes were", pods.len());
    let bought = claims.n();

    let mut on = Vec::new();
    eventually("all pods of the run to have a node", async || {
        let pods = cluster.pods().list(&ListParams::default()).await?;
        on = pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
        Ok(on.len() == PODS)
    })
    .await
    .with_context(|| operator.log())?;
    ensure!(on.iter().all(|node| nodes.contains(node)), "some ran on nodes that came later: {on:?}");
    ensure!(refused.names().is_empty(), "no node was found for {:?}", refused.names());
    ensure!(claims.n() == bought, "more was bought when the pods were there");
    let of_deleted = |spec: &Value| spec["requirements"].to_string().contains("arm64");
    ensure!(!claims.specs().values().any(of_deleted), "something was bought for the one that was deleted");

    let mut metrics = String::new();
    eventually("a hit rate of 1", async || {
        metrics = operator.get("metrics", "/metrics")?.1;
        Ok(metrics.lines().any(|line| line == r#"headstart_proactive_hit_rate{source="cronjob"} 1.0"#))
    })
    .await
    .with_context(|| metrics)
}
