//! Nodes, and claims for nodes that are on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_core::catalog::InstanceType;
use headstart_core::labels::{INITIALIZED, INSTANCE_TYPE, REGISTERED};
use headstart_core::resources::Resources;
use headstart_core::snapshot::{Labels, Launching, Node, Taint};
use serde::Deserialize;

use crate::decode::{Fault, nullable, shared};
use crate::meta::Meta;
use crate::pod::TaintSpec;
use crate::pool::{TemplateSpec, taints};
use crate::pooled::Pooled;
use headstart_core::types::Types;

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KubeNode {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSpec {
    #[serde(rename = "providerID", deserialize_with = "nullable")]
    provider_id: String,
    #[serde(deserialize_with = "nullable")]
    taints: Vec<TaintSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "shared")]
    capacity: Arc<Resources>,
    #[serde(deserialize_with = "shared")]
    allocatable: Arc<Resources>,
}

impl KubeNode {
    /// Drops what decides nothing.
    pub(crate) fn slim(&mut self, pooled: &mut Pooled) {
        self.metadata.labels = pooled.labels(&self.metadata.labels).into();
        for amounts in [&mut self.status.capacity, &mut self.status.allocatable] {
            *amounts = pooled.resources(amounts);
        }
        self.metadata.annotations.clear();
        self.metadata.owner_references = Vec::new();
        self.metadata.uid = String::new();
    }
}

/// A claim for a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeClaim {
    pub(crate) metadata: Meta,
    spec: TemplateSpec,
    #[serde(deserialize_with = "nullable")]
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    #[serde(rename = "providerID", deserialize_with = "nullable")]
    provider_id: String,
    #[serde(deserialize_with = "shared")]
    capacity: Arc<Resources>,
    #[serde(deserialize_with = "shared")]
    allocatable: Arc<Resources>,
}

/// What a CSI driver says about a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiNode {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    spec: CsiNodeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CsiNodeSpec {
    #[serde(deserialize_with = "nullable")]
    drivers: Vec<CsiDriver>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CsiDriver {
    name: String,
    #[serde(deserialize_with = "nullable")]
    allocatable: CsiAllocatable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CsiAllocatable {
    count: Option<u32>,
}

/// A node, its claim, or both.
pub(crate) struct Machine<'a> {
    pub(crate) node: Option<&'a KubeNode>,
    pub(crate) claim: Option<&'a NodeClaim>,
}

/// Pairs nodes with their claims by provider id.
pub(crate) fn machines<'a>(nodes: &'a [KubeNode], claims: &'a [NodeClaim]) -> Vec<Machine<'a>> {
    let by_id: BTreeMap<&str, &NodeClaim> = claims
        .iter()
        .filter(|claim| !claim.status.provider_id.is_empty())
        .map(|claim| (claim.status.provider_id.as_str(), claim))
        .collect();
    let ids: BTreeSet<&str> = nodes.iter().map(|node| node.spec.provider_id.as_str()).collect();
    let with_node = nodes
        .iter()
        .map(|node| Machine { node: Some(node), claim: by_id.get(node.spec.provider_id.as_str()).copied() });
    let alone = claims.iter().filter(|claim| {
        !ids.contains(claim.status.provider_id.as_str()) || claim.status.provider_id.is_empty()
    });
    with_node.chain(alone.map(|claim| Machine { node: None, claim: Some(claim) })).collect()
}

impl<'a> Machine<'a> {
    fn is_registered(&self) -> bool {
        self.has(REGISTERED)
    }

    fn is_initialized(&self) -> bool {
        self.has(INITIALIZED)
    }

    /// Nodes that nobody claimed count as having every mark.
    fn has(&self, mark: &str) -> bool {
        let marked = |node: &KubeNode| node.metadata.labels.get(mark).is_some_and(|value| &**value == "true");
        self.claim.is_none() || self.node.is_some_and(marked)
    }

    /// Whether the machine is going away.
    pub(crate) fn is_leaving(&self) -> bool {
        let claim = self.claim.is_some_and(|claim| claim.metadata.is_leaving());
        claim || (self.claim.is_some() && self.node.is_some_and(|node| node.metadata.is_leaving()))
    }

