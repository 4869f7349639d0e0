//! The same fleet on another cluster.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::control_plane::create;
use crate::crowd::patch_status;
use crate::reaction::{claims, until};

use super::fleet::{Fleet, Machine};
use super::n_running;

/// How many requests are under way at once.
const AT_ONCE: usize = 16;

/// Makes nodes and pods, and returns when everything runs and belongs to somebody.
pub(super) async fn settle(client: &Client, fleet: &Fleet) -> Result<()> {
    let mut pool = String::new();
    for object in fleet.shape().pool() {
        // The pool comes last.
        pool = create(client, object).await?.uid().unwrap_or_default();
    }
    let machine = async |machine: &Machine| add(client, machine, &pool).await;
    futures::stream::iter(&fleet.machines).map(Ok).try_for_each_concurrent(AT_ONCE, machine).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    until("nodes that take pods", async || {
        let nodes = nodes.list(&ListParams::default()).await?;
        Ok(nodes.iter().all(takes_pods).then_some(()))
    })
    .await?;
    create_all(client, fleet.pods()).await?;
    until("all pods to run", async || Ok((n_running(client).await? == fleet.n_pods()).then_some(()))).await?;
    // Only now, or they would make pods of their own.
    create_all(client, fleet.replica_sets()).await?;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    until("all pods to be looked after", async || {
        let pods = pods.list(&ListParams::default()).await?;
        Ok(pods.iter().all(|pod| !pod.owner_references().is_empty()).then_some(()))
    })
    .await
}

async fn add(client: &Client, machine: &Machine, pool: &str) -> Result<()> {
    let Machine { claim: name, template } = machine;
    let mut claim = template.claim(name)?;
    // A claim whose owner does not exist is garbage to kube-controller-manager.
    for owner in claim["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
        owner["uid"] = json!(pool);
    }
    let made = create(client, claim).await?;
    patch_status(&claims(client), name, &json!({"status": template.claim_status(name)?})).await?;
    create(client, template.node(name, &made.uid().unwrap_or_default())?).await?;
    Ok(())
}

async fn create_all(client: &Client, objects: impl Iterator<Item = Value>) -> Result<()> {
    let add = async |object: Value| create(client, object).await.map(drop);
    futures::stream::iter(objects).map(Ok).try_for_each_concurrent(AT_ONCE, add).await
}

fn takes_pods(node: &Node) -> bool {
    node.spec.as_ref().is_none_or(|spec| spec.taints.as_deref().unwrap_or_default().is_empty())
}
