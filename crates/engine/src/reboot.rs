//! Nodes that are restarted where they are: fenced off, emptied, restarted, and watched until they are back.
//!
//! ```text
//! RebootRequested ─► fence ─► pods leave ─► boot id noted ─► cloud ─► RebootIssued ─► new boot id ─► ready ─► Succeeded
//!                                                              └─────────────────────────┴─► Failed: the claim goes
//! ```
//!
//! Everything is on the objects: the conditions say how far it is, the claim's annotations how long pods have, what the
//! boot id was, and when the last restarts were.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headstart_api::annotations::{REBOOT_PRE_BOOT_ID, REBOOT_TERMINATION_GRACE_PERIOD};
use headstart_api::conditions::{Status, nodeclaim as condition, reasons};
use headstart_api::{labels, taints};
use headstart_core::cloud::{CloudError, Reason};
use serde_json::{Value, json};

use crate::action::{Effect, Part};
use crate::agenda::Agenda;
use crate::claims;
use crate::disrupt;
use crate::drain::{self, Drain};
use crate::errands::Errand;
use crate::kind::Kind;
use crate::out::Out;
use crate::outcome::{Outcome, Refusal};
use crate::store::{Claim, Node, Store, Touched};
use crate::time::{Time, Wall};

/// On a claim: when its machine was restarted in the last day, as stamps with commas between them.
const REBOOTED: &str = "headstart.dev/rebooted";
/// For how long a restart counts, and how many of them show that restarting does not help.
const COUNTS: Duration = Duration::from_hours(24);
const IN_VAIN: usize = 2;
/// How long pods have to leave at least, for those that came before kube-scheduler saw the fence.
const LEAST_DRAIN: Duration = Duration::from_secs(5);
/// How long the cloud may take to accept a restart.
const TO_ISSUE: Duration = Duration::from_mins(5);
/// How long a node may take to come back.
const TO_RECOVER: Duration = Duration::from_mins(20);
/// How often a restart is looked at when nothing happens, while something is asked for and while it is waited for.
const AGAIN: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_secs(15);
/// How long the same event is not told again; the next restart is later.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// Nodes that are restarted where they are.
#[derive(Debug, Default)]
pub(crate) struct Reboots {
    agenda: Agenda<String>,
    /// Operations that the cloud has accepted.
    accepted: BTreeSet<String>,
    /// Operations that the cloud has refused for good, and its words.
    refused: BTreeMap<String, String>,
}

/// Why a restart came to nothing.
#[derive(Clone, Debug)]
enum Failure {
    /// The cloud does not restart it.
    Provider(String),
    /// The node did not come back.
    Lost,
    /// What was asked for cannot be understood.
    Invalid(String),
}

impl Failure {
    /// Its name in metrics.
    const fn result(&self) -> &'static str {
        match self {
            Self::Provider(_) => "provider_error",
            Self::Lost => "recovery_timeout",
            Self::Invalid(_) => "invalid_request",
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::Provider(message) | Self::Invalid(message) => message,
            Self::Lost => "node did not recover within the observation window",
        }
    }
}

/// Whether restarting a node may still help.
pub(crate) fn helps(claim: &Claim, now: Wall) -> bool {
    recent(claim, now).count() < IN_VAIN
}

/// When a machine was restarted in the last day.
fn recent(claim: &Claim, now: Wall) -> impl Iterator<Item = Wall> {
    let written = claim.metadata.annotations.get(REBOOTED).map(|text| &**text).unwrap_or_default();
    let stamps = written.split(',').filter_map(|stamp| stamp.parse::<jiff::Timestamp>().ok());
    stamps.map(Wall::from).filter(move |then| *then + COUNTS > now)
}

impl Reboots {
    pub(crate) fn on(&mut self, touched: &Touched, store: &Store) {
        let claim = match touched {
            Touched::Claim { name, .. } => store.claims.get(name),
            Touched::Node { provider_id: Some(id), .. } => store.claim_with(id),
            _ => None,
        };
        if let Some(claim) = claim.filter(|claim| claim.is(condition::REBOOTING)) {
            self.agenda.mark(claim.name().to_owned());
        }
    }

