//! A claim's end: pods leave, volumes are let go, the instance ends, and only then claim and node are gone.

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headstart_api::annotations::{TERMINATION_FINALIZER, TERMINATION_TIMESTAMP};
use headstart_api::conditions::{ConditionSet, Status, nodeclaim as condition, reasons};
use headstart_api::{labels, taints};
use headstart_core::cloud::{Instance, ProviderId};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use crate::action::{Effect, Part};
use crate::agenda::Agenda;
use crate::claims;
use crate::errands::Errand;
use crate::kind::Kind;
use crate::machines::Machines;
use crate::out::Out;
use crate::outcome::Outcome;
use crate::report::Level;
use crate::store::{Claim, Node, PodKey, Store, Touched};
use crate::time::{Time, Wall};
use pods::Leavers;

/// How long a node drains at least, for pods that came before kube-scheduler saw its taint.
const LEAST_DRAIN: Duration = Duration::from_secs(5);
/// How often a drain is looked at when nothing happens.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the cloud is asked whether an instance has ended.
const ENDED: Duration = Duration::from_secs(5);
/// How long an instance may be missing from the cloud's list: its launch may arrive late, and the list be behind.
const UNSEEN: Duration = Duration::from_mins(1);

/// Something that goes away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Node(String),
    Claim(String),
}

/// Claims and nodes that go away.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    agenda: Agenda<Target>,
    leavers: Leavers,
    /// Claims without a known instance, by uid: how far the search for one has come.
    searches: BTreeMap<String, Search>,
    /// Claims for which it is being searched, and those for which it has to be, by name.
    searching: BTreeSet<String>,
    lost: BTreeSet<String>,
    /// When the cloud was last searched.
    search_asked: Option<Time>,
}

/// How far the search for a claim's instance has come.
#[derive(Clone, Copy, Debug)]
enum Search {
    /// Missed since then.
    Since(Time),
    /// There is none.
    Vain,
}

impl Drain {
    pub(crate) fn on(&mut self, touched: &Touched, store: &Store) {
        match touched {
            Touched::Claim { gone: Some(claim), .. } => drop(self.searches.remove(&claim.metadata.uid)),
            Touched::Claim { name, gone: None } => {
                if let Some(claim) = store.claims.get(name).filter(|claim| claim.is_leaving()) {
                    self.agenda.mark(Target::Claim(name.clone()));
                    self.mark_nodes(claim, store);
                }
            }
            Touched::Node { name, provider_id } => {
                if store.nodes.get(name).is_some_and(Node::is_leaving) {
                    self.agenda.mark(Target::Node(name.clone()));
                } else if let Some(claim) = provider_id.as_ref().and_then(|id| store.claim_with(id))
                    && claim.is_leaving()
                {
                    self.agenda.mark(Target::Claim(claim.name().to_owned()));
                }
            }
            Touched::Pod { key, was_on, .. } => {
                self.leavers.seen(key, store);
                let on = store.pod(key).and_then(|pod| pod.node().cloned());
                for node in [on, was_on.clone()].into_iter().flatten() {
                    self.mark_leaving(&node, store);
                }
            }
            Touched::Attachment { node } => self.mark_leaving(node, store),
            _ => {}
        }
    }

    fn mark_leaving(&mut self, node: &str, store: &Store) {
        if store.nodes.get(node).is_some_and(Node::is_leaving) {
            self.agenda.mark(Target::Node(node.to_owned()));
        }
    }

    fn mark_nodes(&mut self, claim: &Claim, store: &Store) {
        let id = claim.provider_id();
        for node in id.iter().flat_map(|id| store.nodes_with(id)) {
            self.agenda.mark(Target::Node(node.name().to_owned()));
        }
    }

    /// Looks again at whatever belongs to an instance.
    pub(crate) fn mark_instance(&mut self, id: &ProviderId, store: &Store) {
        for node in store.nodes_with(id) {
            self.agenda.mark(Target::Node(node.name().to_owned()));
        }
        if let Some(claim) = store.claim_with(id) {
            self.agenda.mark(Target::Claim(claim.name().to_owned()));
        }
    }

