//! `headstart run --mode companion` beside the real Karpenter, with exactly the rights that the chart gives a companion.
//!
//! `PODS` raises how many pods a Deployment is scaled to, 300 in every run.

#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "operator/harness.rs"]
mod harness;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use headstart_testbed::beside::{Load, Outcome, put};
use headstart_testbed::peers::{self, Peer};
use headstart_testbed::reaction::percentile;
use headstart_testbed::{Component, Options, Process, workload};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use harness::{Cluster, Operator, deployment, eventually, named_deployment, number};

const NAMESPACE: &str = "headstart-placeholders";
const CLUSTER_RULES: &str = include_str!("../../../charts/headstart/files/companion-cluster-rules.yaml");
const NAMESPACE_RULES: &str = include_str!("../../../charts/headstart/files/companion-namespace-rules.yaml");
const GROUP: &str = "rbac.authorization.k8s.io";

/// A cluster where the real Karpenter buys nodes, and a companion's rights on it.
struct Beside {
    cluster: Cluster,
    rights: PathBuf,
}

impl Beside {
    async fn start(gates: &str) -> Result<Self> {
        // kube-scheduler may forget a pod that it sends a placeholder away for until then (kubernetes/kubernetes#141694); five
        // minutes, the default, are longer than tests wait.
        let forgotten = vec!["--pod-max-in-unschedulable-pods-duration=20s".to_owned()];
        let extra_args = BTreeMap::from([(Component::Scheduler, forgotten)]);
        let cluster = Cluster::start(Options { extra_args, ..Options::default() }).await?;
        peers::install_crds(&cluster.plane).await?;
        let beside = Self { rights: rights(&cluster).await?, cluster };
        beside.karpenter(gates).await?;
        beside.cluster.apply_all(workload::calm_pool()).await?;
        beside.cluster.pool_says("general", "Ready", "True").await?;
        Ok(beside)
    }

    async fn karpenter(&self, gates: &str) -> Result<()> {
        let gates: &[_] = if gates.is_empty() { &[] } else { &[("FEATURE_GATES", gates)] };
        let ports = peers::run(&self.cluster.plane, Peer::Karpenter, gates).await?;
        peers::wait_for_leader(&self.cluster.plane).await?;
        // Its ports stay taken as long as the test runs.
        std::mem::forget(ports);
        Ok(())
    }

    async fn companion(&self, args: &[&str]) -> Result<Operator<'_>> {
        // A lone node is always rather full; room for that would stand for good.
        let always =
            ["--mode=companion", "--system-namespace=kube-system", "--proactive-scaleup-threshold=1"];
        let args = [&always, args].concat();
        let operator = self.cluster.run_as(&self.rights, "companion", &args)?;
        operator.ready().await?;
        Ok(operator)
    }

    fn placeholders(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.plane.client(), NAMESPACE)
    }

    async fn n_placeholders(&self) -> Result<usize> {
        Ok(self.placeholders().list(&ListParams::default()).await?.items.len())
    }

    /// Waits until some placeholders stand.
    async fn shown(&self) -> Result<()> {
        eventually("placeholders", async || Ok(self.n_placeholders().await? > 0)).await
    }

    /// Waits until no placeholder is left.
    async fn cleared(&self) -> Result<()> {
        eventually("the end of all placeholders", async || Ok(self.n_placeholders().await? == 0)).await
    }

    /// Deletes claims that were launched and have no node: Karpenter's KWOK provider forgets the nodes that it was about to
    /// make when it was killed, and Karpenter itself waits for them a quarter of an hour.
    async fn give_up_forgotten(&self) -> Result<()> {
        for claim in self.cluster.claims().list(&ListParams::default()).await? {
            let Some(instance) = claim.data["status"]["providerID"].as_str() else { continue };
            if self.cluster.nodes().get_opt(instance.trim_start_matches("kwok://")).await?.is_none() {
                self.cluster.claims().delete(&claim.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    fn buffers(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
        Api::namespaced_with(self.cluster.plane.client(), NAMESPACE, &ApiResource::from_gvk(&kind))
    }
}

/// Gives a user the rights that the chart gives a companion, and no others.
async fn rights(cluster: &Cluster) -> Result<PathBuf> {
    let name = "headstart-companion";
    let user = format!("system:serviceaccount:kube-system:{name}");
    let meta = |namespace: Option<&str>| json!({"name": name, "namespace": namespace});
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}]);
    let role = |kind: &str, namespace: Option<&str>, rules: Value| json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": meta(namespace), "rules": rules});
    let binding = |kind: &str, to: &str, namespace: Option<&str>| json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": meta(namespace), "roleRef": {"apiGroup": GROUP, "kind": to, "name": name}, "subjects": subjects});
    let leases =
        json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}]);
    cluster
        .apply_all([
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            role("ClusterRole", None, serde_saphyr::from_str(CLUSTER_RULES)?),
            binding("ClusterRoleBinding", "ClusterRole", None),
            role("Role", Some(NAMESPACE), serde_saphyr::from_str(NAMESPACE_RULES)?),
            binding("RoleBinding", "Role", Some(NAMESPACE)),
            role("Role", Some("kube-system"), leases),
            binding("RoleBinding", "Role", Some("kube-system")),
        ])
        .await?;
    cluster.plane.kubeconfig_for(&user, &["system:serviceaccounts", "system:authenticated"])
}

