//! What can go wrong when asking a cloud, as classes the caller acts on.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ClassRef, DryOffering, ProviderId};

/// The error of every cloud call; each variant calls for a different reaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloudError {
    /// There is no such instance, or none any more: a removal is complete, a lookup is answered.
    #[error("instance {id} does not exist")]
    NotFound {
        /// The id that was asked for.
        id: ProviderId,
    },
    /// Nothing on the list could be bought: avoid these offerings for a while and plan anew.
    #[error("insufficient capacity: {message}")]
    InsufficientCapacity {
        /// Every offering that was found dry, in the order tried; empty if the cloud could not try any.
        dry: Vec<DryOffering>,
        /// The cloud's own words.
        message: String,
    },
    /// The node class cannot be used yet: wait for the class, not for the cloud.
    #[error("node class {class} is not ready: {message}")]
    ClassNotReady {
        /// The class that was referred to.
        class: ClassRef,
        /// What the class says about itself.
        message: String,
    },
    /// Too many calls, and this one was not performed: call again later.
    #[error("throttled{}", after(*retry_after))]
    Throttled {
        /// How long to wait, if the cloud said so.
        #[serde(with = "super::millis::option")]
        retry_after: Option<Duration>,
    },
    /// The caller may not do this: a person must act.
    #[error("denied: {message}")]
    Denied {
        /// The cloud's own words.
        message: String,
    },
    /// It may work next time; whether anything happened this time is told by `effect`.
    #[error("{effect}: {message}")]
    Transient {
        /// Whether the call may have had an effect.
        effect: Effect,
        /// What was observed.
        message: String,
    },
    /// Asking again in the same way cannot work.
    #[error("{message}")]
    Permanent {
        /// Why not.
        reason: Reason,
        /// What is wrong and, where known, what to do.
        message: String,
    },
}

/// What is known about the effect of a call that failed for a passing reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The cloud certainly did nothing.
    NotDone,
    /// The answer was lost: it may have happened. Only a read, or the same call with the same token, can tell.
    Unknown,
}

impl CloudError {
    /// A static name of the class, fit for a metric label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::InsufficientCapacity { .. } => "insufficient_capacity",
            Self::ClassNotReady { .. } => "class_not_ready",
            Self::Throttled { .. } => "throttled",
            Self::Denied { .. } => "denied",
            Self::Transient { effect: Effect::NotDone, .. } => "transient",
            Self::Transient { effect: Effect::Unknown, .. } => "answer_lost",
            Self::Permanent { .. } => "permanent",
        }
    }

    /// Whether the call may have had its effect although it failed.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Transient { effect: Effect::Unknown, .. })
    }

    /// Whether the error says that the instance asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// A passing failure of a call that certainly did nothing.
    pub fn not_done(message: impl Into<String>) -> Self {
        Self::Transient { effect: Effect::NotDone, message: message.into() }
    }

    /// A passing failure of a call whose effect is not known.
    pub fn answer_lost(message: impl Into<String>) -> Self {
        Self::Transient { effect: Effect::Unknown, message: message.into() }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDone => "nothing was done",
            Self::Unknown => "the answer was lost and the outcome is unknown",
        })
    }
}

fn after(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |d| format!(", try again in {:.1} s", d.as_secs_f64()))
}

/// Why asking again cannot work; written in upper camel case, fit for a condition's reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// A token came back with another list of offerings than it was first used with.
    TokenReused,
    /// The token's instance was launched and has ended; the token cannot launch another.
    InstanceEnded,
    /// The cloud cannot restart an instance in place.
    RebootNotSupported,
    /// The cloud refuses this restart for good.
    RebootFailed,
    /// The request names something that the cloud does not have, or is malformed.
    InvalidRequest,
    /// The cloud answered in a way this client does not understand.
    BadAnswer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_answer_is_told_apart_from_a_refusal() {
        let lost = CloudError::answer_lost("connection closed");
        let refused = CloudError::not_done("connection refused");
        assert!(lost.outcome_unknown() && !refused.outcome_unknown());
        assert_eq!((lost.kind(), refused.kind()), ("answer_lost", "transient"));
    }

    #[test]
    fn messages_say_what_to_expect() {
        let throttled = CloudError::Throttled { retry_after: Some(Duration::from_millis(1500)) };
        assert_eq!(throttled.to_string(), "throttled, try again in 1.5 s");
        assert_eq!(CloudError::Throttled { retry_after: None }.to_string(), "throttled");
        assert_eq!(
            CloudError::answer_lost("connection closed").to_string(),
            "the answer was lost and the outcome is unknown: connection closed"
        );
    }
}
