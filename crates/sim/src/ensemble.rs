//! Many runs: each seed is drawn, played, some of them twice, and all faults are counted.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::brain::Nursery;
use crate::checks::Violation;
use crate::fault::Fault;
use crate::plan::{Deed, Plan, Profile};
use crate::swarm;
use crate::verdict::{self, Verdict};

/// One run in so many is played twice.
const TWICE: u64 = 20;

/// What many runs gave together.
#[derive(Debug, Default)]
pub struct Ensemble {
    /// How many there were.
    pub runs: u64,
    /// How many claims were made.
    pub claims: u64,
    /// How many runs made none.
    pub empty: u64,
    /// How many instances were bought.
    pub instances: u64,
    /// How many pods there were.
    pub pods: u64,
    /// How much virtual time passed, in milliseconds.
    pub virtual_ms: u64,
    /// How often each fault struck.
    pub faults: BTreeMap<Fault, u64>,
    /// How often each deed was done.
    pub deeds: BTreeMap<&'static str, u64>,
    /// Which runs broke a law.
    pub failures: Vec<Failure>,
}

/// A run that broke a law.
#[derive(Debug)]
pub struct Failure {
    /// What was played.
    pub plan: Plan,
    /// The law.
    pub violation: Violation,
}

/// Plays the plan of a seed; one in twenty is played again and must go the same way.
pub fn try_seed(seed: u64, profile: Profile, nursery: Nursery<'_>) -> (Plan, Verdict) {
    let plan = swarm::draw(seed, profile);
    let verdict = try_plan(&plan, nursery, seed.is_multiple_of(TWICE), false);
    (plan, verdict)
}

/// Plays a plan, perhaps twice; a panic is a broken law like any other.
pub fn try_plan(plan: &Plan, nursery: Nursery<'_>, twice: bool, traced: bool) -> Verdict {
    let once = || match verdict::catalog(plan) {
        Ok(catalog) => verdict::play(plan, &catalog, nursery, traced),
        Err(error) => Verdict::failed("catalog", error.to_string()),
    };
    let guarded = || {
        catch_unwind(AssertUnwindSafe(once)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
            Verdict::failed("no_panic", text.to_owned())
        })
    };
    let mut verdict = guarded();
    if twice && verdict.violation.is_none() {
        let again = guarded();
        if again.digest != verdict.digest {
            let message = format!("digests {:016x} and {:016x}", verdict.digest, again.digest);
            verdict.violation = Verdict::failed("same_twice", message).violation;
        }
    }
    verdict
}

impl Ensemble {
    /// Adds a run.
    pub fn add(&mut self, plan: Plan, verdict: Verdict) {
        self.runs += 1;
        self.claims += verdict.claims;
        self.empty += u64::from(verdict.claims == 0);
        self.instances += verdict.instances as u64;
        self.pods += verdict.pods as u64;
        self.virtual_ms += verdict.ended.0;
        for (fault, count) in verdict.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (deed, count) in verdict.deeds {
            *self.deeds.entry(deed).or_default() += count;
        }
        if let Some(violation) = verdict.violation {
            self.failures.push(Failure { plan, violation });
        }
    }

    /// Faults and deeds that never happened in any run.
    pub fn missing(&self) -> Vec<&'static str> {
        let faults = Fault::ALL.iter().filter(|fault| !self.faults.contains_key(fault)).map(|f| f.name());
        let deeds = Deed::NAMES.iter().filter(|deed| !self.deeds.contains_key(*deed)).copied();
        // Some worlds have no room for anything, but most must.
        let idle = (self.empty * 5 > self.runs).then_some("claims in most runs");
        faults.chain(deeds).chain(idle).collect()
    }
}
