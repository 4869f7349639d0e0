//! Why a pod cannot go somewhere, as data.

use std::fmt;
use std::sync::Arc;

use crate::quantity::Quantity;
use crate::snapshot::Taint;

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

/// The rule that made a place refuse.
///
/// Later variants are nearer misses: rules are asked in this order, so that a place that refuses by a later one has passed
/// all those before it. Of two places that refuse by the same rule, the one that lacks the smaller part of what is asked
/// for is nearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is neither a pool nor a node.
    NoPools,
    /// A taint is not tolerated.
    Taint(Taint),
    /// Labels do not match; says which and how.
    Labels(String),
    /// Volumes are elsewhere; says where.
    VolumeTopology(String),
    /// No instance type has labels that match.
    NoInstanceType(String),
    /// Too little of a resource even in the largest place.
    Resource(Shortage),
    /// Each resource would fit somewhere, but no machine has room for all of them.
    Combination {
        /// The machine that lacks least.
        nearest: Arc<str>,
        /// What it lacks.
        short: Vec<Shortage>,
    },
    /// A port of the node is taken.
    HostPort(u16),
    /// Too many volumes of a driver.
    VolumeLimit(Arc<str>),
    /// A group of pods does not allow it; says which.
    Topology(String),
    /// Too few distinct values of labels are left.
    MinValues(String),
    /// The pool's limits leave too little.
    Limit {
        /// What is left of them.
        left: Vec<(Arc<str>, Quantity)>,
        /// How much more of what would allow the smallest machine that holds the pod.
        more: Vec<(Arc<str>, Quantity)>,
    },
    /// A reservation that the pod should use is held by others.
    Reservation,
}

/// Too little of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The resource.
    pub name: Arc<str>,
    /// What is asked for.
    pub asked: Quantity,
    /// What there is.
    pub most: Quantity,
}

impl Shortage {
    /// Which part of what is asked for is lacking, in millionths.
    fn part(&self) -> i128 {
        const WHOLE: i128 = 1_000_000;
        let asked = self.asked.nanos().max(1);
        let lacking = asked.saturating_sub(self.most.nanos()).clamp(0, asked);
        // Absurd amounts lose digits, not the comparison.
        lacking.checked_mul(WHOLE).map_or_else(|| lacking / (asked / WHOLE).max(1), |lacking| lacking / asked)
    }
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
            Self::Resource(_) => 5,
            Self::Combination { .. } => 6,
            Self::HostPort(_) => 7,
            Self::VolumeLimit(_) => 8,
            Self::Topology(_) => 9,
            Self::MinValues(_) => 10,
            Self::Limit { .. } => 11,
            Self::Reservation => 12,
        }
    }

    /// How much was missing where that can be said, in millionths of what was asked for: less is nearer.
    pub fn miss(&self) -> i128 {
        match self {
            Self::Resource(short) => short.part(),
            Self::Combination { short, .. } => short.iter().map(Shortage::part).sum(),
            _ => 0,
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
            Self::Resource(Shortage { name, asked, most }) => {
                write!(f, "asks for {asked} {name}, the most that is free is {most}")
            }
            Self::Combination { nearest, short } => {
                let short = short.iter().map(|s| format!("{} {} of {} asked for", s.most, s.name, s.asked));
                let short = short.collect::<Vec<_>>().join(" and ");
                write!(
                    f,
                    "no machine has room for all requests together: the nearest, {nearest}, has {short}"
                )
            }
            Self::HostPort(port) => write!(f, "host port {port} is taken"),
            Self::VolumeLimit(driver) => write!(f, "too many volumes of {driver}"),
            Self::Topology(group) => f.write_str(group),
            Self::MinValues(short) => write!(f, "too few distinct values: {short}"),
            Self::Limit { left, .. } => {
                f.write_str("pool limit reached: ")?;
                for (i, (name, left)) in left.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{} {name} left", left.at_least_zero())?;
                }
                Ok(())
            }
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
