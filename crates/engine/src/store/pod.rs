//! Pods as lifecycles see them; what they need is kept elsewhere.

use std::sync::Arc;

use headstart_api::annotations::DO_NOT_DISRUPT;
use headstart_api::{GoDuration, taints};
use serde::Deserialize;

use crate::action::ObjectRef;
use crate::kind::Kind;
use crate::store::meta::Meta;
use crate::time::Wall;

/// Namespace and name.
pub(crate) type PodKey = (Arc<str>, Arc<str>);

/// A pod.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts that do not exclude each other")]
pub(crate) struct Pod {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) age: u64,
    pub(crate) created: Wall,
    pub(crate) node: Option<Arc<str>>,
    /// The uid of what made it.
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) nominated: Option<Arc<str>>,
    pub(crate) deleted: Option<Wall>,
    /// Seconds that it was given to end when it was last asked to.
    pub(crate) granted: Option<u32>,
    pub(crate) started: Option<Wall>,
    pub(crate) priority: i32,
    /// Seconds it has to end.
    pub(crate) grace: Option<u32>,
    pub(crate) is_over: bool,
    pub(crate) is_gated: bool,
    /// Whether it belongs to its node and goes with it.
    pub(crate) is_daemon: bool,
    pub(crate) is_mirror: bool,
    /// Whether kube-scheduler has said that it fits nowhere.
    pub(crate) is_unschedulable: bool,
    /// Whether the default scheduler looks after it.
    pub(crate) is_ours: bool,
    pub(crate) is_critical: bool,
    pub(crate) tolerates_disruption: bool,
    pub(crate) protection: Protection,
    /// Persistent volume claims that it uses.
    pub(crate) volumes: Box<[Box<str>]>,
}

/// Whether a pod asks not to be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    Forever,
    /// For so long after it started.
    For(GoDuration),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
    scheduler_name: String,
    priority: Option<i32>,
    priority_class_name: String,
    termination_grace_period_seconds: Option<u32>,
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    tolerations: Vec<Toleration>,
    volumes: Vec<Volume>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    start_time: Option<jiff::Timestamp>,
    nominated_node_name: String,
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
}

fn some(text: String) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

impl Toleration {
    fn tolerates_disruption(&self) -> bool {
        let any_key = self.key.is_empty() && self.operator == "Exists";
        let value = self.operator == "Exists" || self.value.is_empty();
        (any_key || self.key == taints::DISRUPTED)
            && value
            && (self.effect.is_empty() || self.effect == taints::NO_SCHEDULE)
    }
}

impl Pod {
    pub(crate) fn read(value: &serde_json::Value) -> Result<Self, serde_json::Error> {
        let Raw { metadata, spec, status } = Raw::deserialize(value)?;
        let owned_by = |kind| metadata.owner_references.iter().any(|owner| owner.kind == kind);
        let protection = match metadata.annotations.get(DO_NOT_DISRUPT).map(String::as_str) {
            None => Protection::None,
            Some("true") => Protection::Forever,
            Some(text) => text.parse().map_or(Protection::None, Protection::For),
        };
        let verdict = |condition: &Condition| {
            condition.r#type == "PodScheduled"
                && condition.status == "False"
                && condition.reason == "Unschedulable"
        };
        let name = &metadata.name;
        let volumes = spec.volumes.into_iter().filter_map(|volume| match volume.persistent_volume_claim {
            Some(claim) => Some(claim.claim_name.into()),
            None => volume.ephemeral.map(|_| format!("{name}-{}", volume.name).into()),
        });
        Ok(Self {
            volumes: volumes.collect(),
            age: metadata.age(),
            created: metadata.created(),
            deleted: metadata.deleted(),
            granted: metadata.deletion_grace_period_seconds,
            owner: metadata.controller().map(|owner| owner.uid.as_str().into()),
            is_daemon: owned_by("DaemonSet"),
            is_mirror: owned_by("Node"),
            node: some(spec.node_name),
            nominated: some(status.nominated_node_name),
            started: status.start_time.map(Wall::from),
            priority: spec.priority.unwrap_or(0),
            grace: spec.termination_grace_period_seconds,
            is_over: ["Succeeded", "Failed"].contains(&status.phase.as_str()),
            is_gated: !spec.scheduling_gates.is_empty(),
            is_unschedulable: status.conditions.iter().any(verdict),
            is_ours: ["", "default-scheduler"].contains(&spec.scheduler_name.as_str()),
            is_critical: ["system-cluster-critical", "system-node-critical"]
                .contains(&spec.priority_class_name.as_str()),
            tolerates_disruption: spec.tolerations.iter().any(Toleration::tolerates_disruption),
            protection,
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
        })
    }

    pub(crate) fn key(&self) -> PodKey {
        (self.namespace.clone(), self.name.clone())
    }

    pub(crate) fn object(&self) -> ObjectRef {
        ObjectRef {
            kind: Kind::Pod,
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            uid: self.uid.to_string(),
        }
    }

    /// Whether it is alive and has no node.
    pub(crate) fn is_waiting(&self) -> bool {
        self.node.is_none() && !self.is_over && self.deleted.is_none()
    }

    /// Whether it asks not to be disturbed now.
    pub(crate) fn is_protected(&self, now: Wall) -> bool {
        match self.protection {
            Protection::None => false,
            Protection::Forever => true,
            Protection::For(duration) => {
                let since = self.started.unwrap_or(self.created);
                now.0 < since.0.saturating_add(duration.as_nanos() / 1_000_000)
            }
        }
    }
}
