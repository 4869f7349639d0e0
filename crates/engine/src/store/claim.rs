//! Claims as lifecycles see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_api::Requirement;
use headstart_api::annotations::TERMINATION_FINALIZER;
use headstart_api::conditions::{self, ConditionSet, nodeclaim as condition};
use headstart_api::labels;
use headstart_api::nodeclaim::{NodeClaimSpec, NodeClaimStatus, ResourceRequirements};
use headstart_core::cloud::{ClassRef, ProviderId};
use headstart_core::labels::NODE_POOL;
use headstart_core::resources::Resources;
use headstart_core::snapshot::Labels;
use headstart_intake::{Expression, KeptClaim, KeptNode, World};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Deserialize;
use serde_json::Value;

use crate::store::meta::Meta;
use crate::store::node;
use crate::time::Wall;

/// A claim for a node.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) metadata: Meta,
    pub(crate) spec: Arc<NodeClaimSpec>,
    pub(crate) status: Status,
    /// Asked for, but not yet seen: nothing is done to it.
    pub(crate) is_assumed: bool,
}

/// What a claim says about itself; what others say as well is kept once.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) provider_id: Option<Arc<str>>,
    pub(crate) capacity: Option<Amounts>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) node_name: Option<Arc<str>>,
    image_id: Option<Arc<str>>,
    allocatable: Option<Amounts>,
    /// When pods last came or went.
    pub(crate) last_pod_event_time: Option<Time>,
}

/// Amounts of resources, as they are written and as they are read.
#[derive(Clone, Debug)]
pub(crate) struct Amounts {
    written: Arc<Labels>,
    pub(crate) read: Arc<Resources>,
}

#[derive(Deserialize)]
struct Raw {
    metadata: Meta,
    spec: NodeClaimSpec,
    #[serde(default)]
    status: NodeClaimStatus,
}

impl Amounts {
    fn new(amounts: &BTreeMap<String, Quantity>, world: &mut World) -> Self {
        let written = amounts.iter().map(|(name, amount)| (name.as_str().into(), amount.0.as_str().into()));
        let read = amounts.iter().filter_map(|(name, amount)| Some((name.as_str(), amount.0.parse().ok()?)));
        Self { written: world.share_labels(&written.collect()), read: world.share_amounts(read.collect()) }
    }

    fn written(&self) -> BTreeMap<String, Quantity> {
        self.written.iter().map(|(name, amount)| (name.to_string(), Quantity(amount.to_string()))).collect()
    }
}

impl Status {
    fn new(status: NodeClaimStatus, world: &mut World) -> Self {
        Self {
            provider_id: status.provider_id.map(Arc::from),
            capacity: status.capacity.map(|amounts| Amounts::new(&amounts, world)),
            conditions: status.conditions,
            node_name: status.node_name.map(Arc::from),
            image_id: status.image_id.map(Arc::from),
            allocatable: status.allocatable.map(|amounts| Amounts::new(&amounts, world)),
            last_pod_event_time: status.last_pod_event_time,
        }
    }

    /// What the machine runs, empty if that is not known.
    pub(crate) fn image_id(&self) -> &str {
        self.image_id.as_deref().unwrap_or_default()
    }

    /// The status as it is written.
    pub(crate) fn written(&self) -> NodeClaimStatus {
        let text = |text: &Option<Arc<str>>| text.as_ref().map(ToString::to_string);
        NodeClaimStatus {
            node_name: text(&self.node_name),
            provider_id: text(&self.provider_id),
            image_id: text(&self.image_id),
            capacity: self.capacity.as_ref().map(Amounts::written),
            allocatable: self.allocatable.as_ref().map(Amounts::written),
            conditions: self.conditions.clone(),
            last_pod_event_time: self.last_pod_event_time.clone(),
        }
    }
}

