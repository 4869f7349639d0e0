//! Pods that are expected: who believes in them, what was bought for them, and what became of it.
//!
//! They live here and in a snapshot, and nowhere else: no event, metric or nomination ever names one as if it were a pod.
//! What is believed follows from the objects alone, so that a new process believes the same; only doubts are remembered.

mod buffers;
mod doubts;
mod early;
mod facts;
mod held;
mod injected;
mod ledger;
mod open;
mod progress;
mod yields;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headstart_core::demand::{Beliefs, Expected, Facts, Owner, SOURCES, Withheld, expect};
use headstart_core::labels::WellKnown;
use headstart_core::plan::{Plan, PlannedClaim};
use headstart_core::price::Price;
use headstart_core::snapshot::{self, Labels, Selector, Snapshot};
use headstart_intake::Choice;

use crate::action::ObjectRef;
use crate::backoff::Backoff;
use crate::claims;
use crate::kind::Kind;
use crate::observation::Belief;
use crate::out::Out;
use crate::provision::strikes::{Strikes, need};
use crate::report::{Gauge, Level};
use crate::settings::Proactive;
use crate::store::{Claim, Store, Touched};

use crate::time::{Time, Wall};
use buffers::BufferStatus;
use doubts::Doubts;
pub(crate) use early::early;
use held::Held;
pub(crate) use injected::Injected;
use ledger::{GAP, Ledger};
use progress::Progress;

/// How soon a change of what makes pods is acted upon; more changes often follow.
const SOON: Duration = Duration::from_millis(30);
/// How soon it is looked at whether a change of the cluster matters to what is believed.
const CHANGED: Duration = Duration::from_secs(1);
/// How often it is looked whether what was bought is still wanted.
const AGAIN: Duration = Duration::from_secs(10);

/// How often an owner is told that nothing is bought ahead for it.
const WITHHELD_EVERY: Duration = Duration::from_mins(10);

/// A claim that a decision makes.
#[derive(Debug)]
pub(crate) struct NewClaim {
    pub(crate) name: String,
    /// Its pods in the snapshot.
    pub(crate) pods: Vec<u32>,
    /// What it costs if it is launched as planned.
    pub(crate) price: Price,
}

/// Everything about pods that are expected.
#[derive(Debug)]
pub(crate) struct Demand {
    settings: Proactive,
    pools: Selector,
    progress: Progress,
    doubts: Doubts,
    /// Needs for which a node was bought that those who were expected could not use.
    needs: Strikes<u64>,
    /// Needs for which a claim was made that ended before its node was there.
    launches: Strikes<u64>,
    ledger: Ledger,
    held: Held,
    buffers: BufferStatus,
    /// What was last believed in, and how often that has changed.
    expected: Vec<Expected>,
    version: u64,
    /// What makes pods that were last believed in, by uid.
    believed: BTreeSet<Arc<str>>,
    /// When to ask again what is believed.
    due: Option<Time>,
    /// Whether it was said that there are too many nodes.
    is_full: bool,
    /// Claims that nobody makes and that take no more pods than was decided.
    sealed: BTreeSet<String>,
}

impl Demand {
    pub(crate) fn new(settings: &Proactive, seed: u64) -> Self {
        Self {
            settings: settings.clone(),
            pools: settings.pools().unwrap_or_default(),
            progress: Progress::default(),
            doubts: Doubts::new(seed),
            needs: Strikes::new(Backoff::millis(60_000, 1_800_000), seed),
            launches: Strikes::new(Backoff::millis(1_000, 600_000), seed),
            ledger: Ledger::default(),
            held: Held::new(settings.is_on()),
            buffers: BufferStatus::default(),
            expected: Vec::new(),
            version: 0,
            believed: BTreeSet::new(),
            due: settings.is_on().then_some(Time(0)),
            is_full: false,
            sealed: BTreeSet::new(),
        }
    }

