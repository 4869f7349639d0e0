//! Everything that was observed, in bounded memory.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Belief, Decision, Observation, Sample, State};
use crate::settings::Mode;
use crate::time::Wall;

/// How many decisions are remembered.
const DECISIONS: usize = 1_000;
/// How many samples are; when there are more, every other one of the older half is left out.
const SAMPLES: usize = 4_000;

/// Everything that was observed: what `/observations` answers, and what reports are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// What becomes of decisions.
    pub mode: Mode,
    /// Where prices come from.
    pub catalog: String,
    /// What about the prices is a model and no list price.
    pub modelled: Vec<String>,
    /// When it began.
    pub from: Wall,
    /// When it was asked for.
    pub to: Wall,
    /// Decisions, the oldest first.
    pub decisions: VecDeque<Decision>,
    /// How many older ones have been left out.
    pub dropped: u64,
    /// The state of affairs over time; what is older is told in larger steps.
    pub samples: Vec<Sample>,
    /// What each source has been right and wrong about.
    pub beliefs: Vec<Belief>,
    /// The same of earlier processes.
    #[serde(skip)]
    before: Vec<Belief>,
}

impl History {
    /// Takes in one more; what it comes to.
    pub fn take(&mut self, observation: Observation) -> Observation {
        match &observation {
            Observation::Decision(decision) => self.take_decision(decision),
            Observation::Sample(sample) => {
                self.samples.push((**sample).clone());
                if self.samples.len() > SAMPLES {
                    self.thin();
                }
            }
            Observation::Beliefs(beliefs) => {
                self.beliefs = joined(beliefs, &self.before);
                return Observation::Beliefs(self.beliefs.clone());
            }
        }
        observation
    }

    fn take_decision(&mut self, decision: &Decision) {
        match self.decisions.iter_mut().rev().find(|known| known.id == decision.id) {
            Some(known) => *known = decision.clone(),
            None => self.decisions.push_back(decision.clone()),
        }
        if self.decisions.len() > DECISIONS {
            self.decisions.pop_front();
            self.dropped += 1;
        }
    }

    fn thin(&mut self) {
        let (half, mut at) = (self.samples.len() / 2, 0);
        self.samples.retain(|_| {
            at += 1;
            at > half || at % 2 == 1
        });
    }

    /// Takes everything so far as another process's: its beliefs are added to ours, and nobody follows its decisions.
    pub fn inherit(&mut self) {
        self.before.clone_from(&self.beliefs);
        for decision in self.decisions.iter_mut().filter(|decision| decision.state == State::Open) {
            decision.state = if decision.waiting > 0 { State::Overdue } else { State::Done };
        }
    }

    /// All of it, as it could have been told one by one.
    pub fn told(&self) -> impl Iterator<Item = Observation> {
        let decisions = self.decisions.iter().map(|one| Observation::Decision(Box::new(one.clone())));
        let samples = self.samples.iter().map(|one| Observation::Sample(Box::new(one.clone())));
        decisions.chain(samples).chain([Observation::Beliefs(self.beliefs.clone())])
    }
}

fn joined(beliefs: &[Belief], before: &[Belief]) -> Vec<Belief> {
    let mut all = before.to_vec();
    for belief in beliefs {
        match all.iter_mut().find(|known| known.source == belief.source) {
            Some(known) => known.join(belief),
            None => all.push(belief.clone()),
        }
    }
    all.sort_by(|one, other| one.source.cmp(&other.source));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(id: u64, bound: u32) -> Observation {
        Observation::Decision(Box::new(Decision { id, bound, ..Decision::default() }))
    }

    fn sample(at: i64) -> Observation {
        Observation::Sample(Box::new(Sample { at: Wall(at), ..Sample::default() }))
    }

    #[test]
    fn a_decision_replaces_what_was_told_of_it_and_the_oldest_are_counted() {
        let mut history = History::default();
        for id in 1..=1_003 {
            history.take(decision(id, 0));
        }
        history.take(decision(1_000, 7));
        assert_eq!((history.decisions.len(), history.dropped), (1_000, 3));
        assert_eq!(history.decisions.front().map(|first| first.id), Some(4));
        assert_eq!(history.decisions.iter().find(|one| one.id == 1_000).map(|one| one.bound), Some(7));
    }

    #[test]
    fn what_is_older_is_told_in_larger_steps() {
        let mut history = History::default();
        for at in 0..100_000 {
            history.take(sample(at));
        }
        assert!(history.samples.len() <= SAMPLES, "{}", history.samples.len());
        assert!(history.samples.is_sorted_by_key(|sample| sample.at));
        assert_eq!(history.samples.first().map(|sample| sample.at), Some(Wall(0)));
        let last: Vec<i64> = history.samples.iter().rev().take(3).map(|sample| sample.at.0).collect();
        assert_eq!(last, [99_999, 99_998, 99_997]);
    }

    #[test]
    fn what_another_process_believed_is_added() {
        let beliefs = |arrived| {
            let belief = Belief { source: "gap".to_owned(), expected: 10, arrived, ..Belief::default() };
            Observation::Beliefs(vec![belief])
        };
        let mut history = History::default();
        history.take(beliefs(4));
        history.inherit();
        history.take(beliefs(1));
        history.take(beliefs(2));
        assert_eq!((history.beliefs[0].expected, history.beliefs[0].arrived), (20, 6));
    }
}
