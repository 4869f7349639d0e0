//! Why a node may not go, as data.

use std::fmt;
use std::sync::Arc;

use crate::disrupt::Reason;
use crate::explain::Obstacle;
use crate::price::Price;

/// Why a node may not go.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Its pool is not known, or nothing can be bought from it.
    NoPool(Arc<str>),
    /// It is not ready for pods yet.
    NotInitialized,
    /// It is on its way out, or will be.
    Leaving,
    /// A pod that waits will go there.
    Nominated,
    /// Somebody does not want it to be disrupted.
    DoNotDisrupt,
    /// Somebody does not want it to be repaired.
    DoNotRepair,
    /// A pod of it cannot be moved.
    Pod(PodBlock),
    /// Too many nodes of its pool are unhealthy for all of them to be at fault.
    Epidemic,
    /// Room is kept on it for pods that are expected.
    Expected,
    /// Its pool does not want nodes to be removed unless they are empty.
    WhenEmpty,
    /// Its pool does not consolidate.
    Never,
    /// Its pods came or went a moment ago, or nobody has said yet that it may be consolidated.
    NotYet,
    /// It has just taken the place of another.
    Resting,
    /// Room that was lately saved in its pool had to be bought again for pods that are expected.
    InVain,
    /// What it is or costs is not known.
    Unpriced,
    /// The budget of its pool for this reason is used up.
    Budget(Reason),
    /// Its pool has as many nodes as it may have, so that nothing can take its place first.
    AtNodeLimit,
    /// Its pool can only use reservations, and those are full.
    ReservationsFull,
    /// A pod of it would have no place.
    Nowhere {
        /// The pod, as `namespace/name`.
        pod: Arc<str>,
        /// What stands in its way, the nearest miss.
        obstacle: Option<Box<Obstacle>>,
    },
    /// A pod of it would go to a node that is not ready yet.
    Unready(Arc<str>),
    /// More new nodes would be needed than it is worth.
    TooMany,
    /// Nothing cheaper holds its pods.
    NotCheaper,
    /// A spot node is not replaced by another, because that is switched off.
    SpotToSpotOff,
    /// Too few cheaper types for a spot node to be replaced by another.
    SpotToSpotFew(usize),
    /// It would save so much at most, not enough for so many evictions.
    TooLittle(Price),
}

/// Why a pod cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodBlock {
    /// The pod, as `namespace/name`.
    pub pod: Arc<str>,
    /// By what.
    pub by: BlockedBy,
}

/// What keeps a pod where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockedBy {
    /// Somebody does not want it to be disrupted.
    DoNotDisrupt,
    /// No more pods may be unavailable.
    Budget(Arc<str>),
    /// It could not have another node as things are.
    Nowhere,
    /// Several budgets are about it, which the Eviction API does not support.
    Budgets(Vec<Arc<str>>),
}

impl Why {
    /// Whether this is about consolidation only.
    pub const fn is_about_consolidation(&self) -> bool {
        matches!(
            self,
            Self::Expected
                | Self::WhenEmpty
                | Self::Never
                | Self::NotYet
                | Self::Resting
                | Self::InVain
                | Self::Unpriced
                | Self::TooMany
                | Self::NotCheaper
                | Self::SpotToSpotOff
                | Self::SpotToSpotFew(_)
                | Self::TooLittle(_)
        )
    }
}

impl fmt::Display for Why {
    /// COMPAT: close to what upstream's events say, for those who search for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool(pool) => write!(f, "NodePool not found (NodePool={pool})"),
            Self::NotInitialized => f.write_str("Node isn't initialized"),
            Self::Leaving => f.write_str("Node is deleting or marked for deletion"),
            Self::Nominated => f.write_str("Node is nominated for a pending pod"),
            Self::DoNotDisrupt => {
                f.write_str("Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")
            }
            Self::DoNotRepair => {
                f.write_str("Repair is blocked through the \"karpenter.sh/do-not-repair\" annotation")
            }
            Self::Pod(PodBlock { pod, by: BlockedBy::DoNotDisrupt }) => {
                write!(f, "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod={pod})")
            }
            Self::Pod(PodBlock { pod, by: BlockedBy::Nowhere }) => {
                write!(f, "Pod could not be scheduled on another node (Pod={pod})")
            }
            Self::Pod(PodBlock { by: BlockedBy::Budget(name), .. }) => {
                write!(f, "Pdb prevents pod evictions (PodDisruptionBudget=[{name}])")
            }
            Self::Pod(PodBlock { by: BlockedBy::Budgets(names), .. }) => {
                let names = names.join(" ");
                write!(f, "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}])")
            }
            Self::Epidemic => f.write_str("More than 20% of the NodePool's nodes are unhealthy"),
            Self::Expected => f.write_str("Node has room for expected pods"),
            Self::WhenEmpty => {
                f.write_str("NodePool has consolidation policy WhenEmpty, but node is not empty")
            }
            Self::Never => f.write_str("NodePool has consolidation disabled"),
            Self::NotYet => f.write_str("Node isn't consolidatable yet"),
            Self::Resting => f.write_str("Node has just replaced another or taken its pods"),
            Self::InVain => f.write_str("A node that the NodePool could do without had to be bought again"),
            Self::Unpriced => f.write_str("Instance type, zone or capacity type of the node is not known"),
            Self::Budget(_) => f.write_str("No allowed disruptions due to blocking budget"),
            Self::AtNodeLimit => {
                f.write_str("static NodePool is at its node limit, which leaves no room for a replacement")
            }
            Self::ReservationsFull => {
                f.write_str("capacity reservations of the static NodePool are full, which leaves no room for a replacement")
            }
            Self::Nowhere { pod, obstacle: Some(obstacle) } => {
                write!(f, "Not all pods would schedule, {pod} => {obstacle}")
            }
            Self::Nowhere { pod, obstacle: None } => write!(f, "Not all pods would schedule, {pod}"),
            Self::Unready(node) => write!(f, "Would schedule against uninitialized node/{node}"),
            Self::TooMany => f.write_str("Can't remove without creating several nodes"),
            Self::NotCheaper => f.write_str("Can't replace with a cheaper node"),
            Self::SpotToSpotOff => {
                f.write_str("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")
            }
            Self::SpotToSpotFew(found) => write!(
                f,
                "SpotToSpotConsolidation requires {} cheaper instance type options than the current candidate to \
                 consolidate, got {found}",
                super::price::SPOT_FLEXIBILITY
            ),
            Self::TooLittle(saving) => {
                write!(f, "Would save at most ${:.3} an hour, too little for its evictions", saving.dollars())
            }
        }
    }
}
