//! Nodes that must be replaced: those that are broken, and those that are no longer what their pool asks for.

use crate::disrupt::pass::Pass;
use crate::disrupt::{Reason, Search, Why};

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
        let mut drifted = Vec::new();
        for member in self.members() {
            let Some(since) = self.member(member).drifted else { continue };
            if self.facts[member as usize].is_taken
                || self.facts[member as usize].policy.is_some_and(|policy| policy.is_static)
            {
                continue;
            }
            if let Some(why) = self.veto(member, Reason::Drifted) {
                self.stays(member, Reason::Drifted, why);
                continue;
            }
            let has_pods = self.member(member).residents.iter().any(|pod| pod.pod.is_some());
            drifted.push((has_pods, since, self.facts[member as usize].name, member));
        }
        self.decision.eligible.push((Reason::Drifted, drifted.len()));
        drifted.sort_unstable();
        let members: Vec<u32> = drifted.into_iter().map(|(.., member)| member).collect();
        if self.fleet.options.search == Search::Wide {
            // Their turn comes too: whoever moved there would move again.
            for member in &members {
                self.without.close(self.member(*member).node);
            }
        }
        self.replace(&members, Reason::Drifted);
    }

    /// Replaces nodes in this order, as many as budgets allow.
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
            if reason == Reason::Unhealthy && self.member(*member).sick.is_some_and(|sick| sick.reboots) {
                self.reboot(*member);
                if self.fleet.options.search == Search::Compat {
                    return;
                }
                continue;
            }
            match self.rehouse(&[*member], reason, usize::MAX, None) {
                Ok(rehoused) => {
                    self.choose(reason, vec![*member], rehoused);
                    if self.fleet.options.search == Search::Compat {
                        return;
                    }
                }
                Err(why) => self.stays(*member, reason, why),
            }
        }
    }
}
