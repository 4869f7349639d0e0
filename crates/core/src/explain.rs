//! Why a pod cannot go somewhere, as data.

use std::fmt;
use std::sync::Arc;

use crate::quantity::Quantity;

/// A place that refused a pod, and the rule that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Who refused.
    pub place: Place,
    /// Why.
    pub rule: Refusal,
}

/// A place where a pod might have gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A new node of this pool.
    Pool(Arc<str>),
    /// A node that exists.
    Node(Arc<str>),
    /// There is nowhere to ask.
    Nowhere,
}

/// The rule that made a place refuse; later variants are nearer misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is neither a pool nor a node.
    NoPools,
    /// A taint is not tolerated.
    Taint(String),
    /// Labels do not match; says which and how.
    Labels(String),
    /// Volumes are elsewhere; says where.
    VolumeTopology(String),
    /// No instance type has labels that match.
    NoInstanceType(String),
    /// Too little of a resource even in the largest place.
    Resource {
        /// The resource.
        name: Arc<str>,
        /// What the pod asks for.
        asked: Quantity,
        /// The most that is free in one place.
        most: Quantity,
    },
    /// Each resource would fit somewhere, but no place has all of them.
    Combination,
    /// A port of the node is taken.
    HostPort(u16),
    /// Too many volumes of a driver.
    VolumeLimit(Arc<str>),
    /// A group of pods does not allow it; says which.
    Topology(String),
    /// Too few distinct values of labels are left.
    MinValues(String),
    /// The pool's limits leave too little; says of what.
    Limit(String),
    /// A reservation that the pod should use is held by others.
    Reservation,
}

impl Refusal {
    /// How near a miss it was: more is nearer.
    pub fn nearness(&self) -> u8 {
        match self {
            Self::NoPools => 0,
            Self::Taint(_) => 1,
            Self::Labels(_) => 2,
            Self::VolumeTopology(_) => 3,
            Self::NoInstanceType(_) => 4,
            Self::Resource { .. } => 5,
            Self::Combination => 6,
            Self::HostPort(_) => 7,
            Self::VolumeLimit(_) => 8,
            Self::Topology(_) => 9,
            Self::MinValues(_) => 10,
            Self::Limit(_) => 11,
            Self::Reservation => 12,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPools => f.write_str("there is no pool to launch from"),
            Self::Taint(taint) => write!(f, "does not tolerate taint {taint}"),
            Self::Labels(clash) | Self::VolumeTopology(clash) => f.write_str(clash),
            Self::NoInstanceType(asked) if asked.is_empty() => {
                f.write_str("no instance type has room for the daemons")
            }
            Self::NoInstanceType(asked) => write!(f, "no instance type matches {asked}"),
            Self::Resource { name, asked, most } => {
                write!(f, "asks for {asked} {name}, the most that is free is {most}")
            }
            Self::Combination => f.write_str("no single instance type has room for all requests together"),
            Self::HostPort(port) => write!(f, "host port {port} is taken"),
            Self::VolumeLimit(driver) => write!(f, "too many volumes of {driver}"),
            Self::Topology(group) => f.write_str(group),
            Self::MinValues(short) => write!(f, "too few distinct values: {short}"),
            Self::Limit(left) => write!(f, "pool limit reached: {left}"),
            Self::Reservation => f.write_str("waits for reserved capacity that another claim holds"),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Pool(name) => write!(f, "pool {name}: {}", self.rule),
            Place::Node(name) => write!(f, "node {name}: {}", self.rule),
            Place::Nowhere => write!(f, "{}", self.rule),
        }
    }
}
