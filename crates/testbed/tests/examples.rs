//! The files of `examples/proactive-scaleup`, applied as they are, and seen to work.

#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "operator/harness.rs"]
mod harness;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use headstart_testbed::workload;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use harness::{Cluster, Operator, condition, eventually};

const EXPECTED_BY: &str = "headstart.dev/expected-by";

/// The objects of an example.
fn example(name: &str) -> Result<Vec<Value>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/proactive-scaleup").join(name);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// A cluster with an operator that starts nodes ahead, and a NodePool.
async fn cluster(pool: Vec<Value>) -> Result<Cluster> {
    let cluster = Cluster::whole().await?;
    cluster.apply_all(pool).await?;
    Ok(cluster)
}

async fn ahead<'a>(cluster: &'a Cluster, args: &[&str]) -> Result<Operator<'a>> {
    // A lone node is always rather full; room for that is not what is shown here.
    let args = [&["--enable-proactive-scaleup", "--proactive-scaleup-threshold=1"], args].concat();
    let operator = cluster.run("headstart", &args)?;
    operator.ready().await?;
    cluster.pool_says("general", "Ready", "True").await?;
    Ok(operator)
}

/// A pool of nodes that hold one pod of an example each.
fn small_nodes() -> Vec<Value> {
    let requirements = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]},
    ]);
    vec![workload::node_class(), workload::node_pool("general", &requirements)]
}

async fn scale(cluster: &Cluster, name: &str, replicas: usize) -> Result<()> {
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.plane.client());
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch_scale(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// How many pods of an app run, or have run to their end: kwok lets those of Jobs end at once.
async fn n_running(cluster: &Cluster, app: &str) -> Result<usize> {
    let pods = cluster.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?;
    let runs = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Running" | "Succeeded")) && pod.metadata.deletion_timestamp.is_none()
    };
    Ok(pods.items.iter().filter(runs).count())
}

async fn running(cluster: &Cluster, app: &str, n: usize) -> Result<()> {
    eventually(&format!("{n} pods of {app}"), async || Ok(n_running(cluster, app).await? == n)).await
}

/// Whether a pod of a workload was preempted, as kube-scheduler says.
async fn preempted(cluster: &Cluster, workload: &str) -> Result<()> {
    eventually(&format!("a preempted pod of {workload}"), async || {
        let events: Api<Event> = Api::default_namespaced(cluster.plane.client());
        let is_it = |event: Event| {
            let of = event.involved_object.name.unwrap_or_default();
            event.reason.as_deref() == Some("Preempted") && of.starts_with(&format!("{workload}-"))
        };
        Ok(events.list(&ListParams::default()).await?.into_iter().any(is_it))
    })
    .await
}

/// Claims that were made for pods that some source expected.
async fn claims_by(cluster: &Cluster, source: &str) -> Result<Vec<DynamicObject>> {
    let claims = cluster.claims().list(&ListParams::default()).await?;
    let is_by = |claim: &DynamicObject| {
        claim.annotations().get(EXPECTED_BY).is_some_and(|by| by.split(',').any(|by| by == source))
    };
    Ok(claims.into_iter().filter(is_by).collect())
}

