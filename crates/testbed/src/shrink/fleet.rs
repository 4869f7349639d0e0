//! A fleet that Karpenter bought, and what is left on it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use headstart_cloud::catalog::{Catalog, Source};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::control_plane::{ControlPlane, create};
use crate::judge::{Case, Ours};
use crate::options::Options;
use crate::peers::{self, Peer};
use crate::reaction::{claims, dollars_per_hour, is_true, observer, until, wait_until_ready};
use crate::template::Template;
use crate::workload::Dice;

use super::shape::{App, Shape};
use super::{RATE, n_running};

/// Nodes with their claims, and the pods that stay.
pub struct Fleet {
    shape: Shape,
    apps: Vec<App>,
    pub(super) machines: Vec<Machine>,
    /// The app's index and the node's name of each pod that stays.
    pods: Vec<(usize, String)>,
    dollars_per_hour: f64,
}

pub(super) struct Machine {
    pub(super) claim: String,
    pub(super) template: Template,
}

impl Fleet {
    /// Lets Karpenter buy nodes for the shape's Deployments on a new cluster, and remembers what became of them.
    pub async fn buy(shape: Shape) -> Result<Self> {
        let plane =
            ControlPlane::start(Options { controller_manager_rate: RATE, ..Options::default() }).await?;
        peers::install_crds(&plane).await?;
        let client = observer(&plane).await?;
        let _running = peers::run(&plane, Peer::Karpenter, &[]).await?;
        peers::wait_for_leader(&plane).await?;
        for object in shape.pool() {
            create(&client, object).await?;
        }
        wait_until_ready(&client).await?;
        let apps = shape.apps();
        for app in &apps {
            create(&client, app.deployment()).await?;
        }
        let n_pods: usize = apps.iter().map(|app| app.replicas).sum();
        let running = until("all pods to run", async || {
            Ok((n_running(&client).await? == n_pods && are_initialized(&client).await?).then_some(()))
        });
        running.await?;
        // What it still writes would be written on every copy, in the middle of what is measured.
        plane.with_process(Peer::Karpenter.name(), |process| process.terminate())??;
        until("Karpenter's end", async || Ok(plane.exited(Peer::Karpenter.name())?)).await?;
        Self::remember(&client, shape, apps).await
    }

    async fn remember(client: &Client, shape: Shape, apps: Vec<App>) -> Result<Self> {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
        let dollars_per_hour = dollars_per_hour(&nodes);
        let mut by_name: BTreeMap<String, Node> =
            nodes.into_iter().map(|node| (node.name_any(), node)).collect();
        let mut machines = Vec::new();
        for claim in claims(client).list(&ListParams::default()).await? {
            let node = claim.data["status"]["nodeName"].as_str().context("a NodeClaim has no node")?;
            let node = by_name.remove(node).with_context(|| format!("there is no node {node}"))?;
            machines.push(Machine {
                claim: claim.name_any(),
                template: Template::new(serde_json::to_value(claim)?, serde_json::to_value(node)?)?,
            });
        }
        ensure!(by_name.is_empty(), "nodes have no NodeClaim: {:?}", by_name.keys());
        let mut dice = Dice::new(shape.seed);
        let pods =
            placed(client, &apps).await?.into_iter().filter(|_| dice.below(100) < shape.keep).collect();
        Ok(Self { shape, apps, machines, pods, dollars_per_hour })
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub fn n_nodes(&self) -> usize {
        self.machines.len()
    }

    pub fn dollars_per_hour(&self) -> f64 {
        self.dollars_per_hour
    }

    pub fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// How many pods the fleet was bought for.
    pub fn n_pods_once(&self) -> usize {
        self.apps.iter().map(|app| app.replicas).sum()
    }

    /// What any fleet for the pods that are left costs at least.
    pub fn bound(&self) -> Result<f64> {
        let pods = self.pods.iter().zip(0..).map(|((app, _), i)| self.apps[*app].pod(&pod_name(i), None));
        let case = Case::of(self.shape.pool().into_iter().chain(pods).collect());
        Ok(Ours::new(Catalog::load(&Source::Kwok)?).ask(&case).lower_bound_per_hour)
    }

    /// The pods that are left, on their nodes.
    pub(super) fn pods(&self) -> impl Iterator<Item = serde_json::Value> {
        self.pods.iter().zip(0..).map(|((app, node), i)| self.apps[*app].pod(&pod_name(i), Some(node)))
    }

    /// What looks after the pods that are left.
    pub(super) fn replica_sets(&self) -> impl Iterator<Item = serde_json::Value> {
        self.apps
            .iter()
            .enumerate()
            .map(|(index, app)| app.replica_set(self.pods.iter().filter(|(of, _)| *of == index).count()))
    }
}

fn pod_name(index: usize) -> String {
    format!("p{index:05}")
}

async fn are_initialized(client: &Client) -> Result<bool> {
    let claims = claims(client).list(&ListParams::default()).await?;
    Ok(claims.iter().all(|claim| is_true(claim, "Initialized")))
}

/// Which app each pod belongs to and where it runs.
async fn placed(client: &Client, apps: &[App]) -> Result<Vec<(usize, String)>> {
    let pods = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await?;
    let mut placed = Vec::new();
    for pod in &pods {
        let name = pod.labels().get("app").context("a pod belongs to no app")?;
        let app = apps.iter().position(|app| app.name == *name).context("a pod's app is unknown")?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("a pod has no node")?;
        placed.push((app, node));
    }
    placed.sort();
    Ok(placed)
}
