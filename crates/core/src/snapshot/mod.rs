//! What the solver is told: pools, nodes and pods at one instant.
//!
//! A snapshot holds only what decides placement. Whoever builds it has already left out pools that are static, not
//! ready or being deleted, nodes that are going away, and pods that need no node.

mod label_set;
mod launching;
mod selector;
mod shape;
mod taint;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use label_set::Labels;
pub use launching::{Launching, Outcome, either};
pub use selector::Selector;
pub use shape::{HostPort, Namespaces, PodTerm, PodTerms, Shape, Spread, Volume, Weighted};
pub use taint::{Effect, Taint, Toleration, TolerationOperator, untolerated};

use serde::{Deserialize, Serialize};

use crate::labels::WellKnown;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::types::Types;

/// Everything a decision depends on.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Where new nodes may come from.
    pub pools: Vec<Pool>,
    /// Nodes that exist or are on their way.
    pub nodes: Vec<Node>,
    /// Pods that already have a node.
    pub bound: Vec<BoundPod>,
    /// Pods that want one.
    pub pods: Vec<Pod>,
    /// Pods that every suitable node will run.
    pub daemons: Vec<Daemon>,
    /// Labels of namespaces, for terms that select namespaces by label.
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    /// Labels that launches fill in.
    pub well_known: WellKnown,
    /// How to decide.
    pub options: Options,
}

/// Choices that operators make for the whole cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether preferences count at all.
    pub preferences: Preferences,
    /// What happens when too few distinct values are left.
    pub min_values: MinValues,
    /// Whether reserved capacity is used, and how eagerly.
    pub reserved: Reserved,
    /// The label that names a reservation in reserved offerings.
    pub reservation_label: Arc<str>,
    /// Most instance types that a claim may list.
    pub max_instance_types: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: Preferences::Respect,
            min_values: MinValues::Strict,
            reserved: Reserved::Strict,
            reservation_label: "karpenter.sh/reservation-id".into(),
            max_instance_types: 600,
        }
    }
}

/// How preferences of pods are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preferences {
    /// As requirements, dropped one by one when they cannot be met.
    Respect,
    /// Not at all.
    Ignore,
}

/// What happens when a pool asks for more distinct values than its instance types offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinValues {
    /// Nothing is launched.
    Strict,
    /// A new claim asks for fewer.
    BestEffort,
}

/// How reserved offerings are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Pods wait rather than take other capacity while a reservation may still become free.
    Strict,
    /// Pods take other capacity.
    Fallback,
    /// Reservations are ignored.
    Off,
}

/// A source of new nodes.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The pool's name.
    pub name: Arc<str>,
    /// Pools with more weight are asked first.
    pub weight: i32,
    /// Requirements of the template.
    pub requirements: Requirements,
    /// Labels every node gets; the pool's own label is added by the solver.
    pub labels: Labels,
    /// Taints every node keeps.
    pub taints: Vec<Taint>,
    /// Most that all nodes of the pool may have together; `nodes` counts nodes.
    pub limits: Option<Resources>,
    /// What all nodes and claims of the pool have now, those being deleted included.
    pub used: Resources,
    /// What can be bought, overlays applied.
    pub types: Arc<Types>,
    /// Whether nodes are bought for real pods only; expected ones still get what is left of nodes that exist.
    pub only_real: bool,
}

/// A node that exists or is on its way.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The node's name, or that of its claim before it registers.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its taints, without those it will shed by itself.
    pub taints: Vec<Taint>,
    /// What pods can use; empty for a launch that has not told yet.
    pub allocatable: Arc<Resources>,
    /// What the node may still become, as long as only its claim exists.
    pub launching: Option<Box<Launching>>,
    /// What its pods ask for, daemons included.
    pub requested: Resources,
    /// What its daemon pods ask for.
    pub daemon_requested: Resources,
    /// Whether it is ready for pods; such nodes are preferred to those on their way.
    pub initialized: bool,
    /// Ports of the node that are taken.
    pub host_ports: Vec<HostPort>,
    /// Volumes attached to it.
    pub volumes: Vec<Volume>,
    /// How many volumes of each driver can be attached; a driver that is absent is unlimited.
    pub volume_limits: BTreeMap<Arc<str>, u32>,
}

/// A pod on a node, which only matters for what other pods think of it.
#[derive(Clone, Debug)]
pub struct BoundPod {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its needs; labels and required anti-affinity are looked at.
    pub shape: Arc<Shape>,
    /// The index of its node in the snapshot.
    pub node: u32,
}

/// A pod that wants a node.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Breaks ties between pods of equal size and age.
    pub uid: Arc<str>,
    /// When it was created, in seconds.
    pub created: i64,
    /// Whether the pod exists or is foreseen.
    pub demand: Demand,
    /// What it needs.
    pub shape: Arc<Shape>,
    /// Its volumes that count against attachment limits.
    pub volumes: Box<[Volume]>,
}

/// How sure a demand is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Demand {
    /// The pod exists.
    #[default]
    Real,
    /// The pod is foreseen; it gets what real pods leave.
    Expected,
}

/// A pod that every suitable node runs.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// `namespace/name` of the daemon set.
    pub name: Arc<str>,
    /// What its pods need.
    pub shape: Arc<Shape>,
}