    /// Forgets what the cloud said.
    pub(crate) fn forget(&mut self) {
        self.accepted.clear();
        self.refused.clear();
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.agenda.wake()
    }

    /// Takes notice of how the cloud answered.
    pub(crate) fn ended(&mut self, claim: &str, operation: &str, outcome: &Outcome) {
        self.agenda.mark(claim.to_owned());
        let message = match outcome {
            Outcome::Done(_) => {
                self.accepted.insert(operation.to_owned());
                return;
            }
            Outcome::Refused(Refusal::Cloud(CloudError::Permanent {
                reason: Reason::RebootNotSupported,
                ..
            })) => "reboot not implemented by the cloud provider".to_owned(),
            Outcome::Refused(Refusal::Cloud(
                error @ (CloudError::NotFound { .. }
                | CloudError::Permanent { reason: Reason::RebootFailed, .. }),
            )) => format!("reboot rejected by the cloud provider: {error}"),
            Outcome::Refused(_) | Outcome::Unknown { .. } => return,
        };
        self.refused.insert(operation.to_owned(), message);
    }

    pub(crate) fn poll(&mut self, store: &Store, drain: &mut Drain, out: &mut Out<'_>) {
        for name in self.agenda.take(out.now.time) {
            let is_meant = |claim: &&Claim| claim.is(condition::REBOOTING) && !claim.is_leaving();
            let Some(claim) = store.claims.get(&name).filter(is_meant) else { continue };
            let again = self.step(claim, store, drain, out);
            self.agenda.at(out.now.time + again, name);
        }
    }

    /// The next step for a node, and when to look again if nothing happens.
    fn step(&mut self, claim: &Claim, store: &Store, drain: &mut Drain, out: &mut Out<'_>) -> Duration {
        let node = disrupt::node_of(claim, store);
        let refused = self.refused.get(&operation(claim)).cloned().map(Failure::Provider);
        if let Some(failure) = refused.or_else(|| overdue(claim, node, out.now.wall)) {
            return self.fail(claim, node, &failure, out);
        }
        match node {
            None => POLL,
            Some(node) if is_issued(claim) => self.observe(claim, node, out),
            Some(node) => self.prepare(claim, node, store, drain, out),
        }
    }

    /// Keeps pods away, lets those that are there leave, and asks the cloud.
    fn prepare(
        &mut self,
        claim: &Claim,
        node: &Node,
        store: &Store,
        drain: &mut Drain,
        out: &mut Out<'_>,
    ) -> Duration {
        let grace = match grace(claim) {
            Ok(grace) => grace,
            Err(why) => {
                let failure = Failure::Invalid(format!("invalid reboot request: {why}"));
                return self.fail(claim, Some(node), &failure, out);
            }
        };
        if !is_fenced(node) {
            let mut wanted = without_fence(node);
            wanted.push(json!({ "key": taints::REBOOTING, "effect": taints::NO_SCHEDULE }));
            return change_taints(node, &wanted, out);
        }
        if let Some(before) = boot_before(claim) {
            let operation = operation(claim);
            if node.boot() != before || self.accepted.contains(&operation) {
                issued(claim, out);
            } else if let Some(id) = claim.provider_id() {
                out.ask(Errand::Reboot(claim.name().to_owned()), Effect::Reboot { id, operation });
            }
            return AGAIN;
        }
        if is_drained(claim, node, grace, store, drain, out) {
            let now = out.now.wall;
            let stamps: Vec<String> =
                recent(claim, now).chain([now]).map(|then| then.stamp().to_string()).collect();
            let annotations = json!({ (REBOOT_PRE_BOOT_ID): node.boot(), (REBOOTED): stamps.join(",") });
            annotate(claim, &annotations, out);
        }
        AGAIN
    }

