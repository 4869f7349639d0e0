//! Performs what an engine wants: in order for each object, each effect once, each answered once.

use std::collections::VecDeque;

use headstart_core::cloud::{CloudError, Reason};
use headstart_engine::{Effect, EffectId, Event, Fact as Known, Kind, Outcome, Part, Refusal};

use super::{Answer, Due, Process, Processes};
use crate::api::{Actor, uid};
use crate::cloud::Bought;
use crate::fault::Fault;
use crate::ground::{Fact, Ground, Happening, Sent};
use crate::kubelet;
use crate::wire::{self, Fate};

/// A request on its way.
#[derive(Debug)]
pub struct Call {
    process: usize,
    epoch: u64,
    id: EffectId,
    subject: String,
    effect: Effect,
    answered: bool,
    kills: bool,
}

impl Processes<'_> {
    /// Sends an effect, or queues it behind those on the same object.
    pub(super) fn enqueue(&mut self, ground: &mut Ground, number: usize, id: EffectId, effect: Effect) {
        let process = &mut self.all[number];
        if process.brain.is_none() {
            return;
        }
        let subject = effect.subject();
        if let Some(queue) = process.queues.get_mut(&subject) {
            queue.push_back((id, effect));
            return;
        }
        process.queues.insert(subject.clone(), VecDeque::new());
        self.send(ground, number, id, subject, effect);
    }

    fn send(&mut self, ground: &mut Ground, number: usize, id: EffectId, subject: String, effect: Effect) {
        let now = ground.now();
        let write = wire::changes(&effect);
        if write && ground.strikes(Fault::KillBefore, &subject) {
            self.kill(ground, number);
            return;
        }
        let leads = self.lease.held_by(number, now);
        ground.trace.count(now, &subject);
        ground
            .trace
            .note(now, || format!("process {number} #{} {} {subject}{}", id.0, effect.verb(), gist(&effect)));
        let sent = Sent { process: number, subject: subject.clone(), verb: effect.verb(), write, leads };
        ground.facts.push(Fact::Sent(sent));
        let fate = self.wire.fate(ground, &effect, &subject);
        let (there, back) = (self.wire.delay(ground), self.wire.delay(ground));
        let patience = self.wire.patience();
        let epoch = self.all[number].epoch;
        let kills = write && ground.strikes(Fault::KillAfter, &subject);
        let gave_up = || Outcome::Unknown { message: "no answer in time".to_owned() };
        let (lands, answer) = match fate {
            Fate::Fine => (Some((there, true)), None),
            Fate::Lost => (None, Some((patience, gave_up()))),
            Fate::Unanswered => (Some((there, false)), Some((patience, gave_up()))),
            Fate::Late(after) => (Some((patience + after, false)), Some((patience, gave_up()))),
            Fate::Refused(refusal) => (None, Some((there + back, Outcome::Refused(refusal)))),
        };
        if let Some((after, outcome)) = answer {
            let answer = Box::new(Answer { id, subject: subject.clone(), outcome });
            ground.time.after(after, Happening::Process(number, Due::Answer(epoch, answer)));
        }
        let dies = write && ground.strikes(Fault::KillDuring, &subject);
        if let Some((after, answered)) = lands {
            let call = Call { process: number, epoch, id, subject, effect, answered, kills };
            ground.time.after(after, Happening::Land(Box::new(call)));
        }
        if dies {
            self.kill(ground, number);
        }
    }

    /// A request arrives and is performed, whatever has become of its sender.
    pub fn land(&mut self, ground: &mut Ground, call: Call) {
        let now = ground.now();
        let outcome = perform(ground, call.process, &call.effect);
        ground.trace.note(now, || {
            format!("  #{} {} {}: {}", call.id.0, call.effect.verb(), call.subject, said(&outcome))
        });
        let alive = self.all[call.process].epoch == call.epoch && self.all[call.process].brain.is_some();
        if call.kills && alive && self.all[call.process].paused_until.is_none() {
            self.kill(ground, call.process);
            return;
        }
        if call.answered {
            let back = self.wire.delay(ground);
            let answer = Box::new(Answer { id: call.id, subject: call.subject, outcome });
            ground.time.after(back, Happening::Process(call.process, Due::Answer(call.epoch, answer)));
        }
    }

    pub(super) fn answered(&mut self, ground: &mut Ground, number: usize, answer: Answer) {
        let Answer { id, subject, outcome } = answer;
        self.apply(ground, number, Event::Ended { id, outcome });
        let next = self.all[number].queues.get_mut(&subject).and_then(VecDeque::pop_front);
        match next {
            Some((id, effect)) => self.send(ground, number, id, subject, effect),
            None => drop(self.all[number].queues.remove(&subject)),
        }
        self.think(ground, number);
    }
}

impl Process {
    /// Takes back everything that has not been sent yet.
    pub(super) fn withdraw(&mut self) -> Vec<EffectId> {
        let queues = self.queues.values_mut();
        queues.flat_map(|queue| queue.drain(..).map(|(id, _)| id)).collect()
    }
}

