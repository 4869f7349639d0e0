//! Writes the decisions out as a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::labels::{CAPACITY_TYPE, INITIALIZED, REGISTERED, RESERVED};
use crate::plan::{Launch, PlannedClaim, PlannedNode, Relaxed};
use crate::price::Price;
use crate::requirement::Requirement;
use crate::resources::Resources;
use crate::snapshot::MinValues;
use crate::solve::claims::Claim;
use crate::solve::min_values::shortfall;
use crate::solve::problem::Problem;
use crate::solve::rows::Buy;
use crate::solve::state::State;

/// The claims to create; those that cannot be cut down to size without losing distinct values are left out, and their
/// pods returned.
pub(crate) fn claims(problem: &mut Problem<'_>, state: &State) -> (Vec<PlannedClaim>, Vec<u32>) {
    let (mut planned, mut lost) = (Vec::with_capacity(state.claims.len()), Vec::new());
    for claim in state.claims.iter() {
        match planned_claim(problem, claim) {
            Some(claim) => planned.push(claim),
            None => lost.extend(&claim.pods),
        }
    }
    (planned, lost)
}

/// The nodes that got pods, in the order in which they are tried.
pub(crate) fn existing(problem: &Problem<'_>, state: &State) -> Vec<PlannedNode> {
    let nodes = problem.nodes.iter().zip(&state.nodes).filter(|(_, node)| !node.pods.is_empty());
    nodes.map(|(row, node)| PlannedNode { node: row.index, pods: node.pods.clone() }).collect()
}

/// The pods that gave up wishes, and which.
pub(crate) fn relaxed(problem: &Problem<'_>, state: &State) -> Vec<Relaxed> {
    let of = |pod: u32| &problem.classes.all[problem.classes.of_pod[pod as usize].0 as usize];
    let dropped =
        |pod: u32, variant: usize| of(pod).variants[..=variant].iter().filter_map(|step| step.dropped);
    let mut all: Vec<Relaxed> = state
        .relaxed
        .iter()
        .map(|(pod, variant)| Relaxed { pod: *pod, dropped: dropped(*pod, *variant).collect() })
        .collect();
    all.sort_by_key(|relaxed| relaxed.pod);
    all
}

fn planned_claim(problem: &mut Problem<'_>, claim: &Claim) -> Option<PlannedClaim> {
    let options = &problem.snapshot.options;
    let most = options.max_instance_types;
    let mut reqs = claim.reqs;
    if !claim.reservations.is_empty() {
        let mut pinned = (**problem.reqs.get(reqs)).clone();
        pinned.replace(Requirement::any_of(CAPACITY_TYPE, &[RESERVED]));
        let ids: Vec<&Arc<str>> = claim.reservations.iter().collect();
        pinned.add(Requirement::any_of(&options.reservation_label, &ids));
        reqs = problem.reqs.intern(pinned);
    }
    let pool = &mut problem.pools[claim.pool];
    let priced = pool.rows.priced(reqs, &problem.reqs);
    let holds = |row: usize| {
        claim.rows.as_ref().is_none_or(|rows| rows.has(row))
            && pool.rows.room(row).iter().zip(&claim.total).all(|(room, total)| total <= room)
    };
    let name = |buy: &&Buy| &pool.rows.instance_type(buy.row as usize).name;
    let mut buys: Vec<&Buy> = priced.iter().filter(|buy| holds(buy.row as usize)).collect();
    let mut every_way = Vec::new();
    if pool.rows.some_types_repeat() {
        // A type whose offerings differ has several rows; the cheapest stands for it, but all of them may be bought.
        every_way.clone_from(&buys);
        let mut named = BTreeSet::new();
        buys.retain(|buy| named.insert(name(buy)));
    }
    buys.truncate(most);
    if every_way.is_empty() {
        every_way.clone_from(&buys);
    } else {
        let kept: BTreeSet<_> = buys.iter().map(name).collect();
        every_way.retain(|buy| kept.contains(name(buy)));
    }
    let zones = every_way.iter().fold(0, |all, buy| all | buy.zones);
    let capacity_types = every_way.iter().fold(0, |all, buy| all | buy.capacity_types);
    let rows: Vec<usize> = buys.iter().map(|buy| buy.row as usize).collect();
    let strict = problem.snapshot.options.min_values == MinValues::Strict;
    if strict
        && problem.pools[claim.pool].min_values
        && !shortfall(problem, claim.pool, reqs, &rows).is_empty()
    {
        return None;
    }
    let pool = &mut problem.pools[claim.pool];
    let launch = buys.first().filter(|buy| buy.price != Price::MAX).map(|buy| {
        let offering = pool.rows.offering(buy.offering as usize);
        Launch {
            instance_type: pool.rows.instance_type(buy.row as usize).name.clone(),
            zone: offering.zone().into(),
            capacity_type: offering.capacity_type().into(),
            price: buy.price,
        }
    });
    let instance_types: Vec<Arc<str>> =
        rows.iter().map(|row| pool.rows.instance_type(*row).name.clone()).collect();
    let (zones, capacity_types) = (pool.rows.zones(zones), pool.rows.capacity_types(capacity_types));
    let mut requirements = (**problem.reqs.get(reqs)).clone();
    for key in [REGISTERED, INITIALIZED] {
        requirements.remove(key);
    }
    if !capacity_types.is_empty() {
        requirements.add(Requirement::any_of(CAPACITY_TYPE, &capacity_types));
    }
    let requests = requests(problem, claim, &rows);
    Some(PlannedClaim {
        pool: problem.pools[claim.pool].pool.name.clone(),
        pods: claim.pods.clone(),
        requirements,
        instance_types,
        zones,
        capacity_types,
        launch,
        requests,
        min_values_relaxed: claim.min_values_relaxed,
    })
}

/// What the pods ask for, and the least that daemons ask for on any of the types.
fn requests(problem: &Problem<'_>, claim: &Claim, rows: &[usize]) -> Resources {
    let mut total = Resources::new();
    for pod in &claim.pods {
        total.add(&problem.snapshot.pods[*pod as usize].shape.requests);
    }
    let mut least: Option<Resources> = None;
    let mut seen: Vec<*const crate::solve::rows::DaemonSet> = Vec::new();
    for row in rows {
        let daemons = problem.pools[claim.pool].rows.daemons(*row);
        if seen.contains(&std::ptr::from_ref(daemons)) {
            continue;
        }
        seen.push(daemons);
        least = Some(match least {
            None => daemons.requests.clone(),
            Some(least) => {
                let common = least.iter().filter_map(|(name, amount)| {
                    daemons.requests.listed(name).map(|other| (name, amount.min(other)))
                });
                common.collect()
            }
        });
    }
    if let Some(least) = least {
        total.add(&least);
    }
    total
}
