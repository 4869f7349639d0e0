//! What may become of a request between a process and the API server or the cloud.

use std::time::Duration;

use headstart_core::cloud::CloudError;
use headstart_engine::{Effect, Refusal};

use crate::dice::Dice;
use crate::fault::Fault;
use crate::ground::Ground;

/// What becomes of a request.
#[derive(Debug)]
pub enum Fate {
    /// It arrives, and so does its answer.
    Fine,
    /// It never arrives.
    Lost,
    /// It arrives, its answer does not.
    Unanswered,
    /// It arrives so many milliseconds after it was given up on.
    Late(u64),
    /// It is refused without having been looked at.
    Refused(Refusal),
}

/// The wire.
#[derive(Debug)]
pub struct Wire {
    dice: Dice,
}

impl Wire {
    /// The wire of a run.
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed, "wire") }
    }

    /// How long one way takes.
    pub fn delay(&mut self, ground: &Ground) -> u64 {
        let (least, most) = ground.plan.pace.wire_ms;
        self.dice.between(least, most)
    }

    /// After how long a request is given up on.
    pub fn patience(&mut self) -> u64 {
        self.dice.between(2_000, 10_000)
    }

    /// What becomes of a request.
    pub fn fate(&mut self, ground: &mut Ground, effect: &Effect, subject: &str) -> Fate {
        if touches_cloud(effect) {
            cloud_fate(ground, subject)
        } else {
            api_fate(ground, subject, changes(effect))
        }
    }
}

fn api_fate(ground: &mut Ground, subject: &str, write: bool) -> Fate {
    if ground.strikes(Fault::WriteLost, subject) {
        return Fate::Lost;
    }
    if ground.strikes(Fault::WriteFailed, subject) {
        return Fate::Refused(Refusal::Unavailable { message: "the server could not".to_owned() });
    }
    if ground.strikes(Fault::WriteThrottled, subject) {
        let after = ground.severity(Fault::WriteThrottled, (0, 3_000));
        let after = (after > 0).then(|| Duration::from_millis(after));
        return Fate::Refused(Refusal::Throttled { after });
    }
    if !write {
        return Fate::Fine;
    }
    if ground.strikes(Fault::WriteUnanswered, subject) {
        return Fate::Unanswered;
    }
    if ground.strikes(Fault::WriteLate, subject) {
        return Fate::Late(ground.severity(Fault::WriteLate, (100, 15_000)));
    }
    if ground.strikes(Fault::WriteConflict, subject) {
        return Fate::Refused(Refusal::Conflict);
    }
    Fate::Fine
}

fn cloud_fate(ground: &mut Ground, subject: &str) -> Fate {
    if ground.strikes(Fault::CallLost, subject) {
        return Fate::Lost;
    }
    if ground.strikes(Fault::CallFailed, subject) {
        return Fate::Refused(Refusal::Cloud(CloudError::not_done("the cloud could not")));
    }
    if ground.strikes(Fault::CallThrottled, subject) {
        let after = ground.severity(Fault::CallThrottled, (0, 5_000));
        let retry_after = (after > 0).then(|| Duration::from_millis(after));
        return Fate::Refused(Refusal::Cloud(CloudError::Throttled { retry_after }));
    }
    if ground.strikes(Fault::CallUnanswered, subject) {
        return Fate::Unanswered;
    }
    if ground.strikes(Fault::CallLate, subject) {
        return Fate::Late(ground.severity(Fault::CallLate, (100, 25_000)));
    }
    Fate::Fine
}

/// Whether an effect is the cloud's to perform.
pub const fn touches_cloud(effect: &Effect) -> bool {
    match effect {
        Effect::Launch(_)
        | Effect::Terminate(_)
        | Effect::Reboot { .. }
        | Effect::Inspect(_)
        | Effect::Instances => true,
        Effect::Create { .. }
        | Effect::Patch { .. }
        | Effect::Delete { .. }
        | Effect::Clear { .. }
        | Effect::Evict { .. }
        | Effect::Read { .. } => false,
    }
}

/// Whether an effect changes anything.
pub const fn changes(effect: &Effect) -> bool {
    match effect {
        Effect::Create { .. }
        | Effect::Patch { .. }
        | Effect::Delete { .. }
        | Effect::Clear { .. }
        | Effect::Evict { .. }
        | Effect::Launch(_)
        | Effect::Terminate(_)
        | Effect::Reboot { .. } => true,
        Effect::Read { .. } | Effect::Inspect(_) | Effect::Instances => false,
    }
}
