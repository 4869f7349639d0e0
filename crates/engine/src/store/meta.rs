//! What every object has.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::action::ObjectRef;
use crate::kind::Kind;
use crate::time::Wall;

/// The part of an object's metadata that lifecycles look at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    resource_version: String,
    pub(crate) generation: Option<i64>,
    creation_timestamp: Option<jiff::Timestamp>,
    deletion_timestamp: Option<jiff::Timestamp>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
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
        self.labels.get(key).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn object(&self, kind: Kind) -> ObjectRef {
        let (namespace, name, uid) = (self.namespace.clone(), self.name.clone(), self.uid.clone());
        ObjectRef { kind, namespace, name, uid }
    }
}
