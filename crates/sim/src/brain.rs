//! What drives the world's processes: the engine, or in tests something simpler or worse.

use std::sync::Arc;

use headstart_core::labels::WellKnown;
use headstart_core::types::Types;
use headstart_engine::{Action, Engine, Event, Now, Settings, Time};

/// Something that takes events and gives actions.
pub trait Brain {
    /// Takes notice of something that happened.
    fn apply(&mut self, now: Now, event: Event);
    /// What to do now.
    fn decide(&mut self, now: Now) -> Vec<Action>;
    /// When to ask again even if nothing happens.
    fn next_wake(&self) -> Option<Time>;
}

/// What a process is born with.
#[derive(Clone, Debug)]
pub struct Birth {
    /// What operators chose.
    pub settings: Settings,
    /// What the cloud sells.
    pub types: Arc<Types>,
    /// Labels that a launch fills in.
    pub well_known: WellKnown,
}

/// Makes the brain of a process that starts.
pub type Nursery<'a> = &'a dyn Fn(&Birth) -> Box<dyn Brain>;

impl Brain for Engine {
    fn apply(&mut self, now: Now, event: Event) {
        Self::apply(self, now, event);
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        Self::decide(self, now)
    }

    fn next_wake(&self) -> Option<Time> {
        Self::next_wake(self)
    }
}

/// The real engine.
pub fn engine(birth: &Birth) -> Box<dyn Brain> {
    Box::new(Engine::new(birth.settings.clone(), Arc::clone(&birth.types), birth.well_known.clone()))
}
