//! When to stop waiting for more pods and decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::store::{Pod, PodLife as _, Store};
use crate::time::Time;

/// How long a lone pod waits for company.
const ALONE: Duration = Duration::from_millis(30);
/// The shortest silence that ends a batch.
const SILENCE: Duration = Duration::from_millis(20);
/// The longest that a batch stays open once nobody has more pods to make.
const COMPLETE: Duration = Duration::from_millis(500);
/// How long whoever makes pods may pause before nobody waits for the rest.
const STALLED: Duration = Duration::from_secs(3);
/// How long before a batch pods may have come about which kube-scheduler has yet to speak.
const FRESH: Duration = Duration::from_secs(2);
/// How many gaps between pods are looked at.
const GAPS: usize = 32;

/// Pods that came lately.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    window: Option<Window>,
    /// Pods that want a node if kube-scheduler says so, with whom they belong to and since when.
    unspoken: BTreeMap<Arc<str>, (Arc<str>, Time)>,
}

#[derive(Debug)]
struct Window {
    opened: Time,
    last: Time,
    /// By uid.
    pods: BTreeSet<Arc<str>>,
    gaps: Vec<u64>,
    /// Whom its pods belong to.
    kin: BTreeSet<Arc<str>>,
    /// One pod of each owner.
    of_owners: Vec<crate::store::PodKey>,
}

/// What a pod has in common with those that are made together with it: its owner, or else its namespace.
fn kin(pod: &Pod) -> Arc<str> {
    pod.owner().cloned().unwrap_or_else(|| pod.key().0)
}

impl Batch {
    /// Takes notice of a pod that may want a node, which only kube-scheduler can tell.
    pub(crate) fn came(&mut self, now: Time, pod: &Pod) {
        self.unspoken.entry(pod.uid().clone()).or_insert_with(|| (kin(pod), now));
    }

    /// Takes notice that a pod wants no node.
    pub(crate) fn left(&mut self, pod: &str) {
        self.unspoken.remove(pod);
    }

    /// Takes notice of a pod that wants a node.
    pub(crate) fn arrived(&mut self, now: Time, pod: &Pod) {
        self.left(pod.uid());
        let window = self.window.get_or_insert_with(|| Window {
            opened: now,
            last: now,
            pods: BTreeSet::new(),
            gaps: Vec::new(),
            kin: BTreeSet::new(),
            of_owners: Vec::new(),
        });
        if !window.pods.is_empty() && window.gaps.len() < GAPS {
            window.gaps.push(now.0.saturating_sub(window.last.0));
        }
        window.pods.insert(pod.uid().clone());
        window.last = now;
        if window.kin.insert(kin(pod)) && pod.owner().is_some() {
            window.of_owners.push(pod.key());
        }
    }

    /// When the batch is complete, as things are; nobody waits for pods that are foreseen.
    pub(crate) fn due(
        &self,
        store: &Store,
        longest: Duration,
        is_foreseen: impl Fn(&str) -> bool,
    ) -> Option<Time> {
        let window = self.window.as_ref()?;
        let unfinished = window
            .of_owners
            .iter()
            .filter_map(|key| store.pod(key))
            .filter(|pod| !pod.owner().is_some_and(|owner| is_foreseen(owner)))
            .any(|pod| store.still_to_come(pod) > 0);
        let is_sibling =
            |(kin, since): &(Arc<str>, Time)| window.kin.contains(kin) && *since + FRESH > window.opened;
        let close = if unfinished {
            window.last + STALLED
        } else if self.unspoken.values().any(is_sibling) {
            window.last + COMPLETE
        } else if window.pods.len() == 1 {
            window.opened + ALONE
        } else {
            let mut gaps = window.gaps.clone();
            gaps.sort_unstable();
            let median = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
            window.last + SILENCE.max(Duration::from_millis(3 * median)).min(COMPLETE)
        };
        Some(close.min(window.opened + longest))
    }

    /// Whether a pod waits for company.
    pub(crate) fn holds(&self, pod: &str) -> bool {
        self.window.as_ref().is_some_and(|window| window.pods.contains(pod))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.window.is_some()
    }

    /// Ends the batch.
    pub(crate) fn close(&mut self) {
        self.window = None;
    }
}