fn perform(ground: &mut Ground, number: usize, effect: &Effect) -> Outcome {
    let (now, by) = (ground.now(), Actor::Process(number));
    let result = match effect {
        Effect::Create { kind, object: new } => {
            ground.api.create(now, by, *kind, new.clone()).map(Known::Object)
        }
        Effect::Patch { object: which, part, patch } => {
            let key = format!("{}/{}", which.namespace, which.name);
            ground.api.patch(now, by, (which.kind, &key), *part, patch).map(Known::Object)
        }
        Effect::Delete { object: which, grace } => {
            let held = ground.api.delete(now, by, which, *grace);
            held.map(|held| held.map_or(Known::Nothing, Known::Object))
        }
        Effect::Clear { kind, namespace, label: (key, value) } => {
            ground.api.clear(now, by, *kind, namespace, (key, value));
            Ok(Known::Nothing)
        }
        Effect::Evict { object: which } => ground.api.evict(now, by, which).map(|()| Known::Nothing),
        Effect::Read { object: which } => {
            let key = format!("{}/{}", which.namespace, which.name);
            ground.api.get(which.kind, &key).cloned().map(Known::Object).ok_or(Refusal::NotFound)
        }
        Effect::Launch(request) => {
            if let Some(first) = request.offerings.first()
                && ground.strikes(Fault::OfferingFlaps, &request.claim)
            {
                let until = now + ground.severity(Fault::OfferingFlaps, (1_000, 180_000));
                ground.cloud.flap(first.clone(), until);
            }
            launch(ground, request).map_err(Refusal::Cloud)
        }
        Effect::Terminate(id) => match ground.cloud.terminate(now, id) {
            Err(error) => Err(Refusal::Cloud(error)),
            Ok(begun) => {
                if let Some(place) = begun {
                    let (least, most) = ground.plan.pace.end_ms;
                    let takes = least + (place as u64 * 7919) % (most - least + 1);
                    ground.time.after(takes, Happening::Ends(place));
                }
                Ok(Known::Nothing)
            }
        },
        Effect::Reboot { id, operation } => {
            if ground.strikes(Fault::RebootRefused, &id.0) {
                let message = format!("{id} cannot be restarted");
                let error = CloudError::Permanent { reason: Reason::RebootNotSupported, message };
                return Outcome::Refused(Refusal::Cloud(error));
            }
            match ground.cloud.reboot(id, operation) {
                Err(error) => Err(Refusal::Cloud(error)),
                Ok(begun) => {
                    if let Some(place) = begun {
                        ground.time.after(1_000, Happening::Kubelet(kubelet::Due::Halt(place)));
                    }
                    Ok(Known::Nothing)
                }
            }
        }
        Effect::Inspect(id) => {
            ground.cloud.get(id).map(|instance| Known::Instance(Box::new(instance))).map_err(Refusal::Cloud)
        }
        Effect::Instances => {
            let mut then = now;
            if ground.strikes(Fault::InstancesLag, "instances") {
                then.0 = then.0.saturating_sub(ground.severity(Fault::InstancesLag, (1_000, 30_000)));
            }
            Ok(Known::Instances(ground.cloud.list(then)))
        }
    };
    result.map_or_else(Outcome::Refused, Outcome::Done)
}

fn launch(ground: &mut Ground, request: &headstart_core::cloud::LaunchRequest) -> Result<Known, CloudError> {
    let (launch, bought) = ground.cloud.launch(ground.time.now(), request)?;
    if let Bought::New(place) = bought {
        // The claim is the one whose uid is the token; failing that, the one that has the name now.
        let named = ground.api.get(Kind::NodeClaim, &format!("/{}", request.claim)).map(|claim| uid(claim));
        let claim = if ground.api.was(&request.token.0) { Some(&*request.token.0) } else { named };
        let claim = claim.unwrap_or_default().to_owned();
        ground.cloud.attribute(place, claim);
        ground.facts.push(Fact::Launched(place));
    }
    Ok(Known::Launched(Box::new(launch)))
}

/// The gist of an effect for the trace.
fn gist(effect: &Effect) -> String {
    match effect {
        Effect::Patch { part, patch, .. } => {
            let mut text = patch.to_string();
            if text.len() > 300 {
                text.truncate((0..=300).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
                text.push('…');
            }
            format!(" {} {text}", if *part == Part::Status { "status" } else { "main" })
        }
        Effect::Launch(request) => format!(" token {} offerings {}", request.token, request.offerings.len()),
        Effect::Delete { object, .. } | Effect::Evict { object } => format!(" uid {}", object.uid),
        Effect::Create { .. }
        | Effect::Clear { .. }
        | Effect::Read { .. }
        | Effect::Terminate(_)
        | Effect::Reboot { .. }
        | Effect::Inspect(_)
        | Effect::Instances => String::new(),
    }
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(Known::Launched(launch)) => {
            format!("done, {} as {}", launch.instance.id, launch.instance.offering)
        }
        Outcome::Done(_) => "done".to_owned(),
        Outcome::Refused(refusal) => {
            let mut text = format!("{refusal:?}");
            text.truncate((0..=200.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
            text
        }
        Outcome::Unknown { message } => message.clone(),
    }
}
