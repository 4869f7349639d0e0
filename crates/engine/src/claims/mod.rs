//! A claim's life until it is told to go: launched, registered, initialized.
//!
//! Every step looks at what is observed and asks for the one next change, so that it does not matter where a predecessor
//! stopped.

mod launch;
mod limits;
mod marks;
mod node;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use headstart_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION, TERMINATION_FINALIZER};
use headstart_api::conditions::nodeclaim as condition;
use headstart_api::{NODEPOOL_HASH_VERSION as HASH_VERSION, NodePool};
use headstart_core::cloud::{CloudError, Launch, Reason};
use headstart_core::labels::WellKnown;
use serde_json::json;

use crate::action::{Effect, Part};
use crate::agenda::Agenda;
use crate::capacity::Capacity;
use crate::errands::Errand;
use crate::kind::Kind;
use crate::machines::Machines;
use crate::out::Out;
use crate::outcome::{Fact, Outcome, Refusal};
use crate::report::Level;
use crate::store::{Claim, Node, Store, Touched};
use crate::time::{Time, Wall};
pub(crate) use launch::at_most;
use marks::Marks;
pub(crate) use marks::settles;
pub(crate) use node::is_open;
use status::{Trouble, desired};

/// How long a launch may take.
const TO_LAUNCH: Duration = Duration::from_mins(5);
/// How long a node may take to register.
const TO_REGISTER: Duration = Duration::from_mins(15);

/// Claims that are on their way or in service.
#[derive(Debug)]
pub(crate) struct Claims {
    agenda: Agenda<String>,
    /// Why launches failed, by claim.
    trouble: BTreeMap<String, Trouble>,
    /// When pods last came to the nodes of claims or left them.
    stirred: BTreeMap<String, Wall>,
    /// What pools ask for, as hashes, by name; with the version that was hashed.
    hashes: BTreeMap<String, (Option<String>, String)>,
    well_known: WellKnown,
}

/// What a claim's life tells others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A node registered, or will not.
    Registration { pool: String, claim: String, succeeded: bool, reason: String, message: String },
    /// A claim is given up: its pods need another place.
    Failed { claim: String },
}

impl Claims {
    pub(crate) fn new(well_known: WellKnown) -> Self {
        let (trouble, stirred) = (BTreeMap::new(), BTreeMap::new());
        Self { agenda: Agenda::default(), trouble, stirred, hashes: BTreeMap::new(), well_known }
    }

    pub(crate) fn on(&mut self, now: Wall, touched: &Touched, store: &Store) {
        match touched {
            Touched::Pod { stirred: Some(node), .. } => {
                let node = store.nodes.get(node);
                if let Some(claim) = node.and_then(|node| store.claim_of_node(node)) {
                    self.stirred.insert(claim.name().to_owned(), now);
                    self.agenda.mark(claim.name().to_owned());
                }
            }
            Touched::Pool { name } => {
                if !store.pools.contains_key(name) {
                    self.hashes.remove(name);
                }
                for claim in store.claims.values().filter(|claim| claim.pool() == name) {
                    self.agenda.mark(claim.name().to_owned());
                }
            }
            Touched::Claim { name, .. } => {
                if !store.claims.contains_key(name) {
                    self.trouble.remove(name);
                    self.stirred.remove(name);
                }
                self.agenda.mark(name.clone());
            }
            Touched::Node { provider_id: Some(id), .. } => {
                if let Some(claim) = store.claim_with(id) {
                    self.agenda.mark(claim.name().to_owned());
                }
            }
            _ => {}
        }
    }

    /// Looks at a claim again, then.
    pub(crate) fn at(&mut self, time: Time, claim: &str) {
        self.agenda.at(time, claim.to_owned());
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.agenda.wake()
    }

    pub(crate) fn poll(
        &mut self,
        store: &Store,
        capacity: &Capacity,
        machines: &Machines,
        is_echo: impl Fn(&str) -> bool,
        out: &mut Out<'_>,
    ) -> Vec<News> {
        let mut news = Vec::new();
        for name in self.agenda.take(out.now.time) {
            let Some(claim) = store.claims.get(&name) else { continue };
            if claim.is_assumed || claim.is_leaving() {
                continue;
            }
            if is_echo(&name) {
                remove(claim, "made_twice", out);
            } else {
                self.step(claim, store, capacity, machines, out, &mut news);
            }
        }
        news
    }

