//! The KWOK cloud: machines that exist only as Nodes, which the kwok controller keeps alive.
//!
//! COMPAT: what users and tools see of an instance equals Karpenter 1.15's KWOK provider (`kwok/cloudprovider`): node
//! names of the same shape, provider ids, labels, annotation, taint, phase, repair policies, how a class that is
//! missing or not ready is answered. Differences, each on purpose:
//! - A node name derives from the token instead of chance, so a launch that is retried after a crash finds its Node.
//! - The first offering of the request is taken; upstream draws one of the cheapest. The caller orders by price.
//! - A Node has its type's capacity; upstream gives it the claim's requests, so that limits are counted too low.
//! - `get` knows a Node that is being deleted until its instance was terminated; upstream denies it at once.
//! - `terminate` deletes the Node; upstream leaves that to whoever removes the finalizer.
//!
//! The cluster is this cloud's only memory. With a registration delay there is no Node yet, so the launch is kept in
//! a ConfigMap ([`pending`]) until the Node registers; any process that lists instances takes over what is due.
//!
//! The client must not retry by itself (`default_retry` off in kube's configuration): see [`Cloud`].

mod errors;
mod name;
mod node;
mod pending;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headstart_api::conditions::READY;
use headstart_api::{GoDuration, KwokNodeClass};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::catalog::Catalog;
use crate::error::{CloudError, Reason};
use crate::notice::{Cursor, Notices};
use crate::port::{
    ClassKind, ClassRef, Cloud, DryOffering, Instance, Launch, LaunchRequest, OfferingKey, ProviderId,
};
use crate::repair::{RepairAction, RepairPolicy};

use errors::{is_conflict, is_missing, reading, writing};
use pending::Pending;

/// What provider ids of this cloud begin with.
pub const PROVIDER_PREFIX: &str = "kwok://";

/// Most Nodes that are listed at once.
const PAGE: u32 = 500;

/// The KWOK cloud of a cluster.
pub struct Kwok {
    nodes: Api<Node>,
    classes: Api<KwokNodeClass>,
    catalog: Arc<Catalog>,
    pending: Pending,
}

