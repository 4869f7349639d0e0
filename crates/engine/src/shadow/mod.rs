//! Follows decisions: what was bought for their pods, when, and how long they waited.
//!
//! With an observer decisions are made and not carried out. A claim that would have been made is assumed to be there, so that
//! nothing is bought for the same pods twice, until the first of its pods comes to somebody else's node: from then on the
//! world is not the one in which that claim would have been, and only what was decided about its pods stays decided.

mod fleet;
mod lead;
mod open;
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::action::Action;
use crate::capacity::Capacity;
use crate::disrupt::node_of;
use crate::errands::Errands;
use crate::observation::{Decision, Nodes, Observation, Sample, State};
use crate::out::{Out, Told};
use crate::provision::{News, Provision};
use crate::report::{Gauge, Level, Report};
use crate::settings::Mode;
use crate::store::{PodLife, Store, Touched};
use crate::time::{Now, Time, Wall};
use lead::Leads;
use open::{Followed, Landed, Open};
use sample::{Past, Sampler};

/// How long pods are followed that find no node.
const PATIENCE: Duration = Duration::from_mins(15);
/// How many decisions are remembered for what their nodes cost.
const REMEMBERED: usize = 1_000;

/// Follows decisions.
#[derive(Debug)]
pub(crate) struct Shadow {
    mode: Mode,
    open: BTreeMap<u64, Open>,
    past: BTreeMap<u64, Past>,
    /// What the nodes of past decisions are.
    known: BTreeMap<Arc<str>, Nodes>,
    /// The decisions of claims and of pods that wait.
    of_claim: BTreeMap<String, u64>,
    of_pod: BTreeMap<Arc<str>, u64>,
    /// When pods that wait were made.
    made: BTreeMap<Arc<str>, Wall>,
    /// Claims that nobody makes whose pods begin to be on other nodes.
    overtaken: BTreeSet<String>,
    landed: Landed,
    leads: Leads,
    sampler: Sampler,
    /// The last decision.
    last: u64,
}

