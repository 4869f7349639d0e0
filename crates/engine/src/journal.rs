//! A record of everything an engine was told and answered, one JSON object a line, and its replay.
//!
//! An engine depends on nothing else, so a journal shows what was decided, on what grounds, and whether it would be decided again.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::Action;
use crate::engine::Engine;
use crate::event::Event;
use crate::settings::Settings;
use crate::time::Now;

/// One line of a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The first line.
    Began(Header),
    /// Something happened.
    Event {
        /// When the engine was told.
        now: Now,
        /// What happened.
        event: Event,
    },
    /// The engine was asked what to do. Also recorded if that was nothing, for being asked can close a batch.
    Decided {
        /// When it was asked.
        now: Now,
        /// Its answer.
        actions: Vec<Action>,
    },
}

/// What an engine must be made of to decide the same again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the program that wrote the journal.
    pub version: String,
    /// Where its instance types came from: the name of a catalog, or a file.
    pub catalog: String,
    /// What its operator chose.
    pub settings: Settings,
}

/// What a replay went through without finding a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many things happened.
    pub events: usize,
    /// How often the engine was asked.
    pub decisions: usize,
    /// What it answered in all.
    pub actions: usize,
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The engine answers otherwise than it did.
    #[error(transparent)]
    Divergence(Box<Divergence>),
    /// A line is no entry of a journal; the last line of a process that was killed may be cut off.
    #[error("line {line} is no journal entry")]
    Unreadable {
        /// Its number, from one.
        line: usize,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The journal has a second header, so another process has written into it.
    #[error("line {line} begins another journal")]
    SecondHeader {
        /// Its number, from one.
        line: usize,
    },
}

/// The first decision that differs.
#[derive(Debug)]
pub struct Divergence {
    /// The number of its line, from one.
    pub line: usize,
    /// When it was made.
    pub now: Now,
    /// The first action that differs, counted from one.
    pub action: usize,
    /// What was decided then, as text; empty if nothing more was.
    pub expected: String,
    /// What is decided now, as text; empty if nothing more is.
    pub got: String,
}

/// Replays the lines after the header, the first of which has the number `first`.
pub fn replay<'a>(
    lines: impl IntoIterator<Item = &'a str>,
    first: usize,
    mut engine: Engine,
) -> Result<Summary, ReplayError> {
    let mut summary = Summary::default();
    for (line, text) in lines.into_iter().enumerate().map(|(i, text)| (first + i, text)) {
        match serde_json::from_str(text).map_err(|source| ReplayError::Unreadable { line, source })? {
            Entry::Began(_) => return Err(ReplayError::SecondHeader { line }),
            Entry::Event { now, event } => {
                engine.apply(now, event);
                summary.events += 1;
            }
            Entry::Decided { now, actions } => {
                let got = engine.decide(now);
                if let Some((action, expected, got)) = difference(&actions, &got) {
                    let divergence = Divergence { line, now, action, expected, got };
                    return Err(ReplayError::Divergence(Box::new(divergence)));
                }
                summary.decisions += 1;
                summary.actions += got.len();
            }
        }
    }
    Ok(summary)
}

/// The first difference between two lists of actions, as text.
fn difference(expected: &[Action], got: &[Action]) -> Option<(usize, String, String)> {
    let at = (0..expected.len().max(got.len()))
        .find(|&i| expected.get(i).map(as_read) != got.get(i).map(as_read))?;
    let text = |actions: &[Action]| actions.get(at).map(pretty).unwrap_or_default();
    Some((at + 1, text(expected), text(got)))
}

/// An action as it looks after having been written and read, which may cost a number its last digit.
fn as_read(action: &Action) -> Value {
    let text = serde_json::to_string(action).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn pretty(action: &Action) -> String {
    serde_json::to_string_pretty(action).unwrap_or_else(|error| error.to_string())
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, now, action, expected, got } = self;
        writeln!(f, "line {line}, {}: action {action} differs", now.wall.stamp())?;
        for (title, text) in [("then", expected), ("now", got)] {
            let text = if text.is_empty() { "nothing more" } else { text };
            write!(f, "{title}:\n  {}\n", text.replace('\n', "\n  "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Divergence {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headstart_core::labels::WellKnown;
    use headstart_core::types::Types;

    use super::*;
    use crate::report::{Level, Report};
    use crate::time::{Time, Wall};

    const NOW: Now = Now { time: Time(5_000), wall: Wall(1_800_000_000_000) };

    fn engine() -> Engine {
        Engine::new(Settings::default(), Arc::new(Types::new(Vec::new())), WellKnown::default())
    }

    fn said(message: &str) -> Action {
        Action::Tell(Report::Line { level: Level::Info, message: message.into(), fields: Vec::new() })
    }

    fn replayed(entries: &[Entry]) -> Result<Summary, ReplayError> {
        let lines: Vec<String> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        replay(lines.iter().map(String::as_str), 2, engine())
    }

    #[test]
    fn what_an_engine_did_it_does_again() {
        let mut engine = engine();
        let mut entries = vec![Entry::Event { now: NOW, event: Event::Leading(false) }];
        engine.apply(NOW, Event::Leading(false));
        entries.push(Entry::Decided { now: NOW, actions: engine.decide(NOW) });
        let summary = replayed(&entries).unwrap();
        assert_eq!((summary.events, summary.decisions), (1, 1));
    }

    #[test]
    fn the_first_difference_is_shown() {
        let entries = [Entry::Decided { now: NOW, actions: vec![said("bought a node")] }];
        let error = replayed(&entries).unwrap_err().to_string();
        assert!(error.starts_with("line 2, 2027-01-15T08:00:00Z: action 1 differs\nthen:\n"), "{error}");
        assert!(error.contains("bought a node"), "{error}");
    }

    #[test]
    fn numbers_that_lose_a_digit_in_writing_are_the_same() {
        let measure = |value| {
            let name = "scheduler_scheduling_duration_seconds".into();
            Action::Tell(Report::Measure(crate::Measure { name, labels: Vec::new(), value }))
        };
        let value = 0.1 + 0.2;
        let read: Action = serde_json::from_str(&serde_json::to_string(&measure(value)).unwrap()).unwrap();
        assert_eq!(difference(&[read], &[measure(value)]), None);
        assert_eq!(difference(&[measure(1.0)], &[measure(2.0)]).map(|(at, ..)| at), Some(1));
    }

    #[test]
    fn a_line_that_was_cut_off_is_named() {
        let error = replay(["{\"event\":{\"now\""], 7, engine()).unwrap_err();
        assert_eq!(error.to_string(), "line 7 is no journal entry");
    }
}