impl Kwok {
    /// The KWOK cloud of a cluster; launches whose Node has not registered yet are kept in that namespace.
    pub fn new(client: &Client, catalog: Arc<Catalog>, namespace: &str) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            classes: Api::all(client.clone()),
            catalog,
            pending: Pending::new(client, namespace),
        }
    }

    /// The instance a token already has, whether its Node has registered or not.
    async fn found(&self, name: &str, request: &LaunchRequest) -> Result<Option<Launch>, CloudError> {
        let node = match self.nodes.get_opt(name).await.map_err(reading)? {
            Some(node) => node,
            None => match self.pending.get(name).await? {
                Some(node) => node,
                None => return Ok(None),
            },
        };
        let permanent = |reason, message| Err(CloudError::Permanent { reason, message });
        if node::is_terminated(&node) {
            return permanent(Reason::InstanceEnded, format!("the instance of Node {name} was terminated"));
        }
        if node::digest(&node) != Some(&request.digest()) {
            let message =
                format!("Node {name} was launched from another list of offerings or for another class");
            return permanent(Reason::TokenReused, message);
        }
        Ok(Some(node::launch(&node, &self.catalog)))
    }

    /// How long a class lets its Nodes take to register.
    async fn delay(&self, class: &ClassRef) -> Result<Duration, CloudError> {
        let Some(object) = self.classes.get_opt(&class.name).await.map_err(reading)? else {
            // COMPAT: `Create` calls a missing class insufficient capacity, so that the claim is given up.
            let message = format!("node class {class} does not exist");
            return Err(CloudError::InsufficientCapacity { dry: Vec::new(), message });
        };
        let conditions = object.status.map(|status| status.conditions).unwrap_or_default();
        if let Some(unready) = conditions.into_iter().find(|c| c.type_ == READY && c.status == "False") {
            let message = if unready.message.is_empty() { unready.reason } else { unready.message };
            return Err(CloudError::ClassNotReady { class: class.clone(), message });
        }
        let delay = object.spec.node_registration_delay.map(GoDuration::as_signed);
        Ok(delay.and_then(|delay| delay.try_into().ok()).unwrap_or_default())
    }

    /// The first offering that can be bought, and those before it that cannot.
    fn choose<'a>(
        &self,
        request: &'a LaunchRequest,
    ) -> Result<(&'a OfferingKey, Vec<DryOffering>), CloudError> {
        let invalid = |message| CloudError::Permanent { reason: Reason::InvalidRequest, message };
        let mut dry = Vec::new();
        for key in &request.offerings {
            let offering = self.catalog.offering(key);
            let (_, offering) =
                offering.ok_or_else(|| invalid(format!("the catalog has no offering {key}")))?;
            if offering.launchable() {
                return Ok((key, dry));
            }
            dry.push(DryOffering { offering: key.clone(), lasts: None });
        }
        if dry.is_empty() {
            return Err(invalid("the list of offerings is empty".to_owned()));
        }
        let message = format!("none of {} offerings has capacity", dry.len());
        Err(CloudError::InsufficientCapacity { dry, message })
    }

    /// The Node of an id, or the one that will be.
    async fn node(&self, id: &ProviderId) -> Result<Node, CloudError> {
        let missing = || CloudError::NotFound { id: id.clone() };
        let name = name::of(id).ok_or_else(missing)?;
        let node = match self.nodes.get_opt(name).await.map_err(reading)? {
            Some(node) => Some(node),
            None => self.pending.get(name).await?,
        };
        node.filter(|node| node::provider_id(node) == Some(&id.0) && !node::is_terminated(node))
            .ok_or_else(missing)
    }
}