    fn ask_at(&mut self, time: Time) {
        self.due = Some(self.due.map_or(time, |known| known.min(time)));
    }

    /// Whether anything depends on what is believed.
    fn matters(&self) -> bool {
        !self.expected.is_empty() || !self.held.is_empty()
    }

    pub(crate) fn on(&mut self, now: Time, touched: &Touched, store: &Store) {
        if !self.settings.is_on() {
            return;
        }
        match touched {
            Touched::Other(kind) if makes_pods(*kind) => self.ask_at(now + SOON),
            Touched::Pool { .. } => self.ask_at(now + CHANGED),
            Touched::Pod { key, was_on, .. } => {
                let pod = store.pod(key);
                if let Some(pod) = pod.filter(|pod| was_on.is_none() && pod.node().is_some()) {
                    self.ledger.bound(pod, store);
                }
                if self.matters() || self.settings.has_headroom() {
                    self.ask_at(now + CHANGED);
                }
            }
            Touched::Claim { name, gone } => {
                let needs = gone.as_ref().and_then(|_| self.ledger.gone(name));
                if let (Some(needs), Some(claim)) = (needs, gone) {
                    if !claim.is_initialized() {
                        for need in needs {
                            self.launches.failed(now, need);
                        }
                    }
                    self.ask_at(now + SOON);
                } else if self.matters() {
                    self.ask_at(now + CHANGED);
                }
            }
            Touched::Node { .. } if self.matters() => self.ask_at(now + CHANGED),
            _ => {}
        }
    }

