//! Short ways to the fields of objects.

use serde_json::Value;

/// A field by its path, as in `/metadata/name`.
///
/// PERF: unlike a JSON pointer it knows no escapes and no places in lists, which makes it several times as fast.
pub fn field<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(object, |object, name| object.as_object()?.get(name))
}

/// A text, empty if it is not there.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    field(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// A whole number, zero if it is not there.
pub fn number(object: &Value, path: &str) -> i64 {
    field(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether something is there and true.
pub fn flag(object: &Value, path: &str) -> bool {
    field(object, path).and_then(Value::as_bool).unwrap_or_default()
}

/// The items of a list, none if it is not there.
pub fn array<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    field(object, path).and_then(Value::as_array).into_iter().flatten()
}

/// The namespace and name of an object, separated by a slash.
pub fn key(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// The uid of an object.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The value of a label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// The uids of an object's owners.
pub(super) fn owners(object: &Value) -> impl Iterator<Item = &str> {
    array(object, "/metadata/ownerReferences").map(|owner| text(owner, "/uid"))
}

/// What holds an object that is to be deleted.
pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    array(object, "/metadata/finalizers").filter_map(Value::as_str)
}
