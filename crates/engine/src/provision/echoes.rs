//! Claims that come back.
//!
//! A request to make a claim that was given up may still be on its way. If the claim was made by the next try and is gone by
//! the time the first one arrives, there is a second claim of that name which nobody wants.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Time;

/// How late a request may arrive.
const LATEST: Duration = Duration::from_mins(10);

/// Names of claims that were asked for and perhaps made, with the time of asking and whether they have been and gone.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    names: BTreeMap<String, (Time, bool)>,
}

impl Echoes {
    /// Takes notice that nobody knows whether a claim was made.
    pub(crate) fn unanswered(&mut self, now: Time, name: &str) {
        self.names.retain(|_, (asked, _)| now < *asked + LATEST);
        self.names.insert(name.to_owned(), (now, false));
    }

    /// Takes notice that a claim has been and gone whose name should not be used again soon.
    pub(crate) fn retire(&mut self, now: Time, name: &str) {
        self.unanswered(now, name);
        self.gone(name);
    }

    /// Takes notice that there is no claim of that name any more.
    pub(crate) fn gone(&mut self, name: &str) {
        if let Some((_, is_gone)) = self.names.get_mut(name) {
            *is_gone = true;
        }
    }

    /// Whether a claim of that name has been and gone.
    pub(crate) fn is_one(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|(_, is_gone)| *is_gone)
    }
}
