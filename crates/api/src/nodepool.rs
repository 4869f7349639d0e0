//! NodePool: which nodes may be launched, how many, and how they may be taken away again.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Taint,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Condition},
};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    budget::Budget,
    duration::{GoDuration, NillableDuration},
    nodeclaim::{NodeClassReference, default_expire_after},
    requirement::Requirement,
    schema,
};

/// What a NodePool may launch and how its nodes are disrupted.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    doc = "NodePool describes a set of nodes that may be launched for pods, and how they are taken away again.",
    category = "karpenter",
    status = "NodePoolStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    derive = "PartialEq",
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.template.spec.nodeClassRef.name"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.resources.memory", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.replicas) == has(oldSelf.replicas)")
        .message("Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes"),
    validation = Rule::new("!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))")
        .message("only 'limits.nodes' is supported on static NodePools"),
    validation = Rule::new("!has(self.replicas) || !has(self.weight)")
        .message("'weight' is not supported on static NodePools")
)]
pub struct NodePoolSpec {
    /// What every NodeClaim of the NodePool starts from.
    pub template: NodeClaimTemplate,
    /// When and how fast nodes may be taken away.
    #[serde(default)]
    #[schemars(extend("default" = { "consolidateAfter": "0s" }))]
    pub disruption: Disruption,
    /// Most resources the NodePool's nodes may have together; nothing is launched beyond them. A static NodePool may
    /// only limit `nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Which NodePool is tried first: the one with the higher weight. Not for static NodePools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Makes the NodePool static: it keeps this many nodes, whatever the pods need (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// What every NodeClaim of the NodePool starts from.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the NodeClaims and their nodes.
    #[serde(default, skip_serializing_if = "TemplateMeta::is_empty")]
    pub metadata: TemplateMeta,
    /// Properties of the NodeClaims.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of the NodeClaims and their nodes.
///
/// Absent and empty are told apart because the NodePool's hash tells them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMeta {
    /// Labels to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 100), transform = label_values)]
    #[x_kube(
        merge_strategy = MapMerge::Atomic,
        validation = Rule::new(r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#)
            .message(r#"label domain "karpenter.sh" is restricted"#),
        validation = Rule::new(r#"self.all(x, x != "karpenter.sh/nodepool")"#)
            .message(r#"label "karpenter.sh/nodepool" is restricted"#),
        validation = Rule::new(r#"self.all(x, x != "kubernetes.io/hostname")"#)
            .message(r#"label "kubernetes.io/hostname" is restricted"#)
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Granular)]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl TemplateMeta {
    /// Whether neither labels nor annotations are given.
    pub const fn is_empty(&self) -> bool {
        self.labels.is_none() && self.annotations.is_none()
    }
}

/// Properties of the NodePool's NodeClaims; what they request is decided when they are made.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Option<Vec<Taint>>,
    /// Taints the nodes start with and that somebody soon removes; pods need not tolerate them to get a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What the nodes' labels must be; pods narrow it further.
    #[schemars(length(max = 100), transform = schema::forbid_nodepool_key)]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new(schema::IN_NEEDS_VALUES_RULE).message(schema::IN_NEEDS_VALUES_MESSAGE),
        validation = Rule::new(schema::NUMERIC_RULE).message(schema::NUMERIC_MESSAGE),
        validation = Rule::new(schema::MIN_VALUES_RULE).message(schema::MIN_VALUES_MESSAGE)
    )]
    pub requirements: Vec<Requirement>,
    /// The provider's own settings for the nodes; group and kind cannot change.
    #[x_kube(
        validation = Rule::new("self.group == oldSelf.group").message("nodeClassRef.group is immutable"),
        validation = Rule::new("self.kind == oldSelf.kind").message("nodeClassRef.kind is immutable")
    )]
    pub node_class_ref: NodeClassReference,
    /// Longest time a node's pods may take to leave before they are removed by force, whatever protects them. No
    /// limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub termination_grace_period: Option<GoDuration>,
    /// Age at which a node is replaced, or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration_or_never", extend("default" = "720h"))]
    pub expire_after: Option<NillableDuration>,
}

