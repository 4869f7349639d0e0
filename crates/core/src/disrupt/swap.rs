//! Replacing nodes of pools that keep a number of them: one for one, whatever the pods need.

use crate::disrupt::pass::{Pass, Rehoused};
use crate::disrupt::{Fixed, Reason, Size, TerminateFirst, Why};
use crate::plan::PlannedClaim;
use crate::solve::{Answer, Question};

impl Pass<'_> {
    /// Replaces nodes that are no longer what their pool asks for, as many at once as budgets and limits allow.
    pub(super) fn swap_drifted(&mut self) {
        let members = self.drifted(|size| matches!(size, Size::Fixed(_)));
        for member in self.useful_first(&members) {
            let Some(policy) = self.facts[member as usize].policy else { continue };
            let Size::Fixed(fixed) = &policy.size else { continue };
            if self.left(member, Reason::Drifted) == 0 {
                self.stays(member, Reason::Drifted, Why::Budget(Reason::Drifted));
                continue;
            }
            self.swap(member, fixed, Reason::Drifted);
        }
    }

    /// Where only the end of a node frees a reservation, such nodes come first, or the others would use up the budget.
    fn useful_first(&self, members: &[u32]) -> Vec<u32> {
        let frees = |member: &u32| match self.facts[*member as usize].policy.map(|policy| &policy.size) {
            Some(Size::Fixed(fixed)) if self.may_end_first(Reason::Drifted) => {
                self.reservations(fixed).is_none_or(|offered| self.holds_one_of(*member, &offered))
            }
            _ => true,
        };
        let (first, last): (Vec<u32>, Vec<u32>) = members.iter().partition(|member| frees(member));
        [first, last].concat()
    }

    /// Swaps a node for another, if that is possible.
    pub(super) fn swap(&mut self, member: u32, fixed: &Fixed, reason: Reason) {
        if fixed.count.surplus() > 0 {
            // It may be one of those that go anyway.
            return;
        }
        let of = self.member(member);
        let full = if self.may_end_first(reason) { self.reservations(fixed) } else { None };
        let swapped = self.swapped.get(&*of.pool).copied().unwrap_or(0);
        let (is_possible, why, because) = if let Some(offered) = full {
            let frees = self.holds_one_of(member, &offered);
            (frees, Why::ReservationsFull, TerminateFirst::NoReservedCapacity)
        } else if fixed.count.room() <= swapped {
            // Room that others will leave is waited for.
            (fixed.count.is_tight(), Why::AtNodeLimit, TerminateFirst::StaticAtLimit)
        } else {
            *self.swapped.entry(&*of.pool).or_default() += 1;
            self.take(member, reason, vec![fixed.replacement.clone()], None);
            return;
        };
        if is_possible && fixed.is_refilled && self.may_end_first(reason) {
            self.end_first(member, reason, because, Vec::new());
        } else {
            self.stays(member, reason, why);
        }
    }

    /// Whether nodes that cannot be replaced first may go first.
    pub(super) fn may_end_first(&self, reason: Reason) -> bool {
        match reason {
            Reason::Drifted => self.fleet.options.terminate_first_drift,
            Reason::Unhealthy => self.fleet.options.terminate_first_repair,
            Reason::Empty | Reason::Underutilized => false,
        }
    }

    /// Decides that a node goes, whatever becomes of its pods.
    pub(super) fn take(
        &mut self,
        member: u32,
        reason: Reason,
        claims: Vec<PlannedClaim>,
        because: Option<TerminateFirst>,
    ) -> bool {
        let gone = [self.member(member).node];
        let question = Question { gone: &gone, pods: &[], credit: &[], most_claims: 0, homes: None };
        let Answer::Placed { existing, .. } = self.without.ask(&question) else { return false };
        self.choose(reason, vec![member], Rehoused { claims, existing });
        if let Some(chosen) = self.decision.moves.last_mut() {
            chosen.terminates_first = because;
        }
        true
    }
}
