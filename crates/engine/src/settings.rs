//! What operators choose.

use std::time::Duration;

use headstart_core::cloud::millis;
use headstart_core::snapshot::{MinValues, Preferences};
use serde::{Deserialize, Serialize};

/// A group and kind of node class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassKind {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// What operators choose; the same in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The longest that a batch of pods stays open.
    #[serde(with = "millis")]
    pub batch_max: Duration,
    /// Whether preferences of pods count.
    pub preferences: Preferences,
    /// What happens when too few distinct values are left.
    pub min_values: MinValues,
    /// Whether overlays change what is bought.
    pub overlays: bool,
    /// Whether reserved capacity is used.
    pub reserved_capacity: bool,
    /// Whether pods are nominated to the nodes planned for them.
    pub nominate: bool,
    /// The cloud's kind of node class; pools with another are left alone.
    pub class: ClassKind,
    /// How kube-scheduler is configured, as `SchedulerConfig::parse` reads it; a text that it refuses configures nothing.
    #[serde(default)]
    pub scheduler_config: String,
    /// Decides nothing but how retries are spread in time.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_max: Duration::from_secs(10),
            preferences: Preferences::Respect,
            min_values: MinValues::Strict,
            overlays: false,
            reserved_capacity: true,
            nominate: true,
            class: ClassKind { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into() },
            scheduler_config: String::new(),
            seed: 0,
        }
    }
}
