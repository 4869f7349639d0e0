//! What containers ask for if they do not say, by namespace.

use std::collections::BTreeMap;

use headstart_core::resources::Resources;
use serde::Deserialize;

use crate::decode::nullable;
use crate::meta::Meta;

/// Default requests by namespace and the object that sets them.
pub(crate) type DefaultRequests = BTreeMap<String, BTreeMap<String, Resources>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LimitRange {
    pub(crate) metadata: Meta,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "nullable")]
    limits: Vec<Limit>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Limit {
    #[serde(rename = "type")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    default: Resources,
    #[serde(deserialize_with = "nullable")]
    default_request: Resources,
    #[serde(deserialize_with = "nullable")]
    max: Resources,
    #[serde(deserialize_with = "nullable")]
    min: Resources,
}

impl LimitRange {
    /// What a container asks for if it does not say; the API server derives what is not written from what is.
    pub(crate) fn default_requests(&self) -> Resources {
        let mut all = Resources::new();
        for limit in self.spec.limits.iter().filter(|limit| limit.kind == "Container") {
            for next in [&limit.min, &limit.max, &limit.default, &limit.default_request] {
                all.merge(next);
            }
        }
        all
    }
}
