//! Which waiting pods want a node now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headstart_intake::{Sight, Standing, Waiting};

use crate::provision::promises::Promises;
use crate::provision::strikes::{Strikes, need};
use crate::store::{Pod, Store};
use crate::time::Time;

/// How long a nomination is believed in while nobody leaves the node to make room.
const BELIEVED: Duration = Duration::from_mins(1);

/// What is known about waiting pods beyond what their objects say.
pub(crate) struct Eyes<'a> {
    pub(crate) store: &'a Store,
    pub(crate) promises: &'a Promises,
    /// Needs for which a node was bought in vain.
    pub(crate) needs: &'a Strikes<u64>,
    /// Node classes that refused to be launched from.
    pub(crate) classes: &'a Strikes<String>,
    /// Since when pods are nominated.
    pub(crate) nominated: &'a BTreeMap<Arc<str>, Time>,
    /// Whether pods with a node are listed as if they wanted another one.
    pub(crate) residents: bool,
    /// Whether claims may be promised that nobody will make.
    pub(crate) is_observing: bool,
    pub(crate) now: Time,
}

impl Eyes<'_> {
    /// Whether it is for us to find a place for a pod, and now.
    ///
    /// Before kube-scheduler has spoken we act only where its word is certain: for pods that it looks after, and for which
    /// it would not make room by sending others away.
    pub(crate) fn is_wanting(&self, pod: &Pod) -> bool {
        may_want(pod)
            && (pod.is_unschedulable() || (pod.is_default_scheduled() && !self.store.could_displace(pod)))
    }
}

/// Whether a pod wants a node that somebody has to make, if kube-scheduler says so.
pub(crate) fn may_want(pod: &Pod) -> bool {
    pod.is_waiting() && !pod.is_gated() && !pod.is_daemon() && !pod.is_mirror()
}

impl Eyes<'_> {
    /// The node that a pod will soon be on because somebody has seen to it.
    pub(crate) fn nomination<'p>(&self, pod: &'p Pod) -> Option<&'p str> {
        let node: &str = pod.nominated()?;
        self.store.nodes.get(node).filter(|node| !node.is_leaving())?;
        let is_fresh = self.nominated.get(pod.uid()).is_none_or(|since| self.now < *since + BELIEVED);
        let makes_room = || self.store.pods_on(node).any(Pod::is_leaving);
        (is_fresh || makes_room()).then_some(node)
    }
}

impl Sight for Eyes<'_> {
    fn counts_missing(&self) -> bool {
        false
    }

    fn counts_leaving(&self) -> bool {
        true
    }

    fn buys_from(&self, pool: &str) -> bool {
        let class = self.store.pools.get(pool).map(|pool| &pool.spec.template.spec.node_class_ref.name);
        class.is_none_or(|class| !self.classes.is_out(self.now, class))
    }

    fn lists_residents(&self) -> bool {
        self.residents
    }

    fn overlooks(&self, pod: &Pod) -> bool {
        self.store.is_placeholder(pod)
    }

    fn standing(&self, waiting: Waiting<'_>) -> Standing<'_> {
        let Some(pod) = self.store.world.pod(waiting.namespace, waiting.name) else { return Standing::Waits };
        if let Some(claim) = self.promises.of(pod.uid()) {
            if self.is_observing && !self.store.claims.contains_key(claim) {
                return Standing::Waits;
            }
            return Standing::Promised(claim);
        }
        if let Some(node) = self.nomination(pod) {
            return Standing::Nominated(node);
        }
        let is_out = !self.needs.is_empty()
            && waiting.shape.is_some_and(|shape| self.needs.is_out(self.now, &need(shape)));
        if self.is_wanting(pod) && !is_out { Standing::Wants } else { Standing::Waits }
    }
}
