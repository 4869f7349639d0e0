//! Claims in one line for all classes that have few pods.
//!
//! A class with many pods remembers which claims are out for it ([`candidates`](super::candidates)). For a class with few
//! that costs more than it saves: it asks the claims in order of standing, like all its kind. Pods come with the largest
//! first, so most claims lack processor for a while, until pods have become small enough; so long they sleep.

use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};

use crate::solve::amounts::{CPU_COLUMN, fits};
use crate::solve::claims::{ClaimIndex, Claims, Standing};
use crate::solve::classes::{Class, Classes};

/// Most pods of a class that has no list of its own.
const FEW: u32 = 4;

/// Claims that classes with few pods may still go to.
///
/// INVARIANT: every claim that can still take a pod is in `awake`, with a standing it once had, or in `asleep`, with at least
/// the processor it has left, which is less than `asked`. A claim never gets a better standing, nor more room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    seen: usize,
    awake: BTreeSet<Standing>,
    asleep: BinaryHeap<(i64, ClaimIndex)>,
    /// The least processor that a class in the line has asked for so far.
    asked: Option<i64>,
    /// The least that any class asks for, in every column.
    least: Vec<i64>,
}

impl Line {
    pub(crate) fn new(classes: &Classes, columns: usize) -> Self {
        let least = (0..columns).map(|at| classes.all.iter().map(|class| class.need[at]).min().unwrap_or(0));
        Self { least: least.collect(), ..Self::default() }
    }

    /// Whether a class has no list of its own.
    pub(crate) fn is_for(class: &Class) -> bool {
        class.size <= FEW
    }

    /// Takes notice of new claims and wakes those that have processor for a pod with this need.
    pub(crate) fn update(&mut self, claims: &Claims, need: &[i64]) {
        let asked = need[CPU_COLUMN].min(self.asked.unwrap_or(i64::MAX));
        self.asked = Some(asked);
        while let Some((_, claim)) = self.asleep.peek().filter(|(left, _)| *left >= asked) {
            self.awake.insert(claims.standing(*claim));
            self.asleep.pop();
        }
        self.awake.extend((self.seen..claims.len()).map(|claim| claims.standing(claim as ClaimIndex)));
        self.seen = claims.len();
    }

    /// The claim that stands next after another one.
    pub(crate) fn next(&mut self, claims: &Claims, after: Option<Standing>) -> Option<Standing> {
        loop {
            let next = match after {
                Some(after) => *self.awake.range((Excluded(after), Unbounded)).next()?,
                None => *self.awake.first()?,
            };
            let now = claims.standing(next.claim);
            if now == next {
                return Some(next);
            }
            self.awake.remove(&next);
            self.awake.insert(now);
        }
    }

    /// Whether a claim is worth asking, of which so much is taken of the most it may have. If not, it sleeps until it is, or
    /// leaves for good.
    pub(crate) fn keeps(&mut self, claim: Standing, total: &[i64], most: &[i64]) -> bool {
        let processor = most[CPU_COLUMN] - total[CPU_COLUMN];
        let is_full = !fits(total, &self.least, most);
        let sleeps = self.asked.is_some_and(|asked| processor < asked);
        if is_full || sleeps {
            self.awake.remove(&claim);
        }
        if sleeps && !is_full {
            self.asleep.push((processor, claim.claim));
        }
        !is_full && !sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::reqs::ReqId;

    /// Claims with one pod each that takes so much processor.
    fn claims(taken: &[i64]) -> Claims {
        let mut claims = Claims::default();
        for (pod, taken) in (0..).zip(taken) {
            let claim = claims.open(0, ReqId::NONE, None, 1);
            claims.put(claim, pod, &[*taken]);
        }
        claims
    }

    /// The claims that are asked, in order, for a pod with this need, if each may have four of processor.
    fn asked(line: &mut Line, claims: &Claims, need: i64) -> Vec<ClaimIndex> {
        line.update(claims, &[need]);
        let (mut asked, mut last) = (Vec::new(), None);
        while let Some(next) = line.next(claims, last) {
            last = Some(next);
            if line.keeps(next, &claims.get(next.claim).total, &[4]) {
                asked.push(next.claim);
            }
        }
        asked
    }

    #[test]
    fn a_claim_sleeps_until_pods_are_small_enough() {
        let (claims, mut line) = (claims(&[3, 1]), Line { least: vec![1], ..Line::default() });
        assert_eq!(asked(&mut line, &claims, 2), [1]);
        assert_eq!(asked(&mut line, &claims, 1), [0, 1]);
    }

    #[test]
    fn a_claim_without_room_for_anybody_leaves() {
        let (claims, mut line) = (claims(&[3, 1]), Line { least: vec![2], ..Line::default() });
        assert_eq!(asked(&mut line, &claims, 2), [1]);
        assert!(line.asleep.is_empty() && line.awake.len() == 1);
    }

    #[test]
    fn new_claims_join_and_fuller_ones_fall_behind() {
        let (mut claims, mut line) = (claims(&[1, 1]), Line { least: vec![1], ..Line::default() });
        assert_eq!(asked(&mut line, &claims, 1), [0, 1]);
        claims.put(0, 9, &[1]);
        let newcomer = claims.open(0, ReqId::NONE, None, 1);
        claims.put(newcomer, 8, &[1]);
        assert_eq!(asked(&mut line, &claims, 1), [1, 2, 0]);
    }
}