    /// When to ask again what is believed.
    pub(crate) fn wake(&self) -> Option<Time> {
        self.due
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Whether the pods that an owner has still to make are counted already, so that nobody need wait for them.
    pub(crate) fn foresees(&self, owner: &str) -> bool {
        self.believed.contains(owner)
    }

    /// Asks who believes in what, and joins that to the snapshot.
    pub(crate) fn believe(
        &mut self,
        store: &Store,
        snapshot: &mut Snapshot,
        well_known: &WellKnown,
        price: impl Fn(&Claim) -> Price,
        out: &mut Out<'_>,
    ) -> Injected {
        if !self.settings.is_on() {
            return Injected::default();
        }
        let now = out.now.time;
        for pool in &mut snapshot.pools {
            pool.only_real = !self.buys_from(store, &pool.name);
        }
        let facts = facts::facts(&self.settings, &mut self.progress, store, snapshot, well_known, out.now);
        let mut beliefs = expect(&facts);
        self.buffers.sized(&facts);
        self.doubt(&mut beliefs, &facts, store, out);
        self.cap_nodes(&mut beliefs, store, out);
        let is_theirs = self.settings.others_buy && store.pools.is_empty();
        if snapshot.pools.iter().all(|pool| pool.only_real) && !is_theirs {
            // The switch is off, or nobody may buy: nothing is believed in, and what was bought has no reason any more.
            beliefs.expected.clear();
        }
        let is_out = |key: &u64| self.needs.is_out(now, key) || self.launches.is_out(now, key);
        beliefs.expected.retain(|expected| !is_out(&need(&expected.template.shape)));
        self.believed = beliefs.expected.iter().map(|expected| expected.owner.uid.clone()).collect();
        if !self.sealed.is_empty() {
            for expected in &mut beliefs.expected {
                let decided = self.ledger.left(&self.sealed, &expected.owner.uid);
                expected.count -= decided.min(if expected.source == GAP { expected.count } else { 0 });
            }
            beliefs.expected.retain(|expected| expected.count > 0);
        }
        let counts = |all: &[Expected]| -> Vec<_> {
            all.iter().map(|expected| (expected.owner.uid.clone(), expected.count)).collect()
        };
        if counts(&self.expected) != counts(&beliefs.expected) {
            self.version += 1;
        }
        self.expected = beliefs.expected;
        let next = beliefs.next.map(|wall| out.now.until(Wall(wall)));
        let again = (self.matters() || !facts.buffers.is_empty()).then_some(now + AGAIN);
        let pauses = [self.needs.next(now), self.launches.next(now), self.doubts.next(now)];
        self.due = [next, again].into_iter().chain(pauses).flatten().min();
        self.due = self.due.map(|due| due.max(now + SOON));
        self.ledger.tick(store, price, out);
        self.join(snapshot)
    }

    /// Joins what was last believed in to a snapshot that others decide upon: disruption must leave room for it as well.
    pub(crate) fn join(&self, snapshot: &mut Snapshot) -> Injected {
        Injected::join(&self.expected, snapshot)
    }

    /// Leaves out owners that nobody believes any more, and tells why.
    fn doubt(&mut self, beliefs: &mut Beliefs, facts: &Facts, store: &Store, out: &mut Out<'_>) {
        let now = out.now.time;
        for withheld in beliefs.withheld.iter().filter(|withheld| withheld.is_failure) {
            self.doubts.failed(now, withheld.source, &withheld.owner, &withheld.why);
        }
        let has = |owner: &Owner| u32::try_from(store.live(&owner.uid)).unwrap_or(u32::MAX);
        self.doubts.follow(now, &beliefs.expected, facts, has);
        for (source, owner, why, pause) in self.doubts.news() {
            let pause = pause.as_secs();
            let message = format!(
                "No nodes are started ahead for it: {why}. What {source} expects of it is not believed for {pause} s"
            );
            out.count("proactive_disbelief_total", &[("source", source)]);
            if let Some(about) = object(&owner) {
                out.warn(about, "ProactiveScaleUpWithdrawn", message);
            }
        }
        let doubts = &self.doubts;
        beliefs.expected.retain(|expected| !doubts.has(now, expected.source, &expected.owner));
        for Withheld { source, owner, why, .. } in beliefs.withheld.iter().filter(|one| !one.is_failure) {
            if let Some(about) = object(owner) {
                // Without numbers, which change all the time: the same is told once in a while only.
                let message =
                    format!("No nodes are started ahead for some of what {source} could expect of it: {why}");
                out.event(about, false, "ProactiveScaleUpWithheld", message, WITHHELD_EVERY);
            }
        }
    }

    /// Expects nothing once there are too many nodes, and says so.
    fn cap_nodes(&mut self, beliefs: &mut Beliefs, store: &Store, out: &mut Out<'_>) {
        let (nodes, most) = (store.claims.len().max(store.nodes.len()), self.settings.node_limit);
        let is_full = nodes >= most;
        if is_full {
            beliefs.expected.clear();
        }
        if is_full && !self.is_full {
            let message = format!("there are {nodes} nodes, and from {most} on nothing is started ahead");
            out.line(Level::Warning, message, &[("NODE_LIMIT", &most.to_string())]);
        }
        self.is_full = is_full;
    }

    /// Whether nodes are bought from a pool for pods that are expected.
    fn buys_from(&self, store: &Store, pool: &str) -> bool {
        store.pools.get(pool).is_some_and(|pool| {
            let none = BTreeMap::new();
            let annotations = pool.metadata.annotations.as_ref().unwrap_or(&none);
            let labels: Labels = pool.metadata.labels.iter().flatten().map(text).collect();
            Choice::of(annotations) != Some(Choice::No) && self.pools.matches(&labels)
        })
    }

    /// What is left to spend an hour on nodes for pods that are expected.
    pub(crate) fn left_to_spend(&self, store: &Store, price: impl Fn(&Claim) -> Price) -> Option<Price> {
        let most = self.settings.most_dollars?;
        let of = |claim: &Claim| match claims::at_most(claim) {
            _ if claim.is_launched() => price(claim),
            Some(most) => most,
            None => self.ledger.price(claim.name()),
        };
        // One that goes costs until it is gone.
        let spent: f64 = unused(store).map(|claim| of(claim).dollars()).sum();
        Some(Price::from_dollars((most - spent).max(0.0)))
    }

    /// The most that a claim may cost an hour of whose pods so many are expected.
    ///
    /// One that is for expected pods alone must not end up dearer than what was decided upon because the cheapest ran dry.
    pub(crate) fn at_most(&self, planned: &PlannedClaim, expected: usize) -> Option<Price> {
        self.settings.most_dollars?;
        let launch = planned.launch.as_ref().filter(|_| expected == planned.pods.len())?;
        Some(launch.price)
    }

    /// Expected pods to leave out of a plan because of the limits on belief.
    pub(crate) fn surplus(
        &mut self,
        snapshot: &Snapshot,
        plan: &Plan,
        injected: &Injected,
        left: Option<Price>,
    ) -> Vec<u32> {
        injected.surplus(&self.expected, snapshot, plan, self.settings.pod_injection_limit, left)
    }

    /// Expected pods to leave out of a plan because a node that was bought for their like stands there and they cannot use it.
    pub(crate) fn in_vain(&mut self, store: &Store, snapshot: &Snapshot, plan: &Plan, now: Time) -> Vec<u32> {
        let useless = self.ledger.useless(store, snapshot, plan);
        let mut out = Vec::new();
        for pod in plan.claims.iter().flat_map(|claim| &claim.pods) {
            let known = &snapshot.pods[*pod as usize];
            let key = need(&known.shape);
            if known.demand == snapshot::Demand::Expected && useless.contains(&key) {
                self.needs.failed(now, key);
                out.push(*pod);
            }
        }
        out
    }

    /// Takes notice of what a plan gives to pods that are expected.
    pub(crate) fn planned(
        &mut self,
        store: &Store,
        snapshot: &Snapshot,
        plan: &Plan,
        injected: &Injected,
        made: &[NewClaim],
        out: &mut Out<'_>,
    ) {
        if !self.settings.is_on() {
            return;
        }
        if injected.is_empty() && !self.expected.is_empty() {
            // For once it was decided for real pods alone; what is held for others stays so.
            return;
        }
        self.held.planned(&self.expected, snapshot, plan, injected, made);
        for claim in made {
            self.ledger.bought(claim, &self.expected, snapshot, injected, out);
        }
        self.buffers.write(&self.expected, store, snapshot, plan, injected, out);
        if self.matters() {
            self.ask_at(out.now.time + AGAIN);
        }
    }

    /// Gives back what pods that exist wait for.
    pub(crate) fn give_way(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        plan: &Plan,
        is_promised: impl Fn(&str) -> bool,
        out: &mut Out<'_>,
    ) {
        if self.settings.is_on() {
            yields::give_way(store, snapshot, plan, is_promised, out);
        }
    }

    /// What was last believed in.
    pub(crate) fn expected(&self) -> &[Expected] {
        &self.expected
    }

    /// A number that changes with what is expected.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether it is known which pods are expected; before that nobody can tell which nodes are not needed.
    pub(crate) fn is_known(&self) -> bool {
        self.held.is_known()
    }

    /// Why a claim's node is to be kept though no pod needs it: room for pods that are expected.
    ///
    /// For whoever takes away nodes that stand empty. Nothing is let go before it is known what is believed.
    pub(crate) fn holds(&self, claim: &Claim) -> Option<String> {
        self.held.why(claim)
    }

    /// What a new claim says about the expected pods among its own: who expects them, and why.
    pub(crate) fn reasons(&self, injected: &Injected, pods: &[u32]) -> Option<(String, String)> {
        injected.reasons(&self.expected, pods)
    }

    /// A claim that nobody makes and that pods which an owner is about to make were to go to.
    pub(crate) fn awaits(&self, owner: &str) -> Option<&str> {
        self.ledger.awaits(owner)
    }

    /// Takes notice that a pod would come to a claim that nobody makes; who had expected it.
    pub(crate) fn came_to(&mut self, claim: &str, owner: &str) -> Option<&'static str> {
        self.ledger.came_to(claim, owner)
    }

