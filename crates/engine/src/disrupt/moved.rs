//! Pods that were just made to move, so that nobody has to move twice in a row.
//!
//! Whoever takes the place of a pod that was evicted is known by what made both. What happened before this process began
//! to look is not known, so that for a while all pods count that were young then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::store::{Pod, PodLife as _};
use crate::time::Wall;

/// How long a pod that was made to move is left in peace, and the nodes that have just replaced others.
pub(super) const RESTS: Duration = Duration::from_mins(10);
/// How long it may take until a node that goes is left by its last pod.
const LEAVES: Duration = Duration::from_hours(1);

#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Since when moves are known.
    since: Option<Wall>,
    /// When pods were last made to move, by what made them.
    owners: BTreeMap<Arc<str>, Wall>,
}

impl Moved {
    /// Begins to take note of moves.
    pub(super) fn begin(&mut self, now: Wall) {
        self.since.get_or_insert(now);
    }

    /// Pods have to leave their node.
    pub(super) fn note<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>, now: Wall) {
        self.owners.retain(|_, at| now < *at + LEAVES);
        self.owners.extend(pods.filter_map(|pod| Some((pod.owner()?.clone(), now))));
    }

    /// Until when a pod is left in peace, if it may have been made to move.
    pub(super) fn rests_until(&self, pod: &Pod) -> Option<Wall> {
        let began = self.since.is_none_or(|since| pod.since() < since);
        let came = |at: &Wall| *at <= pod.since() && pod.since() < *at + LEAVES;
        let follows = pod.owner().and_then(|owner| self.owners.get(owner)).is_some_and(came);
        (began || follows).then(|| pod.since() + RESTS)
    }
}
