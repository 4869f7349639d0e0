//! What people are told: Kubernetes events, log lines, counts.

use serde::{Deserialize, Serialize};

use crate::action::ObjectRef;
use crate::observation::Observation;

/// Something to tell people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// A Kubernetes event about an object. Repetitions have been left out already.
    Event {
        /// The object.
        about: ObjectRef,
        /// Whether something is wrong.
        warning: bool,
        /// One word in upper camel case.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// One line of the log.
    Line {
        /// How much it matters.
        level: Level,
        /// What was decided or noticed, and why.
        message: String,
        /// Names and numbers, in a fixed order.
        fields: Vec<(String, String)>,
    },
    /// Something to be counted or measured.
    Measure(Measure),
    /// Something to be remembered for a report.
    Observed(Observation),
}

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Somebody should look.
    Error,
    /// Somebody may want to look.
    Warning,
    /// A decision.
    Info,
    /// For those who want to know everything.
    Debug,
}

/// A measured value of a metric; the name is without the prefix `karpenter_`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The metric's name, ending in `_total` for counters and in `_seconds` for histograms.
    pub name: String,
    /// Its labels, in a fixed order.
    pub labels: Vec<(String, String)>,
    /// How many more, or how long.
    pub value: f64,
}

/// The present value of a metric that goes up and down.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// The metric's name, without the prefix `karpenter_`.
    pub name: &'static str,
    /// Its labels, in a fixed order.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}
