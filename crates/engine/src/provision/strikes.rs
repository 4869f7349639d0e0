//! Things for which a node was bought in vain: buying again at once would never end.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use headstart_core::snapshot::Shape;
use rustc_hash::FxHasher;

use crate::backoff::Backoff;
use crate::time::Time;

/// How long after its pause something must not fail again to be forgiven.
const FORGIVEN: Duration = Duration::from_mins(20);

/// Failures by what failed, and how long each is left alone.
#[derive(Debug)]
pub(crate) struct Strikes<Key> {
    pauses: Backoff,
    seed: u64,
    by_key: BTreeMap<Key, Strike>,
}

#[derive(Clone, Copy, Debug)]
struct Strike {
    failures: u32,
    until: Time,
}

/// What pods of one shape need, as a key.
pub(crate) fn need(shape: &Shape) -> u64 {
    let mut hasher = FxHasher::default();
    shape.hash(&mut hasher);
    hasher.finish()
}

impl<Key: Ord + ToString> Strikes<Key> {
    pub(crate) fn new(pauses: Backoff, seed: u64) -> Self {
        Self { pauses, seed, by_key: BTreeMap::new() }
    }

    /// Takes notice of a failure; those that come while it is left alone anyway count once.
    pub(crate) fn failed(&mut self, now: Time, key: Key) {
        self.by_key.retain(|_, strike| now < strike.until + FORGIVEN);
        let what = key.to_string();
        let strike = self.by_key.entry(key).or_insert(Strike { failures: 0, until: now });
        if strike.failures > 0 && strike.until > now {
            return;
        }
        strike.failures += 1;
        strike.until = now + self.pauses.after(strike.failures, self.seed, &what);
    }

    /// Takes notice that it worked, or may work now.
    pub(crate) fn forgive(&mut self, key: &Key) {
        self.by_key.remove(key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Whether it is left alone now.
    pub(crate) fn is_out(&self, now: Time, key: &Key) -> bool {
        self.by_key.get(key).is_some_and(|strike| strike.until > now)
    }

    /// When something may be tried again.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        self.by_key.values().map(|strike| strike.until).filter(|until| *until > now).min()
    }
}
