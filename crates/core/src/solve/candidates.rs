//! The claims that a class with many pods may still go to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use crate::solve::claims::{ClaimIndex, Claims, Standing};
use crate::solve::reqs::ReqId;

/// The claims that a class may still go to, in order of standing, by requirement set.
///
/// INVARIANT: a claim is in the heap of a requirement set it once had. Requirement sets only narrow and pod counts only
/// grow, so an outdated entry is never worse than the true one: it surfaces in time and is then moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    seen: usize,
    heaps: Vec<(ReqId, BinaryHeap<Reverse<Standing>>)>,
    by_reqs: FxHashMap<ReqId, usize>,
    /// All claims in one heap, when only room decides.
    together: bool,
}

impl Candidates {
    pub(crate) fn new(together: bool) -> Self {
        Self { together, ..Self::default() }
    }

    /// Takes notice of claims opened since the last call.
    pub(crate) fn update(&mut self, claims: &Claims) {
        let first = self.seen == 0;
        if first && self.together {
            let all: Vec<_> = (0..claims.len()).map(|i| Reverse(claims.standing(i as ClaimIndex))).collect();
            self.heaps = vec![(ReqId::NONE, all.into())];
            self.by_reqs.insert(ReqId::NONE, 0);
        } else {
            for index in self.seen..claims.len() {
                self.push(claims, index as ClaimIndex);
            }
        }
        self.seen = claims.len();
    }

    /// Puts a claim where it belongs now.
    pub(crate) fn push(&mut self, claims: &Claims, index: ClaimIndex) {
        let reqs = if self.together { ReqId::NONE } else { claims.get(index).reqs };
        let heaps = &mut self.heaps;
        let at = *self.by_reqs.entry(reqs).or_insert_with(|| {
            heaps.push((reqs, BinaryHeap::new()));
            heaps.len() - 1
        });
        self.heaps[at].1.push(Reverse(claims.standing(index)));
    }

    /// Takes out the claim that stands first among those whose requirement set is `open`.
    pub(crate) fn pop(&mut self, claims: &Claims, mut open: impl FnMut(ReqId) -> bool) -> Option<ClaimIndex> {
        loop {
            let tops = self
                .heaps
                .iter()
                .enumerate()
                .filter_map(|(at, (reqs, heap))| Some((at, *reqs, *heap.peek()?)));
            let (at, reqs, top) = if self.together {
                tops.into_iter().next()?
            } else {
                tops.filter(|(_, reqs, _)| open(*reqs)).max_by_key(|(_, _, top)| *top)?
            };
            self.heaps[at].1.pop();
            let index = top.0.claim;
            let moved = !self.together && claims.get(index).reqs != reqs;
            if moved || claims.standing(index) != top.0 {
                self.push(claims, index);
                continue;
            }
            return Some(index);
        }
    }
}
