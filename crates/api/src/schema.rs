//! Pieces of OpenAPI schema that several kinds share, or that a derive cannot say.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

/// A label key or taint key, with or without a DNS prefix.
pub(crate) const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label value, which may be empty.
pub(crate) const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A duration in seconds, minutes and hours.
const DURATION: &str = "^([0-9]+(s|m|h))+$";
/// A duration in seconds, minutes and hours, or `Never`.
const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

pub(crate) const KEY_DOMAIN_RULE: &str = r#"self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !self.find("^([^/]+)").endsWith("karpenter.sh")"#;
pub(crate) const KEY_DOMAIN_MESSAGE: &str = r#"label domain "karpenter.sh" is restricted"#;
const KEY_NODEPOOL_RULE: &str = r#"self != "karpenter.sh/nodepool""#;
const KEY_NODEPOOL_MESSAGE: &str = r#"label "karpenter.sh/nodepool" is restricted"#;
pub(crate) const KEY_HOSTNAME_RULE: &str = r#"self != "kubernetes.io/hostname""#;
pub(crate) const KEY_HOSTNAME_MESSAGE: &str = r#"label "kubernetes.io/hostname" is restricted"#;

pub(crate) const IN_NEEDS_VALUES_RULE: &str = "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)";
pub(crate) const IN_NEEDS_VALUES_MESSAGE: &str = "requirements with operator 'In' must have a value defined";
pub(crate) const NUMERIC_RULE: &str = "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)";
pub(crate) const NUMERIC_MESSAGE: &str =
    "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value";
pub(crate) const MIN_VALUES_RULE: &str =
    "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)";
pub(crate) const MIN_VALUES_MESSAGE: &str =
    "requirements with 'minValues' must have at least that many values specified in the 'values' field";

/// Resource names with quantities.
pub(crate) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": QUANTITY,
            "x-kubernetes-int-or-string": true
        }
    })
}

/// A duration in seconds, minutes and hours.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": DURATION })
}

/// A duration in seconds, minutes and hours, or `Never`.
pub(crate) fn duration_or_never(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": DURATION_OR_NEVER })
}

/// A moment in RFC 3339.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A list of node taints, replaced as a whole.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "description": "Taint keeps pods that do not tolerate it off the node.",
            "type": "object",
            "required": ["effect", "key"],
            "properties": {
                "effect": {
                    "description": "What happens to pods that do not tolerate the taint.",
                    "type": "string",
                    "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]
                },
                "key": {
                    "description": "Key tolerations refer to.",
                    "type": "string",
                    "minLength": 1,
                    "pattern": QUALIFIED_NAME
                },
                "timeAdded": {
                    "description": "When the taint was added.",
                    "type": "string",
                    "format": "date-time"
                },
                "value": {
                    "description": "Value tolerations may ask for.",
                    "type": "string",
                    "pattern": QUALIFIED_NAME
                }
            }
        }
    })
}

/// Conditions with everything filled in.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    let mut schema = condition_list();
    schema.insert("x-kubernetes-list-type".into(), json!("map"));
    schema.insert("x-kubernetes-list-map-keys".into(), json!(["type"]));
    schema
}

/// Conditions as a plain list, without a key.
pub(crate) fn unkeyed_conditions(_: &mut SchemaGenerator) -> Schema {
    condition_list()
}

/// Conditions whose reason and message may be missing or empty.
///
/// COMPAT: NodeClaims written by Karpenter before 1.0 have such conditions and must stay writable.
pub(crate) fn lenient_conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = conditions(generator);
    if let Some(items) = schema.get_mut("items") {
        items["required"] = json!(["lastTransitionTime", "status", "type"]);
        items["properties"]["reason"] = json!({
            "description": REASON,
            "type": "string",
            "maxLength": 1024,
            "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"
        });
    }
    schema
}

const REASON: &str = "One CamelCase word for why the status is what it is.";

fn condition_list() -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "description": "Condition is one aspect of the object's state.",
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time"
                },
                "message": {
                    "description": "Details for people; may be empty.",
                    "type": "string",
                    "maxLength": 32768
                },
                "observedGeneration": {
                    "description": "Generation of the object the condition was computed from.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0
                },
                "reason": {
                    "description": REASON,
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"]
                },
                "type": {
                    "description": "Name of the aspect.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE
                }
            }
        }
    })
}

/// Limits on label values, written at the list instead of its items.
///
/// COMPAT: upstream's CRDs have them there, where the API server ignores them; a value that is too long is only
/// found by the controller. Putting them right would refuse manifests that Karpenter accepts.
pub(crate) fn misplaced_value_limits(schema: &mut Schema) {
    schema.insert("maxLength".into(), json!(63));
    schema.insert("pattern".into(), json!(LABEL_VALUE));
}

/// Forbids requirements on the NodePool label, which a NodePool's own template must not choose.
pub(crate) fn forbid_nodepool_key(requirements: &mut Schema) {
    let rule = json!({ "message": KEY_NODEPOOL_MESSAGE, "rule": KEY_NODEPOOL_RULE });
    let rules = requirements.pointer_mut("/items/properties/key/x-kubernetes-validations");
    if let Some(rules) = rules.and_then(serde_json::Value::as_array_mut) {
        // Between the domain and the hostname, so that messages come in upstream's order.
        rules.insert(1, rule);
    }
}
