//! What every object has.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_core::snapshot::Labels;
use serde::Deserialize;

use crate::action::ObjectRef;
use crate::kind::Kind;
use crate::time::Wall;

/// The part of an object's metadata that lifecycles look at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: Arc<str>,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    resource_version: String,
    pub(crate) generation: Option<i64>,
    creation_timestamp: Option<jiff::Timestamp>,
    deletion_timestamp: Option<jiff::Timestamp>,
    pub(crate) labels: Arc<Labels>,
    pub(crate) annotations: Arc<Labels>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) owner_references: Vec<Owner>,
}

/// Who an object belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) block_owner_deletion: Option<bool>,
}

impl Meta {
    /// The version as it is written back to make a change conditional.
    pub(crate) fn version(&self) -> &str {
        &self.resource_version
    }

    /// Versions grow with every change; one that is no number counts as older than any other.
    pub(crate) fn age(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    pub(crate) fn created(&self) -> Wall {
        self.creation_timestamp.unwrap_or_default().into()
    }

    pub(crate) fn deleted(&self) -> Option<Wall> {
        self.deletion_timestamp.map(Wall::from)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    pub(crate) fn without_finalizer(&self, finalizer: &str) -> Vec<&String> {
        self.finalizers.iter().filter(|own| *own != finalizer).collect()
    }

    pub(crate) fn label(&self, key: &str) -> &str {
        self.labels.get(key).map(|value| &**value).unwrap_or_default()
    }

    pub(crate) fn object(&self, kind: Kind) -> ObjectRef {
        let (namespace, name, uid) = (self.namespace.clone(), self.name.to_string(), self.uid.clone());
        ObjectRef { kind, namespace, name, uid }
    }

    /// The annotations whose keys are of one of these domains; nobody asks for the others.
    pub(crate) fn annotations_of(&self, domains: &[&str]) -> Labels {
        let is_wanted = |key: &str| domains.iter().any(|domain| key.contains(domain));
        let wanted = self.annotations.iter().filter(|(key, _)| is_wanted(key));
        wanted.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// Labels or annotations as the cloud is told them.
pub(crate) fn texts(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
