//! From a snapshot to a plan.
//!
//! 1. [`problem`] lays the snapshot out: resources as columns ([`amounts`]), requirement sets by number ([`reqs`]), instance
//!    types as rows ([`rows`]), pods as classes with constraints and a
//!    ladder of wishes ([`classes`], [`constraints`], [`relax`]), groups with counts
//!    ([`topology`]).
//! 2. A packing policy ([`compat`]) asks places one by one ([`attempt`]) and records its decisions ([`state`], [`claims`],
//!    [`candidates`], [`line`], [`reservations`], [`min_values`]). Real demand first, then expected.
//! 3. [`finish`] writes the plan, [`why`] says what stood in the way, [`bound`] says how cheap it could have been.
//!
//! [`without`] asks the same problem many times where pods would go if some nodes were not there; [`sketch`] does so by amounts
//! alone, and [`relaxed`] says which nodes would go if they could go in part.

mod amounts;
mod attempt;
mod bits;
mod bound;
mod candidates;
mod claims;
mod classes;
mod compat;
mod constraints;
mod finish;
mod homes;
mod launches;
mod line;
mod min_values;
mod offers;
mod problem;
mod relax;
mod relaxed;
mod reqs;
mod reservations;
mod rows;
mod sketch;
mod state;
mod topology;
mod why;
mod without;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use amounts::Units;
pub(crate) use bits::Bits;
pub use relax::Dropped;
pub(crate) use relaxed::Leaver;
pub use sketch::Style;
pub(crate) use sketch::{Draft, Home, Sketch};
pub(crate) use without::{Answer, Question, Without};

use crate::explain::Obstacle;
use crate::plan::{Plan, Unplaced};
use crate::price::Price;
use crate::snapshot::{Demand, Snapshot};
use compat::Order;
use problem::Problem;
use state::State;

/// How pods are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Karpenter's choices.
    #[default]
    Compat,
}

/// Decides where every pod of the snapshot goes.
///
/// The same snapshot gives the same plan, whatever the order of its lists.
pub fn solve(snapshot: &Snapshot, packing: Packing) -> Plan {
    let (mut problem, mut state, mut left) = settle(snapshot, packing);
    let (claims, lost) = finish::claims(&mut problem, &state);
    left.extend(lost);
    left.sort_unstable();
    let mut known: BTreeMap<u32, Arc<[Obstacle]>> = BTreeMap::new();
    let mut unplaced = Vec::with_capacity(left.len());
    for pod in left {
        let class = problem.classes.of_pod[pod as usize];
        let obstacles = match known.get(&class.0) {
            Some(obstacles) => obstacles.clone(),
            None => {
                known.entry(class.0).or_insert(why::in_pools(&mut problem, &mut state, class).into()).clone()
            }
        };
        unplaced.push(Unplaced { pod, obstacles });
    }
    Plan {
        price: claims
            .iter()
            .filter_map(|claim| claim.launch.as_ref())
            .map(|launch| launch.price)
            .sum::<Price>(),
        lower_bound: bound::lower_bound(&mut problem, &state),
        existing: finish::existing(&problem, &state),
        relaxed: finish::relaxed(&problem, &state),
        claims,
        unplaced,
    }
}

/// What stands in the way of one pod once every other pod has its place, in every pool and on every node; for a pod that has
/// a place only where it was refused before. Nearest miss first.
pub fn obstacles(snapshot: &Snapshot, pod: u32) -> Vec<Obstacle> {
    let (mut problem, mut state, left) = settle(snapshot, Packing::Compat);
    if left.contains(&pod) {
        let class = problem.classes.of_pod[pod as usize];
        why::everywhere(&mut problem, &mut state, class)
    } else {
        why::before(&mut problem, &mut state, pod)
    }
}

/// Gives every pod its place and returns those that found none.
fn settle(snapshot: &Snapshot, packing: Packing) -> (Problem<'_>, State, Vec<u32>) {
    let mut problem = Problem::new(snapshot);
    let mut state = State::new(&problem);
    let mut left = pack(&mut problem, &mut state, packing, Demand::Real, Order::Size);
    if unfair(snapshot, &state, &left) {
        state = State::new(&problem);
        left = pack(&mut problem, &mut state, packing, Demand::Real, Order::Priority);
    }
    if snapshot.pods.iter().any(|pod| pod.demand == Demand::Expected) {
        // What limits refused to real pods, expected ones must not take.
        for (pool, known) in state.pools.iter_mut().zip(&problem.pools) {
            pool.barred = known.pool.only_real;
            pool.closed = pool.turned_away || pool.barred;
        }
        left.extend(pack(&mut problem, &mut state, packing, Demand::Expected, Order::Size));
    }
    (problem, state, left)
}

fn pack(
    problem: &mut Problem<'_>,
    state: &mut State,
    packing: Packing,
    demand: Demand,
    order: Order,
) -> Vec<u32> {
    match packing {
        Packing::Compat => compat::pack(problem, state, demand, order),
    }
}

/// Whether limits left out a pod that matters more than one that got in.
fn unfair(snapshot: &Snapshot, state: &State, left: &[u32]) -> bool {
    let limits = state.pools.iter().any(|pool| pool.turned_away);
    let priority = |pod: &u32| snapshot.pods[*pod as usize].shape.priority;
    let out = left.iter().map(priority).max();
    let placed = state.claims.iter().flat_map(|claim| &claim.pods);
    limits && out.is_some_and(|out| placed.map(priority).min().is_some_and(|least| least < out))
}