    /// Whether somebody expects pods that a claim which nobody makes was to get.
    pub(crate) fn is_wanted(&self, claim: &str) -> bool {
        self.ledger.owners(claim).any(|owner| self.believed.contains(owner))
    }

    /// Takes notice that a claim which nobody makes gets no more pods than was decided.
    pub(crate) fn seal(&mut self, claim: &str) {
        self.sealed.insert(claim.to_owned());
    }

    /// Forgets a claim that nobody makes.
    pub(crate) fn retire(&mut self, claim: &str) {
        self.sealed.remove(claim);
        self.ledger.gone(claim);
    }

    /// Takes notice of what an expected pod would have saved.
    pub(crate) fn saved(&mut self, source: &'static str, seconds: f64) {
        self.ledger.saved(source, seconds);
    }

    /// Takes notice that a claim nobody makes would have stood idle.
    pub(crate) fn idled(&mut self, claim: &str, seconds: f64, out: &mut Out<'_>) {
        self.ledger.idled(claim, seconds, out);
    }

    /// What each source has been right and wrong about so far.
    pub(crate) fn beliefs(&self) -> Vec<Belief> {
        self.ledger.beliefs()
    }

    /// How many pods are expected.
    pub(crate) fn expects(&self) -> u32 {
        self.expected.iter().map(|expected| expected.count).sum()
    }

