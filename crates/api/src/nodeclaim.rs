//! NodeClaim: one node that was asked for, from the request to its end.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Taint,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, Time},
    },
};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{
    duration::{GoDuration, NillableDuration},
    requirement::Requirement,
    schema,
};

/// The node that is asked for. It never changes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    doc = "NodeClaim asks for one node and follows it from launch to termination.",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = r".metadata.labels.node\.kubernetes\.io/instance-type"
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/capacity-type"
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = r".metadata.labels.topology\.kubernetes\.io/zone"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "ImageID", type_ = "string", json_path = ".status.imageID", priority = 1),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.providerID", priority = 1),
    printcolumn(
        name = "NodePool",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/nodepool",
        priority = 1
    ),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.nodeClassRef.name", priority = 1),
    printcolumn(
        name = "Drifted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Drifted")].status"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("spec is immutable"))]
pub struct NodeClaimSpec {
    /// Taints of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Option<Vec<Taint>>,
    /// Taints the node starts with and that somebody soon removes; pods need not tolerate them to get a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What the node's labels must be.
    #[schemars(length(max = 100))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new(schema::IN_NEEDS_VALUES_RULE).message(schema::IN_NEEDS_VALUES_MESSAGE),
        validation = Rule::new(schema::NUMERIC_RULE).message(schema::NUMERIC_MESSAGE),
        validation = Rule::new(schema::MIN_VALUES_RULE).message(schema::MIN_VALUES_MESSAGE)
    )]
    pub requirements: Vec<Requirement>,
    /// Resources the node must have.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    pub resources: ResourceRequirements,
    /// The provider's own settings for the node.
    pub node_class_ref: NodeClassReference,
    /// Longest time the node's pods may take to leave before they are removed by force, whatever protects them. No
    /// limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub termination_grace_period: Option<GoDuration>,
    /// Age at which the node is replaced, or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration_or_never", extend("default" = "720h"))]
    pub expire_after: Option<NillableDuration>,
}

impl NodeClaimSpec {
    /// Age at which the node is replaced, with the API's default where nothing is said.
    pub fn expire_after(&self) -> NillableDuration {
        self.expire_after.clone().unwrap_or_else(default_expire_after)
    }
}

/// Resources the node must have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// Least amount of each resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    pub requests: Option<BTreeMap<String, Quantity>>,
}

impl ResourceRequirements {
    /// Whether nothing is requested.
    pub const fn is_empty(&self) -> bool {
        self.requests.is_none()
    }
}

/// Names the object with the provider's own settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassReference {
    /// API group of the node class.
    #[schemars(extend("pattern" = "^[^/]*$"))]
    #[x_kube(validation = Rule::new("self != ''").message("group may not be empty"))]
    pub group: String,
    /// Kind of the node class.
    #[x_kube(validation = Rule::new("self != ''").message("kind may not be empty"))]
    pub kind: String,
    /// Name of the node class.
    #[x_kube(validation = Rule::new("self != ''").message("name may not be empty"))]
    pub name: String,
}

/// What became of the claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The provider's name of the machine.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The image the machine runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Resources the node has, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// Resources the node has for pods, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    pub allocatable: Option<BTreeMap<String, Quantity>>,
    /// State of the claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::lenient_conditions")]
    pub conditions: Vec<Condition>,
    /// When a pod last came to the node or left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_pod_event_time: Option<Time>,
}

/// The age at which nodes are replaced where nothing is said: 30 days.
pub(crate) fn default_expire_after() -> NillableDuration {
    NillableDuration::worded(GoDuration::from_secs(720 * 60 * 60), "720h")
}
