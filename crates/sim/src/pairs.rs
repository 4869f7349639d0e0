//! The same worlds twice: once with nodes for pods that exist only, once also for pods that are expected.

use crate::brain::Nursery;
use crate::checks::Violation;
use crate::ensemble::try_plan;
use crate::plan::{Ahead, Deed, Plan, Profile, Step};
use crate::swarm;
use crate::waits::Waits;

/// One world, played both ways.
#[derive(Debug)]
pub struct Pair {
    /// What was played, without expectations.
    pub plan: Plan,
    /// How pods waited when only those counted that existed.
    pub without: Waits,
    /// How pods waited when others were expected too.
    pub with: Waits,
    /// A law that was broken in either.
    pub violation: Option<Violation>,
}

/// What many pairs gave together.
#[derive(Debug, Default)]
pub struct Pairs {
    /// How many there were.
    pub count: u64,
    without: Vec<u64>,
    with: Vec<u64>,
}

/// Total and ninety-fifth percentile of waiting times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many pods got a node.
    pub pods: usize,
    /// How long they waited together.
    pub total: f64,
    /// How long all but five in a hundred waited at most.
    pub p95: f64,
}

/// One side of a pair: the world of a seed without or with expectations.
pub fn side(seed: u64, profile: Profile, with: bool) -> Plan {
    let mut plan = swarm::draw(seed, profile);
    // In a calm run everything that is bought must be used, and room is not.
    let threshold = if profile == Profile::Calm { 100 } else { 80 };
    plan.knobs.ahead = with.then_some(Ahead { threshold, cents: None });
    plan
}

/// Plays a seed both ways; faults strike the same objects.
pub fn play(seed: u64, profile: Profile, nursery: Nursery<'_>) -> Pair {
    let (off, on) = (side(seed, profile, false), side(seed, profile, true));
    let (without, with) = (try_plan(&off, nursery, false, false), try_plan(&on, nursery, false, false));
    let violation = without.violation.or(with.violation);
    Pair { plan: off, without: without.waits, with: with.waits, violation }
}

impl Pair {
    /// The workload of which pods wait in the end only because others were expected.
    ///
    /// Where pools have limits, who gets in depends on everything that was bought before, by chance as much as for others; that
    /// nodes without pods give way there is another law's business.
    pub fn left_waiting(&self) -> Option<&str> {
        if is_limited(&self.plan) {
            return None;
        }
        let waits_in_both = |app: &str| self.without.still.contains_key(app);
        self.with.still.keys().map(String::as_str).find(|app| !waits_in_both(app))
    }
}

impl Pairs {
    /// Adds a pair.
    pub fn add(&mut self, pair: Pair) {
        self.count += 1;
        self.without.extend(pair.without.millis);
        self.with.extend(pair.with.millis);
    }

    /// How pods waited, without and with expectations.
    pub fn summary(&mut self) -> (Summary, Summary) {
        (summary(&mut self.without), summary(&mut self.with))
    }
}

fn is_limited(plan: &Plan) -> bool {
    let limits = |step: &Step| matches!(step.deed, Deed::LimitPool { cpu: Some(_), .. });
    plan.pools.iter().any(|pool| pool.limit_cpu.is_some()) || plan.steps.iter().any(limits)
}

fn summary(millis: &mut [u64]) -> Summary {
    millis.sort_unstable();
    let at = (millis.len() * 95 / 100).min(millis.len().saturating_sub(1));
    Summary {
        pods: millis.len(),
        total: millis.iter().sum::<u64>() as f64 / 1000.0,
        p95: millis.get(at).copied().unwrap_or_default() as f64 / 1000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_summed_up_over_all_pairs() {
        let waits = |millis: &[u64]| Waits { millis: millis.to_vec(), ..Waits::default() };
        let mut pairs = Pairs::default();
        for n in 0..20 {
            let (without, with) = (waits(&[1000 * n, 500]), waits(&[500 * n]));
            let plan = swarm::draw(n, Profile::Calm);
            pairs.add(Pair { plan, without, with, violation: None });
        }
        let (without, with) = pairs.summary();
        assert_eq!((without.pods, without.total, without.p95), (40, 200.0, 18.0));
        assert_eq!((with.pods, with.total, with.p95), (20, 95.0, 9.5));
    }

    #[test]
    fn whoever_waits_only_because_of_expectations_is_named() {
        let still = |apps: &[&str]| Waits {
            still: apps.iter().map(|app| ((*app).to_owned(), 1)).collect(),
            ..Waits::default()
        };
        let of = |without: &[&str], with: &[&str]| {
            let (without, with) = (still(without), still(with));
            let mut plan = swarm::draw(1, Profile::Calm);
            plan.pools.iter_mut().for_each(|pool| pool.limit_cpu = None);
            plan.steps.clear();
            let pair = Pair { plan, without, with, violation: None };
            pair.left_waiting().map(str::to_owned)
        };
        assert_eq!(of(&["a"], &["a"]), None);
        assert_eq!(of(&["a"], &["a", "b"]), Some("b".to_owned()));
    }
}
