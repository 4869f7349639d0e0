//! What the engine wants done.

use std::fmt;

use headstart_core::cloud::{LaunchRequest, ProviderId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kind::Kind;
use crate::report::Report;

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Change or ask something, once, and tell how it ended with [`Event::Ended`](crate::event::Event::Ended).
    ///
    /// Effects on one object are performed in the order given; those on different objects in any order, side by side.
    /// INVARIANT: nothing is retried on the way; who tries again, and when, is decided here.
    Do {
        /// To be told with the outcome.
        id: EffectId,
        /// What to do.
        effect: Effect,
    },
    /// Tell people; nobody waits for an answer.
    Tell(Report),
}

/// Names an effect among all that this process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectId(pub u64);

/// A change to the world outside, or a question to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Make an object. Done: [`Fact::Object`](crate::outcome::Fact::Object).
    Create {
        /// Its kind.
        kind: Kind,
        /// All of it.
        object: Value,
    },
    /// Change parts of an object by a JSON merge patch. Done: `Fact::Object`.
    Patch {
        /// Which object.
        object: ObjectRef,
        /// Which half of it.
        part: Part,
        /// The patch; a version among its metadata makes it fail with a conflict if the object has changed.
        patch: Value,
    },
    /// Delete an object, only if it still has the uid. Done: `Fact::Object` as long as finalizers hold it, else `Fact::Nothing`.
    Delete {
        /// Which object.
        object: ObjectRef,
        /// How many seconds a pod has to end, if not as many as it wants.
        grace: Option<u32>,
    },
    /// Delete all objects of a kind in a namespace that have a label. Done: `Fact::Nothing`.
    Clear {
        /// Their kind.
        kind: Kind,
        /// Their namespace.
        namespace: String,
        /// The label and its value.
        label: (String, String),
    },
    /// Ask a pod to leave its node by the Eviction API, only if it still has the uid. Done: `Fact::Nothing`.
    Evict {
        /// The pod.
        object: ObjectRef,
    },
    /// Read an object past all caches. Done: `Fact::Object`; `Refused(NotFound)` if there is none.
    Read {
        /// Which object; its uid is not looked at.
        object: ObjectRef,
    },
    /// Buy an instance. Done: `Fact::Launched`.
    Launch(Box<LaunchRequest>),
    /// End an instance. Done: `Fact::Nothing`; a `NotFound` of the cloud is what one waits for.
    Terminate(ProviderId),
    /// Restart an instance in place, once for each operation. Done: `Fact::Nothing`.
    Reboot {
        /// Which instance.
        id: ProviderId,
        /// Names this restart among all.
        operation: String,
    },
    /// Look for an instance. Done: `Fact::Instance`.
    Inspect(ProviderId),
    /// List all instances. Done: `Fact::Instances`.
    Instances,
}

/// The halves of an object that are written separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status, through its subresource.
    Status,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, empty for objects without.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; empty if it is not known.
    pub uid: String,
}

impl Effect {
    /// The object whose effects must stay in order, as one text.
    pub fn subject(&self) -> String {
        match self {
            Self::Create { kind, object } => {
                let text = |at| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
                format!("{kind} {}/{}", text("/metadata/namespace"), text("/metadata/name"))
            }
            Self::Patch { object, .. }
            | Self::Delete { object, .. }
            | Self::Evict { object }
            | Self::Read { object } => format!("{} {}/{}", object.kind, object.namespace, object.name),
            Self::Clear { kind, namespace, .. } => format!("{kind} {namespace}/*"),
            Self::Launch(request) => format!("instance of {}", request.claim),
            Self::Terminate(id) | Self::Inspect(id) | Self::Reboot { id, .. } => id.to_string(),
            Self::Instances => "instances".to_owned(),
        }
    }

    /// A static name of what is done, fit for a metric label.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Patch { part: Part::Main, .. } => "patch",
            Self::Patch { part: Part::Status, .. } => "patch_status",
            Self::Delete { .. } => "delete",
            Self::Clear { .. } => "clear",
            Self::Evict { .. } => "evict",
            Self::Read { .. } => "get",
            Self::Launch(_) => "launch",
            Self::Terminate(_) => "terminate",
            Self::Reboot { .. } => "reboot",
            Self::Inspect(_) => "inspect",
            Self::Instances => "list",
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