    /// Looks again at a claim.
    pub(crate) fn mark_claim(&mut self, name: &str) {
        self.agenda.mark(Target::Claim(name.to_owned()));
    }

    /// Looks again at a node.
    pub(crate) fn mark_node(&mut self, name: &str) {
        self.agenda.mark(Target::Node(name.to_owned()));
    }

    /// Takes notice of what the API server said to a request that a pod leave.
    pub(crate) fn answered(&mut self, pod: &PodKey, outcome: &Outcome) {
        self.leavers.answered(pod, outcome);
    }

    /// Asks pods of a node that stays to leave it for now; how many are still there.
    pub(crate) fn empty(&mut self, node: &Node, claim: &Claim, store: &Store, out: &mut Out<'_>) -> usize {
        pods::drain(node, Some(claim), None, &mut self.leavers, store, out)
    }

    /// Forgets what was asked for.
    pub(crate) fn forget(&mut self) {
        self.leavers = Leavers::default();
        self.lost.append(&mut self.searching);
    }

    /// When the cloud may be searched again.
    fn search_at(&self) -> Time {
        self.search_asked.map_or(Time(0), |asked| asked + ENDED)
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        let search = (!self.lost.is_empty() && self.searching.is_empty()).then(|| self.search_at());
        [self.agenda.wake(), search].into_iter().flatten().min()
    }

    pub(crate) fn poll(&mut self, store: &Store, machines: &Machines, out: &mut Out<'_>) {
        for target in self.agenda.take(out.now.time) {
            let again = match &target {
                Target::Node(name) => store
                    .nodes
                    .get(name)
                    .and_then(|node| step_node(node, &mut self.leavers, store, machines, out)),
                Target::Claim(name) => {
                    store.claims.get(name).and_then(|claim| self.step_claim(claim, store, machines, out))
                }
            };
            if let Some(again) = again {
                self.agenda.at(out.now.time + again, target);
            }
        }
        if !self.lost.is_empty()
            && self.search_at() <= out.now.time
            && out.ask(Errand::Search, Effect::Instances)
        {
            self.searching = std::mem::take(&mut self.lost);
            self.search_asked = Some(out.now.time);
        }
    }

    /// Takes notice that the cloud has begun to end an instance.
    pub(crate) fn ending(&mut self, id: &ProviderId, store: &Store, out: &mut Out<'_>) {
        if let Some(claim) = store.claim_with(id) {
            say(claim, out, |set| set.set_true(condition::INSTANCE_TERMINATING));
        }
        let nodes: Vec<String> = store.nodes_with(id).map(|node| node.name().to_owned()).collect();
        let again = out.now.time + ENDED;
        for node in nodes {
            self.agenda.at(again, Target::Node(node));
        }
        if let Some(claim) = store.claim_with(id) {
            self.agenda.at(again, Target::Claim(claim.name().to_owned()));
        }
    }

    /// The next step for a claim that goes away, and when to look again if nothing happens.
    fn step_claim(
        &mut self,
        claim: &Claim,
        store: &Store,
        machines: &Machines,
        out: &mut Out<'_>,
    ) -> Option<Duration> {
        if !claim.is_leaving() || !claim.is_held() {
            return None;
        }
        if let Some(patch) = termination_stamp(claim) {
            let object = claim.metadata.object(Kind::NodeClaim);
            let effect = Effect::Patch { object: object.clone(), part: Part::Main, patch };
            if out.ask(Errand::Claim(claim.name().to_owned()), effect)
                && let Some(deadline) = grace_end(claim)
            {
                let message = format!("All pods will be deleted by {}", deadline.stamp());
                out.warn(object, "TerminationGracePeriodExpiring", message);
            }
            return Some(AGAIN);
        }
        if claim.is_registered()
            && let Some(id) = claim.provider_id()
        {
            let mut any = false;
            for node in store.nodes_with(&id) {
                any = true;
                if !node.is_leaving() {
                    let object = node.metadata.object(Kind::Node);
                    out.ask(Errand::Node(node.name().to_owned()), Effect::Delete { object, grace: None });
                }
            }
            if any {
                return Some(ENDED);
            }
        }
        let uid = &claim.metadata.uid;
        if claim.provider_id().is_none() && !machines.launched.contains_key(uid) {
            if out.errands.is_flying(&Errand::Launch(claim.name().to_owned())) {
                return Some(AGAIN);
            }
            if !machines.has_none(uid) && self.is_sought(uid, out.now.time) {
                if !self.searching.contains(claim.name()) {
                    self.lost.insert(claim.name().to_owned());
                }
                return Some(ENDED);
            }
        }
        if let Some(again) = end_instance(claim, machines, out) {
            return Some(again);
        }
        let finalizers = claim.metadata.without_finalizer(TERMINATION_FINALIZER);
        let metadata = json!({ "resourceVersion": claim.metadata.version(), "finalizers": finalizers });
        let object = claim.metadata.object(Kind::NodeClaim);
        let effect = Effect::Patch { object, part: Part::Main, patch: json!({ "metadata": metadata }) };
        out.ask(Errand::Claim(claim.name().to_owned()), effect);
        Some(AGAIN)
    }

