//! Which nodes may go, what takes their place, and why others stay.
//!
//! ```text
//! Fleet ── decide ──► Decision   moves in the order of upstream's methods: repair, emptiness, drift, consolidation
//!             └─ the solver's question without some nodes: do their pods find a place, and at what price?
//! ```
//!
//! 1. [`budget`] says how many nodes of each pool may be going now, [`cost`] what moving pods costs.
//! 2. `pass` knows who may not go and asks the solver; `price` leaves replacements only what is cheaper; `balanced`
//!    weighs savings against evictions.
//! 3. `replace` is repair and drift, `swap` the same for pools that keep a number of nodes, `ends` says when a node goes
//!    before its replacement comes; `compat` is upstream's search for what to consolidate, `search` is ours, `plan` what it
//!    plans with `draw`'s lots, `limit` what neither can beat.

mod balanced;
pub mod budget;
mod compat;
pub mod cost;
mod draw;
mod ends;
mod limit;
mod pass;
mod plan;
mod price;
mod replace;
mod search;
mod swap;
mod why;

use std::sync::Arc;

pub use limit::least_after;
pub use why::{BlockedBy, PodBlock, Why};

use crate::fixed::Count;
use crate::plan::{PlannedClaim, PlannedNode};
use crate::price::Price;
use crate::resources::Resources;
use crate::snapshot::Snapshot;
pub use crate::solve::Style;
use crate::solve::{Answer, Question, Without};
use crate::types::Types;
use budget::Budget;
use pass::Pass;

/// Why a node goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is broken.
    Unhealthy,
    /// Nobody would miss it.
    Empty,
    /// It no longer is what its pool asks for.
    Drifted,
    /// Its pods fit elsewhere for less.
    Underutilized,
}

/// How to look for nodes that are not worth their price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Search {
    /// As Karpenter does: one move at a time, prefixes of a sorted list, at most one new node.
    Compat,
    /// Any set of nodes, any number of new ones, as many moves at once as budgets allow.
    #[default]
    Wide,
}

/// Choices that operators make for the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How to look for nodes that are not worth their price.
    pub search: Search,
    /// Whether spot nodes are replaced by cheaper spot nodes.
    pub spot_to_spot: bool,
    /// Whether a drifted node that cannot be replaced first goes first.
    pub terminate_first_drift: bool,
    /// Whether a broken node that cannot be replaced first goes first.
    pub terminate_first_repair: bool,
}

/// All nodes that may be disrupted, and what they depend on.
#[derive(Debug)]
pub struct Fleet {
    /// What the solver looks at; behind the pods without a node come those of nodes that may be disrupted.
    pub snapshot: Snapshot,
    /// How many pods of the snapshot have no node.
    pub waiting: usize,
    /// Nodes of ours that exist, those that are going away left out.
    pub members: Vec<Member>,
    /// What pools want.
    pub pools: Vec<Policy>,
    /// Seconds since 1970.
    pub now: i64,
    /// How to decide.
    pub options: Options,
    /// What our own search wanted when the fleet was last looked at and has not been begun yet.
    pub ideas: Vec<Idea>,
}

/// Nodes that may go together, as our own search planned it.
#[derive(Clone, Debug)]
pub struct Idea {
    /// Indices of the members.
    pub members: Vec<u32>,
    /// How places for their pods were looked for.
    pub style: Style,
}

/// A node of ours.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts that do not exclude each other")]
pub struct Member {
    /// Its index in the snapshot.
    pub node: u32,
    /// Its pool.
    pub pool: Arc<str>,
    /// What it counts against the pool's limits.
    pub capacity: Arc<Resources>,
    /// Whether it is ready for pods.
    pub is_initialized: bool,
    /// Whether a pod that waits will go there.
    pub is_nominated: bool,
    /// Whether somebody does not want it to be disrupted.
    pub do_not_disrupt: bool,
    /// Whether pods must leave it in time, whatever protects them.
    pub has_grace_period: bool,
    /// Whether nothing has happened on it for as long as the pool wants to wait.
    pub is_consolidatable: bool,
    /// Whether pods came or went less than that ago.
    pub is_restless: bool,
    /// Until when it is left in peace because it has just replaced another or taken its pods, in seconds since 1970.
    pub rests_until: Option<i64>,
    /// Since when it is not what its pool asks for, in seconds since 1970.
    pub drifted: Option<i64>,
    /// What is wrong with it, if that has been tolerated long enough.
    pub sick: Option<Sickness>,
    /// Its pods.
    pub residents: Vec<Resident>,
}

/// What is wrong with a node that is to be repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sickness {
    /// How urgent it is; higher goes first.
    pub score: f64,
    /// Whether the drain has an end, so that nothing that protects pods can hold it up for ever.
    pub is_bounded: bool,
    /// Whether somebody does not want it to be repaired.
    pub do_not_repair: bool,
    /// Whether restarting it will do.
    pub reboots: bool,
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub struct Resident {
    /// Its index in the snapshot's pods if it will need another node.
    pub pod: Option<u32>,
    /// What evicting it costs.
    pub cost: f64,
    /// What keeps it where it is.
    pub block: Option<PodBlock>,
}