    /// Waits until a node is back.
    fn observe(&mut self, claim: &Claim, node: &Node, out: &mut Out<'_>) -> Duration {
        if node.metadata.labels.contains_key(labels::INITIALIZED) {
            let patch = json!({ "metadata": { "labels": { (labels::INITIALIZED): null } } });
            let effect = Effect::Patch { object: node.metadata.object(Kind::Node), part: Part::Main, patch };
            out.ask(Errand::Node(node.name().to_owned()), effect);
            return AGAIN;
        }
        if boot_before(claim).is_some_and(|before| before == node.boot()) {
            return POLL;
        }
        if is_fenced(node) {
            let message = "New boot observed (bootID changed); awaiting node readiness".to_owned();
            let about = claim.metadata.object(Kind::NodeClaim);
            out.event(about, false, "RebootObserved", message, TOLD_FOR);
            return change_taints(node, &without_fence(node), out);
        }
        if !node.is_ready() {
            return POLL;
        }
        let (asked, issued) = (claim.since(condition::REBOOTING), claim.since(condition::INITIALIZED));
        let operation = operation(claim);
        if end(claim, reasons::REBOOT_SUCCEEDED, "node rebooted and rejoined the cluster", out) {
            self.accepted.remove(&operation);
            tell_end("succeeded", asked, out);
            let seconds = (out.now.wall - issued).as_secs_f64();
            out.measure("nodes_reboot_recovery_duration_seconds", &[], seconds);
        }
        AGAIN
    }

    /// Gives up; unless it was never begun, another node takes its place.
    fn fail(&mut self, claim: &Claim, node: Option<&Node>, failure: &Failure, out: &mut Out<'_>) -> Duration {
        if let Some(node) = node.filter(|node| is_fenced(node) && !node.is_leaving()) {
            return change_taints(node, &without_fence(node), out);
        }
        let (asked, operation) = (claim.since(condition::REBOOTING), operation(claim));
        let is_done = if matches!(failure, Failure::Invalid(_)) {
            end(claim, reasons::REBOOT_FAILED, failure.message(), out)
        } else {
            // Whoever waits for its pods to leave does not wait longer than the restart would have.
            let end = grace(claim).ok().flatten().map(|grace| out.now.wall + grace);
            if let Some(patch) = end.and_then(|end| drain::tightened(claim, end)) {
                let object = claim.metadata.object(Kind::NodeClaim);
                let effect = Effect::Patch { object, part: Part::Main, patch };
                out.ask(Errand::Claim(claim.name().to_owned()), effect);
                return AGAIN;
            }
            claims::delete(claim, failure.result(), out)
        };
        if is_done {
            self.accepted.remove(&operation);
            let about = claim.metadata.object(Kind::NodeClaim);
            out.event(about, true, "RebootFailed", failure.message().to_owned(), TOLD_FOR);
            tell_end(failure.result(), asked, out);
        }
        AGAIN
    }
}

/// Says how a restart ended, after what belongs to it alone is gone; whether that was asked for.
fn end(claim: &Claim, reason: &str, message: &str, out: &mut Out<'_>) -> bool {
    if boot_before(claim).is_some() {
        annotate(claim, &json!({ (REBOOT_PRE_BOOT_ID): null }), out);
        return false;
    }
    let is_free = out.errands.may_begin(out.now.time, &Errand::Claim(claim.name().to_owned()));
    is_free && drain::say(claim, out, |set| set.set(condition::REBOOTING, Status::False, reason, message))
}

fn tell_end(result: &str, asked: Wall, out: &mut Out<'_>) {
    let seconds = (out.now.wall - asked).as_secs_f64();
    out.count("nodes_reboots_total", &[("result", result)]);
    out.measure("nodes_reboot_duration_seconds", &[("result", result)], seconds);
}