    /// Whether a claim's instance is still being searched for.
    fn is_sought(&mut self, uid: &str, now: Time) -> bool {
        let search = self.searches.entry(uid.to_owned()).or_insert(Search::Since(now));
        matches!(search, Search::Since(_))
    }

    /// Takes notice of all instances, or that they could not be told; those found, by the uid of their claim.
    pub(crate) fn searched(
        &mut self,
        instances: Option<&[Instance]>,
        store: &Store,
    ) -> Vec<(String, Instance)> {
        let mut found = Vec::new();
        let asked = self.search_asked;
        for name in std::mem::take(&mut self.searching) {
            let Some(claim) = store.claims.get(&name) else { continue };
            self.agenda.mark(Target::Claim(name));
            let uid = claim.metadata.uid.clone();
            match instances.map(|instances| Machines::found(instances, &uid)) {
                Some(Some(instance)) => found.push((uid, instance.clone())),
                Some(None) => {
                    self.searches.entry(uid).and_modify(|search| {
                        if matches!(search, Search::Since(since) if asked >= Some(*since + UNSEEN)) {
                            *search = Search::Vain;
                        }
                    });
                }
                None => {}
            }
        }
        found
    }
}

/// Tells that a claim is gone.
pub(crate) fn tell_gone(claim: &Claim, out: &mut Out<'_>) {
    let Some(deleted) = claim.metadata.deleted() else { return };
    let (pool, zone) = (claim.pool(), claim.metadata.label(headstart_core::labels::ZONE));
    out.line(Level::Info, "deleted nodeclaim", &[("NodeClaim", claim.name()), ("NodePool", pool)]);
    let capacity_type = claim.capacity_type();
    out.count(
        "nodeclaims_terminated_total",
        &[("nodepool", pool), ("capacity_type", capacity_type), ("zone", zone)],
    );
    let seconds = (out.now.wall - deleted).as_secs_f64();
    out.measure("nodeclaims_termination_duration_seconds", &[("nodepool", pool)], seconds);
}

/// The change that keeps new pods and traffic from a node, if that is not done.
fn disrupted(node: &Node) -> Option<Value> {
    let is_tainted = node.has_taint(taints::DISRUPTED, taints::NO_SCHEDULE);
    let is_labelled = node.metadata.labels.contains_key(labels::EXCLUDE_BALANCERS);
    if is_tainted && is_labelled {
        return None;
    }
    let mut wanted: Vec<Value> = node
        .taints()
        .iter()
        .filter(|taint| taint.key != taints::DISRUPTED)
        .filter_map(|taint| serde_json::to_value(taint).ok())
        .collect();
    wanted.push(json!({ "key": taints::DISRUPTED, "effect": taints::NO_SCHEDULE }));
    Some(json!({
        "metadata": {
            "resourceVersion": node.metadata.version(),
            "labels": { (labels::EXCLUDE_BALANCERS): labels::EXCLUDE_BALANCERS_VALUE },
        },
        "spec": { "taints": wanted },
    }))
}

