//! Routes events to state and asks each concern in a fixed order; no decision is made here.

use std::sync::Arc;

use headstart_core::labels::WellKnown;
use headstart_core::types::Types;

use crate::action::Action;
use crate::event::Event;
use crate::overview::Overview;
use crate::report::Gauge;
use crate::settings::Settings;
use crate::time::{Now, Time};

/// A deterministic autoscaler: the same events at the same times give the same actions.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
}

impl Engine {
    /// An engine that knows nothing yet, and what its cloud sells.
    pub fn new(settings: Settings, types: Arc<Types>, well_known: WellKnown) -> Self {
        drop((types, well_known));
        Self { settings }
    }

    /// Takes notice of something that happened.
    pub fn apply(&mut self, now: Now, event: Event) {
        drop((now, event));
    }

    /// What to do now. A second call at the same time without an event in between returns nothing.
    pub fn decide(&mut self, now: Now) -> Vec<Action> {
        let _ = (now, &self.settings);
        Vec::new()
    }

    /// When to call [`Engine::decide`] again even if nothing happens.
    pub fn next_wake(&self) -> Option<Time> {
        None
    }

    /// The present values of metrics that go up and down.
    pub fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// The state of affairs in a few numbers.
    pub fn overview(&self, now: Now) -> Overview {
        let _ = now;
        Overview::default()
    }
}
