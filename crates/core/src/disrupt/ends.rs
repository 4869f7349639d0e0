//! Nodes that go before their replacement comes, because only their end makes room for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::InstanceType;
use crate::disrupt::pass::Pass;
use crate::disrupt::{Fixed, Reason, TerminateFirst};
use crate::labels::{CAPACITY_TYPE, RESERVED};
use crate::plan::PlannedNode;
use crate::requirement::Requirement;
use crate::snapshot::{Reserved, Snapshot};
use crate::solve::{Answer, Question, Without};
use crate::types::Types;

impl Pass<'_> {
    /// Where the pods of a node on reserved capacity go once it has given that back, if only then all have a place.
    ///
    /// COMPAT: upstream's `SimulateSchedulingWithReservedFallback` (v1.15): strictly within reservations, so that nothing is
    /// ended in vain.
    pub(super) fn ends_first(&self, member: u32, reason: Reason) -> Option<Vec<PlannedNode>> {
        // What else was decided in this pass is not known to a new question.
        if !self.may_end_first(reason) || !self.decision.moves.is_empty() {
            return None;
        }
        let reservation = self.reservation(member)?;
        let fleet = self.fleet;
        let snapshot = with_one_more(&fleet.snapshot, &reservation)?;
        let mut without = Without::new(&snapshot, fleet.waiting);
        for other in fleet.members.iter().filter(|other| self.without.is_closed(other.node)) {
            without.close(other.node);
        }
        let of = self.member(member);
        let pods: Vec<u32> = self.movers(member, reason).collect();
        let credit = [(&*of.pool, &*of.capacity)];
        let question =
            Question { gone: &[of.node], pods: &pods, credit: &credit, most_claims: usize::MAX, homes: None };
        let Answer::Placed { existing, .. } = without.ask(&question) else { return None };
        existing.iter().all(|on| snapshot.nodes[on.node as usize].initialized).then_some(existing)
    }

    /// Decides that a node goes though nothing takes its place yet.
    pub(super) fn end_first(
        &mut self,
        member: u32,
        reason: Reason,
        because: TerminateFirst,
        existing: Vec<PlannedNode>,
    ) {
        let is_taken = self.take(member, reason, Vec::new(), Some(because));
        if let Some(chosen) = self.decision.moves.last_mut().filter(|_| is_taken) {
            chosen.existing = existing;
        }
    }

    /// The reservation that a node uses.
    fn reservation(&self, member: u32) -> Option<Arc<str>> {
        let snapshot = &self.fleet.snapshot;
        let labels = &snapshot.nodes[self.member(member).node as usize].labels;
        let is_reserved = labels.get(CAPACITY_TYPE).is_some_and(|kind| **kind == *RESERVED);
        let id = labels.get(&snapshot.options.reservation_label).filter(|id| is_reserved && !id.is_empty());
        id.cloned()
    }

    pub(super) fn holds_one_of(&self, member: u32, offered: &BTreeSet<Arc<str>>) -> bool {
        self.reservation(member).is_some_and(|id| offered.contains(&id))
    }

    /// The reservations that a pool may use, if it may use nothing else and all of them are full.
    ///
    /// COMPAT: a pool that may use other capacity waits for that, even while there is none (v1.15, `staticReservations`).
    pub(super) fn reservations(&self, fixed: &Fixed) -> Option<BTreeSet<Arc<str>>> {
        let snapshot = &self.fleet.snapshot;
        let asked = &fixed.replacement.requirements;
        let mut offered = BTreeSet::new();
        for known in fixed.types.iter().filter(|known| known.requirements.intersects(asked).is_ok()) {
            for offering in &known.offerings {
                if asked.compatible(&offering.requirements, &snapshot.well_known).is_err() {
                    continue;
                }
                if !offering.is_reserved() || offering.launchable() {
                    return None;
                }
                if offering.available {
                    let label = &snapshot.options.reservation_label;
                    let id = offering.requirements.get(label).and_then(Requirement::single);
                    offered.insert(id.unwrap_or_default().into());
                }
            }
        }
        Some(offered)
    }
}

/// The same with one more place in a reservation, where pods wait for reservations; `None` if nobody uses any.
fn with_one_more(snapshot: &Snapshot, reservation: &str) -> Option<Snapshot> {
    if snapshot.options.reserved == Reserved::Off {
        return None;
    }
    let mut changed = snapshot.clone();
    changed.options.reserved = Reserved::Strict;
    let label = &snapshot.options.reservation_label;
    let more = |known: &Arc<InstanceType>| {
        let mut known = known.clone();
        let is_it = |requirement: Option<&Requirement>| {
            requirement.and_then(Requirement::single) == Some(reservation)
        };
        if known.offerings.iter().any(|offering| is_it(offering.requirements.get(label))) {
            for offering in &mut Arc::make_mut(&mut known).offerings {
                let adds = offering.is_reserved() && is_it(offering.requirements.get(label));
                offering.reservation_capacity += u32::from(adds);
            }
        }
        known
    };
    for pool in &mut changed.pools {
        pool.types = Arc::new(Types::new(pool.types.iter().map(more).collect()));
    }
    Some(changed)
}
