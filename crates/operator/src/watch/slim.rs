//! Objects without what is large and nobody asks for, left out while they are read.
//!
//! PERF: who wrote which field, environments, probes and images are four fifths of a pod and most of a node, and thousands of
//! objects wait for the engine when a watch begins.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a value without what nobody asks for.
#[derive(Clone, Copy)]
pub(super) enum Slim {
    /// An object, or a template of one.
    Object,
    Metadata,
    Annotations,
    Spec,
    Status,
    Containers,
    ContainerStatuses,
    NodeInfo,
    Volumes,
    /// Anything else, which is taken as it is.
    Whole,
}

impl Slim {
    /// How to read a field, unless nobody asks for it. In a list it is a field of its items.
    fn field(self, name: &str) -> Option<Self> {
        Some(match (self, name) {
            (Self::NodeInfo, "bootID") => Self::Whole,
            (Self::NodeInfo, _) => return None,
            (Self::Status, "nodeInfo") => Self::NodeInfo,
            (Self::Metadata, "managedFields")
            | (Self::Annotations, "kubectl.kubernetes.io/last-applied-configuration")
            | (
                Self::Status,
                "addresses"
                | "daemonEndpoints"
                | "ephemeralContainerStatuses"
                | "images"
                | "initContainerStatuses"
                | "volumesAttached"
                | "volumesInUse",
            )
            | (
                Self::Containers,
                "args"
                | "command"
                | "env"
                | "envFrom"
                | "image"
                | "imagePullPolicy"
                | "lifecycle"
                | "livenessProbe"
                | "readinessProbe"
                | "securityContext"
                | "startupProbe"
                | "terminationMessagePath"
                | "terminationMessagePolicy"
                | "volumeDevices"
                | "volumeMounts"
                | "workingDir",
            )
            | (
                Self::ContainerStatuses,
                "containerID" | "image" | "imageID" | "lastState" | "state" | "user" | "volumeMounts",
            )
            | (
                Self::Volumes,
                "configMap" | "downwardAPI" | "emptyDir" | "hostPath" | "projected" | "secret",
            ) => {
                return None;
            }
            (Self::Object, "metadata") => Self::Metadata,
            (Self::Object, "spec") => Self::Spec,
            (Self::Object, "status") => Self::Status,
            (Self::Metadata, "annotations") => Self::Annotations,
            (Self::Spec, "template") => Self::Object,
            (Self::Spec, "containers" | "initContainers") => Self::Containers,
            (Self::Spec, "volumes") => Self::Volumes,
            (Self::Status, "containerStatuses") => Self::ContainerStatuses,
            _ => Self::Whole,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Slim {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Self::Whole => serde::Deserialize::deserialize(deserializer),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Slim {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            match self.field(&name) {
                Some(seed) => drop(fields.insert(name, map.next_value_seed(seed)?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slim(object: &Value) -> Value {
        Slim::Object.deserialize(object).unwrap()
    }

    #[test]
    fn what_decides_stays_and_what_is_only_large_goes() {
        let container = json!({
            "name": "main", "image": "i", "env": [{ "name": "A", "value": "b" }], "restartPolicy": "Always",
            "ports": [{ "hostPort": 80 }], "resources": { "requests": { "cpu": "1", "env": "2" } },
        });
        let kept = json!({
            "name": "main", "restartPolicy": "Always",
            "ports": [{ "hostPort": 80 }], "resources": { "requests": { "cpu": "1", "env": "2" } },
        });
        let volumes = json!([{ "name": "a", "persistentVolumeClaim": { "claimName": "b" } }, { "name": "c", "projected": { "sources": [] } }]);
        let pod = json!({
            "metadata": {
                "name": "a", "labels": { "env": "prod", "image": "x", "managedFields": "y" }, "managedFields": [{ "manager": "m" }],
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "env": "prod" },
            },
            "spec": { "nodeSelector": { "env": "prod" }, "containers": [container], "initContainers": [container], "volumes": volumes, "n": 1.5 },
            "status": { "phase": "Running", "containerStatuses": [{ "name": "main", "imageID": "i", "resources": {} }], "images": [1, -2, null, true] },
        });
        let expected = json!({
            "metadata": { "name": "a", "labels": { "env": "prod", "image": "x", "managedFields": "y" }, "annotations": { "env": "prod" } },
            "spec": {
                "nodeSelector": { "env": "prod" }, "containers": [kept], "initContainers": [kept], "n": 1.5,
                "volumes": [{ "name": "a", "persistentVolumeClaim": { "claimName": "b" } }, { "name": "c" }],
            },
            "status": { "phase": "Running", "containerStatuses": [{ "name": "main", "resources": {} }] },
        });
        assert_eq!(slim(&pod), expected);
        let set = json!({ "spec": { "replicas": 3, "template": pod } });
        assert_eq!(slim(&set), json!({ "spec": { "replicas": 3, "template": expected } }));
    }

    #[test]
    fn what_has_another_form_than_expected_is_taken_as_it_is() {
        for odd in [json!({ "metadata": null, "spec": [1, -2, 1.5, "a", true], "status": "b" }), json!(7)] {
            assert_eq!(slim(&odd), odd);
        }
    }
}
