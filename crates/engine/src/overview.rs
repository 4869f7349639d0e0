//! The state of affairs in a few numbers, for a screen.

use std::time::Duration;

use headstart_core::price::Price;

/// The state of affairs in a few numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// Pods that have a node and have not ended.
    pub bound: usize,
    /// Pods that want a node.
    pub waiting: usize,
    /// How long the first of them has waited.
    pub oldest: Option<Duration>,
    /// Nodes and nodes to be, grouped; the most numerous first.
    pub fleet: Vec<Group>,
    /// What all claims together cost an hour.
    pub price: Price,
    /// How much of the processors of ready nodes is asked for, from 0 to 1.
    pub requested: f64,
    /// Nodes that were started for pods that were expected, by source.
    pub early: Vec<Early>,
}

/// Nodes that were started for pods that were expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Early {
    /// Who expected them.
    pub source: String,
    /// How many nodes.
    pub nodes: usize,
    /// How many of them have pods.
    pub used: usize,
    /// What the others cost an hour.
    pub idle: Price,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The pool, empty for nodes without.
    pub pool: String,
    /// The instance type, empty before it is known.
    pub instance_type: String,
    /// The capacity type.
    pub capacity_type: String,
    /// How far they are.
    pub phase: Phase,
    /// How many.
    pub count: usize,
    /// What each costs an hour.
    pub price: Price,
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It can run pods.
    Ready,
    /// It is on its way.
    Starting,
    /// It is going away.
    Leaving,
}
