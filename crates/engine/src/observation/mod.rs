//! What was decided, what became of it, and how both compare: for reports.
//!
//! With an observer the two sides of a comparison are what the cluster's autoscaler did and what we would have done; with a
//! provisioner they are what was done and what was planned.

mod history;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::settings::Mode;
use crate::time::Wall;
pub use history::History;

/// Something to be remembered for a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Observation {
    /// A decision as it stands; a later one with the same id replaces it.
    Decision(Box<Decision>),
    /// The state of affairs at one time.
    Sample(Box<Sample>),
    /// What each source has been right and wrong about so far; replaces what was told before.
    Beliefs(Vec<Belief>),
}

/// A decision, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Decision {
    /// Names it among all; later ones have greater ids.
    pub id: u64,
    /// Whether anything was done about it by us.
    pub mode: Mode,
    /// When it was made.
    pub at: Wall,
    /// Why: pods that wait, or who expects what and why.
    pub because: String,
    /// Who expects some of its pods.
    pub sources: Vec<String>,
    /// How many pods it was made for.
    pub pods: u32,
    /// How many of them did not exist then.
    pub expected: u32,
    /// How many of its pods have come to a node.
    pub bound: u32,
    /// How many pods it was made for went without having had a node.
    pub gone: u32,
    /// How many wait.
    pub waiting: u32,
    /// How far it is.
    pub state: State,
    /// What we would have bought, or planned to buy.
    pub would: Side,
    /// What was bought for its pods.
    pub real: Side,
    /// How many seconds a node of ours would have taken to be ready.
    pub lead: f64,
    /// Of how many nodes that was learned; zero if it is an assumption.
    pub lead_of: u32,
}

/// How far a decision is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Some of its pods wait or are still to come.
    #[default]
    Open,
    /// All that came have a node.
    Done,
    /// None came.
    Missed,
    /// Some still waited when nobody looked any longer.
    Overdue,
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Side {
    /// When the first node was asked for.
    pub first: Option<Wall>,
    /// When the last was.
    pub last: Option<Wall>,
    /// The nodes, alike ones together.
    pub nodes: Vec<Nodes>,
    /// What they cost an hour; of nodes that others share, their share.
    pub dollars: f64,
    /// How long pods waited.
    pub waits: Waits,
}

/// Nodes that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nodes {
    /// The instance type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: String,
    /// How many.
    pub count: u32,
    /// What each costs an hour.
    pub dollars: f64,
}

/// How many pods waited for how many tenths of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Waits(BTreeMap<u32, u32>);

impl Waits {
    /// Takes in one more, in milliseconds.
    pub fn add(&mut self, millis: u64) {
        let tenths = u32::try_from(millis.div_ceil(100)).unwrap_or(u32::MAX);
        *self.0.entry(tenths).or_default() += 1;
    }

    /// Takes in all of another.
    pub fn join(&mut self, other: &Self) {
        for (tenths, count) in &other.0 {
            *self.0.entry(*tenths).or_default() += count;
        }
    }

    /// How many pods there are.
    pub fn len(&self) -> u32 {
        self.0.values().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Seconds and how many pods waited so long, the shortest first.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u32)> {
        self.0.iter().map(|(tenths, count)| (f64::from(*tenths) / 10.0, *count))
    }

    /// How many seconds a share of the pods, from 0 to 1, waited at most.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (f64::from(self.len()) * share).ceil().max(1.0) as u32;
        let mut passed = 0;
        let at = |(seconds, count): (f64, u32)| {
            passed += count;
            (passed >= rank).then_some(seconds)
        };
        self.iter().find_map(at)
    }

    /// All seconds together.
    pub fn sum(&self) -> f64 {
        self.iter().map(|(seconds, count)| seconds * f64::from(count)).sum()
    }
}

/// The state of affairs at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sample {
    /// When.
    pub at: Wall,
    /// Pods that have a node and have not ended.
    pub bound: u32,
    /// Pods that wait for a node.
    pub waiting: u32,
    /// Pods that are expected.
    pub expected: u32,
    /// Pods that would wait.
    pub would_waiting: u32,
    /// Processors that the pods with a node and those that wait ask for.
    pub wanted_cpus: f64,
    /// Processors that nodes can give.
    pub cpus: f64,
    /// Nodes and nodes to be, by type.
    pub types: BTreeMap<String, u32>,
    /// What they cost an hour.
    pub dollars: f64,
    /// Nodes that there would be, by type.
    pub would_types: BTreeMap<String, u32>,
    /// What those would cost an hour.
    pub would_dollars: f64,
}

/// What a source has been right and wrong about so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Belief {
    /// The source.
    pub source: String,
    /// Expected pods for which a node was started, or would have been.
    pub expected: u64,
    /// How many of them came.
    pub arrived: u64,
    /// How many seconds less they waited.
    pub saved_seconds: f64,
    /// How long nodes that were started for them had no pod.
    pub idle_node_seconds: f64,
    /// What that cost.
    pub idle_dollars: f64,
}

impl Belief {
    /// How many of the pods came, from 0 to 1.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.expected > 0).then(|| self.arrived as f64 / self.expected as f64)
    }

    /// Takes in what the same source did before.
    pub fn join(&mut self, other: &Self) {
        self.expected += other.expected;
        self.arrived += other.arrived;
        self.saved_seconds += other.saved_seconds;
        self.idle_node_seconds += other.idle_node_seconds;
        self.idle_dollars += other.idle_dollars;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_waits_are_found_and_survive_being_written_down() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5), None);
        for millis in (1..=100).map(|n| n * 1000) {
            waits.add(millis);
        }
        waits.add(50_030);
        let shares = [0.0, 0.5, 0.95, 1.0].map(|share| format!("{:?}", waits.quantile(share)));
        assert_eq!(shares, ["Some(1.0)", "Some(50.1)", "Some(95.0)", "Some(100.0)"]);
        let text = serde_json::to_string(&waits).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Waits>(&text).ok(), Some(waits));
    }
}
