//! How fast pods come: as many as came in the last second are about to come in the next one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headstart_core::demand::Expected;

use crate::store::Store;
use crate::time::Time;

const SECOND: Duration = Duration::from_secs(1);

/// How many pods owners had lately.
#[derive(Debug, Default)]
pub(super) struct Pace(BTreeMap<Arc<str>, VecDeque<(Time, usize)>>);

impl Pace {
    /// Takes notice of how many pods those have of whom more are expected, and forgets all others.
    pub(super) fn look(&mut self, expected: &[Expected], store: &Store, now: Time) {
        let mut before = std::mem::take(&mut self.0);
        for owner in expected.iter().map(|belief| &belief.owner.uid) {
            if self.0.contains_key(owner) {
                continue;
            }
            let mut counts = before.remove(owner).unwrap_or_default();
            counts.push_back((now, store.live(owner)));
            // The first is what there was a second ago, if that is known.
            while counts.get(1).is_some_and(|(at, _)| *at + SECOND <= now) {
                counts.pop_front();
            }
            self.0.insert(owner.clone(), counts);
        }
    }

    /// How many pods of an owner are about to come.
    pub(super) fn coming(&self, owner: &str) -> usize {
        let Some(counts) = self.0.get(owner) else { return 0 };
        match (counts.front(), counts.back()) {
            (Some((_, had)), Some((_, has))) => has.saturating_sub(*had),
            _ => 0,
        }
    }
}
