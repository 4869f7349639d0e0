//! Nodes, and claims for nodes that are on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_core::catalog::InstanceType;
use headstart_core::labels::{INITIALIZED, INSTANCE_TYPE, REGISTERED};
use headstart_core::resources::Resources;
use headstart_core::snapshot::{Labels, Launching, Node, Taint};
use serde::Deserialize;

use crate::decode::{Expression, Fault, nullable, requirements, shared};
use crate::meta::Meta;
use crate::pod::TaintSpec;
use crate::pool::{TemplateSpec, taints};
use crate::pooled::Pooled;
use headstart_core::types::Types;

/// What is kept of a node; shared with whoever looks after nodes.
#[derive(Clone, Debug, Default)]
pub struct KeptNode {
    /// Its name.
    pub name: Arc<str>,
    /// What the cloud calls it, empty if nobody has told.
    pub provider_id: Arc<str>,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its taints.
    pub taints: Box<[TaintSpec]>,
    /// What it has.
    pub capacity: Arc<Resources>,
    /// What it has for pods.
    pub allocatable: Arc<Resources>,
    /// Whether it is going away.
    pub is_leaving: bool,
}

/// What is kept of a claim for a node.
#[derive(Debug, Default)]
pub struct KeptClaim {
    /// What it says about its node; the name is its own.
    pub of_node: KeptNode,
    /// Taints that its node starts with.
    pub startup_taints: Box<[TaintSpec]>,
    /// Whether the machine is being restarted where it is.
    pub is_rebooting: bool,
    /// What it asks for, as long as it matters.
    pub requirements: Box<[Expression]>,
}

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KubeNode {
    metadata: Meta,
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
    pub(crate) fn kept(self, pooled: &mut Pooled) -> KeptNode {
        let Self { metadata, spec, status } = self;
        KeptNode {
            is_leaving: metadata.is_leaving(),
            labels: Arc::new(pooled.labels(&metadata.labels)),
            name: metadata.name.into(),
            provider_id: spec.provider_id.into(),
            taints: spec.taints.into(),
            capacity: pooled.resources(&status.capacity),
            allocatable: pooled.resources(&status.allocatable),
        }
    }
}

/// A claim for a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeClaim {
    metadata: Meta,
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
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Said>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    r#type: String,
    status: String,
}

impl NodeClaim {
    pub(crate) fn kept(self, pooled: &mut Pooled) -> KeptClaim {
        let Self { metadata, spec, status } = self;
        KeptClaim {
            of_node: KeptNode {
                is_leaving: metadata.is_leaving(),
                labels: Arc::new(pooled.labels(&metadata.labels)),
                name: metadata.name.into(),
                provider_id: status.provider_id.into(),
                taints: spec.taints.into(),
                capacity: pooled.resources(&status.capacity),
                allocatable: pooled.resources(&status.allocatable),
            },
            startup_taints: spec.startup_taints.into(),
            is_rebooting: status
                .conditions
                .iter()
                .any(|said| said.r#type == "Rebooting" && said.status == "True"),
            requirements: spec.requirements.into(),
        }
    }
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
    pub(crate) node: Option<&'a KeptNode>,
    pub(crate) claim: Option<&'a KeptClaim>,
}

/// Pairs nodes with their claims by provider id.
pub(crate) fn machines<'a>(nodes: &'a [KeptNode], claims: &'a [KeptClaim]) -> Vec<Machine<'a>> {
    let by_id: BTreeMap<&str, &KeptClaim> = claims
        .iter()
        .filter(|claim| !claim.of_node.provider_id.is_empty())
        .map(|claim| (&*claim.of_node.provider_id, claim))
        .collect();
    let ids: BTreeSet<&str> = nodes.iter().map(|node| &*node.provider_id).collect();
    let with_node =
        nodes.iter().map(|node| Machine { node: Some(node), claim: by_id.get(&*node.provider_id).copied() });
    let alone = claims.iter().filter(|claim| {
        let id = &*claim.of_node.provider_id;
        id.is_empty() || !ids.contains(id)
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
        let marked = |node: &KeptNode| node.labels.get(mark).is_some_and(|value| &**value == "true");
        self.claim.is_none() || self.node.is_some_and(marked)
    }

    /// Whether the machine is going away.
    pub(crate) fn is_leaving(&self) -> bool {
        let claim = self.claim.is_some_and(|claim| claim.of_node.is_leaving);
        claim || (self.claim.is_some() && self.node.is_some_and(|node| node.is_leaving))
    }

    /// Who describes the machine best.
    pub(crate) fn described(&self) -> Option<&'a KeptNode> {
        let node = self.node.filter(|_| self.is_registered());
        node.or(self.claim.map(|claim| &claim.of_node)).or(self.node)
    }

    /// Everything the machine has, which counts against limits.
    pub(crate) fn capacity(&self) -> Arc<Resources> {
        self.resources(|node| &node.capacity)
    }

    /// A node reports nothing, or zero, of what its devices have not announced yet; its claim knows better.
    fn resources(&self, of: impl Fn(&KeptNode) -> &Arc<Resources>) -> Arc<Resources> {
        let claim = self.claim.map(|claim| of(&claim.of_node));
        let Some(node) = self.node.map(&of) else {
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
            (Some(node), None) => taints(&node.taints, "spec.taints")?,
            (Some(node), _) if self.is_registered() => taints(&node.taints, "spec.taints")?,
            (_, Some(claim)) => taints(&claim.of_node.taints, "spec.taints")?,
            (None, None) => Vec::new(),
        };
        let is_starting = |claim: &&KeptClaim| claim.is_rebooting || !self.is_initialized();
        let Some(claim) = self.claim.filter(is_starting) else { return Ok(own) };
        let startup = taints(&claim.startup_taints, "spec.startupTaints")?;
        let stays =
            |taint: &Taint| !taint.is_ephemeral() && !startup.iter().any(|other| other.same_mark(taint));
        Ok(own.into_iter().filter(stays).collect())
    }

    /// The node for the solver, without its pods.
    pub(crate) fn node(&self, types: &Arc<Types>, drivers: Option<&CsiNode>) -> Result<Node, Fault> {
        let described = self.described();
        let mut labels = described.map(|node| node.labels.clone()).unwrap_or_default();
        let mut launching = None;
        if let Some(claim) = self.claim.filter(|_| self.node.is_none()) {
            let requirements = requirements(&claim.requirements, "spec.requirements")?;
            for requirement in requirements.iter().filter(|one| !claim.of_node.labels.contains_key(one.key()))
            {
                if let Some(value) = requirement.single() {
                    Arc::make_mut(&mut labels).insert(requirement.key().into(), value.into());
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
            name: described.map(|node| node.name.clone()).unwrap_or_default(),
            labels,
            taints: self.taints()?,
            allocatable: self.resources(|node| &node.allocatable),
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
