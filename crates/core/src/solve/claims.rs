//! New nodes while they are being filled.
//!
//! A claim is everything it may still become: a requirement set and a total of requests. The instance types that could still
//! hold it follow from those two and are written out only at the end.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    pods: u32,
    rank: i64,
    pub(crate) claim: ClaimIndex,
}

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

    /// Whether two claims have equally many pods.
    pub(crate) fn are_tied(&self, a: ClaimIndex, b: ClaimIndex) -> bool {
        self.get(a).pods.len() == self.get(b).pods.len()
    }

    pub(crate) fn standing(&self, index: ClaimIndex) -> Standing {
        let claim = self.get(index);
        Standing { pods: claim.pods.len() as u32, rank: claim.rank, claim: index }
    }
}