/// What a pool wants.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub pool: Arc<str>,
    /// When nodes may be removed to save money.
    pub consolidation: Consolidation,
    /// Whether nodes may be removed to save money at all.
    pub consolidates: bool,
    /// Whether what was removed to save money had to be bought again.
    pub is_in_vain: bool,
    /// How many nodes it has.
    pub size: Size,
    /// How many nodes may be going at once.
    pub budgets: Vec<Budget>,
    /// Nodes that budgets are about.
    pub nodes: u32,
    /// Nodes of them that are going.
    pub going: u32,
    /// Nodes of them that stay but are not ready.
    pub unready: u32,
    /// All nodes there are, whatever their state.
    pub known: u32,
    /// Nodes of all there are that are unhealthy, however short.
    pub sick: u32,
}

/// How many nodes a pool has.
#[derive(Clone, Debug, Default)]
pub enum Size {
    /// As many as the pods need.
    #[default]
    ByNeed,
    /// A number of them, whatever the pods need.
    Fixed(Box<Fixed>),
    /// The same, but nobody sees to it.
    Unkept,
}

/// A pool that keeps a number of nodes.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// How many it should have, may have, and has.
    pub count: Count,
    /// Whether a node that goes will be made up for: the pool is in order and stays.
    pub is_refilled: bool,
    /// What takes the place of a node.
    pub replacement: PlannedClaim,
    /// What can be bought.
    pub types: Arc<Types>,
}

/// When nodes may be removed to save money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consolidation {
    /// If nobody would miss them.
    WhenEmpty,
    /// If their pods fit elsewhere for less.
    #[default]
    WhenEmptyOrUnderutilized,
    /// The same, if it saves enough for how many pods must move.
    Balanced,
}

/// What to do.
#[derive(Debug, Default)]
pub struct Decision {
    /// What to do at once; all of it together keeps to the budgets.
    pub moves: Vec<Move>,
    /// Indices of members to restart where they are.
    pub reboots: Vec<u32>,
    /// Why nodes stay: indices of members.
    pub blocked: Vec<(u32, Why)>,
    /// For each pool and reason how many nodes may be going at once.
    pub allowed: Vec<(Arc<str>, Reason, u32)>,
    /// How many nodes could go for each reason, whatever else keeps them.
    pub eligible: Vec<(Reason, usize)>,
}

/// Nodes to remove together.
#[derive(Clone, Debug)]
pub struct Move {
    /// Why.
    pub reason: Reason,
    /// Indices of the members to remove.
    pub members: Vec<u32>,
    /// What to buy first; its pods are indices of the snapshot's pods.
    pub replacements: Vec<PlannedClaim>,
    /// Why nothing is bought first though the pods need another node.
    pub terminates_first: Option<TerminateFirst>,
    /// Where the other pods would go.
    pub existing: Vec<PlannedNode>,
    /// What is saved per hour; negative if it costs.
    pub saving: Price,
    /// How many pods must move.
    pub evictions: usize,
    /// How our own search looked for places for them, if it did.
    pub style: Option<Style>,
}

/// Why a node goes before its replacement comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminateFirst {
    /// Only reserved capacity will do, and only what the node itself holds would be free.
    NoReservedCapacity,
    /// Its pool has as many nodes as it may have.
    StaticAtLimit,
}

impl TerminateFirst {
    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoReservedCapacity => "no-reserved-capacity",
            Self::StaticAtLimit => "static-at-limit",
        }
    }
}

/// Decides which nodes go.
pub fn decide(fleet: &Fleet) -> Decision {
    let mut pass = Pass::new(fleet);
    let one_by_one = fleet.options.search == Search::Compat;
    let methods =
        [Pass::repair, Pass::remove_empty, Pass::swap_drifted, Pass::replace_drifted, Pass::consolidate];
    for method in methods {
        method(&mut pass);
        // COMPAT: upstream's pass ends with the first method that does something.
        if one_by_one && !(pass.decision.moves.is_empty() && pass.decision.reboots.is_empty()) {
            break;
        }
    }
    pass.finish()
}

impl Policy {
    /// Whether the pool has a number of nodes, whatever the pods need.
    pub const fn is_static(&self) -> bool {
        !matches!(self.size, Size::ByNeed)
    }
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unhealthy, Self::Empty, Self::Drifted, Self::Underutilized];

    /// Its name in conditions and manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unhealthy => "Unhealthy",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
        }
    }
}

/// Whether pods still fit on the nodes that stay without some others, all of them ready.
///
/// The first `waiting` pods of the snapshot have no node; nodes and pods are indices in the snapshot.
pub fn still_fits(snapshot: &Snapshot, waiting: usize, gone: &[u32], pods: &[u32]) -> bool {
    let mut without = Without::new(snapshot, waiting);
    let question = Question { gone, pods, credit: &[], most_claims: 0, homes: None };
    match without.ask(&question) {
        Answer::Placed { existing, .. } => {
            existing.iter().all(|on| snapshot.nodes[on.node as usize].initialized)
        }
        Answer::TooMany | Answer::Nowhere(_) => false,
    }
}
