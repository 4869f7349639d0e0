//! The same burst in two worlds of the same seed: one buys for pods that wait, the other also for pods that are expected.

use std::fmt;
use std::time::Duration;

use headstart_core::price::Price;
use headstart_engine::Kind;
use headstart_engine::observation::Waits;

use super::outcome::{price, starts};
use crate::ground::Ground;
use crate::timeline::Moment;

/// When nodes are bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// For pods that wait.
    Reactive,
    /// Also for pods that are expected.
    Proactive,
}

/// What became of the burst in both worlds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// For pods that wait.
    pub reactive: Side,
    /// Also for pods that are expected.
    pub proactive: Side,
}

/// What became of the burst in one world, by the API server's and the cloud's books; times count from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// How many pods are to run.
    pub pods: usize,
    /// How many do.
    pub running: usize,
    /// When the first NodeClaim was made.
    pub first_claim: Option<Duration>,
    /// When the last one was.
    pub last_claim: Option<Duration>,
    /// When the last pod began to run, of those that do.
    pub last_start: Option<Duration>,
    /// How long pods that run waited for it.
    pub waits: Waits,
    /// How many instances there are.
    pub nodes: usize,
    /// What they cost an hour.
    pub per_hour: Price,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reactive => "reactive",
            Self::Proactive => "proactive",
        })
    }
}

impl Comparison {
    /// Both sides, the way that is usual first.
    pub fn sides(&self) -> [(Way, &Side); 2] {
        [(Way::Reactive, &self.reactive), (Way::Proactive, &self.proactive)]
    }
}

impl Side {
    /// Whether all pods run.
    pub fn is_done(&self) -> bool {
        self.running == self.pods
    }

    /// What became so far of a burst of so many pods, the first that the world has seen.
    pub(super) fn of(ground: &Ground, burst: Moment, pods: u32) -> Self {
        let after = |at: Moment| Duration::from_millis(at.since(burst));
        let log = ground.api.log(Kind::NodeClaim);
        let mut claims = log.iter().filter(|entry| entry.before.is_none()).map(|entry| after(entry.at));
        let first_claim = claims.next();
        let starts = starts(ground);
        let mut waits = Waits::default();
        for (_, wait) in &starts {
            waits.add(wait.as_millis() as u64);
        }
        Self {
            pods: pods as usize,
            running: starts.len(),
            first_claim,
            last_claim: claims.next_back().or(first_claim),
            last_start: starts.last().map(|(at, _)| after(*at)),
            waits,
            nodes: ground.cloud.living().count(),
            per_hour: ground.cloud.living().map(|machine| price(ground, machine)).sum(),
        }
    }
}
