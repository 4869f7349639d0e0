//! From pods that wait to claims that are asked for.

mod echoes;
mod manifest;
mod news;
mod nominate;
mod promises;
mod sight;
pub(crate) mod strikes;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headstart_api::annotations::{AT_MOST, BECAUSE, EXPECTED_BY};
use headstart_core::labels::WellKnown;
use headstart_core::plan::{Plan, PlannedClaim};
use headstart_core::snapshot::{self, Options, Reserved, Snapshot};
use headstart_core::solve::{Packing, solve};
use headstart_core::types::Types;
use headstart_intake::Taken;
use serde_json::Value;

use crate::action::{Effect, ObjectRef};
use crate::agenda::Agenda;
use crate::backoff::Backoff;
use crate::batch::Batch;
use crate::capacity::{Capacity, Mood};
use crate::demand::{Demand, Injected, NewClaim};
use crate::errands::Errand;
use crate::fixed::anchor_of;
use crate::kind::Kind;
use crate::out::Out;
use crate::outcome::{Fact, Outcome, Refusal};
use crate::report::Level;
use crate::settings::{Mode, Settings};
use crate::store::{Pod, PodKey, PodLife as _, Store, Touched};
use crate::time::Time;
use echoes::Echoes;
pub(crate) use manifest::ANCHOR;
pub(crate) use news::{News, Ordered};
use promises::Promises;
use sight::Eyes;
pub(crate) use strikes::Strikes;
use strikes::need;

/// How long pods that were left out wait before they are looked at again.
const AGAIN: Duration = Duration::from_secs(10);
/// How soon they are looked at when something changed that may help them.
const CHANGED: Duration = Duration::from_millis(200);
/// How long a pod may take to find its node once that is ready.
const TO_FIND: Duration = Duration::from_secs(10);
/// How often a decision is made again without some of the pods that are expected.
const MOST_TRIMS: usize = 3;

/// From pods that wait to claims that are asked for.
#[derive(Debug)]
pub(crate) struct Provision {
    settings: Settings,
    well_known: WellKnown,
    batch: Batch,
    promises: Promises,
    /// Needs for which a node was bought that could not be used: somebody taints every new node, a label never comes.
    needs: Strikes<u64>,
    /// Node classes that refused to be launched from though they seem ready.
    classes: Strikes<String>,
    echoes: Echoes,
    /// Pods that have been looked at, by uid.
    considered: BTreeSet<Arc<str>>,
    /// When to look again at pods that were left out; whoever waits for company is not hurried by that.
    again: Option<Time>,
    /// Whether pods have lost what was promised to them.
    is_urgent: bool,
    /// Claims asked for and not yet made.
    making: BTreeMap<String, Value>,
    /// Claims whose pods should have come by then.
    ready: Agenda<String>,
    nominate: Agenda<PodKey>,
    /// How often pods have been nominated, by uid.
    nominations: BTreeMap<Arc<str>, u8>,
    /// Since when pods are nominated to a node, whoever did it.
    nominated: BTreeMap<Arc<str>, Time>,
    /// How many pods fit nowhere.
    unplaced: usize,
    /// Pods that are expected.
    pub(crate) demand: Demand,
    /// What was decided and nobody has asked for yet.
    news: Vec<News>,
}

/// What is decided upon, and the decision.
pub(crate) struct Decision {
    pub(crate) taken: Taken,
    pub(crate) injected: Injected,
    pub(crate) plan: Plan,
}

impl Decision {
    fn is_real(&self, pod: u32) -> bool {
        is_real(&self.taken.snapshot, pod)
    }

    /// How many pods that exist fit nowhere.
    fn unplaced(&self) -> usize {
        self.plan.unplaced.iter().filter(|unplaced| self.is_real(unplaced.pod)).count()
    }
}

/// Whether a pod of a snapshot exists.
pub(crate) fn is_real(snapshot: &Snapshot, pod: u32) -> bool {
    snapshot.pods[pod as usize].demand == snapshot::Demand::Real
}

