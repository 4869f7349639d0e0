//! How pods leave a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::action::Effect;
use crate::errands::Errand;
use crate::out::Out;
use crate::outcome::Outcome;
use crate::store::{Claim, Node, Pod, PodKey, PodLife as _, Store};
use crate::time::Wall;

/// How long after its time a pod that does not go is no longer waited for.
const STUCK: Duration = Duration::from_mins(1);

/// How long the last running pod of several waits for another to run elsewhere.
const LAST_STAYS: Duration = Duration::from_mins(5);

/// Pods that were asked to leave and are not seen to do so yet.
#[derive(Debug, Default)]
pub(super) struct Leavers {
    by_pod: BTreeMap<PodKey, Leaver>,
}

#[derive(Debug)]
struct Leaver {
    uid: Arc<str>,
    owner: Option<Arc<str>>,
    /// Whether the API server has agreed.
    is_certain: bool,
}

impl Leavers {
    fn add(&mut self, pod: &Pod) {
        let leaver = Leaver { uid: pod.uid().clone(), owner: pod.owner().cloned(), is_certain: false };
        self.by_pod.insert(pod.key(), leaver);
    }

    /// Takes notice of what the API server said to a request to leave.
    pub(super) fn answered(&mut self, key: &PodKey, outcome: &Outcome) {
        match outcome {
            Outcome::Refused(_) => {
                self.by_pod.remove(key);
            }
            Outcome::Done(_) => {
                if let Some(leaver) = self.by_pod.get_mut(key) {
                    leaver.is_certain = true;
                }
            }
            Outcome::Unknown { .. } => {}
        }
    }

    /// Whether a pod is leaving though no watch has said so yet; asking again could only go wrong.
    fn has(&self, pod: &Pod) -> bool {
        self.by_pod.get(&pod.key()).is_some_and(|leaver| leaver.is_certain && leaver.uid == *pod.uid())
    }

    /// Takes notice of what a pod is like now.
    pub(super) fn seen(&mut self, key: &PodKey, store: &Store) {
        let is_leaving = |uid: &str| {
            let pod = store.pod(key).filter(|pod| **pod.uid() == *uid);
            pod.is_none_or(|pod| pod.is_leaving() || pod.is_over())
        };
        if self.by_pod.get(key).is_some_and(|leaver| is_leaving(&leaver.uid)) {
            self.by_pod.remove(key);
        }
    }

    /// Whether no other pod of its owner would be running once this one has left, though there are several.
    fn is_last(&self, pod: &Pod, store: &Store) -> bool {
        let Some(owner) = pod.owner().filter(|_| pod.is_running()) else { return false };
        let (running, are_several) = store.siblings(owner);
        let is_one = |(key, leaver): &(&PodKey, &Leaver)| {
            let runs = |pod: &Pod| *pod.uid() == leaver.uid && pod.is_running() && !pod.is_leaving();
            leaver.owner.as_ref() == Some(owner) && store.pod(key).is_some_and(runs)
        };
        let leaving = self.by_pod.iter().filter(is_one).count();
        are_several && running.saturating_sub(leaving) <= 1
    }
}

/// The order in which pods leave: what others rely on goes last.
fn tier(pod: &Pod) -> (bool, bool) {
    (pod.is_critical(), pod.is_daemon())
}

/// Whether a pod can be made to leave at all.
fn is_drainable(pod: &Pod, now: Wall) -> bool {
    let is_stuck = pod.ends().is_some_and(|ends| now > ends + STUCK);
    !pod.tolerates_disruption() && !pod.is_mirror() && !is_stuck
}

/// Whether a pod must go now to be gone in time.
fn is_due(pod: &Pod, deadline: Wall, now: Wall) -> bool {
    match (pod.ends(), pod.grace()) {
        // Half of what it was granted: it is in time, and asked a few times at most even if the API server's clock is ahead.
        (Some(ends), _) => {
            ends > deadline && pod.granted().is_none_or(|granted| granted > 2 * left(deadline, now))
        }
        (None, Some(grace)) => now.0 > deadline.0 - i64::from(grace) * 1000,
        (None, None) => false,
    }
}

/// Seconds until a deadline, at least one.
fn left(deadline: Wall, now: Wall) -> u32 {
    u32::try_from(((deadline.0 - now.0) / 1000).max(1)).unwrap_or(u32::MAX / 2)
}

/// Asks pods to leave, those that others rely on last; how many are still there.
pub(super) fn drain(
    node: &Node,
    claim: Option<&Claim>,
    deadline: Option<Wall>,
    leavers: &mut Leavers,
    store: &Store,
    out: &mut Out<'_>,
) -> usize {
    let now = out.now.wall;
    let waiting: Vec<&Pod> =
        store.pods_on(node.name()).filter(|pod| !pod.is_over() && is_drainable(pod, now)).collect();
    let mut others = Vec::new();
    for pod in &waiting {
        match deadline.filter(|deadline| is_due(pod, *deadline, now)) {
            Some(deadline) => force(pod, deadline, out),
            None => others.push(*pod),
        }
    }
    let Some(first) = others.iter().map(|pod| tier(pod)).min() else { return waiting.len() };
    let reason = claim
        .and_then(|claim| claim.condition(headstart_api::conditions::nodeclaim::DISRUPTION_REASON))
        .map_or("Forceful Termination", |condition| condition.reason.as_str());
    for pod in others.into_iter().filter(|pod| tier(pod) == first) {
        if pod.is_leaving() || leavers.has(pod) || pod.is_protected(now) {
            continue;
        }
        let is_late = deadline.is_some_and(|deadline| now >= deadline)
            || node.metadata.deleted().is_none_or(|deleted| now > deleted + LAST_STAYS);
        if !is_late && leavers.is_last(pod, store) {
            continue;
        }
        let errand = Errand::Evict(pod.key());
        if out.ask(errand, Effect::Evict { object: pod.object() }) {
            leavers.add(pod);
            out.note(pod.object(), "Evicted", format!("Evicted pod: {reason}"));
            out.count("pods_drained_total", &[("reason", reason)]);
        }
    }
    waiting.len()
}

/// Volumes that keep a node from going; those of pods that never leave do not.
pub(super) fn attached<'a>(node: &'a Node, store: &'a Store, now: Wall) -> Vec<&'a str> {
    let stay: BTreeSet<&str> = store
        .pods_on(node.name())
        .filter(|pod| !is_drainable(pod, now))
        .flat_map(|pod| pod.volumes().filter_map(|claim| store.volume_of(pod.namespace(), &claim)))
        .collect();
    let attached = store.attached_to(node.name());
    attached
        .filter(|(_, volume)| !volume.is_empty() && !stay.contains(volume))
        .map(|(name, _)| name)
        .collect()
}

/// Deletes a pod with what is left of its time.
fn force(pod: &Pod, deadline: Wall, out: &mut Out<'_>) {
    let grace = left(deadline, out.now.wall);
    let effect = Effect::Delete { object: pod.object(), grace: Some(grace) };
    if out.ask(Errand::Evict(pod.key()), effect) {
        let message = format!(
            "Deleting the pod to accommodate the terminationTime {} of the node. The pod was granted {grace} seconds of \
             grace-period of its {} terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt \
             annotation.",
            deadline.stamp(),
            pod.grace().unwrap_or(0)
        );
        out.note(pod.object(), "Disrupted", message);
        out.count("pods_drained_total", &[("reason", "Forceful Termination")]);
    }
}
