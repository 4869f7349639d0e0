//! What makes pods, as how many it wants.

use serde::Deserialize;
use serde_json::Value;

use crate::kind::Kind;

/// A ReplicaSet, StatefulSet or Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// How many pods it makes as fast as it can.
    pub(crate) wants: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<i64>,
    pod_management_policy: String,
    parallelism: Option<i64>,
    completions: Option<i64>,
    suspend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    succeeded: i64,
}

impl Owner {
    pub(crate) fn read(kind: Kind, value: &Value) -> Self {
        let Raw { spec, status } = Raw::deserialize(value).unwrap_or_default();
        let wants = match kind {
            // One pod follows the other, so that there is nothing to wait for.
            Kind::StatefulSet if spec.pod_management_policy != "Parallel" => 0,
            Kind::Job if spec.suspend => 0,
            Kind::Job => {
                let parallel = spec.parallelism.unwrap_or(1);
                spec.completions.map_or(parallel, |all| parallel.min(all - status.succeeded))
            }
            _ => spec.replicas.unwrap_or(1),
        };
        Self { wants: usize::try_from(wants).unwrap_or(0) }
    }
}

/// The uid of an object.
pub(crate) fn uid(value: &Value) -> &str {
    text(value, "metadata", "uid")
}

/// A text in one of the parts of an object, empty if it is not there.
pub(crate) fn text<'a>(value: &'a Value, part: &str, field: &str) -> &'a str {
    value.get(part).and_then(|part| part.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Name and namespace of an object.
pub(crate) fn names(value: &Value) -> (String, String) {
    let text = |field| text(value, "metadata", field).to_owned();
    (text("namespace"), text("name"))
}