/// When the claim's own grace period ends.
fn grace_end(claim: &Claim) -> Option<Wall> {
    let period = claim.spec.termination_grace_period?;
    let deleted = claim.metadata.deleted()?;
    Some(Wall(deleted.0.saturating_add(period.as_nanos() / 1_000_000)))
}

/// The change that writes down when the grace period ends, if it is not written.
fn termination_stamp(claim: &Claim) -> Option<Value> {
    let end = grace_end(claim)?;
    let is_written = claim.metadata.annotations.contains_key(TERMINATION_TIMESTAMP);
    let stamp = end.stamp().to_string();
    (!is_written).then(|| json!({ "metadata": { "annotations": { (TERMINATION_TIMESTAMP): stamp } } }))
}

/// The change that writes down when all pods must have left, unless that is sooner already.
pub(crate) fn tightened(claim: &Claim, end: Wall) -> Option<Value> {
    if deadline(claim).is_some_and(|known| known <= end) {
        return None;
    }
    let stamp = end.stamp().to_string();
    Some(json!({ "metadata": { "annotations": { (TERMINATION_TIMESTAMP): stamp } } }))
}

/// When all pods must have left.
fn deadline(claim: &Claim) -> Option<Wall> {
    let written = claim.metadata.annotations.get(TERMINATION_TIMESTAMP)?;
    written.parse::<jiff::Timestamp>().ok().map(Wall::from)
}

/// Says something new about a claim; `false` if that is said already.
pub(crate) fn say(
    claim: &Claim,
    out: &mut Out<'_>,
    change: impl FnOnce(&mut ConditionSet<'_>) -> bool,
) -> bool {
    let mut said: Vec<Condition> = claim.status.conditions.clone();
    if !change(&mut claim.conditions_in(&mut said, out.now.wall)) {
        return false;
    }
    let object = claim.metadata.object(Kind::NodeClaim);
    let patch = json!({
        "metadata": { "resourceVersion": claim.metadata.version() },
        "status": { "conditions": said },
    });
    out.ask(Errand::Claim(claim.name().to_owned()), Effect::Patch { object, part: Part::Status, patch });
    true
}

/// The change after which a claim no longer says something, if it does.
pub(crate) fn unsaid(claim: &Claim, kind: &str) -> Option<Effect> {
    claim.condition(kind)?;
    let left: Vec<&Condition> = claim.status.conditions.iter().filter(|said| said.type_ != kind).collect();
    let patch = json!({
        "metadata": { "resourceVersion": claim.metadata.version() },
        "status": { "conditions": left },
    });
    Some(Effect::Patch { object: claim.metadata.object(Kind::NodeClaim), part: Part::Status, patch })
}

/// The next step for a node that goes away, and when to look again if nothing happens.
fn step_node(
    node: &Node,
    leavers: &mut Leavers,
    store: &Store,
    machines: &Machines,
    out: &mut Out<'_>,
) -> Option<Duration> {
    if !node.is_leaving() || !node.is_held() {
        return None;
    }
    let claim = store.claim_of_node(node);
    if let Some(claim) = claim.filter(|claim| !claim.is_leaving()) {
        claims::remove(claim, "node_deleted", out);
    }
    // A machine that is gone has nothing left to drain.
    let silent = node.provider_id().filter(|_| !node.is_ready());
    if silent.as_ref().is_some_and(|id| machines.gone.contains(id)) {
        return Some(release_node(node, out));
    }
    let look = |out: &mut Out<'_>| {
        if let Some(id) = &silent {
            out.ask(Errand::Instance(id.clone()), Effect::Inspect(id.clone()));
        }
        Some(AGAIN)
    };
    if let Some(patch) = disrupted(node) {
        let object = node.metadata.object(Kind::Node);
        let effect = Effect::Patch { object, part: Part::Main, patch };
        if out.ask(Errand::Node(node.name().to_owned()), effect) {
            out.line(Level::Info, "tainted node", &[("Node", node.name()), ("taint", taints::DISRUPTED)]);
        }
        return look(out);
    }
    let Some(claim) = claim else {
        return match pods::drain(node, None, None, leavers, store, out) {
            0 => Some(release_node(node, out)),
            _ => look(out),
        };
    };
    let deadline = deadline(claim);
    if let Some(deadline) = deadline {
        let message = format!("All pods will be deleted by {}", deadline.stamp());
        out.warn(node.metadata.object(Kind::Node), "TerminationGracePeriodExpiring", message);
    }
    let drained = claim.condition(condition::DRAINED);
    if !claim.is(condition::DRAINED) {
        let waiting = pods::drain(node, Some(claim), deadline, leavers, store, out);
        let since = drained.map(|drained| Wall::from(drained.last_transition_time.0));
        let is_done = waiting == 0 && since.is_some_and(|since| out.now.wall >= since + LEAST_DRAIN);
        if waiting > 0 {
            let message = format!("Failed to drain node, {waiting} pods are waiting to be evicted");
            out.warn(node.metadata.object(Kind::Node), "FailedDraining", message);
        }
        if is_done {
            let said = say(claim, out, |set| set.set_true(condition::DRAINED));
            if said {
                out.count("nodes_drained_total", &[("nodepool", node.pool())]);
            }
        } else if drained.is_none() {
            let reason = reasons::DRAINING;
            say(claim, out, |set| set.set(condition::DRAINED, Status::Unknown, reason, reason));
        }
        return look(out);
    }
    let attached = pods::attached(node, store, out.now.wall);
    let is_late = deadline.is_some_and(|deadline| out.now.wall > deadline);
    if !attached.is_empty() && !is_late {
        let names = attached.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let message = format!("Awaiting deletion of bound volumeattachments ({names})");
        out.note(node.metadata.object(Kind::Node), "AwaitingVolumeDetachment", message);
        let reason = reasons::AWAITING_VOLUME_DETACHMENT;
        say(claim, out, |set| set.set(condition::VOLUMES_DETACHED, Status::Unknown, reason, reason));
        return look(out);
    }
    let is_said = if attached.is_empty() {
        say(claim, out, |set| set.set_true(condition::VOLUMES_DETACHED))
    } else {
        let reason = reasons::TERMINATION_GRACE_PERIOD_ELAPSED;
        say(claim, out, |set| set.set(condition::VOLUMES_DETACHED, Status::False, reason, reason))
    };
    if is_said {
        return Some(AGAIN);
    }
    match end_instance(claim, machines, out) {
        Some(again) => Some(again),
        None => Some(release_node(node, out)),
    }
}

