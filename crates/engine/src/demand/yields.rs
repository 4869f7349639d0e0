//! Nodes that were started ahead give way to pods that exist: a limit is never theirs to hold.

use std::collections::BTreeMap;

use headstart_core::explain::{Place, Refusal};
use headstart_core::plan::Plan;
use headstart_core::quantity::Quantity;
use headstart_core::resources::{NODES, Resources};
use headstart_core::snapshot::Snapshot;

use crate::claims;
use crate::demand::idle;
use crate::out::Out;
use crate::pools;
use crate::provision::is_real;
use crate::report::Level;
use crate::store::{Claim, Store};

/// Removes claims that no real pod uses or was promised, where the limits of their pool keep a real pod waiting and their end
/// would help it.
pub(super) fn give_way(
    store: &Store,
    snapshot: &Snapshot,
    plan: &Plan,
    is_promised: impl Fn(&str) -> bool,
    out: &mut Out<'_>,
) {
    for (pool, more) in wanted(snapshot, plan) {
        let is_free =
            |claim: &&Claim| claim.pool() == pool && !claim.is_assumed && !is_promised(claim.name());
        let mut freed = Resources::new();
        let mut going: Vec<&Claim> = Vec::new();
        for claim in idle(store).filter(is_free) {
            if covers(&freed, &more) {
                break;
            }
            freed.add(&pools::capacity(claim, store));
            freed.add(&Resources::from_iter([(NODES, Quantity::from_units(1))]));
            going.push(claim);
        }
        if !covers(&freed, &more) {
            continue;
        }
        for claim in going {
            if claims::remove(claim, "yielded", out) {
                let message = "deleting a NodeClaim that only expected pods need, since its pool's limit keeps a pod waiting";
                out.line(Level::Info, message, &[("NodeClaim", claim.name()), ("NodePool", pool)]);
            }
        }
    }
}

/// How much more of each pool's limits would help a pod that waits for them.
fn wanted<'a>(snapshot: &Snapshot, plan: &'a Plan) -> BTreeMap<&'a str, Resources> {
    let mut all: BTreeMap<&str, Resources> = BTreeMap::new();
    for unplaced in plan.unplaced.iter().filter(|unplaced| is_real(snapshot, unplaced.pod)) {
        for obstacle in unplaced.obstacles.iter() {
            if let (Place::Pool(pool), Refusal::Limit { more, .. }) = (&obstacle.place, &obstacle.rule) {
                let more = more.iter().map(|(name, amount)| (&**name, *amount)).collect();
                all.entry(pool).or_insert(more);
            }
        }
    }
    all
}

fn covers(freed: &Resources, more: &Resources) -> bool {
    more.iter().all(|(name, amount)| freed.get(name) >= amount)
}
