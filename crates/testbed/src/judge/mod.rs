//! Two solvers, one question: the same cases for Karpenter's own scheduler and for ours, and answers that compare.

mod ours;
mod program;

use std::collections::BTreeSet;

use headstart_intake::{Document, World};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use ours::Ours;
pub use program::Program;

/// A question: Kubernetes objects as the API server would give them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Case {
    pub objects: Vec<Value>,
    /// `Respect` or `Ignore`; empty means Karpenter's default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preference_policy: String,
    /// `Strict` or `BestEffort`; empty means Karpenter's default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_values_policy: String,
}

impl Case {
    pub fn of(objects: Vec<Value>) -> Self {
        Self { objects, ..Self::default() }
    }

    /// The objects as our intake decodes them.
    pub fn world(&self) -> World {
        let mut world = World::new();
        for value in &self.objects {
            world.add(Document { origin: "case".to_owned(), value: value.clone() });
        }
        world
    }
}

/// Where the pods of a case go, and what finding out took.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    pub node_claims: Vec<NodeClaim>,
    pub existing: Vec<Existing>,
    pub unschedulable: Vec<Unschedulable>,
    pub lower_bound_per_hour: f64,
    pub wall_millis: f64,
    pub cpu_millis: f64,
    pub peak_mi_b: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A new node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaim {
    pub node_pool: String,
    pub instance_types: Vec<String>,
    pub zones: Vec<String>,
    pub capacity_types: Vec<String>,
    pub price_per_hour: f64,
    pub pods: Vec<String>,
}

/// Pods for a node that exists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Existing {
    pub node: String,
    pub pods: Vec<String>,
}

/// A pod that fits nowhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unschedulable {
    pub pod: String,
    pub reason: String,
}

/// An answer without order and without names of claims: equal for answers that a user could not tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Essence {
    pub claims: BTreeSet<(Vec<String>, String, Vec<String>)>,
    pub existing: BTreeSet<(String, Vec<String>)>,
    pub unschedulable: BTreeSet<String>,
}

impl Answer {
    /// What all new nodes cost together.
    pub fn price_per_hour(&self) -> f64 {
        // The sum of nothing is minus zero, which looks odd in a table.
        self.node_claims.iter().map(|claim| claim.price_per_hour).sum::<f64>() + 0.0
    }

    pub fn essence(&self) -> Essence {
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        Essence {
            claims: self
                .node_claims
                .iter()
                .map(|claim| (sorted(&claim.pods), claim.node_pool.clone(), sorted(&claim.instance_types)))
                .collect(),
            existing: self.existing.iter().map(|node| (node.node.clone(), sorted(&node.pods))).collect(),
            unschedulable: self.unschedulable.iter().map(|pod| pod.pod.clone()).collect(),
        }
    }
}
