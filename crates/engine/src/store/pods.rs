//! What is known about pods: which wait, where the others are, and how many each owner has.

use headstart_api::labels::PLACEHOLDER;
use headstart_intake::Diagnostic;
use serde_json::Value;

use super::{Pod, PodKey, PodLife as _, Store, Touched};
use crate::kind::Kind;

impl Store {
    pub(super) fn learn_pod(&mut self, value: &Value) -> Result<Option<Touched>, Diagnostic> {
        let (pod, diagnostic) = self.world.read_pod(value)?;
        let key = pod.key();
        let known = self.pod(&key);
        if known.is_some_and(|known| known.uid() == pod.uid() && known.version() >= pod.version()) {
            return Ok(None);
        }
        let was_on = known.and_then(Pod::node).cloned();
        let stirs = known.is_some_and(|known| stirs(known, &pod)) && !pod.is_daemon();
        let stirred = pod.node().filter(|_| stirs).cloned();
        let uid = pod.uid().clone();
        self.unindex_pod(&key);
        self.index_pod(&pod);
        self.world.put_pod(pod);
        if diagnostic.is_some() || !self.diagnostics.is_empty() {
            let at = (Kind::Pod, key.0.to_string(), key.1.to_string());
            match diagnostic {
                None => drop(self.diagnostics.remove(&at)),
                Some(diagnostic) => drop(self.diagnostics.insert(at, diagnostic)),
            }
        }
        Ok(Some(Touched::Pod { key, uid, was_on, stirred }))
    }

    /// Whether a pod only keeps room for others, and is looked at by nobody but who made it.
    pub(crate) fn is_placeholder(&self, pod: &Pod) -> bool {
        let is_marked = || pod.shape()?.labels.get(PLACEHOLDER).map(|value| &**value == "true");
        self.sets_placeholders_apart && is_marked() == Some(true)
    }

    pub(super) fn index_pod(&mut self, pod: &Pod) {
        if self.is_placeholder(pod) {
            self.placeholders.insert(pod.key());
            if let Some(node) = pod.node() {
                self.on_node.entry(node.clone()).or_default().insert(pod.key());
            }
            return;
        }
        if pod.is_waiting() {
            self.waiting.insert(pod.key());
        }
        if let Some(node) = pod.node() {
            self.on_node.entry(node.clone()).or_default().insert(pod.key());
            if is_displaceable(pod) {
                *self.priorities.entry(pod.priority()).or_default() += 1;
            }
        }
        if let Some(owner) = pod.owner().filter(|_| is_alive(pod)) {
            *self.live.entry(owner.clone()).or_default() += 1;
            if pod.is_running() {
                *self.running.entry(owner.clone()).or_default() += 1;
            }
        }
    }

    /// Forgets what follows from a pod, before the pod itself is forgotten or replaced.
    pub(super) fn unindex_pod(&mut self, key: &PodKey) {
        let Some(pod) = self.world.pod(&key.0, &key.1) else { return };
        self.waiting.remove(key);
        let is_placeholder = self.placeholders.remove(key);
        if let Some(node) = pod.node()
            && let Some(pods) = self.on_node.get_mut(node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.on_node.remove(node);
            }
            if is_displaceable(pod) && !is_placeholder {
                let left = self.priorities.entry(pod.priority()).or_insert(1);
                *left -= 1;
                if *left == 0 {
                    self.priorities.remove(&pod.priority());
                }
            }
        }
        if let Some(owner) = pod.owner().filter(|_| is_alive(pod) && !is_placeholder)
            && let Some(live) = self.live.get_mut(owner)
        {
            *live -= 1;
            if *live == 0 {
                self.live.remove(owner);
            }
            if let Some(running) = self.running.get_mut(owner).filter(|_| pod.is_running()) {
                *running -= 1;
                if *running == 0 {
                    self.running.remove(owner);
                }
            }
        }
    }

    /// A pod.
    pub(crate) fn pod(&self, key: &PodKey) -> Option<&Pod> {
        self.world.pod(&key.0, &key.1)
    }

    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Pod> {
        self.on_node.get(node).into_iter().flatten().filter_map(|key| self.pod(key))
    }

    /// Whether kube-scheduler may make room for a pod by sending away another.
    pub(crate) fn could_displace(&self, pod: &Pod) -> bool {
        self.displaces(pod.priority())
    }

    /// The same for pods of a priority.
    pub(crate) fn displaces(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// How many pods that have not ended and are not leaving belong to an owner.
    pub(crate) fn live(&self, owner: &str) -> usize {
        self.live.get(owner).copied().unwrap_or(0)
    }

    /// Whether pods of an owner have no node.
    pub(crate) fn awaits_node(&self, owner: &str) -> bool {
        self.n_waiting(owner) > 0
    }

    /// Whether pods of an owner have a node.
    pub(crate) fn has_placed(&self, owner: &str) -> bool {
        self.live(owner) > self.n_waiting(owner)
    }

    pub(super) fn n_waiting(&self, owner: &str) -> usize {
        let is_of = |pod: &&Pod| pod.owner().is_some_and(|uid| &**uid == owner);
        self.waiting.iter().filter_map(|key| self.pod(key)).filter(is_of).count()
    }

    /// How many pods of an owner are running, and whether there are several or should be.
    pub(crate) fn siblings(&self, owner: &str) -> (usize, bool) {
        let wants = self.owners.get(owner).map_or(0, |owner| owner.wants);
        let live = self.live.get(owner).copied().unwrap_or(0);
        (self.running.get(owner).copied().unwrap_or(0), wants.max(live) > 1)
    }

    /// How many pods whoever made this one still has to make; nothing is known of owners that are not watched.
    pub(crate) fn still_to_come(&self, pod: &Pod) -> usize {
        let Some(uid) = pod.owner() else { return 0 };
        let wants = self.owners.get(&**uid).map_or(0, |owner| owner.wants);
        wants.saturating_sub(self.live.get(uid).copied().unwrap_or(0))
    }
}

/// Whether a pod has come to a node, ended there, or begun to.
fn stirs(was: &Pod, is: &Pod) -> bool {
    was.node() != is.node() || was.is_over() != is.is_over() || was.is_leaving() != is.is_leaving()
}

pub(super) fn is_alive(pod: &Pod) -> bool {
    !pod.is_over() && !pod.is_leaving()
}

/// Whether kube-scheduler may send a pod away for the sake of another.
fn is_displaceable(pod: &Pod) -> bool {
    !pod.is_daemon() && !pod.is_over()
}