fn row(name: &str, of: &Outcome) -> String {
    let wait = |percent| percentile(&of.waits, percent).unwrap_or_default().as_secs_f64();
    format!(
        "{name:<18} {:>6} {:>11.1} s {:>10.1} s {:>8.1} s {:>8.1} s {:>9}",
        of.n_claims,
        of.first_claim,
        of.last_claim,
        wait(50),
        wait(95),
        of.n_ahead,
    )
}

/// What is compared should not be disturbed by another cluster on the same cores.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_bought_for_pods_that_are_still_to_come_and_all_placeholders_go_again() -> Result<()> {
    let _alone = ALONE.lock().await;
    let n = number("PODS", 300);
    let alone = {
        let beside = Beside::start("").await?;
        put(&beside.cluster.plane.client(), Load::Deployment(n)).await?
    };
    let beside = Beside::start("").await?;
    let companion = beside.companion(&["--companion-with=placeholders"]).await?;
    let led = put(&beside.cluster.plane.client(), Load::Deployment(n)).await;
    let led = led.with_context(|| companion.log())?;
    println!("{n} pods             claims   first claim   last claim   wait p50   wait p95     ahead");
    println!("{}", row("Karpenter", &alone));
    println!("{}", row("with a companion", &led));
    beside.cleared().await.with_context(|| companion.log())?;

    // How long they wait is for people to read: it depends on what else the machine does.
    let (less, more) = (alone.n_ahead, led.n_ahead);
    ensure!(more > less, "nodes were bought for {more} pods to come, and for {less} without a companion");

    // Whoever ends in peace leaves nothing behind.
    beside.cluster.apply(named_deployment("more", 2 * n, &json!({}))).await?;
    beside.shown().await?;
    companion.end().await?;
    beside.cleared().await?;
    let owners: Api<ConfigMap> = Api::namespaced(beside.cluster.plane.client(), NAMESPACE);
    ensure!(owners.get_opt("headstart-companion").await?.is_none(), "the owner is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_though_either_is_killed_in_the_middle() -> Result<()> {
    let _alone = ALONE.lock().await;
    let n = number("PODS", 300) / 3;
    let beside = Beside::start("").await?;
    let companion = beside.companion(&["--companion-with=placeholders"]).await?;
    beside.cluster.apply(deployment(n)).await?;
    beside.shown().await.with_context(|| companion.log())?;
    companion.kill()?;
    eventually("its end", async || Ok(beside.cluster.plane.exited("companion")?.is_some())).await?;
    let left = beside.n_placeholders().await?;
    ensure!(left > 0, "it was killed too late");
    let companion = beside.companion(&["--companion-with=placeholders"]).await?;
    beside.cluster.running(n).await.with_context(|| companion.log())?;
    beside.cleared().await.with_context(|| companion.log())?;

    // More than fit on what was bought for pods and placeholders so far.
    beside.cluster.apply(named_deployment("more", 3 * n, &json!({}))).await?;
    beside.shown().await.with_context(|| companion.log())?;
    beside.cluster.plane.with_process(Peer::Karpenter.name(), Process::kill)?;
    eventually("its end", async || Ok(beside.cluster.plane.exited(Peer::Karpenter.name())?.is_some()))
        .await?;
    beside.give_up_forgotten().await?;
    beside.karpenter("").await?;
    beside.cluster.running(4 * n).await.with_context(|| companion.log())?;
    beside.cleared().await.with_context(|| companion.log())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_karpenter_looks_after_buffers_they_are_used_and_go_again() -> Result<()> {
    let _alone = ALONE.lock().await;
    let n = number("PODS", 300) / 2;
    let beside = Beside::start("CapacityBuffer=true").await?;
    let companion = beside.companion(&[]).await?;
    eventually("an answer to its question", async || {
        Ok(!companion.said("CapacityBuffers are looked after").is_empty())
    })
    .await
    .with_context(|| companion.log())?;
    beside.cluster.apply(deployment(n)).await?;
    let mut n_pods = 0;
    let mut most = 0;
    eventually("a buffer", async || {
        n_pods += beside.n_placeholders().await?;
        for buffer in beside.buffers().list(&ListParams::default()).await? {
            most = most.max(buffer.data["spec"]["replicas"].as_u64().unwrap_or(0));
        }
        Ok(most > 0)
    })
    .await
    .with_context(|| companion.log())?;
    beside.cluster.running(n).await.with_context(|| companion.log())?;
    n_pods += beside.n_placeholders().await?;
    ensure!(n_pods == 0, "placeholders were made as well");
    println!("{n} pods: a buffer of {most} stood for them");
    eventually("the end of all buffers", async || {
        Ok(beside.buffers().list(&ListParams::default()).await?.items.is_empty())
    })
    .await
    .with_context(|| companion.log())
}