    fn step(
        &mut self,
        claim: &Claim,
        store: &Store,
        capacity: &Capacity,
        machines: &Machines,
        out: &mut Out<'_>,
        news: &mut Vec<News>,
    ) {
        if self.is_overdue(claim, out, news) {
            return;
        }
        if !claim.is_held() {
            let mut finalizers = claim.metadata.finalizers.clone();
            finalizers.push(TERMINATION_FINALIZER.to_owned());
            let metadata = json!({ "resourceVersion": claim.metadata.version(), "finalizers": finalizers });
            self.patch(claim, Part::Main, json!({ "metadata": metadata }), out);
            return;
        }
        if let Some(annotations) = rehashed(claim, store) {
            self.patch(claim, Part::Main, json!({ "metadata": { "annotations": annotations } }), out);
            return;
        }
        let launch = machines.launched.get(&claim.metadata.uid);
        if !claim.is_launched() && launch.is_none() {
            self.launch(claim, store, capacity, machines, out);
        }
        if let Some(patch) = launch::labels(claim, launch) {
            self.patch(claim, Part::Main, json!({ "metadata": { "labels": patch } }), out);
            return;
        }
        let provider_id = claim.provider_id().or_else(|| launch.map(|launch| launch.instance.id.clone()));
        let nodes = provider_id.as_ref().map_or(Ok(None), |id| store.node_with(id));
        if let (true, Ok(Some(node))) = (claim.is_launched(), nodes) {
            self.tend_node(claim, node, out);
        }
        let marks = self.marks(claim, store, capacity, out);
        let wanted = desired(claim, launch, nodes, self.trouble.get(claim.name()), &marks, out.now.wall);
        if wanted == claim.status.written() {
            return;
        }
        let mut was = claim.clone();
        was.status.conditions.clone_from(&wanted.conditions);
        let patch = json!({
            "metadata": { "resourceVersion": claim.metadata.version() },
            "status": wanted,
        });
        if self.patch(claim, Part::Status, patch, out) {
            tell_progress(claim, &was, out, news);
        }
    }

