//! The CustomResourceDefinitions as they are installed.
//!
//! The derives say nearly all of it. What they cannot say is done here, in one pass over the generated definitions.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{CapacityBuffer, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};

/// All definitions, in a fixed order.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        finish(with_v1alpha1(CapacityBuffer::crd())),
        finish(with_optional_spec(KwokNodeClass::crd())),
        finish(NodeClaim::crd()),
        finish(NodeOverlay::crd()),
        finish(NodePool::crd()),
    ]
}

/// A definition as it is printed: the same on every machine, whole numbers without a fraction.
pub fn manifest(crd: &CustomResourceDefinition) -> serde_json::Result<Value> {
    serde_json::to_value(crd).map(tidy)
}

/// The name, without ending, of the file a definition is kept in: `<group>_<plural>`.
pub fn file_stem(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}", crd.spec.group, crd.spec.names.plural)
}

/// What holds for every kind.
fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for root in schemas(&mut crd) {
        root.title = None;
        settle(root);
        // The API server knows these three anyway; upstream's definitions name them.
        let properties = root.properties.get_or_insert_default();
        properties.insert("apiVersion".to_owned(), of_type("string"));
        properties.insert("kind".to_owned(), of_type("string"));
        properties.insert("metadata".to_owned(), of_type("object"));
    }
    crd
}

/// Serves the buffer's older version beside the stored one, with the same schema, so that no conversion is needed.
fn with_v1alpha1(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let warning =
        "autoscaling.x-k8s.io/v1alpha1 CapacityBuffer is deprecated; use autoscaling.x-k8s.io/v1beta1";
    let older = CustomResourceDefinitionVersion {
        name: "v1alpha1".to_owned(),
        storage: false,
        deprecated: Some(true),
        deprecation_warning: Some(warning.to_owned()),
        ..crd.spec.versions[0].clone()
    };
    crd.spec.versions.insert(0, older);
    crd
}

/// Lets a KWOKNodeClass do without a spec, and makes it ready from the start, since nobody else would.
fn with_optional_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for root in schemas(&mut crd) {
        root.required = None;
        if let Some(status) = root.properties.get_or_insert_default().get_mut("status") {
            status.default = Some(JSON(json!({
                "conditions": [{
                    "type": "Ready",
                    "status": "True",
                    "reason": "Ready",
                    "message": "",
                    "lastTransitionTime": "2024-01-01T01:01:01Z"
                }]
            })));
        }
    }
    crd
}

fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// Corrects a schema and all schemas within it.
fn settle(schema: &mut JSONSchemaProps) {
    // A field that may be left out is not one that may be null: null means the default, or is refused.
    schema.nullable = None;
    // Doc comments are wrapped; descriptions are not.
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    // kube's rewriter takes the types out of the two alternatives.
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.any_of = Some(vec![of_type("integer"), of_type("string")]);
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        settle(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        settle(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        settle(values);
    }
}

fn of_type(name: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some(name.to_owned()), ..Default::default() }
}

/// Sorts the keys of all objects, since a dependency may switch off the sorting of JSON maps, and writes whole
/// numbers as such.
fn tidy(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, tidy(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(values) => values.into_iter().map(tidy).collect(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => json!(float as i64),
            _ => Value::Number(number),
        },
        other => other,
    }
}
