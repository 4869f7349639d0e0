//! KWOKNodeClass: settings of nodes that are only simulated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{duration::GoDuration, schema};

/// Settings of simulated nodes. All of them may be left out, and so may the whole.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    root = "KwokNodeClass",
    plural = "kwoknodeclasses",
    doc = "KWOKNodeClass holds the settings of nodes simulated by kwok.",
    category = "karpenter",
    shortname = "kwoknc",
    shortname = "kwokncs",
    status = "KwokNodeClassStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct KwokNodeClassSpec {
    /// Time from launch until the node joins the cluster, as a machine needs to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub node_registration_delay: Option<GoDuration>,
}

/// State of the node class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KwokNodeClassStatus {
    /// State of the node class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unkeyed_conditions")]
    pub conditions: Vec<Condition>,
}

impl<'de> Deserialize<'de> for KwokNodeClassSpec {
    /// Reads the settings; an object without any `spec` has the default ones.
    ///
    /// Asking for an option is what makes serde accept the missing field in the object that kube derives.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            node_registration_delay: Option<GoDuration>,
        }
        let wire = Option::<Wire>::deserialize(deserializer)?;
        Ok(Self { node_registration_delay: wire.and_then(|wire| wire.node_registration_delay) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_may_be_left_out() {
        let class = |json| serde_json::from_str::<KwokNodeClass>(json).unwrap();
        assert_eq!(class(r#"{"metadata":{"name":"a"}}"#).spec, KwokNodeClassSpec::default());
        assert_eq!(class(r#"{"metadata":{"name":"a"},"spec":{}}"#).spec, KwokNodeClassSpec::default());
        assert_eq!(
            class(r#"{"metadata":{"name":"a"},"spec":{"nodeRegistrationDelay":"5s"}}"#).spec,
            KwokNodeClassSpec { node_registration_delay: Some(GoDuration::from_secs(5)) }
        );
    }
}