/// Whether a step has taken too long.
fn overdue(claim: &Claim, node: Option<&Node>, now: Wall) -> Option<Failure> {
    if is_issued(claim) {
        let is_waiting = claim.condition(condition::INITIALIZED).is_some_and(|said| said.status == "Unknown");
        let is_late = is_waiting && now > claim.since(condition::INITIALIZED) + TO_RECOVER;
        return is_late.then_some(Failure::Lost);
    }
    let since = match (boot_before(claim), node) {
        (Some(_), _) => recent(claim, now).last().unwrap_or_else(|| claim.since(condition::REBOOTING)),
        (None, None) => claim.since(condition::REBOOTING),
        // Pods may take as long as they are given.
        (None, Some(_)) => return None,
    };
    let message = "reboot was not issued within the issuance timeout";
    (now > since + TO_ISSUE).then(|| Failure::Provider(message.to_owned()))
}

/// Whether all pods have left, or have had their time.
fn is_drained(
    claim: &Claim,
    node: &Node,
    grace: Option<Duration>,
    store: &Store,
    drain: &mut Drain,
    out: &mut Out<'_>,
) -> bool {
    if grace == Some(Duration::ZERO) {
        return true;
    }
    let (now, since) = (out.now.wall, claim.since(condition::REBOOTING));
    let waiting = drain.empty(node, claim, store, out);
    let is_late = grace.is_some_and(|grace| now >= since + grace.max(LEAST_DRAIN));
    is_late || (waiting == 0 && now >= since + LEAST_DRAIN)
}

/// How long pods have to leave; for ever if nothing is said.
fn grace(claim: &Claim) -> Result<Option<Duration>, String> {
    let written = claim.metadata.annotations.get(REBOOT_TERMINATION_GRACE_PERIOD);
    written.map(|text| disrupt::duration(text)).transpose()
}

/// The boot id that a restart will change.
fn boot_before(claim: &Claim) -> Option<&str> {
    claim.metadata.annotations.get(REBOOT_PRE_BOOT_ID).map(|text| &**text)
}

fn is_issued(claim: &Claim) -> bool {
    claim.condition(condition::REBOOTING).is_some_and(|said| said.reason == reasons::REBOOT_ISSUED)
}

/// Names this restart among all, the same for everybody who carries it out.
fn operation(claim: &Claim) -> String {
    let nanos = i128::from(claim.since(condition::REBOOTING).0) * 1_000_000;
    format!("{}-{nanos}-{}", claim.metadata.uid, boot_before(claim).unwrap_or_default())
}

/// Says that the cloud was told.
fn issued(claim: &Claim, out: &mut Out<'_>) {
    let said = claim.condition(condition::REBOOTING);
    let why = said.map(|said| said.message.clone()).unwrap_or_default();
    drain::say(claim, out, |set| {
        set.set(condition::INITIALIZED, Status::Unknown, reasons::REBOOTING, "node is rebooting");
        set.set(condition::REBOOTING, Status::True, reasons::REBOOT_ISSUED, &why)
    });
}

fn annotate(claim: &Claim, annotations: &Value, out: &mut Out<'_>) {
    let patch = json!({ "metadata": { "annotations": annotations } });
    let effect = Effect::Patch { object: claim.metadata.object(Kind::NodeClaim), part: Part::Main, patch };
    out.ask(Errand::Claim(claim.name().to_owned()), effect);
}

fn is_fenced(node: &Node) -> bool {
    node.has_taint(taints::REBOOTING, taints::NO_SCHEDULE)
}

fn without_fence(node: &Node) -> Vec<Value> {
    let others = node.taints().iter().filter(|taint| taint.key != taints::REBOOTING);
    others.filter_map(|taint| serde_json::to_value(taint).ok()).collect()
}

fn change_taints(node: &Node, wanted: &[Value], out: &mut Out<'_>) -> Duration {
    let patch = json!({
        "metadata": { "resourceVersion": node.metadata.version() },
        "spec": { "taints": wanted },
    });
    let effect = Effect::Patch { object: node.metadata.object(Kind::Node), part: Part::Main, patch };
    out.ask(Errand::Node(node.name().to_owned()), effect);
    AGAIN
}
