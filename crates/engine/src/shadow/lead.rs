//! How long nodes take to be ready, learned from those of others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use headstart_api::conditions::nodeclaim::INITIALIZED;

use crate::store::Claim;
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
    /// Takes notice of a claim.
    pub(super) fn seen(&mut self, claim: &Claim, now: Wall) {
        let (created, is_ready) = (claim.metadata.created(), claim.is_initialized());
        let known = self.claims.get(claim.name()).copied();
        let sighting = known.unwrap_or(Sighting { made: made(created, now), is_ready: false });
        if is_ready && !sighting.is_ready {
            let lead = if known.is_some() { now - sighting.made } else { claim.since(INITIALIZED) - created };
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
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        (Duration::from_millis(median), u32::try_from(sorted.len()).unwrap_or(u32::MAX))
    }
}