#[async_trait]
impl Cloud for Kwok {
    fn name(&self) -> &'static str {
        "kwok"
    }

    fn node_classes(&self) -> &'static [ClassKind] {
        &[ClassKind { group: "karpenter.kwok.sh", kind: "KWOKNodeClass" }]
    }

    async fn catalog(&self, _class: &ClassRef) -> Result<Arc<Catalog>, CloudError> {
        Ok(Arc::clone(&self.catalog))
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Launch, CloudError> {
        let name = name::for_launch(&request.claim, &request.token);
        let prepared = match self.delay(&request.class).await {
            Ok(delay) => self.choose(request).map(|chosen| (delay, chosen)),
            Err(error) => Err(error),
        };
        let (delay, (key, dry)) = match prepared {
            Ok(prepared) => prepared,
            // What cannot be launched now may have been launched before: then it must be found, or it would leak.
            Err(error) => return self.found(&name, request).await?.ok_or(error),
        };
        let node = node::new(&name, request, key, &dry, &self.catalog);
        if !delay.is_zero() {
            if let Some(launch) = self.found(&name, request).await? {
                return Ok(launch);
            }
            self.pending.add(&node, delay).await?;
            return Ok(node::launch(&node, &self.catalog));
        }
        match self.nodes.create(&PostParams::default(), &node).await {
            Ok(node) => Ok(node::launch(&node, &self.catalog)),
            Err(error) if is_conflict(&error) => {
                let vanished =
                    || CloudError::not_done(format!("Node {name} vanished while it was looked at"));
                self.found(&name, request).await?.ok_or_else(vanished)
            }
            Err(error) => Err(writing(error)),
        }
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        let node = self.node(id).await?;
        Ok(node::launch(&node, &self.catalog).instance)
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let instance = |node: &Node| {
            let is_ours = node::provider_id(node).is_some_and(|id| id.starts_with(PROVIDER_PREFIX));
            (is_ours && !node::is_terminated(node)).then(|| node::launch(node, &self.catalog).instance)
        };
        // Nodes second: what registers in between is then seen twice rather than not at all.
        let pending = self.pending.list().await?;
        let mut by_name: BTreeMap<String, Option<Instance>> =
            pending.into_iter().map(|(name, node)| (name, instance(&node))).collect();
        // PERF: whole Nodes are large, so few of them are here at a time.
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = self.nodes.list(&params).await.map_err(reading)?;
            by_name.extend(page.iter().map(|node| (node.name_any(), instance(node))));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        let mut instances: Vec<Instance> = by_name.into_values().flatten().collect();
        instances.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(instances)
    }

    async fn terminate(&self, id: &ProviderId) -> Result<(), CloudError> {
        let missing = || CloudError::NotFound { id: id.clone() };
        let name = name::of(id).ok_or_else(missing)?;
        // The record is marked first: whoever registers the Node looks at it afterwards and takes the Node back.
        let was_pending = self.pending.end(name).await?;
        let node = self.nodes.get_opt(name).await.map_err(reading)?;
        let Some(node) =
            node.filter(|node| node::provider_id(node) == Some(&id.0) && !node::is_terminated(node))
        else {
            return if was_pending { Ok(()) } else { Err(missing()) };
        };
        let same = Preconditions { uid: node.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
        match self.nodes.delete(name, &params).await {
            Err(error) if is_missing(&error) => return Ok(()),
            deleted => deleted.map_err(writing)?,
        };
        if node.finalizers().is_empty() {
            return Ok(());
        }
        // A finalizer keeps the object; the mark says that the machine behind it is gone.
        let mark = json!({ "metadata": { "uid": node.uid(), "annotations": { node::TERMINATED: "true" } } });
        match self.nodes.patch(name, &PatchParams::default(), &Patch::Merge(mark)).await {
            Err(error) if !is_missing(&error) => Err(writing(error)),
            _ => Ok(()),
        }
    }

    async fn reboot(&self, id: &ProviderId, operation: &str) -> Result<(), CloudError> {
        let name = self.node(id).await?.name_any();
        let boot = json!({ "status": { "nodeInfo": { "bootID": format!("kwok-{operation}") } } });
        match self.nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(boot)).await {
            Err(error) if is_missing(&error) => {
                Err(CloudError::not_done(format!("Node {name} has not registered")))
            }
            patched => patched.map(|_| ()).map_err(writing),
        }
    }

    async fn drift(&self, id: &ProviderId, _class: &ClassRef) -> Result<Option<String>, CloudError> {
        self.node(id).await.map(|_| None)
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        repair_policies()
    }

    /// KWOK announces nothing.
    async fn notices(&self, after: Option<&Cursor>, wait: Duration) -> Result<Notices, CloudError> {
        tokio::time::sleep(wait).await;
        Ok(Notices { notices: Vec::new(), next: after.cloned() })
    }
}

/// When the KWOK cloud repairs a node, and how; two of the conditions are for rehearsals.
pub fn repair_policies() -> Vec<RepairPolicy> {
    let policy =
        |condition: &str, status: &str, reason: Option<&str>, toleration, grace, action| RepairPolicy {
            condition: condition.into(),
            status: status.into(),
            reason: reason.map(str::to_owned),
            toleration,
            grace: Some(grace),
            priority: 0,
            action,
        };
    let (long, short) = (Duration::from_mins(10), Duration::from_secs(30));
    let any = Some(".*");
    vec![
        policy(READY, "False", None, long, Duration::ZERO, RepairAction::Replace),
        policy(READY, "Unknown", any, long, Duration::ZERO, RepairAction::Replace),
        policy("KWOKUnhealthy", "True", any, short, Duration::from_secs(45), RepairAction::Replace),
        policy("KWOKRebootRequired", "True", any, short, Duration::from_mins(1), RepairAction::Reboot),
    ]
}

#[cfg(test)]
mod tests;