impl Provision {
    pub(crate) fn new(settings: Settings, well_known: WellKnown) -> Self {
        let seed = settings.seed;
        Self {
            demand: Demand::new(&settings.proactive, seed),
            settings,
            well_known,
            batch: Batch::default(),
            promises: Promises::default(),
            needs: Strikes::new(Backoff::millis(15_000, 600_000), seed),
            classes: Strikes::new(Backoff::millis(1_000, 60_000), seed),
            echoes: Echoes::default(),
            considered: BTreeSet::new(),
            again: None,
            is_urgent: false,
            making: BTreeMap::new(),
            ready: Agenda::default(),
            nominate: Agenda::default(),
            nominations: BTreeMap::new(),
            nominated: BTreeMap::new(),
            unplaced: 0,
            news: Vec::new(),
        }
    }

    fn eyes<'a>(&'a self, store: &'a Store, now: Time) -> Eyes<'a> {
        Eyes {
            store,
            promises: &self.promises,
            needs: &self.needs,
            classes: &self.classes,
            nominated: &self.nominated,
            residents: false,
            is_observing: self.is_observing(),
            now,
        }
    }

    /// Whether decisions are only compared with what somebody else does.
    fn is_observing(&self) -> bool {
        self.settings.mode == Mode::Observe
    }

    /// Looks again soon at pods that were left out.
    fn soon(&mut self, time: Time) {
        self.again = Some(self.again.map_or(time, |known| known.min(time)));
    }

    /// Whether there are pods that were looked at and have no place.
    fn has_left_out(&self, store: &Store) -> bool {
        let is_left_out = |uid: &Arc<str>| {
            self.considered.contains(uid) && !self.batch.holds(uid) && self.promises.of(uid).is_none()
        };
        store.waiting.iter().filter_map(|key| store.pod(key)).any(|pod| is_left_out(pod.uid()))
    }

    pub(crate) fn on(&mut self, now: Time, touched: &Touched, store: &Store) {
        self.demand.on(now, touched, store);
        match touched {
            Touched::Pod { key, uid, .. } => self.on_pod(now, key, uid, store),
            Touched::Claim { name, gone } => match store.claims.get(name) {
                Some(claim) if !claim.is_leaving() => {
                    if claim.is_launched() {
                        self.on_node_of(now, name, claim.is_initialized());
                    }
                }
                known => {
                    if known.is_none() {
                        self.echoes.gone(name);
                    }
                    if gone.as_ref().is_some_and(|claim| anchor_of(claim).is_some()) {
                        // Whoever takes the seat next is somebody else, and should not go by the same name.
                        self.echoes.retire(now, name);
                    }
                    self.withdraw(name);
                }
            },
            Touched::Node { provider_id, .. } => {
                let claim = provider_id.as_ref().and_then(|id| store.claim_with(id));
                if let Some(claim) = claim.filter(|claim| !claim.is_leaving()) {
                    self.on_node_of(now, claim.name(), claim.is_initialized());
                }
            }
            // Those that only make pods change nothing for pods that are there.
            Touched::Attachment { .. }
            | Touched::Doubtful { .. }
            | Touched::Other(
                Kind::ReplicaSet
                | Kind::StatefulSet
                | Kind::Job
                | Kind::Deployment
                | Kind::CronJob
                | Kind::PodTemplate
                | Kind::ResourceQuota
                | Kind::CapacityBuffer,
            ) => {}
            Touched::Pool { .. } | Touched::Class { .. } | Touched::Other(_) => {
                if let Touched::Class { name } = touched {
                    self.classes.forgive(name);
                }
                if self.has_left_out(store) {
                    self.soon(now + CHANGED);
                }
            }
        }
    }