    /// The metadata that describes the machine best.
    pub(crate) fn meta(&self) -> Option<&'a Meta> {
        let node = self.node.filter(|_| self.is_registered()).map(|node| &node.metadata);
        node.or(self.claim.map(|claim| &claim.metadata)).or(self.node.map(|node| &node.metadata))
    }

    /// Everything the machine has, which counts against limits.
    pub(crate) fn capacity(&self) -> Arc<Resources> {
        self.resources(|node| &node.capacity, |claim| &claim.capacity)
    }

    /// A node reports nothing, or zero, of what its devices have not announced yet; its claim knows better.
    fn resources(
        &self,
        of_node: impl Fn(&NodeStatus) -> &Arc<Resources>,
        of_claim: impl Fn(&ClaimStatus) -> &Arc<Resources>,
    ) -> Arc<Resources> {
        let claim = self.claim.map(|claim| of_claim(&claim.status));
        let Some(node) = self.node.map(|node| of_node(&node.status)) else {
            return claim.cloned().unwrap_or_default();
        };
        let mut all = node.clone();
        if let Some(claim) = claim.filter(|_| !self.is_initialized()) {
            for (name, amount) in claim.iter().filter(|(name, _)| node.get(name).is_zero()) {
                Arc::make_mut(&mut all).set(name, amount);
            }
        }
        all
    }

    fn taints(&self) -> Result<Vec<Taint>, Fault> {
        let own = match (self.node, self.claim) {
            (Some(node), _) if self.is_registered() => taints(&node.spec.taints, "spec.taints")?,
            (_, Some(claim)) => claim.spec.taints().map_err(|fault| fault.within("spec"))?,
            (Some(node), None) => taints(&node.spec.taints, "spec.taints")?,
            (None, None) => Vec::new(),
        };
        let Some(claim) = self.claim.filter(|_| !self.is_initialized()) else { return Ok(own) };
        let startup = claim.spec.startup_taints().map_err(|fault| fault.within("spec"))?;
        let stays =
            |taint: &Taint| !taint.is_ephemeral() && !startup.iter().any(|other| other.same_mark(taint));
        Ok(own.into_iter().filter(stays).collect())
    }

    /// The node for the solver, without its pods.
    pub(crate) fn node(&self, types: &Arc<Types>, drivers: Option<&CsiNode>) -> Result<Node, Fault> {
        let meta = self.meta().cloned().unwrap_or_default();
        let mut labels = meta.labels;
        let mut launching = None;
        if let Some(claim) = self.claim.filter(|_| self.node.is_none()) {
            let requirements = claim.spec.requirements().map_err(|fault| fault.within("spec"))?;
            for requirement in requirements.iter() {
                if let Some(value) = requirement.single() {
                    Arc::make_mut(&mut labels)
                        .entry(requirement.key().into())
                        .or_insert_with(|| value.into());
                }
            }
            launching = Some(Box::new(Launching { requirements, types: types.clone() }));
        }
        let mut volume_limits = volume_limits(types, &labels, launching.as_deref());
        for driver in drivers.iter().flat_map(|drivers| &drivers.spec.drivers) {
            match driver.allocatable.count {
                Some(count) => drop(volume_limits.insert(driver.name.as_str().into(), count)),
                None => drop(volume_limits.remove(driver.name.as_str())),
            }
        }
        Ok(Node {
            name: meta.name.as_str().into(),
            labels,
            taints: self.taints()?,
            allocatable: self.resources(|node| &node.allocatable, |claim| &claim.allocatable),
            launching,
            initialized: self.is_initialized(),
            volume_limits,
            ..Node::default()
        })
    }
}

/// The least that any type which the node may be of can attach, for each driver.
fn volume_limits(types: &Types, labels: &Labels, launching: Option<&Launching>) -> BTreeMap<Arc<str>, u32> {
    if let Some(name) = labels.get(INSTANCE_TYPE) {
        return types.named(name).map(|known| known.volume_limits.clone()).unwrap_or_default();
    }
    let Some(launching) = launching else { return BTreeMap::new() };
    let may_be = |known: &&Arc<InstanceType>| launching.requirements.allow(INSTANCE_TYPE, &known.name);
    let mut limits: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for (driver, limit) in types.iter().filter(may_be).flat_map(|known| &known.volume_limits) {
        limits.entry(driver.clone()).and_modify(|least| *least = (*least).min(*limit)).or_insert(*limit);
    }
    limits
}
