//! Upstream's search for nodes that are not worth their price.
//!
//! COMPAT: v1.15, `MultiNodeConsolidation` and `SingleNodeConsolidation`: the longest prefix of the sorted candidates that
//! can be replaced by at most one node, found by halving; else the first candidate alone, pools taking turns. Where upstream
//! stops after minutes, nothing stops here: the questions are cheap.

use std::collections::BTreeMap;

use crate::disrupt::pass::{Pass, Rehoused, pool_named};
use crate::disrupt::price::{SPOT_FLEXIBILITY, keep_cheaper, keep_cheapest, pin};
use crate::disrupt::{Reason, Why};
use crate::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT};
use crate::plan::PlannedClaim;
use crate::price::Price;

/// Most nodes that go together.
const MOST_TOGETHER: usize = 100;

impl Pass<'_> {
    pub(super) fn consolidate_compat(&mut self, candidates: &[u32]) {
        if let Some((members, rehoused)) = self.longest_prefix(candidates) {
            // The last question was about another prefix.
            if self.consolidated(&members, 1).is_ok() {
                self.choose(Reason::Underutilized, members, rehoused);
                return;
            }
        }
        for member in self.taking_turns(candidates) {
            if self.left(member, Reason::Underutilized) == 0 {
                self.stays(member, Reason::Underutilized, Why::Budget(Reason::Underutilized));
                continue;
            }
            let price = self.price(&[member]);
            if !self.is_worth_it(&[member], price.dollars(), None) {
                self.stays(member, Reason::Underutilized, Why::TooLittle(price));
                continue;
            }
            match self.consolidated(&[member], 1) {
                Ok(rehoused) => {
                    let saving = self.saving(&[member], &rehoused);
                    if self.is_worth_it(&[member], saving.dollars(), None) {
                        self.choose(Reason::Underutilized, vec![member], rehoused);
                        return;
                    }
                    self.stays(member, Reason::Underutilized, Why::TooLittle(saving));
                }
                Err(why) => self.stays(member, Reason::Underutilized, why),
            }
        }
    }

    fn longest_prefix(&mut self, candidates: &[u32]) -> Option<(Vec<u32>, Rehoused)> {
        let mut left: BTreeMap<&str, u32> = BTreeMap::new();
        let mut within = Vec::new();
        for member in candidates {
            let allowed = self.left(*member, Reason::Underutilized);
            let used = left.entry(&*self.member(*member).pool).or_default();
            if *used < allowed {
                *used += 1;
                within.push(*member);
            }
        }
        within.truncate(MOST_TOGETHER);
        // Two at least: single nodes are looked at one by one.
        let (mut least, mut most) = (2, within.len());
        let mut best = None;
        while least <= most {
            // COMPAT: rounded as upstream does, which counts from the second node.
            let together = usize::midpoint(least - 1, most - 1) + 1;
            let members = &within[..together];
            let found = self.consolidated(members, 1).ok().and_then(|mut rehoused| {
                if let Some(claim) = rehoused.claims.first_mut()
                    && !self.is_no_survivor(claim, members)
                {
                    return None;
                }
                let saving = self.saving(members, &rehoused);
                self.is_worth_it(members, saving.dollars(), None).then_some(rehoused)
            });
            match found {
                Some(rehoused) => {
                    best = Some((members.to_vec(), rehoused));
                    least = together + 1;
                }
                None => most = together - 1,
            }
        }
        best
    }

    /// Leaves a replacement only types that are cheaper than every node of the same type that goes: otherwise one might as
    /// well keep that node.
    fn is_no_survivor(&self, claim: &mut PlannedClaim, members: &[u32]) -> bool {
        let Some(pool) = pool_named(&self.fleet.snapshot, &claim.pool) else { return false };
        let of_type = |member: &u32| {
            let node = &self.fleet.snapshot.nodes[self.member(*member).node as usize];
            let name = node.labels.get(INSTANCE_TYPE)?;
            claim.instance_types.contains(name).then(|| self.facts[*member as usize].price).flatten()
        };
        match members.iter().filter_map(of_type).min() {
            None => true,
            Some(cheapest) => keep_cheaper(claim, &pool.types, &self.fleet.snapshot.well_known, cheapest),
        }
    }

    /// Candidates of all pools in turn.
    fn taking_turns(&self, candidates: &[u32]) -> Vec<u32> {
        let mut by_pool: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for member in candidates {
            by_pool.entry(&*self.member(*member).pool).or_default().push(*member);
        }
        let longest = by_pool.values().map(Vec::len).max().unwrap_or(0);
        (0..longest).flat_map(|turn| by_pool.values().filter_map(move |of| of.get(turn).copied())).collect()
    }

    /// What is saved per hour.
    pub(super) fn saving(&self, members: &[u32], rehoused: &Rehoused) -> Price {
        let launches = rehoused.claims.iter().filter_map(|claim| claim.launch.as_ref());
        self.price(members) - launches.map(|launch| launch.price).sum()
    }

    /// Rehouses the pods of some members so that it gets cheaper for certain.
    pub(super) fn consolidated(&mut self, members: &[u32], most_claims: usize) -> Result<Rehoused, Why> {
        let mut rehoused = self.rehouse(members, Reason::Underutilized, most_claims, None)?;
        let below = self.price(members);
        self.make_cheaper(members, &mut rehoused.claims, below)?;
        Ok(rehoused)
    }

    /// Leaves replacements only what costs less than this together, whichever way they are launched.
    pub(super) fn make_cheaper(
        &self,
        members: &[u32],
        claims: &mut [PlannedClaim],
        below: Price,
    ) -> Result<(), Why> {
        let snapshot = &self.fleet.snapshot;
        let all_spot = members.iter().all(|member| self.facts[*member as usize].is_spot);
        let planned = |claim: &PlannedClaim| claim.launch.as_ref().map_or(Price::MAX, |launch| launch.price);
        let together: Price = claims.iter().map(planned).sum();
        if !claims.is_empty() && together >= below {
            return Err(Why::NotCheaper);
        }
        let only = claims.len() == 1 && members.len() == 1;
        for claim in claims.iter_mut() {
            let Some(pool) = pool_named(snapshot, &claim.pool) else { return Err(Why::NotCheaper) };
            let has = |capacity_type: &str| claim.requirements.allow(CAPACITY_TYPE, capacity_type);
            let (spot, on_demand) = (has(SPOT), has(ON_DEMAND));
            let is_spot_to_spot = all_spot && spot;
            if is_spot_to_spot {
                if !self.fleet.options.spot_to_spot {
                    return Err(Why::SpotToSpotOff);
                }
                pin(claim, SPOT);
            }
            // Each may cost more than planned by the same factor.
            let share = planned(claim).dollars() / together.dollars().max(f64::MIN_POSITIVE);
            let most = Price::from_dollars(below.dollars() * share);
            if !keep_cheaper(claim, &pool.types, &snapshot.well_known, most) {
                return Err(Why::NotCheaper);
            }
            if is_spot_to_spot && only {
                if claim.instance_types.len() < SPOT_FLEXIBILITY {
                    return Err(Why::SpotToSpotFew(claim.instance_types.len()));
                }
                keep_cheapest(claim, &pool.types, SPOT_FLEXIBILITY);
            }
            if spot && on_demand {
                // If there is no spot capacity, the launch should fail rather than cost more.
                pin(claim, SPOT);
            }
        }
        Ok(())
    }
}