    /// What is known about a claim beyond what it says.
    fn marks<'s>(
        &mut self,
        claim: &Claim,
        store: &'s Store,
        capacity: &Capacity,
        out: &Out<'_>,
    ) -> Marks<'s> {
        let is_ours = |pool: &&NodePool| store.is_ours(&pool.spec.template.spec.node_class_ref);
        let Some(pool) = store.pools.get(claim.pool()).filter(is_ours) else { return Marks::default() };
        let version = &pool.metadata.resource_version;
        if self.hashes.get(claim.pool()).is_none_or(|(hashed, _)| hashed != version || version.is_none()) {
            self.hashes.insert(claim.pool().to_owned(), (version.clone(), pool.hash()));
        }
        let hash = self.hashes.get(claim.pool()).map_or("", |(_, hash)| hash.as_str());
        let drifted = marks::drifted(claim, pool, hash, capacity.all(), &self.well_known, out.now.wall);
        let doubted = claim.metadata.created() + marks::TO_DOUBT_TYPE;
        let settles = settles(claim, claim.status.last_pod_event_time.as_ref(), pool);
        let later = [Some(doubted), settles].into_iter().flatten().filter(|at| *at > out.now.wall).min();
        if let Some(at) = later {
            self.at(out.now.until(at), claim.name());
        }
        Marks { pool: Some(pool), drifted, stirred: self.stirred.get(claim.name()).copied() }
    }

    /// Asks for a change of a claim.
    fn patch(&mut self, claim: &Claim, part: Part, patch: serde_json::Value, out: &mut Out<'_>) -> bool {
        let errand = Errand::Claim(claim.name().to_owned());
        let object = claim.metadata.object(Kind::NodeClaim);
        let is_asked = out.ask(errand.clone(), Effect::Patch { object, part, patch });
        if !is_asked && let Some(until) = out.errands.until(&errand) {
            self.at(until, claim.name());
        }
        is_asked
    }

    /// Brings a node in line with its claim.
    fn tend_node(&mut self, claim: &Claim, node: &Node, out: &mut Out<'_>) {
        if node.is_leaving() {
            return;
        }
        let patch = if claim.is_registered() {
            node::initialize(claim, node)
        } else {
            if !node::is_registered(node) && !node::has_gate(node) {
                let message =
                    "missing taint prevents registration-related race conditions on Karpenter-managed nodes";
                out.warn(
                    claim.metadata.object(Kind::NodeClaim),
                    "UnregisteredTaintMissing",
                    message.to_owned(),
                );
            }
            node::register(claim, node)
        };
        let Some(patch) = patch else { return };
        let errand = Errand::Node(node.name().to_owned());
        let object = node.metadata.object(Kind::Node);
        if !out.ask(errand.clone(), Effect::Patch { object, part: Part::Main, patch })
            && let Some(until) = out.errands.until(&errand)
        {
            self.at(until, claim.name());
        }
    }

    /// Asks the cloud for an instance.
    fn launch(
        &mut self,
        claim: &Claim,
        store: &Store,
        capacity: &Capacity,
        machines: &Machines,
        out: &mut Out<'_>,
    ) {
        let errand = Errand::Launch(claim.name().to_owned());
        if out.errands.is_flying(&errand) || out.errands.is_flying(&Errand::Remove(claim.name().to_owned())) {
            return;
        }
        if let Some(until) = out.errands.until(&errand).filter(|until| *until > out.now.time) {
            self.at(until, claim.name());
            return;
        }
        // A watch may tell of a claim before the answer to the request that made it.
        let is_foreign = machines.is_foreign(&claim.metadata.uid)
            && !out.errands.is_flying(&Errand::Make(claim.name().to_owned()));
        if is_foreign
            && let Some(resource) = limits::exceeded(claim, store, machines, capacity.all(), &self.well_known)
        {
            if remove(claim, "limit_exceeded", out) {
                let message = format!("there is no {resource} left for it in its pool's limits");
                out.line(Level::Warning, message, &[("NodeClaim", claim.name()), ("NodePool", claim.pool())]);
            }
            return;
        }
        let request = launch::request(claim, capacity.all(), &self.well_known);
        if request.offerings.is_empty() {
            let message = "no offering of the catalog satisfies the requirements".to_owned();
            self.trouble
                .insert(claim.name().to_owned(), Trouble { reason: "LaunchFailed".to_owned(), message });
            return;
        }
        out.ask(errand, Effect::Launch(Box::new(request)));
    }

    /// Gives up a claim that takes too long or is too old.
    fn is_overdue(&mut self, claim: &Claim, out: &mut Out<'_>, news: &mut Vec<News>) -> bool {
        let now = out.now;
        let (deadline, reason) = if !claim.is_launched() {
            (Some(claim.since(condition::LAUNCHED) + TO_LAUNCH), "launch_timeout")
        } else if !claim.is_registered() {
            (Some(claim.since(condition::REGISTERED) + TO_REGISTER), "registration_timeout")
        } else {
            (None, "")
        };
        let expires = claim.spec.expire_after().duration().map(|after| {
            let created = claim.metadata.created();
            (Wall(created.0.saturating_add(after.as_nanos() / 1_000_000)), "expired")
        });
        let soonest = deadline.map(|deadline| (deadline, reason)).into_iter().chain(expires).min();
        let Some((deadline, reason)) = soonest else { return false };
        if deadline > now.wall {
            self.at(now.until(deadline), claim.name());
            return false;
        }
        if remove(claim, reason, out) && reason != "expired" {
            let (why, message) = match claim.condition(condition::LAUNCHED) {
                Some(launched) if launched.status != "True" => {
                    (launched.reason.clone(), launched.message.clone())
                }
                _ => ("RegistrationFailed".to_owned(), "Failed to register node".to_owned()),
            };
            news.push(News::Registration {
                pool: claim.pool().to_owned(),
                claim: claim.name().to_owned(),
                succeeded: false,
                reason: why,
                message,
            });
        }
        true
    }

    /// Takes notice of how a launch ended.
    pub(crate) fn launched(
        &mut self,
        claim: &Claim,
        outcome: &Outcome,
        capacity: &mut Capacity,
        machines: &mut Machines,
        pods: &[crate::action::ObjectRef],
        out: &mut Out<'_>,
    ) -> Option<News> {
        let (name, uid, now) = (claim.name().to_owned(), &claim.metadata.uid, out.now.time);
        self.agenda.mark(name.clone());
        let error = match outcome {
            Outcome::Done(Fact::Launched(launch)) => {
                self.trouble.remove(&name);
                capacity.was_bought(&launch.instance.offering);
                let offering = &launch.instance.offering;
                for dry in &launch.dry {
                    capacity.ran_dry(now, dry);
                    let message = format!("{} ran dry, took {offering} instead", dry.offering);
                    out.line(Level::Warning, message, &[("NodeClaim", &name)]);
                }
                out.line(
                    Level::Info,
                    "launched nodeclaim",
                    &[
                        ("NodeClaim", &name),
                        ("provider-id", &launch.instance.id.0),
                        ("instance-type", &offering.instance_type),
                        ("zone", &offering.zone),
                        ("capacity-type", &offering.capacity_type),
                    ],
                );
                machines.launched(uid, Launch::clone(launch));
                return None;
            }
            Outcome::Done(_) => return None,
            Outcome::Unknown { message } => {
                machines.lost(uid);
                self.fail(&name, "LaunchFailed", message);
                return None;
            }
            Outcome::Refused(Refusal::Cloud(error)) => error,
            Outcome::Refused(other) => {
                self.fail(&name, "LaunchFailed", &format!("{other:?}"));
                return None;
            }
        };
        let reason = match error {
            CloudError::InsufficientCapacity { dry, .. } => {
                for dry in dry {
                    capacity.ran_dry(now, dry);
                }
                let message = format!("NodeClaim {name} event: {error}");
                out.warn(
                    claim.metadata.object(Kind::NodeClaim),
                    "InsufficientCapacityError",
                    message.clone(),
                );
                for pod in pods.iter().take(10) {
                    out.warn(pod.clone(), "InsufficientCapacityError", message.clone());
                }
                "insufficient_capacity"
            }
            CloudError::ClassNotReady { .. } => "nodeclass_not_ready",
            CloudError::Permanent { reason: Reason::TokenReused | Reason::InstanceEnded, .. } => {
                "launch_failed"
            }
            CloudError::Permanent { reason, message } => {
                self.fail(&name, &reason.to_string(), message);
                return None;
            }
            other => {
                self.fail(&name, "LaunchFailed", &other.to_string());
                return None;
            }
        };
        out.line(
            Level::Error,
            format!("failed launching nodeclaim, {error}"),
            &[("NodeClaim", &name), ("NodePool", claim.pool())],
        );
        remove(claim, reason, out);
        Some(News::Failed { claim: name })
    }

    fn fail(&mut self, claim: &str, reason: &str, message: &str) {
        let trouble = Trouble { reason: reason.to_owned(), message: message.to_owned() };
        self.trouble.insert(claim.to_owned(), trouble);
    }
}