impl Claim {
    /// Reads a claim; what others have as well is kept once.
    pub(crate) fn read(value: &Value, world: &mut World) -> Result<Self, serde_json::Error> {
        let Raw { mut metadata, mut spec, status } = Raw::deserialize(value)?;
        let says = |kind| conditions::is_true(&status.conditions, kind);
        if says(condition::LAUNCHED) {
            // Hundreds of instance types; labels say what it has become.
            spec.requirements = Vec::new();
        }
        if says(condition::INITIALIZED) {
            // The node has what was asked for.
            spec.resources = ResourceRequirements::default();
            let own = metadata.annotations_of(&["karpenter.sh/", "headstart.dev/"]);
            metadata.annotations = world.share_texts(&own);
        }
        metadata.labels = world.share_labels(&metadata.labels);
        metadata.owner_references = Vec::new();
        let mut status = Status::new(status, world);
        status.conditions.shrink_to_fit();
        Ok(Self { metadata, spec: Arc::new(spec), status, is_assumed: false })
    }

    /// What decides placement.
    pub(crate) fn kept(&self) -> KeptClaim {
        let amounts = |amounts: &Option<Amounts>| amounts.as_ref().map(|amounts| amounts.read.clone());
        let taints = |taints: &Option<Vec<Taint>>| taints.iter().flatten().map(node::taint).collect();
        // Labels say what it has become.
        let asked = self.spec.requirements.iter().filter(|_| self.machine().is_none());
        KeptClaim {
            of_node: KeptNode {
                name: self.metadata.name.clone(),
                provider_id: self.machine().cloned().unwrap_or_default(),
                labels: self.metadata.labels.clone(),
                taints: taints(&self.spec.taints),
                capacity: amounts(&self.status.capacity).unwrap_or_default(),
                allocatable: amounts(&self.status.allocatable).unwrap_or_default(),
                is_leaving: self.is_leaving(),
            },
            startup_taints: taints(&self.spec.startup_taints),
            is_rebooting: self.is(condition::REBOOTING),
            requirements: asked.map(expression).collect(),
        }
    }

    /// What the cloud calls its machine.
    pub(super) fn machine(&self) -> Option<&Arc<str>> {
        self.status.provider_id.as_ref().filter(|id| !id.is_empty())
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn pool(&self) -> &str {
        self.metadata.label(NODE_POOL)
    }

    pub(crate) fn capacity_type(&self) -> &str {
        self.metadata.label(labels::CAPACITY_TYPE)
    }

    pub(crate) fn provider_id(&self) -> Option<ProviderId> {
        self.machine().map(|id| ProviderId(id.to_string()))
    }

    pub(crate) fn class(&self) -> ClassRef {
        let class = &self.spec.node_class_ref;
        ClassRef { group: class.group.clone(), kind: class.kind.clone(), name: class.name.clone() }
    }

    /// What is said about it, to be changed.
    pub(crate) fn conditions_in<'a>(&self, said: &'a mut Vec<Condition>, now: Wall) -> ConditionSet<'a> {
        ConditionSet {
            conditions: said,
            ready_when: condition::READY_WHEN,
            generation: self.metadata.generation,
            created: Time(self.metadata.created().stamp()),
            now: Time(now.stamp()),
        }
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        conditions::find(&self.status.conditions, kind)
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        conditions::is_true(&self.status.conditions, kind)
    }

    pub(crate) fn is_launched(&self) -> bool {
        self.is(condition::LAUNCHED)
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.is(condition::REGISTERED)
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.is(condition::INITIALIZED)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.metadata.is_leaving()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.metadata.has_finalizer(TERMINATION_FINALIZER)
    }

    /// Since when a condition says what it says.
    pub(crate) fn since(&self, kind: &str) -> Wall {
        self.condition(kind).map_or_else(|| self.metadata.created(), |c| c.last_transition_time.0.into())
    }
}

fn expression(asked: &Requirement) -> Expression {
    Expression {
        key: asked.key.clone(),
        operator: asked.operator.as_str().to_owned(),
        values: asked.values.clone(),
        min_values: asked.min_values,
    }
}
