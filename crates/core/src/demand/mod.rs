//! Pods that do not exist yet, and why somebody believes in them.
//!
//! ```text
//! Facts ── every Source ──► Beliefs: expected pods, what is withheld and why, when to ask again
//!                              └─ pods ──► Snapshot.pods with Demand::Expected ── solve ──► Plan ── trim ──► what is bought
//! ```
//!
//! Pending pods need no belief: they are there. Everything else that wants capacity is an [`Expected`]: a template, how many,
//! when, how sure, and because of what. The solver gives expected pods what real ones leave, in the same solve.
//!
//! # Adding a source
//!
//! This is the place where demand is injected. A source is one file with one type that implements [`Source`], and its line in
//! [`SOURCES`]; nothing else in the program knows which sources there are. It looks at [`Facts`] and at nothing else: it keeps
//! no state, reads no clock, and cannot fail. What it must not forget between two calls belongs into the facts.
//!
//! A source that expects one more pod of everything that makes pods, as an example:
//!
//! ```
//! use headstart_core::demand::{Beliefs, Expected, Facts, Source};
//!
//! struct OneMore;
//!
//! impl Source for OneMore {
//!     fn name(&self) -> &'static str {
//!         "one-more"
//!     }
//!
//!     fn expect(&self, facts: &Facts, beliefs: &mut Beliefs) {
//!         for maker in facts.makers.iter().filter(|maker| maker.trouble.is_none()) {
//!             let Ok(template) = &maker.template else { continue };
//!             beliefs.expected.push(Expected {
//!                 source: self.name(),
//!                 owner: maker.owner.clone(),
//!                 template: template.clone(),
//!                 first: 1,
//!                 count: 1,
//!                 when: facts.now,
//!                 sure: 50,
//!                 because: "there is always one more".to_owned(),
//!             });
//!         }
//!     }
//! }
//!
//! let mut beliefs = Beliefs::default();
//! OneMore.expect(&Facts::default(), &mut beliefs);
//! assert!(beliefs.expected.is_empty(), "nobody makes pods");
//! ```
//!
//! Limits, opt-outs and doubts are nothing a source has to think of: [`trim`] and whoever asks see to them.

pub mod buffer;
mod cronjob;
mod facts;
mod gap;
mod headroom;
mod quota;
pub mod trim;

use std::fmt;
use std::sync::Arc;

pub use cronjob::{Overlap, Schedule};
pub use facts::{Facts, Maker, PoolUse, Template, Wish};
pub use quota::Quota;

use crate::snapshot::{Demand, Pod, Volume};

/// Somebody who foresees pods.
pub trait Source: Sync {
    /// One word, for metrics and annotations.
    fn name(&self) -> &'static str;

    /// Adds what it believes in.
    fn expect(&self, facts: &Facts, beliefs: &mut Beliefs);
}

/// All sources, in the order in which they are asked.
pub const SOURCES: [&dyn Source; 4] = [&gap::Gap, &cronjob::CronJobs, &buffer::Buffers, &headroom::Headroom];

/// Asks all sources.
pub fn expect(facts: &Facts) -> Beliefs {
    let mut beliefs = Beliefs::default();
    for source in SOURCES {
        source.expect(facts, &mut beliefs);
    }
    beliefs.expected.retain(|expected| expected.count > 0);
    beliefs
}

/// What sources believe in.
#[derive(Clone, Debug, Default)]
pub struct Beliefs {
    /// Pods that do not exist yet.
    pub expected: Vec<Expected>,
    /// Pods that could be expected and are not, and why; for people.
    pub withheld: Vec<Withheld>,
    /// When somebody will believe in more, in milliseconds since 1970, if that is known.
    pub next: Option<i64>,
}

impl Beliefs {
    /// Asks again at this time at the latest.
    pub fn ask_at(&mut self, time: i64) {
        self.next = Some(self.next.map_or(time, |known| known.min(time)));
    }
}

/// Pods that do not exist yet and that somebody believes in.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Who believes in them.
    pub source: &'static str,
    /// What will make them.
    pub owner: Owner,
    /// What each needs.
    pub template: Template,
    /// The number of the first; whoever expects several kinds of pods of one owner counts on.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// When they will be there, in milliseconds since 1970.
    pub when: i64,
    /// How sure that is, in percent; the least sure are given up first.
    pub sure: u8,
    /// Why, in words that follow "because".
    pub because: String,
}

/// Pods that could be expected and are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Who does not believe in them.
    pub source: &'static str,
    /// What would make them.
    pub owner: Owner,
    /// How many.
    pub count: u32,
    /// Why not, in words.
    pub why: String,
    /// Whether the owner is to blame, so that it is not believed for a while.
    pub is_failure: bool,
}

/// What pods are expected of.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: Arc<str>,
    /// Its namespace, empty for objects without.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl Expected {
    /// Its pods as the solver takes them.
    ///
    /// COMPAT: names and uids are those of Cluster Autoscaler 1.35 and Karpenter 1.15, so that logs line up.
    pub fn pods(&self) -> impl Iterator<Item = Pod> {
        let Template { namespace, shape, shared, own } = &self.template;
        (self.first..self.first.saturating_add(self.count)).map(move |i| {
            let (name, uid) = match self.source {
                buffer::NAME => {
                    (format!("capacity-buffer-{}-{i}", self.owner.name), format!("{}-{i}", self.owner.uid))
                }
                source => {
                    (format!("{}-{source}-{i}", self.owner.name), format!("{source}-{}-{i}", self.owner.uid))
                }
            };
            let volume = |(k, driver): (usize, &Arc<str>)| Volume {
                driver: driver.clone(),
                id: format!("{uid}/{k}").into(),
            };
            let own = own.iter().enumerate().map(volume);
            Pod {
                namespace: namespace.clone(),
                name: name.into(),
                created: self.when.div_euclid(1000),
                demand: Demand::Expected,
                shape: shape.clone(),
                volumes: shared.iter().cloned().chain(own).collect(),
                uid: uid.into(),
            }
        })
    }
}

#[cfg(test)]
mod tests;