    fn on_pod(&mut self, now: Time, key: &PodKey, uid: &Arc<str>, store: &Store) {
        let pod = store.pod(key).filter(|pod| pod.uid() == uid);
        let Some(pod) = pod.filter(|pod| pod.is_waiting()) else {
            let is_bound = pod.is_some_and(|pod| pod.node().is_some());
            if is_bound
                && !self.needs.is_empty()
                && let Some(shape) = pod.and_then(Pod::shape)
            {
                self.needs.forgive(&need(shape));
            }
            self.batch.left(uid);
            self.promises.drop_pod(uid);
            self.considered.remove(uid);
            self.nominations.remove(uid);
            self.nominated.remove(uid);
            return;
        };
        if pod.nominated().is_none() {
            self.nominated.remove(uid);
        } else {
            self.nominated.entry(uid.clone()).or_insert(now);
        }
        if self.promises.of(uid).is_some() {
            self.nominate.mark(key.clone());
            return;
        }
        if self.is_observing()
            && let Some(claim) = pod.owner().and_then(|owner| self.demand.awaits(owner)).map(str::to_owned)
        {
            // What it is now on its way to may be somebody else's; it was decided about before it was there.
            self.promise_one(store, uid.clone(), key.clone(), &claim);
            return;
        }
        if self.considered.contains(uid) {
            return;
        }
        let eyes = self.eyes(store, now);
        if eyes.is_wanting(pod) {
            self.considered.insert(uid.clone());
            self.batch.arrived(now, pod);
        } else if sight::may_want(pod) {
            self.batch.came(now, pod);
        }
    }

    /// When something that failed may be tried again.
    fn next_strike(&self, now: Time) -> Option<Time> {
        [self.needs.next(now), self.classes.next(now)].into_iter().flatten().min()
    }

    /// Takes notice that nothing could be launched from a claim's class.
    pub(crate) fn refused(&mut self, now: Time, class: &str) {
        self.classes.failed(now, class.to_owned());
    }

    /// Whether a claim was made by a request that came too late to be of use.
    pub(crate) fn is_echo(&self, claim: &str) -> bool {
        self.echoes.is_one(claim)
    }

    /// Takes notice that the node of a claim is there.
    fn on_node_of(&mut self, now: Time, claim: &str, is_initialized: bool) {
        let keys: Vec<PodKey> = self.promises.on(claim).map(|(_, key)| key.clone()).collect();
        if is_initialized && !keys.is_empty() {
            self.ready.at(now + TO_FIND, claim.to_owned());
        }
        for key in keys {
            self.nominate.mark(key);
        }
    }

    /// Takes all promises of a claim back and looks for other places at once.
    pub(crate) fn withdraw(&mut self, claim: &str) {
        let pods = self.promises.drop_claim(claim);
        self.is_urgent |= !pods.is_empty();
        for (_, key) in pods {
            self.nominate.mark(key);
        }
    }

