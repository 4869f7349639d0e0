//! The engine on the stage: the real one, with somebody who writes down what it says.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use headstart_engine::overview::Overview;
use headstart_engine::{Action, Engine, Event, Level, Now, Report, Time, Wall};

use super::News;
use crate::brain::{Birth, Brain};

/// The engine and what it has said since somebody last asked.
#[derive(Clone, Default)]
pub(super) struct Stage {
    engine: Rc<RefCell<Option<Engine>>>,
    said: Rc<RefCell<Vec<(Wall, News)>>>,
}

impl Stage {
    /// The brain of a process that starts; one that ran before is forgotten.
    pub(super) fn brain(&self, birth: &Birth) -> Box<dyn Brain> {
        let engine = Engine::new(birth.settings.clone(), Arc::clone(&birth.types), birth.well_known.clone());
        *self.engine.borrow_mut() = Some(engine);
        Box::new(self.clone())
    }

    /// The state of affairs as the engine knows it.
    pub(super) fn overview(&self, wall: Wall) -> Overview {
        let now = Now { time: Time(0), wall };
        self.engine.borrow().as_ref().map(|engine| engine.overview(now)).unwrap_or_default()
    }

    /// What was said since this was last asked.
    pub(super) fn take(&self) -> Vec<(Wall, News)> {
        std::mem::take(&mut self.said.borrow_mut())
    }
}

impl Brain for Stage {
    fn apply(&mut self, now: Now, event: Event) {
        if let Some(engine) = &mut *self.engine.borrow_mut() {
            engine.apply(now, event);
        }
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        let actions = self.engine.borrow_mut().as_mut().map(|engine| engine.decide(now)).unwrap_or_default();
        for action in &actions {
            if let Action::Tell(Report::Line { level, message, fields }) = action
                && *level != Level::Debug
            {
                let news = News::Line { level: *level, message: message.clone(), fields: fields.clone() };
                self.said.borrow_mut().push((now.wall, news));
            }
        }
        actions
    }

    fn next_wake(&self) -> Option<Time> {
        self.engine.borrow().as_ref().and_then(Engine::next_wake)
    }
}
