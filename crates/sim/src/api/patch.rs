//! JSON merge patches (RFC 7396), and which half of an object they reach.

use headstart_engine::Part;
use serde_json::{Map, Value};

/// The object after a patch of one half.
pub(super) fn apply(old: &Value, part: Part, patch: &Value, status_apart: bool) -> Value {
    let mut patch = patch.clone();
    if let Some(fields) = patch.as_object_mut() {
        match part {
            Part::Main if status_apart => drop(fields.remove("status")),
            Part::Main => {}
            Part::Status => fields.retain(|name, _| name == "status"),
        }
        if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            for fixed in [
                "resourceVersion",
                "uid",
                "creationTimestamp",
                "generation",
                "name",
                "namespace",
                "deletionTimestamp",
            ] {
                meta.remove(fixed);
            }
        }
    }
    let mut new = old.clone();
    merge(&mut new, &patch);
    new
}

/// Merges a patch into a value.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }
}
