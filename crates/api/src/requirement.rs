//! Requirements on node labels: a key, an operator and values.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// How a label's value must relate to the listed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
pub enum Operator {
    /// The value is one of those listed.
    In,
    /// The value is none of those listed, or the label is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is an integer above the one listed.
    Gt,
    /// The value is an integer below the one listed.
    Lt,
    /// The value is an integer not below the one listed.
    Gte,
    /// The value is an integer not above the one listed.
    Lte,
}

impl Operator {
    /// All operators, in the order the API lists them.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// The operator's name in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// Whether the operator compares integers, and so takes exactly one.
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

/// One requirement of a NodePool's template or of a NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
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
    /// Least number of different values that must stay possible (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "min_values_schema")]
    pub min_values: Option<u32>,
}

impl Requirement {
    /// A requirement without a minimum number of values.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        Self {
            key: key.into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
            min_values: None,
        }
    }
}

fn min_values_schema(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": 50 })
}
