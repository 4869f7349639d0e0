//! Nodes as lifecycles see them.

use std::collections::BTreeMap;

use headstart_api::annotations::TERMINATION_FINALIZER;
use headstart_api::labels;
use headstart_core::cloud::ProviderId;
use headstart_core::labels::NODE_POOL;
use headstart_core::resources::Resources;
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;

use crate::store::meta::Meta;

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: String,
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    capacity: Resources,
    allocatable: Resources,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

impl Node {
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
        Some(self.spec.provider_id.clone()).filter(|id| !id.is_empty()).map(ProviderId)
    }

    pub(crate) fn taints(&self) -> &[Taint] {
        &self.spec.taints
    }

    pub(crate) fn capacity(&self) -> &Resources {
        &self.status.capacity
    }

    pub(crate) fn allocatable(&self) -> &Resources {
        &self.status.allocatable
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.r#type == "Ready" && condition.status == "True")
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
        self.spec.taints.iter().any(|taint| taint.key == key && taint.effect == effect)
    }

    /// Drops what nobody asks for; heartbeats and images are not decoded at all.
    pub(crate) fn slim(&mut self) {
        self.status.conditions.retain(|condition| condition.r#type == "Ready");
        let ours =
            |key: &String, _: &mut String| key.contains("karpenter.sh/") || key.contains("headstart.dev/");
        BTreeMap::retain(&mut self.metadata.annotations, ours);
    }
}