/// What is compared should not be disturbed by another cluster on the same cores.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn real_pods_take_the_place_of_placeholders_and_the_room_is_made_again() -> Result<()> {
    let _alone = ALONE.lock().await;
    let cluster = cluster(small_nodes()).await?;
    let operator = ahead(&cluster, &[]).await?;
    cluster.apply_all(example("placeholder-deployment.yaml")?).await?;
    running(&cluster, "placeholder", 2).await.with_context(|| operator.log())?;
    scale(&cluster, "web", 2).await?;
    running(&cluster, "web", 2).await.with_context(|| operator.log())?;
    preempted(&cluster, "placeholder").await?;
    running(&cluster, "placeholder", 2).await.with_context(|| operator.log())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_is_there_when_a_job_wants_it() -> Result<()> {
    let _alone = ALONE.lock().await;
    let cluster = cluster(workload::open_pool()).await?;
    let operator = ahead(&cluster, &["--catalog=aws"]).await?;
    cluster.apply_all(example("gpu-placeholder.yaml")?).await?;
    running(&cluster, "gpu-placeholder", 1).await.with_context(|| operator.log())?;
    let nodes = cluster.nodes().list(&ListParams::default()).await?;
    let has_gpu = |node: &Node| {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
        allocatable.is_some_and(|all| all.contains_key("nvidia.com/gpu"))
    };
    ensure!(nodes.iter().any(has_gpu), "no node has a GPU");
    let jobs: Api<Job> = Api::default_namespaced(cluster.plane.client());
    let patch = Patch::Merge(json!({"spec": {"suspend": false}}));
    jobs.patch("train", &PatchParams::default(), &patch).await?;
    running(&cluster, "train", 1).await.with_context(|| operator.log())?;
    preempted(&cluster, "gpu-placeholder").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_autoscaler_of_pods_asks_for_and_large_steps_are_foreseen() -> Result<()> {
    let _alone = ALONE.lock().await;
    let cluster = cluster(workload::open_pool()).await?;
    let operator = ahead(&cluster, &[]).await?;
    cluster.apply_all(example("hpa-example.yaml")?).await?;
    running(&cluster, "shop", 1).await.with_context(|| operator.log())?;
    let scalers: Api<HorizontalPodAutoscaler> = Api::default_namespaced(cluster.plane.client());
    ensure!(scalers.get_opt("shop").await?.is_some(), "it was not accepted");
    // It has no metrics here; what it would do is done for it.
    scale(&cluster, "shop", 60).await?;
    running(&cluster, "shop", 60).await.with_context(|| operator.log())?;
    ensure!(!claims_by(&cluster, "gap").await?.is_empty(), "nothing was foreseen:\n{}", operator.log());

    cluster.apply_all(example("throttled-scaleup.yaml")?).await?;
    let before = claims_by(&cluster, "gap").await?.len();
    scale(&cluster, "batch", 150).await?;
    running(&cluster, "batch", 150).await.with_context(|| operator.log())?;
    ensure!(claims_by(&cluster, "gap").await?.len() > before, "nothing was foreseen:\n{}", operator.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buffer_becomes_room_and_a_run_finds_its_nodes() -> Result<()> {
    let _alone = ALONE.lock().await;
    let cluster = cluster(workload::open_pool()).await?;
    let operator = ahead(&cluster, &[]).await?;
    cluster.apply_all(example("buffer.yaml")?).await?;
    let kind = GroupVersionKind::gvk("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
    let buffers: Api<DynamicObject> =
        Api::default_namespaced_with(cluster.plane.client(), &ApiResource::from_gvk(&kind));
    eventually("room for the buffer", async || {
        Ok(condition(&buffers.get("checkout").await?.data, "Provisioning")["status"] == "True")
    })
    .await
    .with_context(|| operator.log())?;
    ensure!(!cluster.nodes().list(&ListParams::default()).await?.items.is_empty(), "there is no node");

    cluster.apply_all(example("cronjob.yaml")?).await?;
    let mut ready = Vec::new();
    eventually("nodes for the next run", async || {
        let claims = claims_by(&cluster, "cronjob").await?;
        let is_ready = |claim: &DynamicObject| condition(&claim.data, "Initialized")["status"] == "True";
        ready = claims.into_iter().filter(is_ready).collect();
        Ok(!ready.is_empty())
    })
    .await
    .with_context(|| operator.log())?;
    let nodes: Vec<&str> =
        ready.iter().filter_map(|claim| claim.data["status"]["nodeName"].as_str()).collect();
    eventually("a run on the node that was started for it", async || {
        let pods = cluster.pods().list(&ListParams::default().labels("app=report")).await?;
        Ok(pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref())
            .any(|node| nodes.contains(&node)))
    })
    .await
    .with_context(|| operator.log())
}
