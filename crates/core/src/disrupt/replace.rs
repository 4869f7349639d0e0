//! Nodes that must be replaced: those that are broken, and those that are no longer what their pool asks for.

use crate::disrupt::pass::Pass;
use crate::disrupt::{Reason, Size, TerminateFirst, Why};

/// The share of a pool's nodes, in percent and rounded up, beyond which it is not believed that nodes are at fault.
const EPIDEMIC: u64 = 20;

impl Pass<'_> {
    /// Replaces or restarts nodes that are broken, the worst first.
    pub(super) fn repair(&mut self) {
        let mut sick = Vec::new();
        for member in self.members() {
            let Some(sickness) = self.member(member).sick else { continue };
            self.without.close(self.member(member).node);
            if sickness.do_not_repair {
                self.stays(member, Reason::Unhealthy, Why::DoNotRepair);
            } else if let Some(why) = self.veto(member, Reason::Unhealthy) {
                self.stays(member, Reason::Unhealthy, why);
            } else if self.is_epidemic(member) {
                self.stays(member, Reason::Unhealthy, Why::Epidemic);
            } else {
                sick.push((member, sickness.score));
            }
        }
        self.decision.eligible.push((Reason::Unhealthy, sick.len()));
        let name = |member: u32| self.facts[member as usize].name;
        let cost = |member: u32| self.facts[member as usize].cost;
        sick.sort_by(|(a, first), (b, second)| {
            let by_cost = || cost(*a).total_cmp(&cost(*b)).then_with(|| name(*a).cmp(name(*b)));
            second.total_cmp(first).then_with(by_cost)
        });
        let members: Vec<u32> = sick.into_iter().map(|(member, _)| member).collect();
        self.replace(&members, Reason::Unhealthy);
    }

    fn is_epidemic(&self, member: u32) -> bool {
        let Some(policy) = self.facts[member as usize].policy else { return true };
        u64::from(policy.sick) > (u64::from(policy.known) * EPIDEMIC).div_ceil(100)
    }

    /// Replaces nodes that are no longer what their pool asks for: those without pods first, then the oldest.
    pub(super) fn replace_drifted(&mut self) {
        let members = self.drifted(|size| matches!(size, Size::ByNeed));
        // Their turn comes too: whoever moved there would move again.
        for member in &members {
            self.without.close(self.member(*member).node);
        }
        self.replace(&members, Reason::Drifted);
    }

    /// Nodes of some pools that may go because they drifted, in the order in which they should.
    pub(super) fn drifted(&mut self, is_asked: impl Fn(&Size) -> bool) -> Vec<u32> {
        let mut drifted = Vec::new();
        for member in self.members() {
            let Some(since) = self.member(member).drifted else { continue };
            let facts = &self.facts[member as usize];
            if facts.is_taken || facts.policy.is_some_and(|policy| !is_asked(&policy.size)) {
                continue;
            }
            if let Some(why) = self.veto(member, Reason::Drifted) {
                self.stays(member, Reason::Drifted, why);
                continue;
            }
            let has_pods = self.member(member).residents.iter().any(|pod| pod.pod.is_some());
            drifted.push((has_pods, since, self.facts[member as usize].name, member));
        }
        self.count_eligible(Reason::Drifted, drifted.len());
        drifted.sort_unstable();
        drifted.into_iter().map(|(.., member)| member).collect()
    }

    /// Counts nodes that could go for a reason, those of all methods together.
    fn count_eligible(&mut self, reason: Reason, count: usize) {
        match self.decision.eligible.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, known)) => *known += count,
            None => self.decision.eligible.push((reason, count)),
        }
    }

    /// Replaces nodes in this order, as many as budgets allow.
    ///
    /// COMPAT: upstream replaces one at a time.
    fn replace(&mut self, members: &[u32], reason: Reason) {
        for member in members {
            if self.facts[*member as usize].is_taken {
                continue;
            }
            // A node that never was of use is missed by nobody.
            let is_counted = self.member(*member).is_initialized;
            if is_counted && self.left(*member, reason) == 0 {
                self.stays(*member, reason, Why::Budget(reason));
                continue;
            }
            let reboots =
                reason == Reason::Unhealthy && self.member(*member).sick.is_some_and(|sick| sick.reboots);
            match self.facts[*member as usize].policy.map(|policy| &policy.size) {
                Some(_) if reboots => self.reboot(*member),
                Some(Size::Fixed(fixed)) => self.swap(*member, fixed, reason),
                Some(Size::Unkept) | None => {}
                Some(Size::ByNeed) => self.rebuild(*member, reason),
            }
        }
    }

    /// Finds other places for the pods of a node, and lets it go if there are some.
    fn rebuild(&mut self, member: u32, reason: Reason) {
        match self.rehouse(&[member], reason, usize::MAX, None) {
            Ok(rehoused) => self.choose(reason, vec![member], rehoused),
            Err(why) => match self.ends_first(member, reason) {
                Some(existing) => {
                    self.end_first(member, reason, TerminateFirst::NoReservedCapacity, existing);
                }
                None => self.stays(member, reason, why),
            },
        }
    }
}
