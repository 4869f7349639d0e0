//! Pods for which a node was bought that they could not use.
//!
//! A taint that somebody puts on every new node, a label that never comes: buying again at once would never end.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use headstart_core::snapshot::Shape;
use rustc_hash::FxHasher;

use crate::backoff::Backoff;
use crate::time::Time;

const PAUSES: Backoff = Backoff::millis(15_000, 600_000);
/// After how long without another failure all is forgiven.
const FORGIVEN: Duration = Duration::from_mins(20);

/// Needs for which a node was bought in vain.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    by_need: BTreeMap<u64, Strike>,
}

#[derive(Clone, Copy, Debug)]
struct Strike {
    failures: u32,
    last: Time,
    until: Time,
}

fn need(shape: &Shape) -> u64 {
    let mut hasher = FxHasher::default();
    shape.hash(&mut hasher);
    hasher.finish()
}

impl Strikes {
    /// Takes notice that a node was bought in vain; pods of one need that fail together count once.
    pub(crate) fn failed(&mut self, now: Time, seed: u64, shape: &Shape) {
        self.by_need.retain(|_, strike| now < strike.last + FORGIVEN);
        let need = need(shape);
        let strike = self.by_need.entry(need).or_insert(Strike { failures: 0, last: now, until: now });
        if strike.failures > 0 && strike.until > now {
            return;
        }
        strike.failures += 1;
        strike.last = now;
        strike.until = now + PAUSES.after(strike.failures, seed, &need.to_string());
    }

    /// Takes notice that a pod got the node that was bought for it.
    pub(crate) fn worked(&mut self, shape: &Shape) {
        if !self.by_need.is_empty() {
            self.by_need.remove(&need(shape));
        }
    }

    /// Whether nothing is bought for such pods now.
    pub(crate) fn is_out(&self, now: Time, shape: &Shape) -> bool {
        !self.by_need.is_empty() && self.by_need.get(&need(shape)).is_some_and(|strike| strike.until > now)
    }

    /// When something may be bought again.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        self.by_need.values().map(|strike| strike.until).filter(|until| *until > now).min()
    }
}
