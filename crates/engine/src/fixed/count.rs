//! How many nodes a pool that keeps a number of them has, and who would miss which.

use std::collections::BTreeSet;

use headstart_api::NodePool;
use headstart_api::annotations::DO_NOT_DISRUPT;
use headstart_core::disrupt::cost;
use headstart_core::fixed::{Count, Missed, Seat};
use headstart_core::quantity::Quantity;
use headstart_core::resources::NODES;

use crate::disrupt::{Swaps, eviction_cost};
use crate::fixed::template::{anchor, anchor_of};
use crate::store::{Claim, Node, Pod, PodLife as _, Store};
use crate::time::Wall;

/// How many nodes a pool should have, may have, and has; `None` if it has as many as the pods need.
pub(crate) fn count(
    name: &str,
    pool: &NodePool,
    store: &Store,
    swaps: &Swaps,
    doomed: &BTreeSet<String>,
) -> Option<Count> {
    let replicas = u64::try_from(pool.spec.replicas?).unwrap_or(0);
    let written = pool.spec.limits.as_ref().and_then(|limits| limits.get(NODES));
    let limit = written.and_then(|limit| limit.0.parse::<Quantity>().ok());
    let limit = limit.map(|limit| u64::try_from(limit.units()).unwrap_or(0));
    let (mut kept, mut going) = (swaps.coming(name), 0);
    for claim in store.claims.values().filter(|claim| claim.pool() == name) {
        if stays(claim, swaps, doomed) {
            kept += 1;
        } else {
            going += 1;
        }
    }
    Some(Count { replicas, limit, kept, going })
}

/// Whether a claim neither goes nor will go when it is replaced.
fn stays(claim: &Claim, swaps: &Swaps, doomed: &BTreeSet<String>) -> bool {
    !claim.is_leaving() && !swaps.has(claim.name()) && !doomed.contains(claim.name())
}

/// The claims of a pool that stay, and who would miss them.
pub(super) fn seats(
    pool: &str,
    store: &Store,
    swaps: &Swaps,
    doomed: &BTreeSet<String>,
    now: Wall,
) -> Vec<Seat> {
    let of_pool = store.claims.values().filter(|claim| claim.pool() == pool);
    let staying = of_pool.filter(|claim| stays(claim, swaps, doomed));
    staying.map(|claim| Seat { name: claim.name().into(), missed: missed(claim, store, now) }).collect()
}

fn missed(claim: &Claim, store: &Store, now: Wall) -> Missed {
    let Some(id) = claim.provider_id() else { return Missed::Unlaunched };
    let node = store.node_with(&id).ok().flatten();
    let pods: Vec<&Pod> = node
        .map(|node| store.pods_on(node.name()).filter(|pod| !pod.is_over()).collect())
        .unwrap_or_default();
    let cost = cost::removal(pods.iter().map(|pod| eviction_cost(pod))) * remaining(claim, now);
    if node.is_some_and(is_protected) || pods.iter().any(|pod| pod.is_protected(now)) {
        Missed::Protected(cost)
    } else if pods.iter().all(|pod| pod.is_daemon()) {
        Missed::Empty
    } else {
        Missed::Busy(cost)
    }
}

fn is_protected(node: &Node) -> bool {
    node.metadata.annotations.get(DO_NOT_DISRUPT).is_some_and(|text| **text == *"true")
}

/// The share of its time that a claim has left.
fn remaining(claim: &Claim, now: Wall) -> f64 {
    let Some(all) = claim.spec.expire_after().duration().map(|all| all.as_nanos() as f64 / 1e6) else {
        return 1.0;
    };
    let age = now.0.saturating_sub(claim.metadata.created().0) as f64;
    ((all - age) / all.max(1.0)).clamp(0.0, 1.0)
}

/// What claims for free seats are named after, the lowest first.
pub(super) fn free(pool: &NodePool, name: &str, store: &Store) -> impl Iterator<Item = String> + use<> {
    let pool = pool.metadata.uid.clone().unwrap_or_default();
    let of_pool = store.claims.values().filter(|claim| claim.pool() == name && !claim.is_leaving());
    let taken: BTreeSet<String> = of_pool.filter_map(anchor_of).collect();
    (0_u64..).map(move |seat| anchor(&pool, seat)).filter(move |anchor| !taken.contains(anchor))
}
