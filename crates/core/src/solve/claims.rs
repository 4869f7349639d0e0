//! New nodes while they are being filled.
//!
//! A claim is everything it may still become: a requirement set and a total of requests. The instance types that could still
//! hold it follow from those two and are written out only at the end.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::snapshot::{HostPort, Volume};
use crate::solve::bits::Bits;
use crate::solve::reqs::ReqId;

/// The number of a claim, in order of creation.
pub(crate) type ClaimIndex = u32;

/// A new node being filled.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) pool: usize,
    pub(crate) reqs: ReqId,
    /// Rows that are out of the question for other reasons than requirements and room; none means all are in.
    pub(crate) rows: Option<Rc<Bits>>,
    pub(crate) total: Vec<i64>,
    pub(crate) pods: Vec<u32>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) volumes: BTreeSet<Volume>,
    /// Reservations held while it is not certain which one will be used.
    pub(crate) reservations: BTreeSet<Arc<str>>,
    pub(crate) min_values_relaxed: bool,
    rank: i64,
}

/// Where a claim stands among the others: fewest pods first.
type Standing = Reverse<(u32, i64, ClaimIndex)>;

/// All claims of one decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    all: Vec<Claim>,
    clock: i64,
}

impl Claims {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, index: ClaimIndex) -> &Claim {
        &self.all[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: ClaimIndex) -> &mut Claim {
        &mut self.all[index as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.all.iter()
    }

    /// Opens a claim; it stands behind those that also have one pod.
    pub(crate) fn open(
        &mut self,
        pool: usize,
        reqs: ReqId,
        rows: Option<Rc<Bits>>,
        columns: usize,
    ) -> ClaimIndex {
        self.clock += 1;
        self.all.push(Claim {
            pool,
            reqs,
            rows,
            total: vec![0; columns],
            pods: Vec::new(),
            ports: Vec::new(),
            volumes: BTreeSet::new(),
            reservations: BTreeSet::new(),
            min_values_relaxed: false,
            rank: self.clock,
        });
        (self.all.len() - 1) as ClaimIndex
    }

    /// Adds a pod to a claim.
    ///
    /// COMPAT: upstream sorts its claims by pod count before each pod. A claim that gained a pod thereby ends up in front of
    /// those that already had as many, except for its first pod.
    pub(crate) fn put(&mut self, index: ClaimIndex, pod: u32, need: &[i64]) {
        self.clock += 1;
        let clock = self.clock;
        let claim = self.get_mut(index);
        if !claim.pods.is_empty() {
            claim.rank = -clock;
        }
        claim.pods.push(pod);
        for (total, need) in claim.total.iter_mut().zip(need) {
            *total += need;
        }
    }

    fn standing(&self, index: ClaimIndex) -> Standing {
        let claim = self.get(index);
        Reverse((claim.pods.len() as u32, claim.rank, index))
    }
}

/// The claims that a class may still go to, in order of standing, by requirement set.
///
/// INVARIANT: a claim is in the heap of a requirement set it once had. Requirement sets only narrow and pod counts only
/// grow, so an outdated entry is never worse than the true one: it surfaces in time and is then moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    seen: usize,
    heaps: Vec<(ReqId, BinaryHeap<Standing>)>,
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
            let all: Vec<Standing> = (0..claims.len()).map(|i| claims.standing(i as ClaimIndex)).collect();
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
        self.heaps[at].1.push(claims.standing(index));
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
            let index = top.0.2;
            let moved = !self.together && claims.get(index).reqs != reqs;
            if moved || claims.standing(index) != top {
                self.push(claims, index);
                continue;
            }
            return Some(index);
        }
    }
}
