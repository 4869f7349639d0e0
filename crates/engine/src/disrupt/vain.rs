//! Savings that were in vain: a node was done without, and a moment later another was bought for pods that are expected.
//!
//! Whoever was moved may go anywhere that kube-scheduler likes, such as to the node that was kept free, so that a plan in
//! which everybody has room does not keep the next one from buying.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headstart_api::annotations::EXPECTED_BY;

use crate::backoff::Backoff;
use crate::provision::Strikes;
use crate::store::Claim;
use crate::time::Time;

/// How soon something that is bought shows that a saving was in vain.
const SOON: Duration = Duration::from_mins(10);
/// How long a pool's nodes are then left as they are.
const PAUSES: Backoff = Backoff::millis(30 * 60_000, 12 * 60 * 60_000);

#[derive(Debug)]
pub(super) struct Vain {
    /// When a node of a pool was last done without.
    saved: BTreeMap<String, Time>,
    /// Pools of which something is being bought for pods that are expected.
    bought: BTreeSet<String>,
    strikes: Strikes<String>,
}

impl Vain {
    pub(super) fn new(seed: u64) -> Self {
        Self { saved: BTreeMap::new(), bought: BTreeSet::new(), strikes: Strikes::new(PAUSES, seed) }
    }

    pub(super) fn saved<'a>(&mut self, pools: impl Iterator<Item = &'a Arc<str>>, now: Time) {
        self.saved.retain(|_, at| now < *at + SOON);
        self.saved.extend(pools.map(|pool| (pool.to_string(), now)));
    }

    pub(super) fn seen(&mut self, claim: &Claim) {
        let is_new = !claim.is_launched() && !claim.is_leaving();
        if is_new && claim.metadata.annotations.contains_key(EXPECTED_BY) {
            self.bought.insert(claim.pool().to_owned());
        }
    }

    /// Compares what was saved with what was bought since.
    pub(super) fn judge(&mut self, now: Time) {
        for pool in std::mem::take(&mut self.bought) {
            if self.saved.remove(&pool).is_some_and(|at| now < at + SOON) {
                self.strikes.failed(now, pool);
            }
        }
    }

    /// Whether a pool's nodes are left as they are.
    pub(super) fn holds(&self, now: Time, pool: &str) -> bool {
        self.strikes.is_out(now, &pool.to_owned())
    }
}
