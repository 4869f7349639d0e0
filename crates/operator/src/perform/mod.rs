//! Performs effects: each once, in order per object, side by side across objects, none without the lease.
//!
//! INVARIANT: nothing is retried here, nor in the clients that are used; a failure is told, and decided about elsewhere.

mod answer;
mod api;
mod cloud;
mod lanes;
mod rate;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use headstart_cloud::Cloud;
use headstart_engine::{Effect, EffectId, Event, Outcome, Refusal, Resource};
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clock;
use crate::lease::Tenure;
use crate::metrics::Metrics;
use lanes::Lanes;

pub(crate) use rate::Rate;

/// How many effects are performed at once.
const AT_ONCE: usize = 100;

/// How long effects may go on after the end was announced.
const LAST_MOMENTS: Duration = Duration::from_secs(10);

/// Everything that effects are performed with.
pub(crate) struct Performer {
    pub(crate) client: Client,
    pub(crate) cloud: Arc<dyn Cloud>,
    pub(crate) class: Resource,
    pub(crate) rate: Rate,
    pub(crate) tenure: Arc<Tenure>,
    /// Whether anything may be changed; an observer must not, whatever the engine asks for.
    pub(crate) may_write: bool,
    pub(crate) metrics: Arc<Metrics>,
}

/// Performs all effects that come, and tells how they ended; ends when no more can come.
pub(crate) async fn perform(
    performer: Performer,
    mut effects: mpsc::UnboundedReceiver<(EffectId, Effect)>,
    events: mpsc::Sender<Event>,
) {
    let performer = Arc::new(performer);
    let mut lanes = Lanes::new(AT_ONCE);
    let mut running = JoinSet::new();
    let begin = |lanes: &mut Lanes<(EffectId, Effect)>, running: &mut JoinSet<String>| {
        while let Some((subject, (id, effect))) = lanes.begin() {
            let (performer, events) = (Arc::clone(&performer), events.clone());
            running.spawn(async move {
                let outcome = performer.outcome(&effect).await;
                // Who does not listen any more does not need to know.
                let _ = events.send(Event::Ended { id, outcome }).await;
                subject
            });
        }
    };
    loop {
        begin(&mut lanes, &mut running);
        tokio::select! {
            next = effects.recv() => match next {
                Some((id, effect)) => lanes.offer(effect.subject(), (id, effect)),
                None => break,
            },
            Some(Ok(subject)) = running.join_next(), if !running.is_empty() => lanes.finished(subject),
        }
    }
    // What was asked for last may still wait for room.
    let rest = async {
        while let Some(ended) = running.join_next().await {
            if let Ok(subject) = ended {
                lanes.finished(subject);
            }
            begin(&mut lanes, &mut running);
        }
    };
    if tokio::time::timeout(LAST_MOMENTS, rest).await.is_err() {
        tracing::warn!(
            seconds = LAST_MOMENTS.as_secs(),
            "some effects did not end in time; the next leader will look"
        );
    }
}

impl Performer {
    /// Performs one effect; whatever happens, it has an outcome.
    async fn outcome(&self, effect: &Effect) -> Outcome {
        let outcome = match AssertUnwindSafe(self.perform(effect)).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(_) => {
                Outcome::Unknown { message: "performing it failed in a way that should not exist".into() }
            }
        };
        let ended = name(&outcome);
        self.metrics.effect(effect.verb(), ended);
        tracing::debug!(verb = effect.verb(), subject = effect.subject(), outcome = ended, "performed");
        outcome
    }

    async fn perform(&self, effect: &Effect) -> Outcome {
        if !self.may_write && !matches!(effect, Effect::Read { .. } | Effect::Inspect(_) | Effect::Instances)
        {
            let message = "an observer changes nothing".to_owned();
            return Outcome::Refused(Refusal::Forbidden { message });
        }
        if self.talks_to_api_server(effect) {
            self.rate.wait().await;
        }
        // Looked at last, right before sending: the process may have been asleep up to here.
        if !matches!(effect, Effect::Read { .. }) && !self.tenure.holds(clock::now()) {
            return Outcome::Refused(Refusal::Unavailable { message: "lease lost".to_owned() });
        }
        match effect {
            Effect::Create { kind, object } => self.create(*kind, object).await,
            Effect::Patch { object, part, patch } => self.patch(object, *part, patch).await,
            Effect::Delete { object, grace } => self.delete(object, *grace).await,
            Effect::Clear { kind, namespace, label } => self.clear(*kind, namespace, label).await,
            Effect::Evict { object } => self.evict(object).await,
            Effect::Read { object } => self.read(object).await,
            Effect::Launch(request) => self.launch(request).await,
            Effect::Terminate(id) => self.terminate(id).await,
            Effect::Reboot { id, operation } => self.reboot(id, operation).await,
            Effect::Inspect(id) => self.inspect(id).await,
            Effect::Instances => self.instances().await,
        }
    }

    fn talks_to_api_server(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Create { .. }
            | Effect::Patch { .. }
            | Effect::Delete { .. }
            | Effect::Clear { .. }
            | Effect::Evict { .. }
            | Effect::Read { .. } => true,
            // The machines of KWOK are objects.
            Effect::Launch(_)
            | Effect::Terminate(_)
            | Effect::Reboot { .. }
            | Effect::Inspect(_)
            | Effect::Instances => self.cloud.name() == "kwok",
        }
    }
}

/// A static name of an outcome, fit for a metric label.
fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Unknown { .. } => "unknown",
        Outcome::Refused(refusal) => match refusal {
            Refusal::NotFound => "not_found",
            Refusal::AlreadyExists => "already_exists",
            Refusal::Conflict => "conflict",
            Refusal::Blocked { .. } => "blocked",
            Refusal::Throttled { .. } => "throttled",
            Refusal::Invalid { .. } => "invalid",
            Refusal::Forbidden { .. } => "forbidden",
            Refusal::Unavailable { .. } => "unavailable",
            Refusal::Cloud(error) => error.kind(),
        },
    }
}

#[cfg(test)]
mod tests;
