//! Owners that were believed in vain, and are not believed for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headstart_core::demand::{Expected, Facts, Owner, Wish};

use crate::backoff::Backoff;
use crate::time::Time;

/// How long an owner is not believed, first and at most.
const PAUSES: Backoff = Backoff::millis(60_000, 1_800_000);
/// After how long without another failure all is forgiven.
const FORGIVEN: Duration = Duration::from_hours(2);

/// A source and the uid of an owner.
type Key = (&'static str, Arc<str>);

/// Owners that were believed in vain.
#[derive(Debug)]
pub(crate) struct Doubts {
    seed: u64,
    failures: BTreeMap<Key, Failure>,
    /// Beliefs that will prove right or wrong.
    open: BTreeMap<Key, Open>,
    news: Vec<(&'static str, Owner, String, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    count: u32,
    last: Time,
    until: Time,
}

/// A belief that will prove right or wrong.
#[derive(Clone, Debug)]
struct Open {
    owner: Owner,
    /// How many pods there were when it began.
    had: u32,
    /// How many there would be at most.
    peak: u32,
    /// When they were to come.
    when: i64,
}

impl Doubts {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, failures: BTreeMap::new(), open: BTreeMap::new(), news: Vec::new() }
    }

    /// Whether an owner is not believed now.
    pub(crate) fn has(&self, now: Time, source: &'static str, owner: &Owner) -> bool {
        self.failures.get(&(source, owner.uid.clone())).is_some_and(|failure| failure.until > now)
    }

    /// When an owner is believed again.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        self.failures.values().map(|failure| failure.until).filter(|until| *until > now).min()
    }

    /// Takes notice that an owner was believed in vain; as long as it is not believed anyway, that counts once.
    pub(crate) fn failed(&mut self, now: Time, source: &'static str, owner: &Owner, why: &str) {
        self.failures.retain(|_, failure| now < failure.until.max(failure.last + FORGIVEN));
        let key = (source, owner.uid.clone());
        self.open.remove(&key);
        let known = self.failures.entry(key).or_insert(Failure { count: 0, last: now, until: now });
        if known.count > 0 && known.until > now {
            return;
        }
        known.count += 1;
        known.last = now;
        let pause = PAUSES.after(known.count, self.seed, &format!("{source} {}", owner.uid));
        known.until = now + pause;
        self.news.push((source, owner.clone(), why.to_owned(), pause));
    }

    /// What has not been told yet: source, owner, why, for how long.
    pub(crate) fn news(&mut self) -> Vec<(&'static str, Owner, String, Duration)> {
        std::mem::take(&mut self.news)
    }

    /// Compares what was believed with what has become of it.
    pub(crate) fn follow(
        &mut self,
        now: Time,
        expected: &[Expected],
        facts: &Facts,
        has: impl Fn(&Owner) -> u32,
    ) {
        // Pods that have done their work came as well.
        let has = |owner: &Owner| has(owner).saturating_add(succeeded(facts, owner));
        let mut over = std::mem::take(&mut self.open);
        for expected in expected {
            let key = (expected.source, expected.owner.uid.clone());
            let (had, when) = match expected.source {
                "gap" => (has(&expected.owner), expected.when),
                "cronjob" => (0, expected.when),
                // Room that is kept is no prophecy.
                _ => continue,
            };
            let known = over.remove(&key).filter(|known| expected.source == "gap" || known.when == when);
            let mut open = known.unwrap_or(Open { owner: expected.owner.clone(), had, peak: had, when });
            open.peak = open.peak.max(had.saturating_add(expected.count));
            self.open.insert(key, open);
        }
        for ((source, uid), open) in over {
            if came_true(source, &open, facts, has) {
                self.failures.remove(&(source, uid));
            } else {
                let why = "what was expected of it did not come";
                self.failed(now, source, &open.owner, why);
            }
        }
    }
}

/// How many pods of a job have succeeded.
fn succeeded(facts: &Facts, owner: &Owner) -> u32 {
    let maker = facts.makers.iter().find(|maker| maker.owner.uid == owner.uid);
    match maker.map(|maker| maker.wish) {
        Some(Wish::Job { succeeded, .. }) => u32::try_from(succeeded).unwrap_or(0),
        _ => 0,
    }
}

/// Whether at least half of what was believed has come.
fn came_true(source: &str, open: &Open, facts: &Facts, has: impl Fn(&Owner) -> u32) -> bool {
    if source == "cronjob" {
        let schedule = facts.schedules.iter().find(|schedule| schedule.owner.uid == open.owner.uid);
        return schedule.is_some_and(|schedule| schedule.last >= open.when);
    }
    let came = has(&open.owner).saturating_sub(open.had);
    came.saturating_mul(2) >= open.peak - open.had
}

#[cfg(test)]
mod tests {
    use headstart_core::demand::{Maker, Template};

    use super::*;

    fn owner() -> Owner {
        Owner { uid: "u".into(), ..Owner::default() }
    }

    fn facts(wish: Wish, has: u32) -> Facts {
        let template = Ok(Template::default());
        let maker = Maker { owner: owner(), wish, has, template, trouble: None, stalled: 0 };
        Facts { makers: vec![maker], ..Facts::default() }
    }

    /// What is known at a second about an owner that wants and has so many pods.
    fn step(doubts: &mut Doubts, second: u64, wants: i64, has: u32) -> bool {
        look(doubts, second, Wish::Replicas(wants), has)
    }

    fn look(doubts: &mut Doubts, second: u64, wish: Wish, has: u32) -> bool {
        let (now, facts) = (Time(second * 1000), facts(wish, has));
        let expected = headstart_core::demand::expect(&facts).expected;
        doubts.follow(now, &expected, &facts, |_| has);
        doubts.has(now, "gap", &owner())
    }

    #[test]
    fn an_owner_whose_pods_come_is_believed() {
        let mut doubts = Doubts::new(7);
        for (second, has) in [(1, 0), (2, 30), (3, 90), (4, 100), (5, 100)] {
            assert!(!step(&mut doubts, second, 100, has), "at second {second}");
        }
        assert!(!step(&mut doubts, 6, 200, 100), "it may grow again");
    }

    #[test]
    fn a_job_whose_pods_end_quickly_is_believed() {
        let mut doubts = Doubts::new(7);
        let job = |succeeded, is_idle| Wish::Job {
            parallelism: Some(50),
            completions: Some(50),
            succeeded,
            is_idle,
        };
        assert!(!look(&mut doubts, 1, job(0, false), 0));
        assert!(!look(&mut doubts, 2, job(50, true), 0), "all of them came, and went");
        let mut doubts = Doubts::new(7);
        look(&mut doubts, 1, job(0, false), 0);
        assert!(look(&mut doubts, 2, job(10, true), 0), "most of them never came");
    }

    #[test]
    fn an_owner_that_scales_up_and_back_is_believed_less_and_less() {
        let mut doubts = Doubts::new(7);
        step(&mut doubts, 1, 100, 0);
        assert!(step(&mut doubts, 2, 10, 10), "90 of 100 did not come");
        let first = doubts.next(Time(2_000)).unwrap() - Time(2_000);
        assert!(!step(&mut doubts, 100, 10, 10));
        step(&mut doubts, 101, 100, 10);
        assert!(step(&mut doubts, 102, 10, 10));
        let second = doubts.next(Time(102_000)).unwrap() - Time(102_000);
        assert!(second > first + first / 4, "{first:?}, then {second:?}");
        assert_eq!(doubts.news().len(), 2);
    }
}
