//! How an effect ended.

use std::sync::Arc;
use std::time::Duration;

use headstart_core::cloud::{CloudError, Instance, Launch, millis};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How an effect ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It was done.
    Done(Fact),
    /// It was certainly not done.
    Refused(Refusal),
    /// It may or may not have been done: a time-out, a lost connection, a crash in between.
    Unknown {
        /// What was observed.
        message: String,
    },
}

/// What is known because an effect was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fact {
    /// Nothing more than that.
    Nothing,
    /// The object as the API server has it now.
    Object(Arc<Value>),
    /// What was bought.
    Launched(Box<Launch>),
    /// An instance.
    Instance(Box<Instance>),
    /// All instances.
    Instances(Vec<Instance>),
}

/// Why an effect was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// There is no such object.
    NotFound,
    /// There is an object of that name.
    AlreadyExists,
    /// The object is not as it was thought to be.
    Conflict,
    /// An eviction that a disruption budget forbids for now.
    Blocked {
        /// The API server's words.
        message: String,
    },
    /// Too many requests.
    Throttled {
        /// How long to wait, if that was said.
        #[serde(with = "millis::option")]
        after: Option<Duration>,
    },
    /// The object is not allowed to be so.
    Invalid {
        /// The API server's words.
        message: String,
    },
    /// This process may not do that.
    Forbidden {
        /// The API server's words.
        message: String,
    },
    /// The server could not, and nothing was done.
    Unavailable {
        /// What was observed.
        message: String,
    },
    /// The cloud's answer.
    Cloud(CloudError),
}
