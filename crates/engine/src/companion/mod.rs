//! Leads another autoscaler: pods that are expected are shown to it as objects of ours.
//!
//! ```text
//! beliefs ─► plan ─► targets: how many of each belief need somebody who keeps room ─► buffers, or placeholder pods
//! ```
//!
//! The plan is the provisioner's own, made as if what stands for beliefs were not there: the room that it takes is free, and
//! nobody buys for it. Nodes, claims, pools and the pods of others are only read.

mod buffers;
mod ground;
mod pace;
mod placeholders;
mod template;
mod wanted;

use std::collections::BTreeMap;

use headstart_api::labels::PLACEHOLDER;

use crate::action::Effect;
use crate::capacity::Capacity;
use crate::kind::Kind;
use crate::out::Out;
use crate::outcome::Outcome;
use crate::provision::Provision;
use crate::settings::{Leading, Settings};
use crate::store::{Store, Touched};
use crate::time::Time;
use buffers::Buffers;
use ground::{Ground, errand};
use pace::Pace;
use placeholders::Placeholders;
use wanted::{Target, targets};

/// Leads another autoscaler: pods that are expected are shown to it as objects of ours.
#[derive(Debug)]
pub(crate) struct Companion {
    settings: Leading,
    seed: u64,
    ground: Ground,
    /// What is to stand for each belief, by the belief's mark.
    targets: BTreeMap<String, Target>,
    pace: Pace,
    buffers: Buffers,
    placeholders: Placeholders,
    /// Whether something has changed that what stands for beliefs may depend on.
    is_stirred: bool,
    /// When to go on.
    due: Option<Time>,
}

impl Companion {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::fresh(settings.companion.clone(), settings.seed)
    }

    fn fresh(settings: Leading, seed: u64) -> Self {
        Self {
            buffers: Buffers::new(settings.with),
            placeholders: Placeholders::new(seed),
            settings,
            seed,
            ground: Ground::default(),
            targets: BTreeMap::new(),
            pace: Pace::default(),
            is_stirred: true,
            due: None,
        }
    }

    /// Takes notice of a change.
    pub(crate) fn on(&mut self, touched: &Touched) {
        self.is_stirred |=
            matches!(touched, Touched::Pod { .. } | Touched::Other(Kind::CapacityBuffer | Kind::PodTemplate));
    }

    pub(crate) fn poll(
        &mut self,
        store: &mut Store,
        capacity: &mut Capacity,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        let now = out.now.time;
        self.due = None;
        if !self.ground.poll(&self.settings, store, out) {
            let missing = [(Kind::ConfigMap, ground::OWNER.to_owned())].into_iter().chain([
                (Kind::Namespace, self.settings.namespace.clone()),
                (Kind::PriorityClass, ground::class_name(&self.settings)),
            ]);
            self.due = missing.filter_map(|(kind, name)| out.errands.until(&errand(kind, &name))).min();
            return;
        }
        let is_due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if provision.demand.is_due(now) {
            let decision = provision.foresee(store, capacity, out);
            let expected = provision.demand.expected();
            let namespace = &self.settings.namespace;
            let count = |mark: &str| standing(store, mark) + Buffers::standing(store, namespace, mark);
            self.pace.look(expected, store, now);
            self.targets = targets(&decision, expected, store, &self.settings, &self.pace, count);
            self.is_stirred = true;
        }
        if self.is_stirred || is_due(self.buffers.wake()) || is_due(self.placeholders.wake()) {
            self.is_stirred = false;
            self.settle(store, out);
        }
        let wakes = [provision.demand.wake(), self.buffers.wake(), self.placeholders.wake()];
        self.due = wakes.into_iter().flatten().min();
    }

    /// Makes what is to stand for beliefs, and takes away all else of ours.
    fn settle(&mut self, store: &Store, out: &mut Out<'_>) {
        let (namespace, owner) = (self.settings.namespace.as_str(), self.ground.reference());
        self.buffers.settle(&self.targets, namespace, &owner, store, out);
        let (targets, buffers) = (&self.targets, &self.buffers);
        let by_pods = |mark: &str| targets.get(mark).filter(|_| !buffers.has(mark));
        self.placeholders.settle(by_pods, targets.keys(), namespace, &owner, store, out);
    }

    /// Takes notice of how an effect on an object of ours ended.
    pub(crate) fn ended(
        &mut self,
        kind: Kind,
        name: &str,
        effect: &Effect,
        outcome: &Outcome,
        out: &mut Out<'_>,
    ) {
        self.is_stirred = true;
        if kind == Kind::Pod {
            if matches!(effect, Effect::Create { .. }) {
                self.placeholders.ended(name, outcome, out);
            }
        } else if [Kind::ConfigMap, Kind::Namespace, Kind::PriorityClass].contains(&kind) {
            self.ground.ended(kind, outcome, out);
        }
    }

    /// Removes everything of ours at once; what is made at this moment goes with its owner.
    pub(crate) fn wind_up(&mut self, out: &mut Out<'_>) {
        let namespace = self.settings.namespace.clone();
        for kind in [Kind::CapacityBuffer, Kind::Pod, Kind::PodTemplate] {
            let label = (PLACEHOLDER.to_owned(), "true".to_owned());
            out.ask(errand(kind, "*"), Effect::Clear { kind, namespace: namespace.clone(), label });
        }
        if let Some(object) = self.ground.owner(&self.settings) {
            out.ask(errand(Kind::ConfigMap, ground::OWNER), Effect::Delete { object, grace: None });
        }
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.due
    }

    /// Forgets everything that only a leader may rely on.
    pub(crate) fn forget(&mut self) {
        *self = Self::fresh(self.settings.clone(), self.seed);
    }
}

/// How many pods stand for a belief, and are not about to go.
fn standing(store: &Store, mark: &str) -> usize {
    Placeholders::standing(store, mark)
}
