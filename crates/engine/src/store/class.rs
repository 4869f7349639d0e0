//! Node classes, of which only their readiness matters here.

use serde::Deserialize;

use crate::store::meta::Meta;

/// A node class of any cloud.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Class {
    pub(crate) metadata: Meta,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    r#type: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Class {
    /// What the class says about its readiness; one that says nothing has none to wait for.
    pub(crate) fn readiness(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.r#type == "Ready")
    }
}
