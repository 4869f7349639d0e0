//! A cluster in which kube-scheduler alone decides.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use headstart_testbed::{Component, ControlPlane, Options};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::fleet::{Fleet, Planned};

/// Requests to the API server that are under way at once.
const AT_ONCE: usize = 16;
/// Longer than kube-scheduler ever needs, so that only something broken runs into it.
const LIMIT: Duration = Duration::from_mins(1);
/// After this time kube-scheduler has looked again at a pod that it refused.
const BACK_OFF: Duration = Duration::from_millis(1500);
/// Keeps every pod but one from the node whose arrival shows that kube-scheduler has seen all others.
const MARK: &str = "headstart.dev/mark";

/// A control plane and what its pods have come to.
pub(crate) struct Arena {
    _plane: ControlPlane,
    nodes: Api<Node>,
    pods: Api<Pod>,
    seen: watch::Receiver<Verdicts>,
    watching: JoinHandle<()>,
    round: usize,
}

/// How pods come.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// Each nominates its planned node.
    Nominated,
    /// As any pod.
    Free,
}

/// What kube-scheduler has said about the pods, by name.
pub(crate) type Verdicts = BTreeMap<String, Verdict>;

/// What kube-scheduler has said about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    None,
    /// It fits nowhere at the moment, and why.
    Refused(String),
    /// The node it is bound to.
    Bound(String),
}

impl Arena {
    pub(crate) async fn start() -> Result<Self> {
        // Without a controller manager nobody makes service accounts or removes the taint of nodes that are not ready.
        // So the API server must not ask for the former nor add the latter.
        let api_server = [
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--delete-collection-workers=8",
        ];
        let plane = ControlPlane::start(Options {
            scheduler: true,
            extra_args: [(Component::ApiServer, api_server.map(str::to_owned).to_vec())].into(),
            ..Options::api_only()
        })
        .await?;
        let pods: Api<Pod> = Api::namespaced(plane.client(), "default");
        let nodes = Api::all(plane.client());
        let (sender, seen) = watch::channel(BTreeMap::new());
        let watching = tokio::spawn(follow(pods.clone(), sender));
        Ok(Self { _plane: plane, nodes, pods, seen, watching, round: 0 })
    }

