//! Effects under way: one at a time for each thing, and none too soon after a failure.

use std::collections::BTreeMap;
use std::fmt;

use headstart_core::cloud::ProviderId;

use crate::action::{Effect, EffectId};
use crate::backoff::Backoff;
use crate::kind::Kind;
use crate::outcome::{Outcome, Refusal};
use crate::store::PodKey;
use crate::time::Time;

/// What an effect is for. Of two effects for the same thing the second waits for the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Errand {
    /// Makes a claim.
    Make(String),
    /// Launches a claim.
    Launch(String),
    /// Changes a claim.
    Claim(String),
    /// Removes a claim.
    Remove(String),
    /// Looks whether a claim is there.
    Doubt(String),
    /// Changes a node.
    Node(String),
    /// Restarts the instance of a claim.
    Reboot(String),
    /// Looks at or ends an instance.
    Instance(ProviderId),
    /// Looks for instances of claims that do not know theirs.
    Search,
    /// Asks a pod to go.
    Evict(PodKey),
    /// Tells a pod where it will go.
    Nominate(PodKey),
    /// Changes what a pool says about itself.
    Pool(String),
    /// Changes what a buffer says about itself.
    Buffer(String, String),
    /// Makes, changes or removes an object of ours.
    Companion(Kind, String),
    /// Lists instances.
    Instances,
}

#[derive(Debug)]
enum Slot {
    Flying,
    Waiting { failures: u32, until: Time },
}

/// Effects under way and those that failed.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    last: u64,
    slots: BTreeMap<Errand, Slot>,
    flying: BTreeMap<EffectId, (Errand, Effect, u32)>,
    seed: u64,
}

impl Errands {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Sets out on an errand, unless one is under way for the same thing or failed a moment ago.
    pub(crate) fn begin(&mut self, now: Time, errand: Errand, effect: &Effect) -> Option<EffectId> {
        let failures = match self.slots.get(&errand) {
            Some(Slot::Flying) => return None,
            Some(Slot::Waiting { until, .. }) if *until > now => return None,
            Some(Slot::Waiting { failures, .. }) => *failures,
            None => 0,
        };
        self.last += 1;
        let id = EffectId(self.last);
        self.slots.insert(errand.clone(), Slot::Flying);
        self.flying.insert(id, (errand, effect.clone(), failures));
        Some(id)
    }

    /// Takes notice of how an effect ended; what it was for, unless nobody waits for it any more.
    pub(crate) fn ended(&mut self, now: Time, id: EffectId, outcome: &Outcome) -> Option<(Errand, Effect)> {
        let (errand, effect, failures) = self.flying.remove(&id)?;
        match outcome {
            Outcome::Done(_) => drop(self.slots.remove(&errand)),
            Outcome::Refused(_) | Outcome::Unknown { .. } => {
                let failures = failures + 1;
                let wait = pace(&errand, outcome).after(failures, self.seed, &errand.to_string());
                let said = match outcome {
                    Outcome::Refused(Refusal::Throttled { after: Some(after) }) => *after,
                    _ => wait,
                };
                self.slots.insert(errand.clone(), Slot::Waiting { failures, until: now + wait.max(said) });
            }
        }
        Some((errand, effect))
    }

    /// Whether an effect is under way for a thing.
    pub(crate) fn is_flying(&self, errand: &Errand) -> bool {
        matches!(self.slots.get(errand), Some(Slot::Flying))
    }

    /// Whether an errand could set out now.
    pub(crate) fn may_begin(&self, now: Time, errand: &Errand) -> bool {
        match self.slots.get(errand) {
            Some(Slot::Flying) => false,
            Some(Slot::Waiting { until, .. }) => *until <= now,
            None => true,
        }
    }

    /// When a thing that failed may be tried again.
    pub(crate) fn until(&self, errand: &Errand) -> Option<Time> {
        match self.slots.get(errand) {
            Some(Slot::Waiting { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// Forgets that a thing failed.
    pub(crate) fn forgive(&mut self, errand: &Errand) {
        if matches!(self.slots.get(errand), Some(Slot::Waiting { .. })) {
            self.slots.remove(errand);
        }
    }

    /// Forgets everything under way; outcomes that still come mean nothing.
    pub(crate) fn forget_all(&mut self) {
        self.slots.clear();
        self.flying.clear();
    }
}

/// How fast a thing is tried again.
fn pace(errand: &Errand, outcome: &Outcome) -> Backoff {
    match (errand, outcome) {
        // The watch is a moment behind; what it brings decides anew.
        (_, Outcome::Refused(Refusal::Conflict)) => Backoff::millis(20, 2_000),
        (Errand::Evict(_), _) => Backoff::millis(100, 10_000),
        (Errand::Nominate(_), _) => Backoff::millis(1_000, 60_000),
        (_, Outcome::Refused(Refusal::Forbidden { .. } | Refusal::Invalid { .. })) => {
            Backoff::millis(5_000, 300_000)
        }
        (Errand::Launch(_) | Errand::Instances | Errand::Search, _) => Backoff::millis(1_000, 60_000),
        _ => Backoff::millis(200, 10_000),
    }
}

impl fmt::Display for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make(name) => write!(f, "make {name}"),
            Self::Launch(name) => write!(f, "launch {name}"),
            Self::Claim(name) => write!(f, "claim {name}"),
            Self::Remove(name) => write!(f, "remove {name}"),
            Self::Doubt(name) => write!(f, "doubt {name}"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::Reboot(name) => write!(f, "reboot {name}"),
            Self::Instance(id) => write!(f, "instance {id}"),
            Self::Search => f.write_str("search"),
            Self::Evict((namespace, name)) => write!(f, "evict {namespace}/{name}"),
            Self::Nominate((namespace, name)) => write!(f, "nominate {namespace}/{name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Buffer(namespace, name) => write!(f, "buffer {namespace}/{name}"),
            Self::Companion(kind, name) => write!(f, "companion {kind} {name}"),
            Self::Instances => f.write_str("instances"),
        }
    }
}
