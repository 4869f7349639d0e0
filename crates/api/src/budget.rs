//! Disruption budgets: how many nodes of a NodePool may go at once, and when.

use std::str::FromStr;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::duration::GoDuration;

/// Why a node may be disrupted voluntarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
pub enum DisruptionReason {
    /// Its pods fit elsewhere for less.
    Underutilized,
    /// It runs nothing that would be missed.
    Empty,
    /// It no longer matches its NodePool or node class.
    Drifted,
    /// It is to be repaired.
    Unhealthy,
}

impl DisruptionReason {
    /// The reason's name in manifests, conditions and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Underutilized => "Underutilized",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Unhealthy => "Unhealthy",
        }
    }
}

/// Budget limits how many nodes of the NodePool may be disrupted at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_nodes)]
pub struct Budget {
    /// Reasons the budget is about; all of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// Most nodes that may be going at once: a number, or a percentage of the NodePool's nodes, rounded up.
    #[serde(default = "ten_percent")]
    #[schemars(extend("pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// When the budget begins to apply, as a cron line in UTC; needs a duration. Always, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"))]
    pub schedule: Option<String>,
    /// How long the budget applies from each time of the schedule, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration_schema")]
    pub duration: Option<GoDuration>,
}

impl Default for Budget {
    /// One node in ten, always and for all reasons.
    fn default() -> Self {
        Self { reasons: None, nodes: ten_percent(), schedule: None, duration: None }
    }
}

impl Budget {
    /// Whether the budget is about this reason.
    ///
    /// COMPAT: a list that is given but empty is about no reason at all (v1.15, `GetAllowedDisruptionsByReason`).
    pub fn applies_to(&self, reason: DisruptionReason) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason))
    }

    /// The limit `nodes` stands for.
    pub fn limit(&self) -> Result<BudgetLimit, ParseBudgetError> {
        self.nodes.parse()
    }
}

/// What a budget's `nodes` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetLimit {
    /// This many nodes.
    Count(u32),
    /// This share of the NodePool's nodes, in percent.
    Percent(u8),
}

/// A budget whose `nodes` is neither a number nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("budget nodes {0:?} is neither a number of nodes nor a percentage from 0% to 100%")]
pub struct ParseBudgetError(String);

impl BudgetLimit {
    /// How many of `n_nodes` may be going at once; a share is rounded up.
    pub fn allowed(self, n_nodes: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let share = (u64::from(n_nodes) * u64::from(percent)).div_ceil(100);
                u32::try_from(share).unwrap_or(n_nodes)
            }
        }
    }
}

impl FromStr for BudgetLimit {
    type Err = ParseBudgetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseBudgetError(text.to_owned());
        let (digits, percent) = match text.strip_suffix('%') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        if percent {
            digits.parse().ok().filter(|p| *p <= 100).map(Self::Percent).ok_or_else(error)
        } else {
            digits.parse().map(Self::Count).map_err(|_| error())
        }
    }
}

fn ten_percent() -> String {
    "10%".to_owned()
}

/// COMPAT: upstream calls `nodes` required and gives it a default as well.
fn require_nodes(schema: &mut Schema) {
    schema.insert("required".into(), json!(["nodes"]));
}

fn duration_schema(_: &mut SchemaGenerator) -> Schema {
    // A trailing 0s is allowed because Go prints one.
    json_schema!({ "type": "string", "pattern": "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_nodes_is_rounded_up() {
        let allowed = |nodes: &str, n| nodes.parse::<BudgetLimit>().unwrap().allowed(n);
        assert_eq!(allowed("10%", 0), 0);
        assert_eq!(allowed("10%", 1), 1);
        assert_eq!(allowed("10%", 10), 1);
        assert_eq!(allowed("10%", 11), 2);
        assert_eq!(allowed("0%", 11), 0);
        assert_eq!(allowed("100%", 11), 11);
        assert_eq!(allowed("0", 11), 0);
        assert_eq!(allowed("5", 3), 5);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "%", "101%", "-1", "+1", "1.5%", "ten", "99999999999"] {
            assert_eq!(text.parse::<BudgetLimit>(), Err(ParseBudgetError(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_budget_without_reasons_is_about_all_and_with_none_about_none() {
        let budget = |json| serde_json::from_str::<Budget>(json).unwrap();
        assert!(budget("{}").applies_to(DisruptionReason::Unhealthy));
        assert_eq!(budget("{}").nodes, "10%");
        assert!(!budget(r#"{"reasons":[]}"#).applies_to(DisruptionReason::Empty));
        let empty = budget(r#"{"nodes":"0","reasons":["Empty"]}"#);
        assert!(empty.applies_to(DisruptionReason::Empty));
        assert!(!empty.applies_to(DisruptionReason::Drifted));
    }
}
