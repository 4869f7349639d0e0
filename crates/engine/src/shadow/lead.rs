//! How long nodes take to be ready, learned from those of others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use headstart_api::conditions::nodeclaim::INITIALIZED;

use crate::claims::is_open;
use crate::store::{Claim, Node};
use crate::time::Wall;

/// How long a node takes as long as none of its pool was seen.
const ASSUMED: Duration = Duration::from_mins(1);
/// How many nodes of a pool are remembered.
const REMEMBERED: usize = 32;
/// Objects are stamped in whole seconds; what is seen this soon after its stamp is seen as it comes.
const FRESH: Duration = Duration::from_secs(2);

/// How long nodes take to be ready.
#[derive(Debug, Default)]
pub(super) struct Leads {
    by_pool: BTreeMap<String, VecDeque<u64>>,
    claims: BTreeMap<String, Sighting>,
}

/// When a claim was made, and whether its node is ready.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    made: Wall,
    is_ready: bool,
}

/// When something was made, from its stamp and when it was first seen.
pub(super) fn made(stamp: Wall, seen: Wall) -> Wall {
    if seen < stamp + FRESH { seen.max(stamp) } else { stamp }
}

impl Leads {
    /// Takes notice of a claim, and of its node if there is one.
    ///
    /// Pods can come when the node is ready for them, and how soon its autoscaler says so is not the node's doing.
    pub(super) fn seen(&mut self, claim: &Claim, node: Option<&Node>, now: Wall) {
        let created = claim.metadata.created();
        let is_ready = claim.is_initialized() || node.is_some_and(|node| is_open(claim, node));
        let known = self.claims.get(claim.name()).copied();
        let sighting = known.unwrap_or(Sighting { made: made(created, now), is_ready: false });
        if is_ready && !sighting.is_ready {
            // What was ready when it was first seen has been so for a while, which only its claim can tell.
            let is_old = known.is_none() && claim.is_initialized();
            let lead = if is_old { claim.since(INITIALIZED) - created } else { now - sighting.made };
            let leads = self.by_pool.entry(claim.pool().to_owned()).or_default();
            leads.push_back(u64::try_from(lead.as_millis()).unwrap_or(u64::MAX));
            if leads.len() > REMEMBERED {
                leads.pop_front();
            }
        }
        self.claims.insert(claim.name().to_owned(), Sighting { is_ready, ..sighting });
    }

    /// Forgets a claim that is gone.
    pub(super) fn gone(&mut self, claim: &str) {
        self.claims.remove(claim);
    }

    /// When a claim was made.
    pub(super) fn made(&self, claim: &Claim) -> Wall {
        self.claims.get(claim.name()).map_or_else(|| claim.metadata.created(), |sighting| sighting.made)
    }

    /// How long a node of a pool takes, and of how many that was learned.
    pub(super) fn of(&self, pool: &str) -> (Duration, u32) {
        let Some(leads) = self.by_pool.get(pool) else { return (ASSUMED, 0) };
        let mut sorted: Vec<u64> = leads.iter().copied().collect();
        sorted.sort_unstable();
        let middle = &sorted[(sorted.len() - 1) / 2..=sorted.len() / 2];
        let median = middle.iter().sum::<u64>() / middle.len() as u64;
        (Duration::from_millis(median), u32::try_from(sorted.len()).unwrap_or(u32::MAX))
    }
}
