//! What changed, when, and by whom.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::timeline::Moment;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When.
    pub at: Moment,
    /// By whom.
    pub by: Actor,
    /// What was done.
    pub verb: Verb,
    /// The object's namespace and name.
    pub key: Arc<str>,
    /// How it was before.
    pub before: Option<Arc<Value>>,
    /// How it is since; the last state of one that was removed.
    pub object: Arc<Value>,
}

/// What was done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It was made.
    Added,
    /// It was changed.
    Modified,
    /// It is gone.
    Removed,
}

/// Who changes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A process with an engine, by its number.
    Process(usize),
    /// The kubelet of a node, or the cloud's controller of nodes.
    Kubelet,
    /// The scheduler.
    Scheduler,
    /// A controller of workloads.
    Controller,
    /// The garbage collector.
    Collector,
    /// Somebody at a keyboard.
    Person,
}

impl Entry {
    /// One line: when, by whom, and what is different.
    pub fn line(&self) -> String {
        format!("{} {:<12} {}", self.at, self.by.to_string(), self.change())
    }

    /// What is different.
    pub fn change(&self) -> String {
        match self.verb {
            Verb::Added => "added".to_owned(),
            Verb::Removed => "removed".to_owned(),
            Verb::Modified => {
                let mut changes = Vec::new();
                let before = self.before.as_deref().unwrap_or(&Value::Null);
                differences("", before, &self.object, &mut changes);
                changes.retain(|change| !change.starts_with("metadata.resourceVersion"));
                changes.join(", ")
            }
        }
    }
}

fn differences(at: &str, old: &Value, new: &Value, out: &mut Vec<String>) {
    if old == new {
        return;
    }
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let dot = if at.is_empty() { "" } else { "." };
            let [old, new] = [old, new].map(|side| side.get(name).unwrap_or(&Value::Null));
            differences(&format!("{at}{dot}{name}"), old, new, out);
        }
    } else if at.ends_with("conditions") {
        let said = |c: &Value| {
            let part = |name| c.get(name).and_then(Value::as_str).unwrap_or_default();
            format!("{}={} {}", part("type"), part("status"), part("reason"))
        };
        let old: Vec<String> = old.as_array().into_iter().flatten().map(said).collect();
        let new = new.as_array().into_iter().flatten().map(said).filter(|c| !old.contains(c));
        out.extend(new);
    } else {
        let mut text = new.to_string();
        if text.len() > 160 {
            text.truncate((0..=160).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
            text.push('…');
        }
        out.push(format!("{at}: {text}"));
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(number) => write!(f, "process {number}"),
            Self::Kubelet => f.write_str("kubelet"),
            Self::Scheduler => f.write_str("scheduler"),
            Self::Controller => f.write_str("controller"),
            Self::Collector => f.write_str("collector"),
            Self::Person => f.write_str("person"),
        }
    }
}
