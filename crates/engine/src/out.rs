//! The only way out: what concerns want done and told.

use std::collections::BTreeMap;
use std::time::Duration;

use headstart_core::hash;

use crate::action::{Action, Effect, ObjectRef};
use crate::errands::{Errand, Errands};
use crate::observation::Observation;
use crate::report::{Level, Measure, Report};
use crate::time::{Now, Time};

/// How long the same event about the same object is not told again.
const TOLD_FOR: Duration = Duration::from_mins(2);
/// How many events are remembered before those that may be told again are forgotten.
const REMEMBERED: usize = 10_000;

/// Events told lately.
#[derive(Debug, Default)]
pub(crate) struct Told {
    until: BTreeMap<u64, Time>,
}

/// Where concerns put what they want done and told.
pub(crate) struct Out<'a> {
    pub(crate) now: Now,
    pub(crate) errands: &'a mut Errands,
    pub(crate) told: &'a mut Told,
    pub(crate) actions: Vec<Action>,
}

impl Out<'_> {
    /// Asks for an effect, unless one is under way for the same thing or failed a moment ago.
    pub(crate) fn ask(&mut self, errand: Errand, effect: Effect) -> bool {
        let Some(id) = self.errands.begin(self.now.time, errand, &effect) else { return false };
        self.actions.push(Action::Do { id, effect });
        true
    }

    /// Tells of something ordinary about an object, unless that was told a moment ago.
    pub(crate) fn note(&mut self, about: ObjectRef, reason: &str, message: String) {
        self.event(about, false, reason, message, TOLD_FOR);
    }

    /// Tells that something is wrong with an object, unless that was told a moment ago.
    pub(crate) fn warn(&mut self, about: ObjectRef, reason: &str, message: String) {
        self.event(about, true, reason, message, TOLD_FOR);
    }

    /// Tells of something about an object, at most so often.
    pub(crate) fn event(
        &mut self,
        about: ObjectRef,
        warning: bool,
        reason: &str,
        mut message: String,
        every: Duration,
    ) {
        let key = hash::stable(&[&about.to_string(), &about.uid, reason, &message]);
        let now = self.now.time;
        if self.told.until.get(&key).is_some_and(|until| *until > now) {
            return;
        }
        if self.told.until.len() >= REMEMBERED {
            self.told.until.retain(|_, until| *until > now);
        }
        self.told.until.insert(key, now + every);
        truncate(&mut message, MAX_MESSAGE);
        self.actions.push(Action::Tell(Report::Event { about, warning, reason: reason.to_owned(), message }));
    }

    /// Writes a line of the log.
    pub(crate) fn line(&mut self, level: Level, message: impl Into<String>, fields: &[(&str, &str)]) {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.actions.push(Action::Tell(Report::Line { level, message: message.into(), fields }));
    }

    /// Counts or measures something.
    pub(crate) fn measure(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.actions.push(Action::Tell(Report::Measure(Measure { name: name.to_owned(), labels, value })));
    }

    /// Remembers something for a report.
    pub(crate) fn observe(&mut self, observation: Observation) {
        self.actions.push(Action::Tell(Report::Observed(observation)));
    }

    /// Counts one more of something.
    pub(crate) fn count(&mut self, name: &str, labels: &[(&str, &str)]) {
        self.measure(name, labels, 1.0);
    }
}

/// The longest message that an event may have.
const MAX_MESSAGE: usize = 1024;

fn truncate(message: &mut String, most: usize) {
    if message.len() > most {
        let end = (0..=most - 3).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
}
