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

/// How many events may wait for the engine; watches wait when it is busy, rather than hold a whole cluster in memory.
pub(crate) const WAITING: usize = 512;

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
        // Not recorded: a replay has no end that something could be done before.
        let last = self.engine.wind_up(clock::now());
        self.pass_on(last);
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
        let (now, start) = (clock::now(), clock::stopwatch());
        let mut actions = self.engine.decide(now);
        self.metrics.decided(start.elapsed().as_secs_f64());
        if let Some(journal) = &mut self.journal {
            let entry = Entry::Decided { now, actions };
            journal.write(now.time, &entry);
            let Entry::Decided { actions: again, .. } = entry else { return };
            actions = again;
        }
        self.pass_on(actions);
    }

    fn pass_on(&mut self, actions: Vec<Action>) {
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

#[cfg(test)]
mod tests {
    use headstart_cloud::catalog::{Catalog, Source};
    use headstart_engine::journal::{self, Header};
    use headstart_engine::{Mode, Resource, Settings};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;

    use super::*;
    use crate::options::{LogFormat, LogLevel};
    use crate::remember::Memory;
    use crate::tell::Log;

    fn engine() -> Engine {
        let catalog = Catalog::load(&Source::Kwok).unwrap();
        Engine::new(Settings::default(), Arc::clone(catalog.types()), catalog.well_known.clone())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_driven_can_be_replayed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let header = Header { version: "0".into(), catalog: "kwok".into(), settings: Settings::default() };
        let nobody = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, kube::Error>(Response::new(Body::empty()))
        });
        let class = Resource { group: "g", version: "v1", kind: "C", plural: "cs", namespaced: false };
        let memory = Memory::begin(Mode::Provisioner, "kwok", &[], None).unwrap();
        let (metrics, log) = (Arc::new(Metrics::new()), Log::start(LogLevel::Error, LogFormat::Json));
        let (teller, _notes) =
            Teller::new(Client::new(nobody, "default"), class, log, Arc::clone(&metrics), memory);
        let (sender, events) = mpsc::channel(WAITING);
        let (effects, _performed) = mpsc::unbounded_channel();
        let (stopper, stop) = watch::channel(false);
        let driver = Driver {
            engine: engine(),
            events,
            effects,
            teller,
            metrics,
            health: Arc::default(),
            journal: Some(Journal::begin(&path, header).unwrap()),
            stop,
        };
        let runtime = Handle::current();
        let thread = std::thread::spawn(move || driver.run(&runtime));
        for leading in [false, true] {
            sender.send(Event::Leading(leading)).await.unwrap();
        }
        // What was sent is taken before what was not.
        while sender.capacity() < WAITING {
            tokio::task::yield_now().await;
        }
        stopper.send(true).unwrap();
        tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();

        let text = std::fs::read_to_string(&path).unwrap();
        let summary = journal::replay(text.lines().skip(1), 2, engine()).unwrap();
        assert_eq!(summary.events, 2);
        assert!(summary.decisions >= 1);
    }
}
