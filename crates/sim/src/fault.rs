//! Everything that can go wrong by itself, and when it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use headstart_core::hash;
use rustc_hash::FxHashMap;
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
    /// A node falls sick for good.
    NodeSickens = "node-sickens",
    /// A node needs to be restarted.
    NodeHangs = "node-hangs",
    /// A node's kubelet stops for good.
    KubeletStops = "kubelet-stops",
    /// The cloud does not restart instances of this kind.
    RebootRefused = "reboot-refused",
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
///
/// What decides is the object concerned and how often it has been concerned, so that the same object meets the same fate in
/// another run however much else differs.
#[derive(Debug)]
pub struct Mischief {
    lines: Vec<Line>,
    over: bool,
}

#[derive(Debug)]
struct Line {
    odds: Odds,
    seed: u64,
    /// How often each object has been concerned.
    concerned: FxHashMap<u64, u64>,
    dice: Dice,
    occasions: u64,
    fired: u64,
}

impl Mischief {
    /// The mischief of a run.
    pub fn new(seed: u64, odds: &BTreeMap<Fault, Odds>) -> Self {
        let line = |fault: &Fault| Line {
            odds: odds.get(fault).cloned().unwrap_or_default(),
            seed: hash::stable(&[&seed.to_string(), fault.name()]),
            concerned: FxHashMap::default(),
            dice: Dice::new(seed, fault.name()),
            occasions: 0,
            fired: 0,
        };
        Self { lines: Fault::ALL.iter().map(line).collect(), over: false }
    }

    /// Whether a fault strikes an object at this occasion.
    pub fn strikes(&mut self, fault: Fault, object: &str) -> bool {
        let line = &mut self.lines[fault as usize];
        if self.over || (line.odds.rate <= 0.0 && line.odds.at.is_empty()) {
            return false;
        }
        line.occasions += 1;
        let object = hash::stable(&[object]);
        let nth = line.concerned.entry(object).or_default();
        *nth += 1;
        line.dice = Dice::from(hash::mix(line.seed ^ object.wrapping_add(*nth)));
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
        let strikes: Vec<bool> = (0..3).map(|_| mischief.strikes(Fault::CallLost, "a")).collect();
        assert_eq!(strikes, [false, true, false]);
        assert_eq!(mischief.fired(), BTreeMap::from([(Fault::CallLost, 1)]));
        let mut always =
            Mischief::new(1, &BTreeMap::from([(Fault::Pause, Odds { rate: 1.0, ..Odds::default() })]));
        assert!(always.strikes(Fault::Pause, "a") && !always.strikes(Fault::CallLost, "a"));
        always.end();
        assert!(!always.strikes(Fault::Pause, "a"));
    }

    #[test]
    fn an_object_meets_the_same_fate_whatever_happens_to_others() {
        let odds = BTreeMap::from([(Fault::CallLost, Odds { rate: 0.5, ..Odds::default() })]);
        let fates = |others: usize| -> Vec<bool> {
            let mut mischief = Mischief::new(7, &odds);
            let mut fate = |_| {
                for n in 0..others {
                    mischief.strikes(Fault::CallLost, &format!("other-{n}"));
                }
                mischief.strikes(Fault::CallLost, "it")
            };
            (0..40).map(&mut fate).collect()
        };
        assert_eq!(fates(0), fates(3));
        assert!(fates(0).contains(&true) && fates(0).contains(&false));
    }

    #[test]
    fn names_are_those_that_plans_write() {
        for fault in Fault::ALL {
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.name());
        }
    }
}
