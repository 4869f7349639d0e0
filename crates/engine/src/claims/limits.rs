//! Whether there is still room for a claim in its pool's limits.

use std::sync::Arc;

use headstart_api::conditions::nodeclaim as condition;
use headstart_core::labels::WellKnown;
use headstart_core::quantity::Quantity;
use headstart_core::resources::{NODES, Resources};
use headstart_core::snapshot::{Labels, Launching};
use headstart_core::types::Types;

use crate::claims::launch;
use crate::disrupt::replaced;
use crate::machines::Machines;
use crate::pools;
use crate::store::{Claim, Store};

/// The resource of which a claim that somebody else made would take more than its pool may have.
///
/// A decision counts every claim that it knows. A predecessor's last request may arrive after the decision; what it asks
/// for has been given to others.
pub(crate) fn exceeded(
    claim: &Claim,
    store: &Store,
    machines: &Machines,
    types: &Arc<Types>,
    well_known: &WellKnown,
) -> Option<String> {
    let pool = store.pools.get(claim.pool())?;
    if pool.spec.replicas.is_some_and(|replicas| is_one_too_many(claim, replicas, store)) {
        return Some(NODES.to_owned());
    }
    let limits = pool.spec.limits.as_ref()?;
    let takes = |one: &Claim| {
        let mut takes = Arc::unwrap_or_clone(pools::capacity(one, store));
        if let Some(launch) = machines.launched.get(&one.metadata.uid).filter(|_| takes.is_empty()) {
            takes = launch.instance.capacity.clone();
        }
        if takes.is_empty() {
            let launching = Launching { requirements: launch::requirements(one), types: Arc::clone(types) };
            takes = launching.most(&Labels::new(), well_known);
        }
        takes.add(&Resources::from_iter([(NODES, Quantity::from_units(1))]));
        takes
    };
    let replaced: Vec<&str> = replaced(claim, store).map(Claim::name).collect();
    let order = |one: &Claim| (one.metadata.created(), one.name().to_owned());
    let is_before = |one: &&Claim| {
        one.is_launched() || !machines.is_foreign(&one.metadata.uid) || order(one) <= order(claim)
    };
    let mut total = Resources::default();
    // What it replaces has given its room to it.
    let of_pool =
        store.claims.values().filter(|one| one.pool() == claim.pool() && !replaced.contains(&one.name()));
    of_pool.filter(is_before).for_each(|one| total.add(&takes(one)));
    let mut limits = limits.iter().filter_map(|(name, limit)| Some((name, limit.0.parse().ok()?)));
    limits.find(|(name, limit)| total.get(name) > *limit).map(|(name, _)| name.clone())
}

/// Whether a pool that keeps a number of nodes has as many without a claim that is not launched yet.
fn is_one_too_many(claim: &Claim, replicas: i64, store: &Store) -> bool {
    let stays = |one: &&Claim| {
        one.pool() == claim.pool() && !one.is_leaving() && !one.is(condition::DISRUPTION_REASON)
    };
    let others = store.claims.values().filter(stays).filter(|one| one.is_launched());
    i64::try_from(others.count()).is_ok_and(|others| others >= replicas)
}
