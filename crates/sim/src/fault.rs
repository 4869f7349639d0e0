//! Everything that can go wrong by itself, and when it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name, as plans write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

faults! {
    /// A write to the API server gets lost on the way, and nobody tells.
    WriteLost = "write-lost",
    /// A write is performed, but its answer gets lost.
    WriteUnanswered = "write-unanswered",
    /// A write is given up on, and performed long after.
    WriteLate = "write-late",
    /// A write is refused with a conflict although nothing changed.
    WriteConflict = "write-conflict",
    /// A write is refused because there are too many.
    WriteThrottled = "write-throttled",
    /// A write fails inside the API server.
    WriteFailed = "write-failed",
    /// A watch falls behind, by seconds.
    WatchLag = "watch-lag",
    /// A watch breaks, and what happened meanwhile is only seen as a new list.
    WatchDropped = "watch-dropped",
    /// A list arrives long after it was made.
    ListStale = "list-stale",
    /// A call to the cloud gets lost on the way.
    CallLost = "call-lost",
    /// The cloud performs a call, but its answer gets lost.
    CallUnanswered = "call-unanswered",
    /// A call is given up on, and performed long after.
    CallLate = "call-late",
    /// The cloud refuses a call because there are too many.
    CallThrottled = "call-throttled",
    /// A call fails inside the cloud before it has any effect.
    CallFailed = "call-failed",
    /// The cloud's list shows how things were some time ago.
    InstancesLag = "instances-lag",
    /// An offering has no capacity for a short while.
    OfferingFlaps = "offering-flaps",
    /// An instance ends without being asked to.
    InstanceDies = "instance-dies",
    /// An instance never becomes a node.
    NeverRegisters = "never-registers",
    /// An instance takes minutes to become a node.
    SlowToRegister = "slow-to-register",
    /// A node has a taint that nobody asked for.
    WrongTaint = "wrong-taint",
    /// A node has less room than was promised.
    LessAllocatable = "less-allocatable",
    /// The process is killed before an effect is sent.
    KillBefore = "kill-before",
    /// The process is killed while an effect is on its way.
    KillDuring = "kill-during",
    /// The process is killed when an effect is done, before it hears of it.
    KillAfter = "kill-after",
    /// The process stands still for longer than its lease lasts.
    Pause = "pause",
    /// The process cannot renew its lease for a while.
    LeaseCut = "lease-cut",
    /// The wall clock jumps.
    WallJump = "wall-jump",
    /// A timer goes off late.
    LateWake = "late-wake",
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often a fault strikes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Odds {
    /// The probability at each occasion.
    #[serde(default)]
    pub rate: f64,
    /// Occasions, counted from one, at which it strikes whatever the rate.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub at: BTreeSet<u64>,
}

/// Decides at every occasion whether a fault strikes, and counts.
#[derive(Debug)]
pub struct Mischief {
    lines: Vec<Line>,
    over: bool,
}

#[derive(Debug)]
struct Line {
    odds: Odds,
    dice: Dice,
    occasions: u64,
    fired: u64,
}

impl Mischief {
    /// The mischief of a run.
    pub fn new(seed: u64, odds: &BTreeMap<Fault, Odds>) -> Self {
        let line = |fault: &Fault| Line {
            odds: odds.get(fault).cloned().unwrap_or_default(),
            dice: Dice::new(seed, fault.name()),
            occasions: 0,
            fired: 0,
        };
        Self { lines: Fault::ALL.iter().map(line).collect(), over: false }
    }

    /// Whether a fault strikes at this occasion.
    pub fn strikes(&mut self, fault: Fault) -> bool {
        let line = &mut self.lines[fault as usize];
        if self.over || (line.odds.rate <= 0.0 && line.odds.at.is_empty()) {
            return false;
        }
        line.occasions += 1;
        let strikes = line.dice.chance(line.odds.rate) || line.odds.at.contains(&line.occasions);
        line.fired += u64::from(strikes);
        strikes
    }

    /// What decides how bad a fault is.
    pub fn dice(&mut self, fault: Fault) -> &mut Dice {
        &mut self.lines[fault as usize].dice
    }

    /// Nothing strikes from now on.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Whether nothing strikes any more.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// How often each fault struck, without those that never did.
    pub fn fired(&self) -> BTreeMap<Fault, u64> {
        let counts = Fault::ALL.iter().map(|fault| (*fault, self.lines[*fault as usize].fired));
        counts.filter(|(_, fired)| *fired > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_strike_at_their_occasion_and_never_after_the_end() {
        let odds = Odds { rate: 0.0, at: BTreeSet::from([2]) };
        let mut mischief = Mischief::new(1, &BTreeMap::from([(Fault::CallLost, odds)]));
        let strikes: Vec<bool> = (0..3).map(|_| mischief.strikes(Fault::CallLost)).collect();
        assert_eq!(strikes, [false, true, false]);
        assert_eq!(mischief.fired(), BTreeMap::from([(Fault::CallLost, 1)]));
        let mut always =
            Mischief::new(1, &BTreeMap::from([(Fault::Pause, Odds { rate: 1.0, ..Odds::default() })]));
        assert!(always.strikes(Fault::Pause) && !always.strikes(Fault::CallLost));
        always.end();
        assert!(!always.strikes(Fault::Pause));
    }

    #[test]
    fn names_are_those_that_plans_write() {
        for fault in Fault::ALL {
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.name());
        }
    }
}
