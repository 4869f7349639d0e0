//! What the world tells the engine.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::EffectId;
use crate::kind::Kind;
use crate::outcome::Outcome;

/// Something happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Event {
    /// A watch saw something.
    Watched {
        /// The kind watched.
        kind: Kind,
        /// What it saw.
        change: Change,
    },
    /// An effect ended; each one does so exactly once.
    Ended {
        /// Which one.
        id: EffectId,
        /// How.
        outcome: Outcome,
    },
    /// Whether this process may act. It may not until told so.
    Leading(bool),
}

/// What a watch saw. Within one kind the order is that of the API server; between kinds there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// All objects will be told anew; those that are not are gone.
    Relisting,
    /// An object as it is now, `apiVersion` and `kind` included.
    Seen(Arc<Value>),
    /// An object is gone; this is its last state, of which only the metadata is looked at.
    Gone(Arc<Value>),
    /// All objects have been told.
    Listed,
    /// The kind is not served, or may not be read.
    Missing {
        /// Which of the two, in words.
        why: String,
    },
}