    /// Creates the nodes and what runs on them; returns once kube-scheduler knows these nodes and no others.
    pub(crate) async fn set_up(&mut self, fleet: &Fleet) -> Result<()> {
        create(&self.nodes, fleet.nodes.iter().cloned()).await?;
        create(&self.pods, fleet.running.iter().cloned()).await?;
        self.round += 1;
        let name = format!("mark-{}", self.round);
        // Labels would make it a place that pods can be spread over.
        let node = json!({
            "metadata": {"name": name},
            "spec": {"taints": [{"key": MARK, "value": name, "effect": "NoSchedule"}]},
            "status": {"allocatable": {"pods": "1"}, "capacity": {"pods": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let here = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "containers": [{"name": "c", "image": "none"}],
                "tolerations": [{"key": MARK, "operator": "Exists"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}},
            },
        });
        create(&self.nodes, [node]).await?;
        create(&self.pods, [pod]).await?;
        self.wait("the mark", |pods| matches!(pods.get(&name), Some(Verdict::Bound(_)))).await?;
        Ok(())
    }

    /// Lets one pod come that nominates its planned node; returns what kube-scheduler says.
    pub(crate) async fn nominate_alone(&mut self, planned: &Planned) -> Result<Verdict> {
        create(&self.pods, [gated(planned)]).await?;
        self.nominate(planned).await?;
        self.release(planned).await?;
        let decided = |pods: &Verdicts| is_decided(pods, planned);
        Ok(self.wait(&planned.name, decided).await?[&planned.name].clone())
    }

    /// Lets all pods come; returns what kube-scheduler says about each in the end.
    pub(crate) async fn all_at_once(&mut self, planned: &[Planned], start: Start) -> Result<Verdicts> {
        match start {
            Start::Free => create(&self.pods, planned.iter().map(|planned| planned.pod.clone())).await?,
            Start::Nominated => {
                create(&self.pods, planned.iter().map(gated)).await?;
                let arena = &*self;
                each(planned, |pod| arena.nominate(pod)).await?;
                each(planned, |pod| arena.release(pod)).await?;
            }
        }
        let all_decided = |pods: &Verdicts| planned.iter().all(|planned| is_decided(pods, planned));
        self.wait("all pods", all_decided).await?;
        let bound = |pods: &Verdicts| {
            planned.iter().all(|planned| matches!(pods.get(&planned.name), Some(Verdict::Bound(_))))
        };
        // Who was refused is looked at once more.
        let _ = tokio::time::timeout(BACK_OFF, self.seen.wait_for(bound)).await;
        let mut pods = self.seen.borrow().clone();
        pods.retain(|name, _| planned.iter().any(|planned| planned.name == *name));
        Ok(pods)
    }

    /// `status.nominatedNodeName` is lost when a pod is created, so it comes after, while a gate holds the pod back.
    async fn nominate(&self, planned: &Planned) -> Result<()> {
        let patch = json!({"status": {"nominatedNodeName": planned.node}});
        self.pods.patch_status(&planned.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn release(&self, planned: &Planned) -> Result<()> {
        let patch = json!({"spec": {"schedulingGates": null}});
        self.pods.patch(&planned.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Removes those of the pods that are there.
    pub(crate) async fn remove(&mut self, planned: &[Planned]) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        let there = self.seen.borrow().clone();
        let pods = &self.pods;
        let there = planned.iter().filter(|planned| there.contains_key(&planned.name));
        each(there, |planned| async {
            pods.delete(&planned.name, &now).await?;
            Ok(())
        })
        .await?;
        let gone = |pods: &Verdicts| !planned.iter().any(|planned| pods.contains_key(&planned.name));
        self.wait("pods to go", gone).await?;
        Ok(())
    }

    /// Removes everything.
    pub(crate) async fn clear(&mut self) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.pods.delete_collection(&now, &ListParams::default()).await?;
        self.nodes.delete_collection(&now, &ListParams::default()).await?;
        self.wait("pods to go", BTreeMap::is_empty).await?;
        Ok(())
    }

    async fn wait(&mut self, what: &str, done: impl Fn(&Verdicts) -> bool) -> Result<Verdicts> {
        let waited = tokio::time::timeout(LIMIT, self.seen.wait_for(|pods| done(pods))).await;
        let pods = waited.map(|pods| pods.map(|pods| pods.clone()));
        let late = || format!("waited {} s for {what}: {:#?}", LIMIT.as_secs(), self.seen.borrow());
        pods.with_context(late)?.context("the watch ended")
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn gated(planned: &Planned) -> Value {
    let mut pod = planned.pod.clone();
    pod["spec"]["schedulingGates"] = json!([{"name": "headstart.dev/wait"}]);
    pod
}

fn is_decided(pods: &Verdicts, planned: &Planned) -> bool {
    pods.get(&planned.name).is_some_and(|verdict| *verdict != Verdict::None)
}

async fn create<K>(api: &Api<K>, objects: impl IntoIterator<Item = Value>) -> Result<()>
where
    K: DeserializeOwned + Serialize + Clone + Debug,
{
    each(objects, |mut object| async move {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("uid");
        }
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    })
    .await
}

async fn each<T, F: Future<Output = Result<()>>>(
    items: impl IntoIterator<Item = T>,
    act: impl FnMut(T) -> F,
) -> Result<()> {
    stream::iter(items).map(act).buffer_unordered(AT_ONCE).try_collect().await
}

/// Keeps the verdicts up to date.
async fn follow(pods: Api<Pod>, sender: watch::Sender<Verdicts>) {
    let mut events = std::pin::pin!(watcher(pods, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        sender.send_modify(|all| match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                all.insert(pod.name_any(), verdict(&pod));
            }
            Ok(watcher::Event::Delete(pod)) => drop(all.remove(&pod.name_any())),
            Ok(watcher::Event::Init) => all.clear(),
            Ok(watcher::Event::InitDone) | Err(_) => {}
        });
    }
}

fn verdict(pod: &Pod) -> Verdict {
    if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
        return Verdict::Bound(node);
    }
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let refusal = conditions
        .filter(|condition| {
            condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
        })
        .find_map(|condition| condition.message.clone());
    refusal.map_or(Verdict::None, Verdict::Refused)
}
