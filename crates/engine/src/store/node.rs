//! Nodes as lifecycles see them.

use std::sync::Arc;

use headstart_api::annotations::TERMINATION_FINALIZER;
use headstart_api::labels;
use headstart_core::cloud::ProviderId;
use headstart_core::labels::NODE_POOL;
use headstart_core::repair::{Rules, Symptom};
use headstart_core::resources::Resources;
use headstart_intake::{KeptNode, TaintSpec, World};
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use serde_json::Value;

use crate::store::meta::Meta;
use crate::time::Wall;

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) metadata: Meta,
    provider_id: Arc<str>,
    taints: Vec<Taint>,
    capacity: Arc<Resources>,
    allocatable: Arc<Resources>,
    is_ready: bool,
    /// What changes with every start of the machine.
    boot: Box<str>,
    /// Conditions that may mean trouble.
    symptoms: Box<[Condition]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Arc<str>,
    taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    capacity: Resources,
    allocatable: Resources,
    conditions: Vec<Condition>,
    #[serde(rename = "nodeInfo")]
    info: Info,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info {
    #[serde(rename = "bootID")]
    boot: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: Box<str>,
    status: Box<str>,
    reason: Box<str>,
    last_transition_time: Option<jiff::Timestamp>,
}

impl Node {
    /// Reads a node; what others have as well is kept once, and what nobody asks for not at all.
    pub(crate) fn read(value: &Value, world: &mut World, rules: &Rules) -> Result<Self, serde_json::Error> {
        let Raw { mut metadata, spec, status } = Raw::deserialize(value)?;
        metadata.labels = world.share_texts(&metadata.labels);
        metadata.annotations = world.share_labels(&metadata.annotations_of(&["karpenter.sh/"]));
        let is_ready = |condition: &Condition| &*condition.r#type == "Ready" && &*condition.status == "True";
        let is_trouble = |condition: &Condition| rules.is_trouble(&condition.symptom());
        let mut node = Self {
            metadata,
            provider_id: spec.provider_id,
            taints: spec.taints,
            capacity: world.share_amounts(status.capacity),
            allocatable: world.share_amounts(status.allocatable),
            is_ready: status.conditions.iter().any(is_ready),
            boot: status.info.boot,
            symptoms: status.conditions.into_iter().filter(is_trouble).collect(),
        };
        if node.has_mark(labels::REGISTERED) {
            // They are only asked for by whoever adds one more.
            node.metadata.owner_references = Vec::new();
        }
        Ok(node)
    }

    /// What decides placement.
    pub(crate) fn kept(&self) -> KeptNode {
        KeptNode {
            name: self.metadata.name.clone(),
            provider_id: self.provider_id.clone(),
            labels: self.metadata.labels.clone(),
            taints: self.taints.iter().map(taint).collect(),
            capacity: self.capacity.clone(),
            allocatable: self.allocatable.clone(),
            is_leaving: self.is_leaving(),
        }
    }

    /// What the cloud calls it, empty if nobody has told.
    pub(super) fn machine(&self) -> &Arc<str> {
        &self.provider_id
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn pool(&self) -> &str {
        self.metadata.label(NODE_POOL)
    }

    pub(crate) fn zone(&self) -> &str {
        self.metadata.label(headstart_core::labels::ZONE)
    }

    pub(crate) fn provider_id(&self) -> Option<ProviderId> {
        (!self.provider_id.is_empty()).then(|| ProviderId(self.provider_id.to_string()))
    }

    pub(crate) fn taints(&self) -> &[Taint] {
        &self.taints
    }

    pub(crate) fn capacity(&self) -> &Arc<Resources> {
        &self.capacity
    }

    pub(crate) fn allocatable(&self) -> &Resources {
        &self.allocatable
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// What changes with every start of the machine.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// Conditions that mean trouble, however short.
    pub(crate) fn symptoms(&self) -> impl Iterator<Item = Symptom<'_>> {
        self.symptoms.iter().map(Condition::symptom)
    }

    pub(crate) fn has_mark(&self, label: &str) -> bool {
        self.metadata.label(label) == "true"
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.has_mark(labels::INITIALIZED)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.metadata.is_leaving()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.metadata.has_finalizer(TERMINATION_FINALIZER)
    }

    /// Whether a taint of this key and effect is on the node.
    pub(crate) fn has_taint(&self, key: &str, effect: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key && taint.effect == effect)
    }
}

impl Condition {
    fn symptom(&self) -> Symptom<'_> {
        let since = self.last_transition_time.map_or(i64::MIN, |time| Wall::from(time).0);
        Symptom { condition: &self.r#type, status: &self.status, reason: &self.reason, since }
    }
}

/// A taint as those who place pods read it.
pub(super) fn taint(taint: &Taint) -> TaintSpec {
    TaintSpec {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone(),
    }
}