impl NodeClaimTemplateSpec {
    /// Age at which a node is replaced, with the API's default where nothing is said.
    pub fn expire_after(&self) -> NillableDuration {
        self.expire_after.clone().unwrap_or_else(default_expire_after)
    }
}

/// When and how fast nodes may be taken away.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must have been left alone by pods before it is consolidated, or Never. Ignored by static
    /// NodePools.
    #[serde(default = "immediately")]
    #[schemars(schema_with = "schema::duration_or_never", extend("default" = "0s"))]
    pub consolidate_after: NillableDuration,
    /// Which nodes may be consolidated. Ignored by static NodePools.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may be going at once; where several budgets apply, the smallest counts.
    #[serde(default = "default_budgets")]
    #[schemars(length(max = 50))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(x, has(x.schedule) == has(x.duration))")
            .message("'schedule' must be set with 'duration'")
    )]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: immediately(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: default_budgets(),
        }
    }
}

/// Which nodes may be consolidated.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods that matter.
    WhenEmpty,
    /// Empty nodes, and nodes whose pods fit elsewhere or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// As before, but only where the saving is worth the disturbance.
    Balanced,
}

/// What the NodePool has at the moment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Resources of the NodePool's nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub nodes: Option<i64>,
    /// Generation of the node class that the node registration condition was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// State of the NodePool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

fn immediately() -> NillableDuration {
    GoDuration::ZERO.into()
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget::default()]
}

fn label_values(labels: &mut Schema) {
    let values = json!({ "type": "string", "maxLength": 63, "pattern": schema::LABEL_VALUE });
    labels.insert("additionalProperties".into(), values);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(json: serde_json::Value) -> NodePool {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_is_left_out_is_filled_in_as_the_api_server_does() {
        let pool = pool(json!({
            "metadata": { "name": "a" },
            "spec": { "template": { "spec": {
                "nodeClassRef": { "group": "g", "kind": "K", "name": "n" }, "requirements": []
            } } }
        }));
        assert_eq!(
            serde_json::to_value(&pool.spec.disruption).unwrap(),
            json!({
                "consolidateAfter": "0s",
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "budgets": [{ "nodes": "10%" }]
            })
        );
        assert_eq!(pool.spec.template.spec.expire_after().to_string(), "720h");
    }

    #[test]
    fn what_is_written_is_kept() {
        let object = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": { "name": "a" },
            "spec": {
                "template": {
                    "metadata": { "labels": {}, "annotations": { "a": "b" } },
                    "spec": {
                        "taints": [],
                        "startupTaints": [{ "key": "a", "effect": "NoSchedule" }],
                        "requirements": [
                            { "key": "a", "operator": "In", "values": ["b", "c"], "minValues": 2 },
                            { "key": "d", "operator": "DoesNotExist" }
                        ],
                        "nodeClassRef": { "group": "g", "kind": "K", "name": "n" },
                        "terminationGracePeriod": "1h0m0s",
                        "expireAfter": "48h"
                    }
                },
                "disruption": {
                    "consolidateAfter": "Never",
                    "consolidationPolicy": "Balanced",
                    "budgets": [{ "nodes": "0", "reasons": [], "schedule": "@daily", "duration": "10h0m0s" }]
                },
                "limits": { "cpu": "10" },
                "weight": 7
            },
            "status": { "nodes": 3, "resources": { "cpu": "4" } }
        });
        assert_eq!(serde_json::to_value(pool(object.clone())).unwrap(), object);
    }

    #[test]
    fn quantities_may_be_numbers() {
        let status: NodePoolStatus = serde_json::from_value(json!({ "resources": { "cpu": 4 } })).unwrap();
        assert_eq!(status.resources.unwrap()["cpu"], Quantity("4".to_owned()));
    }
}