fn tell_progress(old: &Claim, new: &Claim, out: &mut Out<'_>, news: &mut Vec<News>) {
    let (name, pool) = (old.name(), old.pool());
    if new.is_registered() && !old.is_registered() {
        out.line(Level::Info, "registered nodeclaim", &[("NodeClaim", name), ("NodePool", pool)]);
        let zone = old.metadata.label(headstart_core::labels::ZONE);
        out.count("nodes_created_total", &[("nodepool", pool), ("zone", zone)]);
        news.push(News::Registration {
            pool: pool.to_owned(),
            claim: name.to_owned(),
            succeeded: true,
            reason: String::new(),
            message: String::new(),
        });
    }
    if new.is_initialized() && !old.is_initialized() {
        out.line(Level::Info, "initialized nodeclaim", &[("NodeClaim", name), ("NodePool", pool)]);
    }
    let inconsistent = |claim: &Claim| {
        claim.condition(condition::CONSISTENT_STATE_FOUND).filter(|found| found.status == "False").cloned()
    };
    if let (None, Some(found)) = (inconsistent(old), inconsistent(new)) {
        out.warn(old.metadata.object(Kind::NodeClaim), "FailedConsistencyCheck", found.message);
    }
}

/// Annotations for a claim whose pool was hashed in another way when it was made; one that has drifted stays so.
fn rehashed(claim: &Claim, store: &Store) -> Option<BTreeMap<&'static str, String>> {
    let own = &claim.metadata.annotations;
    let pool = store.pools.get(claim.pool())?;
    let version = own.get(NODEPOOL_HASH_VERSION)?;
    if **version == *HASH_VERSION {
        return None;
    }
    let mut annotations = BTreeMap::from([(NODEPOOL_HASH_VERSION, HASH_VERSION.to_owned())]);
    if claim.condition(condition::DRIFTED).is_none() {
        annotations.insert(NODEPOOL_HASH, pool.hash());
    }
    Some(annotations)
}

/// Deletes a claim, and counts why.
pub(crate) fn remove(claim: &Claim, reason: &str, out: &mut Out<'_>) -> bool {
    let is_asked = delete(claim, reason, out);
    if is_asked {
        count_disrupted(claim, reason, out);
    }
    is_asked
}

/// Deletes a claim without counting why.
pub(crate) fn delete(claim: &Claim, reason: &str, out: &mut Out<'_>) -> bool {
    let object = claim.metadata.object(Kind::NodeClaim);
    let is_asked = out.ask(Errand::Remove(claim.name().to_owned()), Effect::Delete { object, grace: None });
    if is_asked {
        out.line(
            Level::Info,
            "deleting nodeclaim",
            &[("NodeClaim", claim.name()), ("NodePool", claim.pool()), ("reason", reason)],
        );
    }
    is_asked
}

/// Counts why a claim is disrupted.
pub(crate) fn count_disrupted(claim: &Claim, reason: &str, out: &mut Out<'_>) {
    out.count(
        "nodeclaims_disrupted_total",
        &[
            ("reason", reason),
            ("nodepool", claim.pool()),
            ("capacity_type", claim.capacity_type()),
            ("consolidation_policy", ""),
            ("termination_mode", termination_mode(claim)),
        ],
    );
}

/// How much time pods have to leave the node of a claim.
pub(crate) fn termination_mode(claim: &Claim) -> &'static str {
    match claim.spec.termination_grace_period {
        None => "graceful",
        Some(period) if period.as_nanos() == 0 => "forceful",
        Some(_) => "eventual",
    }
}
