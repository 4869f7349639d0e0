//! Capacity that was paid for in advance and is counted.
//!
//! Which of several reservations a claim will use is known only at launch, so a claim holds one of each that it may use and
//! gives back those that it narrows away from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::requirement::Requirement;
use crate::snapshot::Reserved;
use crate::solve::bits::Bits;
use crate::solve::problem::Problem;
use crate::solve::reqs::ReqId;

/// How much of each reservation nobody holds.
#[derive(Clone, Debug)]
pub(crate) struct Reservations {
    mode: Reserved,
    left: BTreeMap<Arc<str>, u32>,
    version: u32,
}

/// Why a claim may not take a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// Somebody holds what the pod should wait for.
    Wait,
    /// There is nothing but reservations that are used up.
    Full,
}

impl Reservations {
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        let mut left: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        let label = &problem.snapshot.options.reservation_label;
        for pool in problem.pools.iter().filter(|pool| pool.reserved) {
            let offerings = pool.pool.types.iter().flat_map(|instance_type| &instance_type.offerings);
            for offering in offerings.filter(|offering| offering.is_reserved()) {
                let id = offering.requirements.get(label).and_then(Requirement::single).unwrap_or_default();
                let capacity = offering.reservation_capacity;
                left.entry(id.into()).and_modify(|known| *known = (*known).min(capacity)).or_insert(capacity);
            }
        }
        Self { mode: problem.snapshot.options.reserved, left, version: 0 }
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// The reservations that a claim with these rows would hold.
    pub(crate) fn wanted(
        &self,
        problem: &mut Problem<'_>,
        pool: usize,
        reqs: ReqId,
        rows: &Bits,
        held: &BTreeSet<Arc<str>>,
    ) -> Result<BTreeSet<Arc<str>>, Withheld> {
        if self.mode == Reserved::Off || !problem.pools[pool].reserved {
            return Ok(BTreeSet::new());
        }
        let label = problem.snapshot.options.reservation_label.clone();
        let requirements = problem.reqs.get(reqs).clone();
        let usable = problem.pools[pool].rows.usable_offerings(&requirements, &problem.reqs);
        let (mut some_left, mut some_full, mut other) = (false, false, false);
        let mut wanted = BTreeSet::new();
        for (offering, _) in problem.pools[pool].rows.offerings_of(rows).filter(|(_, at)| usable.has(*at)) {
            if !offering.is_reserved() {
                other = true;
            } else if offering.reservation_capacity == 0 {
                some_full = true;
            } else {
                some_left = true;
                let id = offering.requirements.get(&label).and_then(Requirement::single).unwrap_or_default();
                if held.contains(id) || self.left.get(id).is_some_and(|left| *left > 0) {
                    wanted.insert(id.into());
                }
            }
        }
        let strict = self.mode == Reserved::Strict;
        if strict && some_left && wanted.is_empty() {
            return Err(Withheld::Wait);
        }
        if some_full && !some_left && !other {
            return Err(if strict { Withheld::Wait } else { Withheld::Full });
        }
        if strict && !held.is_empty() && wanted.is_empty() {
            return Err(Withheld::Wait);
        }
        Ok(wanted)
    }

    /// Lets a claim hold these reservations instead of those it held.
    pub(crate) fn hold(&mut self, held: &mut BTreeSet<Arc<str>>, wanted: BTreeSet<Arc<str>>) {
        if *held == wanted {
            return;
        }
        for id in held.difference(&wanted) {
            *self.left.entry(id.clone()).or_default() += 1;
        }
        for id in wanted.difference(held) {
            self.left.entry(id.clone()).and_modify(|left| *left = left.saturating_sub(1));
        }
        *held = wanted;
        self.version += 1;
    }
}
