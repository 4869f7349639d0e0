//! What a cloud announces by itself: interruptions, deaths, advice to move.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ProviderId;

/// A place in a cloud's stream of notices; only that cloud can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

/// Some notices and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notices {
    /// The notices, oldest first.
    pub notices: Vec<Notice>,
    /// Where the next call goes on.
    pub next: Option<Cursor>,
}

/// Something a cloud announced about an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The instance it is about.
    pub instance: ProviderId,
    /// What was announced.
    #[serde(flatten)]
    pub kind: NoticeKind,
}

/// The kinds of notice a caller acts on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoticeKind {
    /// The cloud takes the instance back.
    Interruption {
        /// How long was left when the notice was given.
        #[serde(rename = "leftMs", with = "crate::cloud::millis")]
        left: Duration,
    },
    /// The instance is more likely than others to be taken back.
    Rebalance,
    /// The instance ended without being asked to.
    Died,
}

impl NoticeKind {
    /// A static name of the kind, fit for a metric label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Interruption { .. } => "interruption",
            Self::Rebalance => "rebalance",
            Self::Died => "died",
        }
    }
}
