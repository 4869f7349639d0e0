//! Our own search for nodes that are not worth their price.
//!
//! What a place for a pod costs on an ideal fleet is known (the prices behind the lower bound), so the *excess* of a node is
//! what it costs beyond places for its pods and beyond what their evictions must save. Nodes with the largest excess go first,
//! alone if their pods fit on those that stay, else in groups that are replaced by any number of cheaper nodes.
//! Work is limited by counting: a few questions for each node.

use std::cmp::Reverse;

use crate::disrupt::balanced::PATIENCE;
use crate::disrupt::pass::{Pass, Rehoused};
use crate::disrupt::{Reason, Why};
use crate::price::Price;

/// How many nodes are tried together.
const SIZES: [usize; 6] = [1, 2, 3, 4, 6, 8];
/// Most nodes that some may be replaced by, for each of them.
const MOST_FOR_EACH: usize = 2;

/// Nodes to remove, with what that gains beyond what it must.
struct Found {
    gain: f64,
    members: Vec<u32>,
}

impl Pass<'_> {
    pub(super) fn consolidate_wide(&mut self, candidates: &[u32]) {
        let mut ranked = self.ranked(candidates);
        for (member, _) in &ranked {
            self.try_to_remove(*member);
        }
        ranked.retain(|(member, _)| !self.facts[*member as usize].is_taken);
        for (member, excess) in ranked.iter().filter(|(_, excess)| *excess <= 0.0) {
            let most = excess + self.least_saving(*member, Some(PATIENCE));
            if most > 0.0 && self.left(*member, Reason::Underutilized) > 0 {
                self.stays(*member, Reason::Underutilized, Why::TooLittle(Price::from_dollars(most)));
            }
        }
        ranked.retain(|(_, excess)| *excess > 0.0);
        for at in 0..ranked.len() {
            let (seed, _) = ranked[at];
            if self.facts[seed as usize].is_taken {
                continue;
            }
            if let Some(found) = self.best_group(&ranked[at..]) {
                // The last question was about another group.
                if let Ok(rehoused) = self.worthwhile(&found.members) {
                    self.choose(Reason::Underutilized, found.members, rehoused);
                }
            }
        }
    }

    /// Candidates with their excess in dollars per hour, the largest first.
    fn ranked(&mut self, candidates: &[u32]) -> Vec<(u32, f64)> {
        let everybody: Vec<u32> =
            self.members().flat_map(|member| self.movers(member, Reason::Underutilized)).collect();
        let worth = self.without.worth(everybody.into_iter());
        let mut ranked: Vec<(u32, f64)> = Vec::with_capacity(candidates.len());
        for member in candidates {
            let pods = self.movers(*member, Reason::Underutilized);
            let value: f64 = pods.map(|pod| self.without.value(&worth, pod)).sum();
            let price = self.facts[*member as usize].price.unwrap_or_default().dollars();
            ranked.push((*member, price - value - self.least_saving(*member, Some(PATIENCE))));
        }
        ranked.sort_by(|(a, first), (b, second)| {
            let name = |member: u32| self.facts[member as usize].name;
            second.total_cmp(first).then_with(|| name(*a).cmp(name(*b)))
        });
        ranked
    }

    /// Removes a node if its pods fit on those that stay.
    fn try_to_remove(&mut self, member: u32) {
        if self.facts[member as usize].is_taken {
            return;
        }
        if self.left(member, Reason::Underutilized) == 0 {
            self.stays(member, Reason::Underutilized, Why::Budget(Reason::Underutilized));
            return;
        }
        let price = self.price(&[member]);
        if !self.is_worth_it(&[member], price.dollars(), Some(PATIENCE)) {
            self.stays(member, Reason::Underutilized, Why::TooLittle(price));
            return;
        }
        match self.rehouse(&[member], Reason::Underutilized, 0) {
            Ok(rehoused) => self.choose(Reason::Underutilized, vec![member], rehoused),
            // Nothing cheaper will be found for it below, unless that says otherwise.
            Err(Why::TooMany) => self.stays(member, Reason::Underutilized, Why::NotCheaper),
            Err(why) => self.stays(member, Reason::Underutilized, why),
        }
    }

    /// The group of the first of these and some that follow it that gains most.
    fn best_group(&mut self, ranked: &[(u32, f64)]) -> Option<Found> {
        let mut best: Option<Found> = None;
        for size in SIZES {
            let members = self.group(ranked, size);
            if members.len() < size {
                break;
            }
            match self.worthwhile(&members) {
                Ok(rehoused) => {
                    let least: f64 =
                        members.iter().map(|member| self.least_saving(*member, Some(PATIENCE))).sum();
                    let gain = self.saving(&members, &rehoused).dollars() - least;
                    if best.as_ref().is_none_or(|best| gain > best.gain) {
                        best = Some(Found { gain, members });
                    }
                }
                Err(why) if size == 1 => self.stays(members[0], Reason::Underutilized, why),
                Err(_) => {}
            }
        }
        best
    }

    /// The first so many that may still go within budgets.
    fn group(&self, ranked: &[(u32, f64)], size: usize) -> Vec<u32> {
        let mut members: Vec<u32> = Vec::with_capacity(size);
        for (member, _) in ranked {
            if members.len() == size {
                break;
            }
            let pool = &self.member(*member).pool;
            let of_pool = members.iter().filter(|other| self.member(**other).pool == *pool).count();
            let left = self.left(*member, Reason::Underutilized) as usize;
            if !self.facts[*member as usize].is_taken && of_pool < left {
                members.push(*member);
            }
        }
        members
    }

    /// Rehouses the pods of some members, if that saves enough for their evictions.
    fn worthwhile(&mut self, members: &[u32]) -> Result<Rehoused, Why> {
        let most = members.len() * MOST_FOR_EACH;
        let mut rehoused = self.rehouse(members, Reason::Underutilized, most)?;
        let least: f64 = members.iter().map(|member| self.least_saving(*member, Some(PATIENCE))).sum();
        let saving = self.saving(members, &rehoused);
        if saving <= Price::ZERO {
            return Err(Why::NotCheaper);
        }
        if !self.is_worth_it(members, saving.dollars(), Some(PATIENCE)) {
            return Err(Why::TooLittle(saving));
        }
        rehoused.claims.sort_by_key(|claim| Reverse(claim.launch.as_ref().map(|launch| launch.price)));
        let below = self.price(members) - Price::from_dollars(least);
        self.make_cheaper(members, &mut rehoused.claims, below)?;
        Ok(rehoused)
    }
}
