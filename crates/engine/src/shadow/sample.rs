//! The state of affairs, every few seconds while it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headstart_core::resources::CPU;

use crate::capacity::Capacity;
use crate::observation::{Belief, Nodes, Sample};
use crate::settings::Mode;
use crate::store::{Pod, Store};
use crate::time::{Now, Time};

use super::Shadow;
use super::fleet;

/// How often the state of affairs is written down while it changes.
const EVERY: Duration = Duration::from_secs(2);

/// When the state of affairs is written down.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    due: Option<Time>,
    at: Option<Time>,
    pub(super) last: Sample,
    pub(super) beliefs: Vec<Belief>,
}

impl Sampler {
    /// Something has changed.
    pub(super) fn stir(&mut self, now: Time) {
        let soonest = self.at.map_or(now, |at| (at + EVERY).max(now));
        self.due.get_or_insert(soonest);
    }

    pub(super) fn wake(&self) -> Option<Time> {
        self.due
    }

    /// Whether it is time, in which case the next time is set only by what changes.
    pub(super) fn takes(&mut self, now: Time) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            (self.due, self.at) = (None, Some(now));
        }
        is_due
    }
}

/// A decision that all pods have come of, as long as their nodes are there.
#[derive(Debug)]
pub(super) struct Past {
    would: Vec<Nodes>,
    nodes: BTreeSet<Arc<str>>,
}

impl Past {
    pub(super) fn new(would: Vec<Nodes>, nodes: impl Iterator<Item = Arc<str>>) -> Self {
        Self { would, nodes: nodes.collect() }
    }

    pub(super) fn is_over(&self, store: &Store) -> bool {
        !self.nodes.iter().any(|node| store.nodes.contains_key(node))
    }

    /// How many of its nodes are still there, from 0 to 1; ours would have gone like theirs.
    fn left(&self, store: &Store) -> f64 {
        let there = self.nodes.iter().filter(|node| store.nodes.contains_key(node)).count();
        there as f64 / self.nodes.len().max(1) as f64
    }
}

impl Shadow {
    /// The state of affairs.
    pub(super) fn sample(&self, store: &Store, capacity: &Capacity, expected: u32, now: Now) -> Sample {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (types, dollars) = fleet::all(store, capacity);
        let waits = store.waiting.iter().filter_map(|key| store.pod(key));
        let waits = waits.filter(|pod| !pod.is_gated() && !pod.is_daemon());
        let bound = store.world.pods().iter().filter(|pod| pod.node().is_some() && !pod.is_over());
        let cpus = |pod: &Pod| pod.shape().map_or(0.0, |shape| shape.requests.get(CPU).as_f64());
        let waiting = count(waits.clone().count());
        let mut sample = Sample {
            at: now.wall,
            bound: count(bound.clone().count()),
            waiting,
            expected,
            wanted_cpus: bound.chain(waits).map(cpus).sum(),
            cpus: store.nodes.values().map(|node| node.allocatable().get(CPU).as_f64()).sum(),
            would_waiting: waiting,
            would_types: types.clone(),
            types,
            would_dollars: dollars,
            dollars,
        };
        if self.mode == Mode::Observe {
            self.would(&mut sample, store);
        }
        sample
    }

    /// Puts what we would have bought in the place of what was bought for the same pods.
    fn would(&self, sample: &mut Sample, store: &Store) {
        let mut bought: BTreeMap<&Arc<str>, Nodes> = BTreeMap::new();
        let mut add = |nodes: &Nodes, share: f64| {
            sample.would_dollars += nodes.dollars * f64::from(nodes.count) * share;
            let more = (f64::from(nodes.count) * share).round() as u32;
            *sample.would_types.entry(nodes.instance_type.clone()).or_default() += more;
        };
        for open in self.open.values() {
            for nodes in open.would() {
                add(&nodes, 1.0);
            }
            bought.extend(open.bought().map(|(node, landing)| (node, landing.kind.clone())));
        }
        for past in self.past.values() {
            for nodes in &past.would {
                add(nodes, past.left(store));
            }
            for node in &past.nodes {
                if let Some(landing) = self.known.get(node) {
                    bought.insert(node, landing.clone());
                }
            }
        }
        for (node, kind) in bought {
            if store.nodes.contains_key(node) {
                sample.would_dollars -= kind.dollars;
                if let Some(known) = sample.would_types.get_mut(&kind.instance_type) {
                    *known = known.saturating_sub(1);
                }
            }
        }
        sample.would_types.retain(|_, count| *count > 0);
        sample.would_dollars = sample.would_dollars.max(0.0);

        let (mut sooner, mut later) = (0_u32, 0_u32);
        for open in self.open.values() {
            for pod in open.pods.values() {
                let would_wait = open.would_bind(pod, &self.leads) > sample.at;
                sooner += u32::from(pod.bound.is_none() && !would_wait);
                later += u32::from(pod.bound.is_some() && would_wait);
            }
        }
        sample.would_waiting = (sample.waiting + later).saturating_sub(sooner);
    }
}