    /// How many pods each source expects, and how often each was right.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let mut by_source: BTreeMap<&'static str, u32> = BTreeMap::new();
        if self.settings.is_on() {
            for source in SOURCES {
                by_source.insert(source.name(), 0);
            }
        }
        for expected in &self.expected {
            *by_source.entry(expected.source).or_default() += expected.count;
        }
        let gauge =
            |name, source: &str, value| Gauge { name, labels: vec![("source", source.to_owned())], value };
        let mut all: Vec<Gauge> = by_source
            .into_iter()
            .map(|(source, count)| gauge("proactive_expected_pods", source, f64::from(count)))
            .collect();
        all.extend(self.ledger.hit_rates().map(|(source, rate)| gauge("proactive_hit_rate", source, rate)));
        all
    }
}

/// Claims that were made for pods that were expected, and which no real pod uses.
fn unused(store: &Store) -> impl Iterator<Item = &Claim> {
    let is_ahead = |claim: &Claim| held::is_ahead(claim) || open::is_kept(claim, store);
    store.claims.values().filter(move |claim| is_ahead(claim) && !open::is_used(claim, store))
}

/// The same without those that go.
fn idle(store: &Store) -> impl Iterator<Item = &Claim> {
    unused(store).filter(|claim| !claim.is_leaving())
}

fn text((key, value): (&String, &String)) -> (Arc<str>, Arc<str>) {
    (key.as_str().into(), value.as_str().into())
}

/// Whether sources look at a kind.
fn makes_pods(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::Job
            | Kind::Deployment
            | Kind::CronJob
            | Kind::PodTemplate
            | Kind::ResourceQuota
            | Kind::CapacityBuffer
    )
}

/// What pods are expected of, as something that people can be told about.
fn object(owner: &Owner) -> Option<ObjectRef> {
    let kind = match &*owner.kind {
        "ReplicaSet" => Kind::ReplicaSet,
        "StatefulSet" => Kind::StatefulSet,
        "Job" => Kind::Job,
        "CronJob" => Kind::CronJob,
        "CapacityBuffer" => Kind::CapacityBuffer,
        "NodePool" => Kind::NodePool,
        _ => return None,
    };
    let (namespace, name, uid) = (owner.namespace.to_string(), owner.name.to_string(), owner.uid.to_string());
    Some(ObjectRef { kind, namespace, name, uid })
}
