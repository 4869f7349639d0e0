//! NodeOverlay: corrections to the prices and resources of instance types.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Condition};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{requirement::Operator, schema};

/// Which instance types are corrected, and how.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    doc = "NodeOverlay changes the price of matching instance types, or adds extended resources to them.",
    category = "karpenter",
    shortname = "overlays",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.price) || !has(self.priceAdjustment)")
        .message("cannot set both 'price' and 'priceAdjustment'")
)]
pub struct NodeOverlaySpec {
    /// Labels an instance type, or its NodePool, must have for the overlay to apply.
    #[schemars(length(max = 100))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)")
            .message("requirements with operator 'NotIn' must have a value defined"),
        validation = Rule::new(schema::IN_NEEDS_VALUES_RULE).message(schema::IN_NEEDS_VALUES_MESSAGE),
        validation = Rule::new(schema::NUMERIC_RULE)
            .message("requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value")
    )]
    pub requirements: Vec<OverlayRequirement>,
    /// Change of the price with its sign: an amount (-0.5) or a percentage (+10%).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"))]
    pub price_adjustment: Option<String>,
    /// New price, instead of the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// Extended resources to add; cpu, memory, ephemeral-storage and pods cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    #[x_kube(
        validation = Rule::new("self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))")
            .message("invalid resource restricted")
    )]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// Which overlay wins where several apply: the one with the higher weight, then the later name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

/// One requirement of a NodeOverlay.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverlayRequirement {
    /// Label the requirement is about.
    #[schemars(length(max = 316), extend("pattern" = schema::QUALIFIED_NAME))]
    #[x_kube(validation = Rule::new(schema::KEY_DOMAIN_RULE).message(schema::KEY_DOMAIN_MESSAGE))]
    #[x_kube(validation = Rule::new(schema::KEY_HOSTNAME_RULE).message(schema::KEY_HOSTNAME_MESSAGE))]
    pub key: String,
    /// How the label's value relates to `values`.
    pub operator: Operator,
    /// Values to compare with: one or more for In and NotIn, none for Exists and DoesNotExist, one integer for the
    /// rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::misplaced_value_limits)]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
}

/// Whether the overlay could be applied.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// State of the overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
