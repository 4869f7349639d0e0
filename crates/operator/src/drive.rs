//! Drives the engine on a thread of its own: events in, actions out, and nothing decided here.

use std::sync::Arc;
use std::time::Duration;

use headstart_engine::journal::Entry;
use headstart_engine::{Action, Effect, EffectId, Engine, Event, Time};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::health::Health;
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::tell::Teller;

/// How many events may wait for the engine; watches wait when it is busy.
pub(crate) const WAITING: usize = 4_096;

/// How soon values that go up and down are published after something happened.
const PUBLISH: Duration = Duration::from_secs(1);
/// How soon they are if nothing happens: some of them are ages.
const IDLE: Duration = Duration::from_secs(10);

/// Everything that the engine's thread owns.
pub(crate) struct Driver {
    pub(crate) engine: Engine,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) effects: mpsc::UnboundedSender<(EffectId, Effect)>,
    pub(crate) teller: Teller,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) journal: Option<Journal>,
    /// Turns true when it is time to stop.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Driver {
    /// Drives the engine until it is time to stop. Blocks.
    pub(crate) fn run(mut self, runtime: &Handle) {
        let (mut batch, mut publish) = (Vec::new(), clock::now().time);
        loop {
            let wake = self.wake(publish);
            match runtime.block_on(wait(&mut self.events, &mut self.stop, wake)) {
                Woken::ByEvent(event) => batch.push(event),
                Woken::ByTime => {}
                Woken::ToStop => break,
            }
            while batch.len() < WAITING
                && let Ok(event) = self.events.try_recv()
            {
                batch.push(event);
            }
            let start = clock::now().time;
            self.health.thinks(start);
            let asked = !batch.is_empty() || self.engine.next_wake().is_some_and(|wake| wake <= start);
            if asked {
                self.step(&mut batch);
            }
            let now = clock::now().time;
            if now >= publish {
                self.metrics.set_gauges(self.engine.gauges());
                publish = now + IDLE;
            } else if asked {
                publish = publish.min(now + PUBLISH);
            }
            if let Some(journal) = &mut self.journal {
                journal.flush_if_due(now);
            }
            self.health.rests();
        }
        if let Some(journal) = &mut self.journal {
            journal.flush();
        }
    }

    /// Tells the engine what happened, asks it, and passes on what it wants.
    fn step(&mut self, batch: &mut Vec<Event>) {
        for event in batch.drain(..) {
            let now = clock::now();
            if let Some(journal) = &mut self.journal {
                journal.write(now.time, &Entry::Event { now, event: event.clone() });
            }
            self.engine.apply(now, event);
        }
        let now = clock::now();
        let mut actions = self.engine.decide(now);
        self.metrics.decided((clock::now().time - now.time).as_secs_f64());
        if let Some(journal) = &mut self.journal {
            let entry = Entry::Decided { now, actions };
            journal.write(now.time, &entry);
            let Entry::Decided { actions: again, .. } = entry else { return };
            actions = again;
        }
        for action in actions {
            match action {
                // If nobody performs effects any more, the process is about to end.
                Action::Do { id, effect } => drop(self.effects.send((id, effect))),
                Action::Tell(report) => self.teller.tell(report),
            }
        }
    }

    /// When to go on even if nothing happens.
    fn wake(&self, publish: Time) -> Time {
        let due = self.journal.as_ref().and_then(Journal::due);
        let wakes = [self.engine.next_wake(), due, Some(publish)];
        wakes.into_iter().flatten().min().unwrap_or(publish)
    }
}

/// Why the engine's thread goes on.
enum Woken {
    ByEvent(Event),
    ByTime,
    ToStop,
}

/// Waits for an event, a time, or the end.
async fn wait(events: &mut mpsc::Receiver<Event>, stop: &mut watch::Receiver<bool>, wake: Time) -> Woken {
    // An engine that asked for the past would otherwise keep a processor busy.
    let rest = (wake - clock::now().time).max(Duration::from_millis(1));
    tokio::select! {
        biased;
        // If whoever could say stop is gone, it is time as well.
        _ = stop.wait_for(|stop| *stop) => Woken::ToStop,
        event = events.recv() => event.map_or(Woken::ToStop, Woken::ByEvent),
        () = tokio::time::sleep(rest) => Woken::ByTime,
    }
}