impl Shadow {
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            open: BTreeMap::new(),
            past: BTreeMap::new(),
            known: BTreeMap::new(),
            of_claim: BTreeMap::new(),
            of_pod: BTreeMap::new(),
            made: BTreeMap::new(),
            overtaken: BTreeSet::new(),
            landed: Landed::new(),
            leads: Leads::default(),
            sampler: Sampler::default(),
            last: 0,
        }
    }

    pub(crate) fn on(&mut self, now: Now, touched: &Touched, store: &Store) {
        match touched {
            Touched::Pod { key, uid, .. } => {
                let pod = store.pod(key).filter(|pod| pod.uid() == uid && !pod.is_over());
                match pod.map(|pod| (pod.since(), pod.node())) {
                    Some((since, None)) => {
                        self.made.entry(uid.clone()).or_insert_with(|| lead::made(since, now.wall));
                    }
                    Some((_, Some(node))) => {
                        self.made.remove(uid);
                        self.bound(now.wall, uid, node);
                    }
                    None => {
                        self.made.remove(uid);
                        if let Some(open) = self.of_pod.remove(uid).and_then(|id| self.open.get_mut(&id)) {
                            open.lose(uid);
                        }
                    }
                }
            }
            Touched::Claim { name, .. } => match store.claims.get(name) {
                Some(claim) if claim.is_assumed => {}
                Some(claim) => self.leads.seen(claim, node_of(claim, store), now.wall),
                None => self.leads.gone(name),
            },
            Touched::Node { name, .. } => {
                let node = store.nodes.get(name);
                if node.is_none() {
                    self.landed.remove(name.as_str());
                    self.known.remove(name.as_str());
                }
                if let Some(claim) = node.and_then(|node| store.claim_of_node(node)) {
                    self.leads.seen(claim, node, now.wall);
                }
            }
            _ => return,
        }
        self.sampler.stir(now.time);
    }

    /// Takes notice that a pod came to a node.
    fn bound(&mut self, at: Wall, uid: &Arc<str>, node: &Arc<str>) {
        let Some(id) = self.of_pod.remove(uid) else { return };
        let Some(open) = self.open.get_mut(&id) else { return };
        let Some(pod) = open.pods.get_mut(uid) else { return };
        pod.bound = Some(at);
        open.is_news = true;
        if self.mode == Mode::Observe {
            self.overtaken.insert(pod.claim.clone());
        }
        *self.landed.entry(node.clone()).or_default().entry(id).or_default() += 1;
    }

    /// Decides without acting, and compares that with what another autoscaler does.
    pub(crate) fn poll(
        &mut self,
        store: &mut Store,
        capacity: &mut Capacity,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        let (mut errands, mut told) = (Errands::default(), Told::default());
        let mut aside = Out { now: out.now, errands: &mut errands, told: &mut told, actions: Vec::new() };
        provision.poll(store, capacity, &mut aside);
        let actions = aside.actions;
        out.actions.extend(actions.into_iter().filter(is_true));
        self.follow(store, capacity, provision, out);
        for claim in std::mem::take(&mut self.overtaken) {
            if store.claims.get(&claim).is_some_and(|claim| claim.is_assumed) {
                provision.seal(store, &claim);
            }
        }
    }

    /// Follows what was decided.
    pub(crate) fn follow(
        &mut self,
        store: &mut Store,
        capacity: &Capacity,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        self.hear(store, provision, out);
        let ids: Vec<u64> = self.open.keys().copied().collect();
        for id in ids {
            self.close(id, store, capacity, provision, out);
        }
        if self.sampler.takes(out.now.time) {
            self.tell(store, capacity, provision, out);
        }
    }

    /// Takes in what decisions came to.
    fn hear(&mut self, store: &Store, provision: &mut Provision, out: &mut Out<'_>) {
        let (now, mut new) = (out.now.wall, None);
        for news in provision.news() {
            match news {
                News::Ordered(ordered) => {
                    let id = *new.get_or_insert_with(|| (self.last + 1).max(now.0.unsigned_abs()));
                    self.last = id;
                    self.of_claim.insert(ordered.name.clone(), id);
                    self.open.entry(id).or_insert_with(|| Open::new(id, self.mode, now)).order(ordered);
                }
                News::Promised { uid, key, claim, source } => {
                    let Some(id) = self.of_claim.get(&claim).copied() else { continue };
                    if let Some(before) = self.of_pod.insert(uid.clone(), id).filter(|before| *before != id)
                        && let Some(open) = self.open.get_mut(&before)
                    {
                        open.lose(&uid);
                    }
                    let Some(open) = self.open.get_mut(&id) else { continue };
                    let created = self.made.get(&uid).copied();
                    let created = created.unwrap_or_else(|| store.pod(&key).map_or(now, PodLife::since));
                    let (at, lead) = (open.at, open.lead(&claim, &self.leads).0);
                    if let Some(sought) = open.claims.get_mut(&claim)
                        && let Some(idle_to) = sought.idle_to.take()
                        && self.mode == Mode::Observe
                    {
                        let idle = created - idle_to.max(at + lead);
                        provision.demand.idled(&claim, idle.as_secs_f64(), out);
                    }
                    open.pods.insert(uid, Followed { claim, source, created, bound: None });
                    open.is_news = true;
                }
            }
        }
        if let Some(open) = new.and_then(|id| self.open.get_mut(&id)) {
            let record = open.record(State::Open, &self.landed, &self.leads);
            if self.mode == Mode::Observe {
                tell_decision(&record, out);
            }
            open.is_news = false;
            out.observe(Observation::Decision(Box::new(record)));
            self.sampler.stir(out.now.time);
        }
    }

    /// Lets go of claims that nobody counts on, and of a decision whose pods all have a node.
    fn close(
        &mut self,
        id: u64,
        store: &mut Store,
        capacity: &Capacity,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let waiting = open.n_waiting();
        let is_overdue = waiting > 0 && open.at + PATIENCE < out.now.wall;
        let mut over = Vec::new();
        for (name, sought) in open.claims.iter_mut().filter(|(_, sought)| sought.is_standing) {
            if !provision.is_wanted(name) || is_overdue {
                sought.is_standing = false;
                over.push((name.clone(), sought.idle_to.take()));
            }
        }
        for (name, idle_to) in over {
            self.of_claim.remove(&name);
            if self.mode != Mode::Observe {
                continue;
            }
            if let Some(idle_to) = idle_to {
                let ready = open.at + open.lead(&name, &self.leads).0;
                provision.demand.idled(&name, (out.now.wall - idle_to.max(ready)).as_secs_f64(), out);
            }
            provision.retire(store, &name);
        }
        if open.claims.values().any(|sought| sought.is_standing) || (waiting > 0 && !is_overdue) {
            return;
        }
        let Some(mut open) = self.open.remove(&id) else { return };
        open.look(&self.landed, store, &self.leads, capacity);
        let state = match (open.pods.len(), waiting) {
            (0, _) => State::Missed,
            (_, 0) => State::Done,
            _ => State::Overdue,
        };
        for uid in open.pods.keys() {
            self.of_pod.remove(uid);
        }
        let record = open.record(state, &self.landed, &self.leads);
        if self.mode == Mode::Observe {
            weigh(&open, &self.leads, provision, out);
            tell_outcome(&record, out);
            let nodes: Vec<_> = open.bought().map(|(node, landing)| (node.clone(), landing)).collect();
            self.known.extend(nodes.iter().map(|(node, landing)| (node.clone(), landing.kind.clone())));
            let past = Past::new(record.would.nodes.clone(), nodes.into_iter().map(|(node, _)| node));
            self.past.insert(id, past);
        }
        out.observe(Observation::Decision(Box::new(record)));
        self.sampler.stir(out.now.time);
    }

    /// Tells how everything stands.
    fn tell(&mut self, store: &Store, capacity: &Capacity, provision: &mut Provision, out: &mut Out<'_>) {
        self.past.retain(|_, past| !past.is_over(store));
        while self.past.len() > REMEMBERED {
            self.past.pop_first();
        }
        let now = out.now;
        for open in self.open.values_mut() {
            open.look(&self.landed, store, &self.leads, capacity);
            if self.mode == Mode::Observe {
                let (at, mut idle) = (open.at, Vec::new());
                for (name, sought) in &mut open.claims {
                    if let Some(to) = &mut sought.idle_to {
                        idle.push((name.clone(), std::mem::replace(to, now.wall)));
                    }
                }
                for (name, to) in idle {
                    let ready = at + open.lead(&name, &self.leads).0;
                    provision.demand.idled(&name, (now.wall - to.max(ready)).as_secs_f64(), out);
                }
            }
            if std::mem::take(&mut open.is_news) {
                let record = open.record(State::Open, &self.landed, &self.leads);
                out.observe(Observation::Decision(Box::new(record)));
            }
        }
        let sample = self.sample(store, capacity, provision.demand.expects(), now);
        if (Sample { at: self.sampler.last.at, ..sample.clone() }) != self.sampler.last {
            self.sampler.last = sample.clone();
            out.observe(Observation::Sample(Box::new(sample)));
        }
        let beliefs = provision.demand.beliefs();
        if beliefs != self.sampler.beliefs {
            self.sampler.beliefs.clone_from(&beliefs);
            out.observe(Observation::Beliefs(beliefs));
        }
        // What would be changes with time alone as long as pods are on their way.
        if self.open.values().any(|open| open.n_waiting() > 0) {
            self.sampler.stir(now.time);
        }
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.sampler.wake()
    }

    /// What everything costs an hour, and would.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        if self.mode != Mode::Observe {
            return Vec::new();
        }
        let gauge = |who: &str, value| Gauge {
            name: "observed_dollars_per_hour",
            labels: vec![("who", who.to_owned())],
            value,
        };
        let sample = &self.sampler.last;
        vec![gauge("cluster", sample.dollars), gauge("headstart", sample.would_dollars)]
    }

    /// Forgets everything that only a leader may rely on.
    pub(crate) fn forget(&mut self) {
        let (mode, last, leads) = (self.mode, self.last, std::mem::take(&mut self.leads));
        *self = Self { leads, last, ..Self::new(mode) };
    }
}

