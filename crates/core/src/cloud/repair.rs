//! When an unhealthy node is repaired, and how, as clouds say it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::millis;

/// One rule of a cloud's repair policy set.
///
/// Exactly one rule of a set has no reason pattern: it applies to every condition and status named in the set whose
/// reason no other rule matches, and it must replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairPolicy {
    /// The Node condition's type.
    pub condition: String,
    /// The status that means trouble: `True`, `False` or `Unknown`.
    pub status: String,
    /// A pattern for the condition's reason (Go syntax, unanchored); `None` for the fallback.
    pub reason: Option<String>,
    /// How long the trouble is tolerated.
    #[serde(with = "millis")]
    pub toleration: Duration,
    /// The bound of the drain: `None` takes the claim's own, zero forces.
    #[serde(with = "millis::option")]
    pub grace: Option<Duration>,
    /// From 0 to 100; higher goes first.
    pub priority: u8,
    /// What is done.
    pub action: RepairAction,
}

/// What repairing a node means; what disturbs more comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RepairAction {
    /// The instance is restarted in place.
    Reboot,
    /// Another node takes its place.
    Replace,
}
