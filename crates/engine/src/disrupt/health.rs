//! Which nodes are sick, and which of them are to be restarted where they are.

use std::time::Duration;

use headstart_api::GoDuration;
use headstart_api::annotations::{DO_NOT_REPAIR, REBOOT_TERMINATION_GRACE_PERIOD};
use headstart_api::conditions::{Status, nodeclaim as condition, reasons};
use headstart_core::cloud::RepairAction;
use headstart_core::disrupt::{Reason, Sickness};
use headstart_core::repair::{Diagnosis, Remedy};
use serde_json::json;

use crate::action::{Effect, Part};
use crate::disrupt::command::node_of;
use crate::disrupt::{Disrupt, ask, sooner, tell};
use crate::drain;
use crate::errands::Errand;
use crate::kind::Kind;
use crate::out::Out;
use crate::reboot;
use crate::store::{Claim, Node, Store};
use crate::time::{Time, Wall};

/// How long it may take to write down that a node is to be restarted.
const TO_COMMIT: Duration = Duration::from_mins(1);

/// A node that is to be restarted where it is.
#[derive(Debug)]
pub(super) struct Restart {
    /// How long pods have to leave; for ever if left out.
    grace: Option<Duration>,
    /// What calls for it.
    why: String,
    since: Time,
}

/// What is to be done about a node.
pub(super) fn diagnose(claim: &Claim, node: &Node, store: &Store, now: Wall) -> Diagnosis {
    // What was wrong before a restart says nothing about the time after it.
    let restarted = claim.condition(condition::REBOOTING).filter(|said| said.status == "False");
    let restarted = restarted.map(|said| Wall::from(said.last_transition_time.0));
    let not_before = restarted.into_iter().chain([node.metadata.created()]).max().unwrap_or_default();
    let mut diagnosis = store.rules.diagnose(node.symptoms(), not_before.0, now.0);
    if let Some(remedy) = &mut diagnosis.remedy
        && remedy.action == RepairAction::Reboot
        && !reboot::helps(claim, now)
    {
        remedy.action = RepairAction::Replace;
    }
    diagnosis
}

/// When something about a node will have been tolerated for long enough.
pub(super) fn next(claim: &str, store: &Store, now: Wall) -> Option<Wall> {
    let claim = store.claims.get(claim)?;
    diagnose(claim, node_of(claim, store)?, store, now).next.map(Wall)
}

/// The same as decisions see it.
pub(super) fn sickness(claim: &Claim, node: &Node, remedy: &Remedy) -> Sickness {
    Sickness {
        score: remedy.score,
        is_bounded: remedy.grace.is_some() || claim.spec.termination_grace_period.is_some(),
        do_not_repair: node.metadata.annotations.get(DO_NOT_REPAIR).is_some_and(|text| **text == *"true"),
        reboots: remedy.action == RepairAction::Reboot,
    }
}

/// How long pods of a sick node have to leave, if not as long as its claim says.
pub(super) fn bound(claim: &str, store: &Store, now: Wall) -> Option<Duration> {
    let claim = store.claims.get(claim)?;
    let grace = diagnose(claim, node_of(claim, store)?, store, now).remedy?.grace?;
    Some(own_grace(claim).map_or(grace, |own| own.min(grace)))
}

fn own_grace(claim: &Claim) -> Option<Duration> {
    claim.spec.termination_grace_period.and_then(|period| Duration::try_from(period.as_signed()).ok())
}

/// Reads a Go duration that is not negative.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let read: GoDuration =
        text.parse().map_err(|error: headstart_api::ParseDurationError| error.to_string())?;
    Duration::try_from(read.as_signed()).map_err(|_| format!("{text:?} is negative"))
}

/// Writes a Go duration.
pub(super) fn written(duration: Duration) -> String {
    GoDuration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

impl Disrupt {
    /// Whether a node is being restarted where it is, or about to be.
    pub(super) fn reboots(&self, claim: &Claim) -> bool {
        claim.is(condition::REBOOTING) || self.restarts.contains_key(claim.name())
    }

    /// Begins to restart a node where it is.
    pub(super) fn restart(&mut self, name: &str, store: &Store, out: &mut Out<'_>) {
        let Some(claim) = store.claims.get(name) else { return };
        let Some(node) = node_of(claim, store) else { return };
        let Some(remedy) = diagnose(claim, node, store, out.now.wall).remedy else { return };
        tell::restart(claim, &remedy, out);
        let grace = [remedy.grace, own_grace(claim)].into_iter().flatten().min();
        let why = format!("rebooting for {}/{}", remedy.condition, remedy.reason);
        self.restarts.insert(name.to_owned(), Restart { grace, why, since: out.now.time });
    }

    /// Writes on claims that their nodes are to be restarted; from then on that is done whoever leads.
    pub(super) fn commit_restarts(&mut self, store: &Store, out: &mut Out<'_>) {
        let mut restarts = std::mem::take(&mut self.restarts);
        restarts.retain(|name, restart| {
            let is_open = |claim: &&Claim| !claim.is_leaving() && !claim.is(condition::REBOOTING);
            let Some(claim) = store.claims.get(name).filter(is_open) else { return false };
            if restart.since + TO_COMMIT <= out.now.time {
                return false;
            }
            self.commit(claim, restart, out);
            true
        });
        self.restarts = restarts;
    }

    fn commit(&mut self, claim: &Claim, restart: &Restart, out: &mut Out<'_>) {
        let errand = Errand::Claim(claim.name().to_owned());
        let wanted = restart.grace.map(written);
        let known = claim.metadata.annotations.get(REBOOT_TERMINATION_GRACE_PERIOD);
        if known.map(|text| &**text) != wanted.as_deref() {
            let annotations = json!({ (REBOOT_TERMINATION_GRACE_PERIOD): wanted });
            let patch = json!({ "metadata": { "annotations": annotations } });
            let object = claim.metadata.object(Kind::NodeClaim);
            ask(&errand, Effect::Patch { object, part: Part::Main, patch }, &mut self.again, out);
            return;
        }
        let unhealthy = Reason::Unhealthy.as_str();
        drain::say(claim, out, |set| {
            set.set(condition::DISRUPTION_REASON, Status::True, unhealthy, unhealthy);
            set.set(condition::REBOOTING, Status::True, reasons::REBOOT_REQUESTED, &restart.why)
        });
        if let Some(until) = out.errands.until(&errand) {
            sooner(&mut self.again, until);
        }
    }
}
