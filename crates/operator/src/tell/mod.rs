//! What people are told: log lines, Kubernetes events, metrics.

mod events;
mod log;

use std::sync::Arc;

use headstart_engine::{Report, Resource};
use kube::Client;
use tokio::sync::mpsc;

use crate::metrics::Metrics;
use crate::remember::Memory;
use events::Note;

pub(crate) use log::Log;

/// Passes reports on to where people see them; never waits.
pub(crate) struct Teller {
    log: Arc<Log>,
    metrics: Arc<Metrics>,
    memory: Arc<Memory>,
    notes: mpsc::Sender<Note>,
}

impl Teller {
    /// A teller, and the task that writes its events.
    pub(crate) fn new(
        client: Client,
        class: Resource,
        log: Arc<Log>,
        metrics: Arc<Metrics>,
        memory: Arc<Memory>,
    ) -> (Self, impl Future<Output = ()>) {
        let (notes, waiting) = mpsc::channel(events::WAITING);
        (Self { log, metrics, memory, notes }, events::write(client, class, waiting))
    }

    pub(crate) fn tell(&self, report: Report) {
        match report {
            Report::Line { level, message, fields } => self.log.line(level, &message, &fields),
            Report::Measure(measure) => self.metrics.report(&measure),
            Report::Observed(observation) => self.memory.take(observation),
            Report::Event { about, warning, reason, message } => {
                // Events are for people; too many of them help nobody.
                if self.notes.try_send(Note { about, warning, reason, message }).is_err() {
                    tracing::debug!("too many events wait to be written; left out");
                }
            }
        }
    }
}