/// Ends the instance of a claim; `None` once it has ended.
fn end_instance(claim: &Claim, machines: &Machines, out: &mut Out<'_>) -> Option<Duration> {
    let launched = machines.launched.get(&claim.metadata.uid).map(|launch| launch.instance.id.clone());
    let id = claim.provider_id().or(launched)?;
    if machines.gone.contains(&id) {
        return None;
    }
    out.ask(Errand::Instance(id.clone()), Effect::Terminate(id));
    Some(ENDED)
}

/// Lets a node go.
fn release_node(node: &Node, out: &mut Out<'_>) -> Duration {
    let finalizers = node.metadata.without_finalizer(TERMINATION_FINALIZER);
    let metadata = json!({ "resourceVersion": node.metadata.version(), "finalizers": finalizers });
    let object = node.metadata.object(Kind::Node);
    let effect = Effect::Patch { object, part: Part::Main, patch: json!({ "metadata": metadata }) };
    if out.ask(Errand::Node(node.name().to_owned()), effect) {
        out.line(Level::Info, "deleted node", &[("Node", node.name()), ("NodePool", node.pool())]);
        let pool = [("nodepool", node.pool())];
        out.count("nodes_terminated_total", &[("nodepool", node.pool()), ("zone", node.zone())]);
        if let Some(deleted) = node.metadata.deleted() {
            let seconds = (out.now.wall - deleted).as_secs_f64();
            out.measure("nodes_termination_duration_seconds", &pool, seconds);
        }
        let seconds = (out.now.wall - node.metadata.created()).as_secs_f64();
        out.measure("nodes_lifetime_duration_seconds", &pool, seconds);
    }
    AGAIN
}
