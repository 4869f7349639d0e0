//! What namespaces may ask for.

use headstart_core::demand::Quota;
use headstart_core::quantity::Quantity;
use headstart_core::resources::{PODS, Resources};
use serde::Deserialize;

use crate::decode::nullable;
use crate::meta::Meta;

/// A quota on what the pods of a namespace ask for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceQuota {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    spec: Spec,
    #[serde(deserialize_with = "nullable")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "nullable")]
    hard: Resources,
    #[serde(deserialize_with = "nullable")]
    scopes: Vec<String>,
    scope_selector: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    used: Resources,
}

impl ResourceQuota {
    /// What is left of it; none for one that does not count pods of the usual kind, which ask for something and do not end
    /// at a set time.
    pub(crate) fn quota(&self) -> Option<Quota> {
        let Spec { hard, scopes, scope_selector } = &self.spec;
        let usual = |scope: &String| ["NotTerminating", "NotBestEffort"].contains(&scope.as_str());
        if scope_selector.is_some() || !scopes.iter().all(usual) {
            return None;
        }
        let mut left = Resources::new();
        for (name, most) in hard.iter() {
            let Some(own) = as_pods_say(name) else { continue };
            let rest = most.checked_sub(self.status.used.get(name)).unwrap_or_default();
            let rest = left.listed(own).map_or(rest, |known: Quantity| known.min(rest));
            left.set(own, rest.at_least_zero());
        }
        let namespace = self.metadata.namespace().into();
        Some(Quota { namespace, name: self.metadata.name.as_str().into(), left })
    }
}

/// A resource by the name under which pods ask for it; none for what is no request of a pod.
fn as_pods_say(name: &str) -> Option<&str> {
    match name {
        "count/pods" => Some(PODS),
        "requests.storage" => None,
        "cpu" | "memory" | "ephemeral-storage" | "pods" => Some(name),
        _ => name.strip_prefix("requests."),
    }
}