/// Whether what a decision tells is true although nothing is done about it.
fn is_true(action: &Action) -> bool {
    match action {
        Action::Tell(Report::Measure(measure)) => measure.name.starts_with("proactive_"),
        Action::Tell(Report::Line { level, .. }) => *level != Level::Info,
        Action::Tell(Report::Observed(_)) => true,
        Action::Do { .. } | Action::Tell(Report::Event { .. }) => false,
    }
}

/// Measures how long pods waited, and would have; by now it is known how long a node takes.
fn weigh(open: &Open, leads: &Leads, provision: &mut Provision, out: &mut Out<'_>) {
    for pod in open.pods.values() {
        let Some(bound) = pod.bound else { continue };
        let (real, would) = (bound - pod.created, open.would_bind(pod, leads) - pod.created);
        out.measure("observed_pod_wait_seconds", &[("who", "cluster")], real.as_secs_f64());
        out.measure("observed_pod_wait_seconds", &[("who", "headstart")], would.as_secs_f64());
        if let Some(source) = pod.source {
            provision.demand.saved(source, real.saturating_sub(would).as_secs_f64());
        }
    }
}

fn tell_decision(record: &Decision, out: &mut Out<'_>) {
    let nodes: u32 = record.would.nodes.iter().map(|nodes| nodes.count).sum();
    let message = format!("would start {nodes} nodes for {} pods", record.pods);
    let price = format!("${:.3}/h", record.would.dollars);
    out.line(Level::Info, message, &[("because", &record.because), ("price", &price)]);
}

fn tell_outcome(record: &Decision, out: &mut Out<'_>) {
    let state = match record.state {
        State::Open => "open",
        State::Done => "done",
        State::Missed => "missed",
        State::Overdue => "overdue",
    };
    out.count("observed_decisions_total", &[("state", state)]);
    let apart = |real: Wall, would: Wall| (real.0 - would.0) as f64 / 1000.0;
    let mut message = match (record.real.first, record.would.first) {
        (Some(real), Some(would)) => {
            let seconds = apart(real, would);
            let first = if seconds < 0.0 { "cluster" } else { "headstart" };
            out.measure("observed_apart_seconds", &[("first", first)], seconds.abs());
            let order = if seconds < 0.0 { "before" } else { "after" };
            let seconds = seconds.abs();
            format!(
                "the cluster's autoscaler asked for its first node {seconds:.1} s {order} Headstart would have"
            )
        }
        _ => "no node was started for these pods".to_owned(),
    };
    if let (Some(real), Some(would)) = (record.real.waits.quantile(0.95), record.would.waits.quantile(0.95)) {
        let _ = write!(message, "; pods waited {real:.1} s at p95, and would have waited {would:.1} s");
    }
    let (real, would) = (format!("${:.3}/h", record.real.dollars), format!("${:.3}/h", record.would.dollars));
    out.line(Level::Info, message, &[("price", &real), ("wouldBe", &would)]);
}
