//! What every object has.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_core::snapshot::Labels;
use serde::Deserialize;

use crate::decode::{nullable, shared};

/// The namespace of objects that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// The part of an object's metadata that matters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    #[serde(deserialize_with = "nullable")]
    pub(crate) name: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) namespace: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) uid: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) resource_version: String,
    #[serde(deserialize_with = "shared")]
    pub(crate) labels: Arc<Labels>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) creation_timestamp: Option<jiff::Timestamp>,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) deletion_grace_period_seconds: Option<u32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) owner_references: Vec<Owner>,
}

/// Who made an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) controller: Option<bool>,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: Arc<str>,
}

impl Meta {
    /// `namespace/name`, with the default namespace where none is given.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace(), self.name)
    }

    pub(crate) fn namespace(&self) -> &str {
        if self.namespace.is_empty() { DEFAULT_NAMESPACE } else { &self.namespace }
    }

    /// Namespace and name.
    pub(crate) fn names(&self) -> (&str, &str) {
        (self.namespace(), &self.name)
    }

    pub(crate) fn is_owned_by(&self, kind: &str, name: &str) -> bool {
        self.owner_references.iter().any(|owner| owner.kind == kind && owner.name == name)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }
}
