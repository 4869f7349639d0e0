//! What operators choose.

use std::time::Duration;

use headstart_core::cloud::{RepairPolicy, millis};
use headstart_core::requirement::Operator;
use headstart_core::snapshot::{MinValues, Preferences, Selector};
use serde::{Deserialize, Serialize};

/// A group and kind of node class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassKind {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// How to look for nodes that are not worth their price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Consolidation {
    /// As Karpenter does.
    #[default]
    Compat,
    /// Any set of nodes, any number of replacements.
    Search,
}

/// What becomes of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// They are carried out: nodes are bought and taken away.
    #[default]
    Provisioner,
    /// Another autoscaler is led to carry them out: pods that are expected are shown to it.
    Companion,
    /// Nothing: they are compared with what another autoscaler does.
    Observe,
}

/// What operators choose; the same in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches that do not exclude each other")]
pub struct Settings {
    /// What becomes of decisions.
    #[serde(default)]
    pub mode: Mode,
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
    /// What is done for pods that are only expected.
    #[serde(default)]
    pub proactive: Proactive,
    /// How another autoscaler is led.
    #[serde(default)]
    pub companion: Leading,
    /// Whether nodes are taken away by our own will at all.
    #[serde(default)]
    pub disruption: bool,
    /// How to look for nodes that are not worth their price.
    #[serde(default)]
    pub consolidation: Consolidation,
    /// Whether spot nodes are replaced by cheaper spot nodes.
    #[serde(default)]
    pub spot_to_spot: bool,
    /// How the cloud wants sick nodes to be repaired; empty if that is left to others.
    #[serde(default)]
    pub repair: Vec<RepairPolicy>,
    /// Whether pools that want a number of nodes get it.
    #[serde(default)]
    pub static_capacity: bool,
    /// Whether a drifted node that cannot be replaced first goes first.
    #[serde(default)]
    pub terminate_first_drift: bool,
    /// Whether a broken node that cannot be replaced first goes first.
    #[serde(default)]
    pub terminate_first_repair: bool,
    /// Decides nothing but how retries are spread in time.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            batch_max: Duration::from_secs(10),
            preferences: Preferences::Respect,
            min_values: MinValues::Strict,
            overlays: false,
            reserved_capacity: true,
            nominate: true,
            class: ClassKind { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into() },
            scheduler_config: String::new(),
            proactive: Proactive::default(),
            companion: Leading::default(),
            disruption: true,
            consolidation: Consolidation::default(),
            spot_to_spot: false,
            repair: Vec::new(),
            static_capacity: false,
            terminate_first_drift: false,
            terminate_first_repair: false,
            seed: 0,
        }
    }
}

/// What shows another autoscaler that pods are expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum With {
    /// CapacityBuffers where somebody looks after them, else pods.
    #[default]
    Auto,
    /// CapacityBuffers, whether somebody looks after them or not.
    Buffers,
    /// Pods that give way.
    Placeholders,
}

/// How another autoscaler is led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Leading {
    /// By what.
    pub with: With,
    /// The namespace of what is made for that.
    pub namespace: String,
    /// The priority of pods that give way.
    pub priority: i32,
    /// The image of their only container.
    pub image: String,
}

impl Default for Leading {
    fn default() -> Self {
        Self {
            with: With::default(),
            namespace: "headstart-placeholders".to_owned(),
            priority: -10,
            image: "registry.k8s.io/pause:3.10".to_owned(),
        }
    }
}

/// What is done for pods that are only expected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches that do not exclude each other")]
pub struct Proactive {
    /// Whether anything is expected: pods about to be made, runs of CronJobs, fuller pools; and buffers.
    pub enabled: bool,
    /// Whether buffers are kept, even if nothing else is expected.
    pub buffers: bool,
    /// Most pods that may need a node before expected ones are left out.
    pub pod_injection_limit: usize,
    /// From how many nodes on nothing is expected.
    pub node_limit: usize,
    /// The share of a pool that may be requested before more is expected; 1 switches that off.
    pub threshold: f64,
    /// Most dollars an hour for nodes that only expected pods need.
    pub most_dollars: Option<f64>,
    /// Labels of the pools that nodes are bought from for expected pods, as `key=value,!other`; empty for all.
    pub pool_selector: String,
    /// Whether only workloads that say so are foreseen.
    pub only_chosen: bool,
    /// Whether somebody else buys nodes, and keeps the buffers that people ask for.
    pub others_buy: bool,
}

impl Default for Proactive {
    fn default() -> Self {
        Self {
            enabled: false,
            buffers: false,
            pod_injection_limit: 5_000,
            node_limit: 15_000,
            threshold: 0.8,
            most_dollars: None,
            pool_selector: String::new(),
            only_chosen: false,
            others_buy: false,
        }
    }
}

impl Proactive {
    /// Whether anything is expected at all.
    pub const fn is_on(&self) -> bool {
        self.enabled || self.buffers
    }

    /// Whether buffers are kept; either switch will do, unless they are somebody else's to keep.
    pub const fn has_buffers(&self) -> bool {
        self.is_on() && !self.others_buy
    }

    /// Whether more is expected of pools that are nearly full.
    pub fn has_headroom(&self) -> bool {
        self.enabled && self.threshold < 1.0
    }

    /// Which pools nodes are bought from for expected pods; what cannot be read of it is the error.
    pub fn pools(&self) -> Result<Selector, String> {
        let mut all = Selector::everything();
        for part in self.pool_selector.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, operator, value) = if let Some((key, value)) = part.split_once("!=") {
                (key, Operator::NotIn, Some(value))
            } else if let Some((key, value)) = part.split_once('=') {
                (key, Operator::In, Some(value.trim_start_matches('=')))
            } else if let Some(key) = part.strip_prefix('!') {
                (key, Operator::DoesNotExist, None)
            } else {
                (part, Operator::Exists, None)
            };
            let is_odd = |text: &str| text.contains(|c: char| c.is_whitespace() || "()=!".contains(c));
            let (key, value) = (key.trim(), value.map(str::trim));
            if key.is_empty() || is_odd(key) || value.is_some_and(is_odd) {
                return Err(part.to_owned());
            }
            let values: Vec<&str> = value.into_iter().collect();
            all = all.with(key, operator, &values).ok_or_else(|| part.to_owned())?;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_selected_by_label() {
        let selects = |text: &str| {
            let proactive = Proactive { pool_selector: text.to_owned(), ..Proactive::default() };
            let labels =
                [("team".into(), "shop".into()), ("tier".into(), "batch".into())].into_iter().collect();
            proactive.pools().map(|selector| selector.matches(&labels))
        };
        for good in ["", "team=shop", "team==shop, tier", "team!=bank,!gpu"] {
            assert_eq!(selects(good), Ok(true), "{good}");
        }
        for other in ["team=bank", "gpu", "!tier", "team!=shop"] {
            assert_eq!(selects(other), Ok(false), "{other}");
        }
        for bad in ["team in (shop)", "=x", "a=b=c"] {
            assert!(selects(bad).is_err(), "{bad}");
        }
    }
}
