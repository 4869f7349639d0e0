//! What the solver answers.

use std::sync::Arc;

use crate::explain::Obstacle;
use crate::price::Price;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::solve::Dropped;

/// Where every pod goes, and what that costs.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Nodes to buy, in the order in which they were decided.
    pub claims: Vec<PlannedClaim>,
    /// Pods that existing nodes take, by node in the order in which nodes are tried.
    pub existing: Vec<PlannedNode>,
    /// Pods that found no place.
    pub unplaced: Vec<Unplaced>,
    /// Pods that were placed after giving up some of their wishes.
    pub relaxed: Vec<Relaxed>,
    /// What the claims cost together if each is launched as planned.
    pub price: Price,
    /// What any fleet for the pods that were placed costs at least, existing nodes being free.
    pub lower_bound: Price,
}

/// A node to buy.
#[derive(Clone, Debug)]
pub struct PlannedClaim {
    /// The pool it belongs to.
    pub pool: Arc<str>,
    /// Indices of its pods in the snapshot.
    pub pods: Vec<u32>,
    /// What it may still become, instance types apart.
    pub requirements: Requirements,
    /// Instance types that hold its pods, cheapest first.
    pub instance_types: Vec<Arc<str>>,
    /// Zones where one of them can be launched.
    pub zones: Vec<Arc<str>>,
    /// Capacity types as which one of them can be launched.
    pub capacity_types: Vec<Arc<str>>,
    /// The cheapest launch.
    pub launch: Option<Launch>,
    /// What its pods and the daemons ask for.
    pub requests: Resources,
    /// Whether the pool wanted more distinct values than there are.
    pub min_values_relaxed: bool,
}

/// One way to launch a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The instance type.
    pub instance_type: Arc<str>,
    /// The zone.
    pub zone: Arc<str>,
    /// The capacity type.
    pub capacity_type: Arc<str>,
    /// The price per hour.
    pub price: Price,
}

/// Pods for a node that exists.
#[derive(Clone, Debug)]
pub struct PlannedNode {
    /// The index of the node in the snapshot.
    pub node: u32,
    /// Indices of the pods in the snapshot.
    pub pods: Vec<u32>,
}

/// A pod that gave up some of its wishes.
#[derive(Clone, Debug)]
pub struct Relaxed {
    /// The index of the pod in the snapshot.
    pub pod: u32,
    /// What it gave up, in that order.
    pub dropped: Vec<Dropped>,
}

/// A pod that found no place.
#[derive(Clone, Debug)]
pub struct Unplaced {
    /// The index of the pod in the snapshot.
    pub pod: u32,
    /// What stood in the way, nearest miss first; pods with equal needs share it.
    pub obstacles: Arc<[Obstacle]>,
}