    /// Pods that a claim was made for.
    pub(crate) fn pods_of<'a>(&'a self, store: &'a Store, claim: &str) -> Vec<ObjectRef> {
        let keys = self.promises.on(claim);
        keys.filter_map(|(_, key)| store.pod(key)).map(Pod::object).collect()
    }

    pub(crate) fn poll(&mut self, store: &mut Store, capacity: &mut Capacity, out: &mut Out<'_>) {
        let now = out.now.time;
        for claim in self.ready.take(now) {
            self.give_up(now, &claim, store, out);
        }
        let names: Vec<String> = self.making.keys().cloned().collect();
        for name in names {
            self.make(&name, out);
        }
        let is_complete = self.batch_due(store).is_some_and(|due| due <= now);
        let is_again = !self.batch.is_open() && self.again.is_some_and(|again| again <= now);
        if is_complete || is_again || self.is_urgent || self.demand.is_due(now) {
            self.is_urgent = false;
            self.again = None;
            self.decide(store, capacity, out);
        }
        self.poll_nominations(store, out);
    }

    pub(crate) fn wake(&self, store: &Store, capacity: &Capacity, now: Time) -> Option<Time> {
        let left_out = self.again.is_some() && !self.batch.is_open();
        let waits = [
            self.batch_due(store),
            self.again.filter(|_| left_out),
            self.is_urgent.then_some(now),
            self.demand.wake(),
            self.ready.wake(),
            self.nominate.wake(),
            if left_out { capacity.next_try(now) } else { None },
            if left_out { self.next_strike(now) } else { None },
        ];
        waits.into_iter().flatten().min()
    }

    /// When the batch is complete; pods that are expected are in it already.
    fn batch_due(&self, store: &Store) -> Option<Time> {
        let is_foreseen = |owner: &str| self.demand.foresees(owner);
        self.batch.due(store, self.settings.batch_max, is_foreseen)
    }

    /// Gives pods another place that did not come to the node that was made for them.
    fn give_up(&mut self, now: Time, claim: &str, store: &Store, out: &mut Out<'_>) {
        let late: Vec<PodKey> = self
            .promises
            .on(claim)
            .filter(|(_, key)| store.pod(key).is_some_and(Pod::is_waiting))
            .map(|(_, key)| key.clone())
            .collect();
        let Some(first) = late.first() else { return };
        if self.is_observing() {
            // Somebody else had other plans for them, and there is nothing wrong with what they need.
            self.withdraw(claim);
            return;
        }
        for key in &late {
            if let Some(shape) = store.pod(key).and_then(Pod::shape) {
                self.needs.failed(now, need(shape));
            }
        }
        let message = format!(
            "{} pods did not come to the node made for them; nothing is bought for their like for a while",
            late.len()
        );
        let first = format!("{}/{}", first.0, first.1);
        out.line(Level::Warning, message, &[("NodeClaim", claim), ("pod", &first)]);
        self.withdraw(claim);
    }

    fn options(&self) -> Options {
        Options {
            preferences: self.settings.preferences,
            min_values: self.settings.min_values,
            reserved: if self.settings.reserved_capacity { Reserved::Strict } else { Reserved::Off },
            ..Options::default()
        }
    }

    fn taken(&self, store: &Store, types: &Arc<Types>, now: Time) -> Taken {
        let mut taken = store.world.snapshot_seen(types, &self.well_known, &self.eyes(store, now));
        taken.snapshot.options = self.options();
        taken
    }

    /// Everything as decisions see it, with pods on nodes as if they wanted another one.
    pub(crate) fn with_residents(&self, store: &Store, types: &Arc<Types>, now: Time) -> Taken {
        let eyes = Eyes { residents: true, ..self.eyes(store, now) };
        let mut taken = store.world.snapshot_seen(types, &self.well_known, &eyes);
        taken.snapshot.options = self.options();
        if taken.snapshot.options.reserved == Reserved::Strict {
            // COMPAT: nobody waits for a reservation to be moved.
            taken.snapshot.options.reserved = Reserved::Fallback;
        }
        taken
    }

    /// Whether pods were promised the node of a claim.
    pub(crate) fn awaits(&self, claim: &str) -> bool {
        self.promises.on(claim).next().is_some()
    }

    /// Asks for a claim that no pod waits for, with these annotations; its name.
    pub(crate) fn buy(
        &mut self,
        store: &mut Store,
        planned: &PlannedClaim,
        anchor: &str,
        notes: &[(&str, String)],
        reason: &str,
        out: &mut Out<'_>,
    ) -> Option<String> {
        let name = self.order(store, planned, anchor, notes, reason, out)?;
        tell::claim(planned, 0, None, &name, out);
        Some(name)
    }

    /// Asks for a claim with these annotations; its name.
    fn order(
        &mut self,
        store: &mut Store,
        planned: &PlannedClaim,
        anchor: &str,
        notes: &[(&str, String)],
        reason: &str,
        out: &mut Out<'_>,
    ) -> Option<String> {
        let pool = store.pools.get(&*planned.pool)?;
        let is_taken = |name: &str| store.claims.contains_key(name) || self.echoes.is_one(name);
        let name = manifest::name(store, pool, anchor, is_taken);
        let claim = manifest::claim(pool, planned, &name, anchor, notes, &self.well_known);
        store.assume(&claim);
        if !self.is_observing() {
            self.making.insert(name.clone(), claim);
            self.make(&name, out);
        }
        out.count(
            "nodeclaims_created_total",
            &[
                ("reason", reason),
                ("nodepool", &planned.pool),
                ("min_values_relaxed", if planned.min_values_relaxed { "true" } else { "false" }),
            ],
        );
        Some(name)
    }

    /// Decides where all pods go, those that are expected too, and leaves it at that.
    pub(crate) fn foresee(&mut self, store: &Store, capacity: &mut Capacity, out: &mut Out<'_>) -> Decision {
        let now = out.now.time;
        self.batch.close();
        let mut taken = self.taken(store, &capacity.types(now, Mood::Picky), now);
        let injected = self.demand.believe(
            store,
            &mut taken.snapshot,
            &self.well_known,
            |claim| capacity.price(claim),
            out,
        );
        self.solve(store, capacity, taken, injected, now)
    }

    fn decide(&mut self, store: &mut Store, capacity: &mut Capacity, out: &mut Out<'_>) {
        let now = out.now.time;
        let mut decision = self.foresee(store, capacity, out);
        let moods = [(Mood::Desperate, capacity.can_probe(now)), (Mood::Reckless, capacity.can_gamble(now))];
        for (mood, _) in moods.into_iter().filter(|(_, may)| *may) {
            if decision.unplaced() == 0 {
                break;
            }
            // What may not be there is tried for pods that exist, and not for others.
            let taken = self.taken(store, &capacity.types(now, mood), now);
            let other = self.solve(store, capacity, taken, Injected::default(), now);
            if other.unplaced() < decision.unplaced() {
                decision = other;
                capacity.probed(now);
                break;
            }
        }
        let made = self.realize(store, &decision, out);
        let Decision { taken, injected, plan } = &decision;
        self.demand.planned(store, &taken.snapshot, plan, injected, &made, out);
        let is_promised = |claim: &str| self.promises.on(claim).next().is_some();
        self.demand.give_way(store, &taken.snapshot, plan, is_promised, out);
        self.unplaced = decision.unplaced() + decision.taken.rejected.len();
        tell::unplaced(store, capacity, &decision, out);
        if self.has_left_out(store) || self.next_strike(now).is_some() {
            let soonest = [Some(now + AGAIN), capacity.next_try(now), self.next_strike(now)];
            // Something that ran dry may be back any moment, but one look at a time will do.
            let soonest = soonest.into_iter().flatten().min().unwrap_or(now + AGAIN);
            self.soon(soonest.max(now + CHANGED));
        }
    }

    /// Solves, and solves again without expected pods that are too many, too expensive, or were bought for in vain.
    fn solve(
        &mut self,
        store: &Store,
        capacity: &Capacity,
        mut taken: Taken,
        mut injected: Injected,
        now: Time,
    ) -> Decision {
        let mut plan = solve(&taken.snapshot, Packing::Compat);
        if !injected.is_empty() {
            let left = self.demand.left_to_spend(store, |claim| capacity.price(claim));
            for _ in 0..MOST_TRIMS {
                let snapshot = &taken.snapshot;
                let mut out = self.demand.surplus(snapshot, &plan, &injected, left);
                out.extend(self.demand.in_vain(store, snapshot, &plan, now));
                if out.is_empty() {
                    break;
                }
                injected.leave_out(&mut taken.snapshot, &out);
                plan = solve(&taken.snapshot, Packing::Compat);
            }
        }
        Decision { taken, injected, plan }
    }

    /// Asks for the claims of a plan.
    fn realize(&mut self, store: &mut Store, decision: &Decision, out: &mut Out<'_>) -> Vec<NewClaim> {
        let Decision { taken: Taken { snapshot, .. }, injected, plan } = decision;
        let mut made = Vec::new();
        for pod in snapshot.pods.iter().filter(|pod| pod.demand == snapshot::Demand::Real) {
            self.considered.insert(pod.uid.clone());
            if self.nominated.contains_key(&pod.uid) {
                // It wants a node, so nobody believes in that nomination any more.
                self.nominate.mark((pod.namespace.clone(), pod.name.clone()));
            }
        }
        for node in &plan.existing {
            let name = &snapshot.nodes[node.node as usize].name;
            if store.claims.contains_key(name) {
                self.promise(store, snapshot, &node.pods, name);
            }
        }
        let mut told = 0;
        for planned in &plan.claims {
            let Some(first) = planned.pods.first() else { continue };
            let anchor = &snapshot.pods[*first as usize].uid;
            let reasons = self.demand.reasons(injected, &planned.pods);
            let mut notes = Vec::new();
            if let Some((by, because)) = &reasons {
                notes.extend([(EXPECTED_BY, by.clone()), (BECAUSE, because.clone())]);
            }
            let expected = planned.pods.iter().filter(|pod| !is_real(snapshot, **pod)).count();
            notes.extend(self.demand.at_most(planned, expected).map(|most| (AT_MOST, most.to_string())));
            let Some(name) = self.order(store, planned, anchor, &notes, "provisioned", out) else { continue };
            self.news.push(News::Ordered(Ordered::new(planned, &name, expected, reasons.as_ref())));
            self.promise(store, snapshot, &planned.pods, &name);
            tell::claim(planned, expected, reasons.as_ref(), &name, out);
            let price = planned.launch.as_ref().map(|launch| launch.price).unwrap_or_default();
            made.push(NewClaim { name: name.clone(), pods: planned.pods.clone(), price });
            let real = planned.pods.iter().filter(|pod| is_real(snapshot, **pod));
            for pod in real.take(tell::MOST_EVENTS.saturating_sub(told)) {
                told += 1;
                tell::nominated(&snapshot.pods[*pod as usize], &name, out);
            }
        }
        tell::decision(snapshot, plan, out);
        made
    }

    fn promise(&mut self, store: &Store, snapshot: &Snapshot, pods: &[u32], claim: &str) {
        for pod in pods.iter().filter(|pod| is_real(snapshot, **pod)) {
            let pod = &snapshot.pods[*pod as usize];
            let key = (pod.namespace.clone(), pod.name.clone());
            self.promise_one(store, pod.uid.clone(), key, claim);
        }
    }

    fn promise_one(&mut self, store: &Store, uid: Arc<str>, key: PodKey, claim: &str) {
        let owner = store.pod(&key).and_then(Pod::owner).filter(|_| self.is_observing());
        let source = owner.and_then(|owner| self.demand.came_to(claim, owner));
        self.news.push(News::Promised {
            uid: uid.clone(),
            key: key.clone(),
            claim: claim.to_owned(),
            source,
        });
        self.promises.make(uid, key, claim);
    }

    /// Asks for a claim, once more if it must be.
    fn make(&self, name: &str, out: &mut Out<'_>) {
        if let Some(object) = self.making.get(name) {
            let effect = Effect::Create { kind: Kind::NodeClaim, object: object.clone() };
            out.ask(Errand::Make(name.to_owned()), effect);
        }
    }

    /// When to ask again for claims that could not be made.
    pub(crate) fn retries(&self, out: &crate::errands::Errands) -> Option<Time> {
        self.making.keys().filter_map(|name| out.until(&Errand::Make(name.clone()))).min()
    }

    /// Takes notice of how the making of a claim ended.
    pub(crate) fn made(
        &mut self,
        name: &str,
        outcome: Outcome,
        store: &mut Store,
        out: &mut Out<'_>,
    ) -> Vec<Touched> {
        match outcome {
            Outcome::Done(Fact::Object(value)) => {
                self.making.remove(name);
                store.made(&value)
            }
            Outcome::Refused(Refusal::AlreadyExists) => {
                self.making.remove(name);
                let object = ObjectRef {
                    kind: Kind::NodeClaim,
                    namespace: String::new(),
                    name: name.to_owned(),
                    uid: String::new(),
                };
                out.ask(Errand::Doubt(name.to_owned()), Effect::Read { object });
                Vec::new()
            }
            Outcome::Refused(Refusal::Invalid { message } | Refusal::Forbidden { message }) => {
                self.making.remove(name);
                out.line(Level::Error, format!("cannot make a NodeClaim: {message}"), &[("NodeClaim", name)]);
                store.lose(Kind::NodeClaim, "", name, None)
            }
            Outcome::Unknown { .. } => {
                self.echoes.unanswered(out.now.time, name);
                Vec::new()
            }
            Outcome::Done(_) | Outcome::Refused(_) => Vec::new(),
        }
    }

    /// How many pods fit nowhere.
    pub(crate) fn unplaced(&self) -> usize {
        self.unplaced
    }

    /// Forgets everything that only this process knows.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.settings.clone(), self.well_known.clone());
    }
}
