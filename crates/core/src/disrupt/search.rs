//! Our own search for nodes that are not worth their price.
//!
//! What a place for a pod costs on an ideal fleet is known (the prices behind the lower bound), so the *excess* of a node is
//! what it costs beyond places for its pods and beyond what their evictions must save. First every node is tried alone, then
//! groups of nodes with much excess, drawn by lot; their pods go to nodes that stay, or to any number of new ones that are
//! filled with what is worth most. Of what gains something, that comes first which gains most for each eviction.
//! Work is limited by counting: a few questions for each node.

use std::collections::BTreeSet;

use crate::disrupt::balanced::PATIENCE;
use crate::disrupt::pass::{Pass, Rehoused};
use crate::disrupt::{Reason, Why};
use crate::hash;
use crate::price::Price;
use crate::solve::Worth;

/// Most nodes that are tried together.
const LARGEST: usize = 8;
/// Of how many nodes drawn by lot the one with the largest excess is taken.
const TOURNAMENT: usize = 4;
/// Most nodes that some may be replaced by, for each of them.
const MOST_FOR_EACH: usize = 2;
/// How often the best moves are carried out in one pass, and how many rounds of groups are tried before each time.
const STAGES: usize = 2;
const ROUNDS: usize = 2;
/// As many groups as there are candidates are tried in each round, but no more than this.
const MOST_IN_ROUND: usize = 50;
/// How many of the best groups are varied.
const ELITE: usize = 40;
/// The share of the best gain that a move must have; what gains less may find a better company in the next pass.
const LEAST_SHARE: f64 = 0.5;

/// Nodes to remove, with what that gains beyond what it must, for each eviction.
struct Found {
    gain: f64,
    members: Vec<u32>,
}

impl Pass<'_> {
    pub(super) fn consolidate_wide(&mut self, candidates: &[u32]) {
        let (worth, ranked) = self.ranked(candidates);
        let may_go: BTreeSet<u32> = candidates.iter().map(|member| self.member(*member).node).collect();
        for node in (0..self.fleet.snapshot.nodes.len() as u32).filter(|node| !may_go.contains(node)) {
            self.without.settle(node);
        }
        let alone = ranked.iter().map(|(member, _)| vec![*member]).collect();
        let mut found = self.weigh(alone, &worth);
        let mut lots = 0;
        for _ in 0..STAGES {
            let open: Vec<u32> =
                ranked.iter().map(|(member, _)| *member).filter(|m| self.is_open(*m)).collect();
            for _ in 0..if open.len() < 2 { 0 } else { ROUNDS } {
                best_first(&mut found);
                let groups = (0..open.len().min(MOST_IN_ROUND)).map(|n| {
                    let elite = found.len().min(ELITE);
                    let best = if n % 2 == 0 { found[..elite].get(n / 2 % elite.max(1)) } else { None };
                    self.draw(best.map(|found| &*found.members), &open, &mut lots)
                });
                let groups = groups.collect();
                found.extend(self.weigh(groups, &worth));
            }
            if self.take_best(std::mem::take(&mut found), &worth) == 0 {
                break;
            }
        }
    }

    /// Whether a node may still go in this pass.
    fn is_open(&self, member: u32) -> bool {
        !self.facts[member as usize].is_taken && self.left(member, Reason::Underutilized) > 0
    }

    /// Candidates with their excess in dollars per hour, the largest first.
    fn ranked(&mut self, candidates: &[u32]) -> (Worth, Vec<(u32, f64)>) {
        let everybody: Vec<u32> =
            self.members().flat_map(|member| self.movers(member, Reason::Underutilized)).collect();
        let worth = self.without.worth(everybody.into_iter());
        let mut ranked: Vec<(u32, f64)> = Vec::with_capacity(candidates.len());
        for member in candidates {
            let pods = self.movers(*member, Reason::Underutilized);
            let value: f64 = pods.map(|pod| self.without.value(&worth, pod)).sum();
            let facts = &self.facts[*member as usize];
            ranked.push((*member, (facts.price.unwrap_or_default().dollars() - value) / facts.cost));
        }
        ranked.sort_by(|(a, first), (b, second)| {
            let name = |member: u32| self.facts[member as usize].name;
            second.total_cmp(first).then_with(|| name(*a).cmp(name(*b)))
        });
        (worth, ranked)
    }

    /// Some nodes of these, which stand in order of their excess, by lot; most of those that are good together stay so.
    fn draw(&self, good: Option<&[u32]>, open: &[u32], lots: &mut u64) -> Vec<u32> {
        let mut lot = |below: usize| {
            *lots += 1;
            (hash::mix(*lots) % below as u64) as usize
        };
        let mut members: Vec<u32> = good.unwrap_or_default().to_vec();
        let more = if members.is_empty() { 2 + lot(LARGEST - 1) } else { lot(3) };
        if members.len() > 1 && (more == 0 || lot(2) == 0) {
            members.swap_remove(lot(members.len()));
        }
        for _ in 0..more {
            let best = (0..TOURNAMENT).map(|_| lot(open.len())).min().unwrap_or(0);
            let pool = &self.member(open[best]).pool;
            let of_pool = members.iter().filter(|other| self.member(**other).pool == *pool).count();
            let left = self.left(open[best], Reason::Underutilized) as usize;
            if !members.contains(&open[best]) && of_pool < left && members.len() < LARGEST {
                members.push(open[best]);
            }
        }
        members.sort_unstable();
        members
    }

    /// Those groups whose removal gains something.
    fn weigh(&mut self, groups: Vec<Vec<u32>>, worth: &Worth) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for members in groups {
            match self.gains(&members, worth) {
                Ok((gain, _)) => found.push(Found { gain, members }),
                Err(why) if members.len() == 1 => {
                    if matches!(why, Why::Nowhere { .. }) {
                        self.without.settle(self.member(members[0]).node);
                    }
                    self.stays(members[0], Reason::Underutilized, why);
                }
                Err(_) => {}
            }
        }
        found
    }

    /// Removes those groups that gain most for each eviction; how many.
    fn take_best(&mut self, mut found: Vec<Found>, worth: &Worth) -> usize {
        best_first(&mut found);
        let least = found.first().map_or(0.0, |best| best.gain * LEAST_SHARE);
        let mut taken = 0;
        for Found { members, .. } in found {
            // Others may have gone first.
            match self.gains(&members, worth) {
                Ok((gain, rehoused)) if gain >= least => {
                    self.choose(Reason::Underutilized, members, rehoused);
                    taken += 1;
                }
                Ok(_) | Err(Why::Leaving) => {}
                Err(why) if members.len() == 1 => self.stays(members[0], Reason::Underutilized, why),
                Err(_) => {}
            }
        }
        taken
    }

    /// What removing some members gains for each eviction, beyond what it must.
    fn gains(&mut self, members: &[u32], worth: &Worth) -> Result<(f64, Rehoused), Why> {
        if let Some(member) = members.iter().find(|member| !self.is_open(**member)) {
            let is_taken = self.facts[*member as usize].is_taken;
            return Err(if is_taken { Why::Leaving } else { Why::Budget(Reason::Underutilized) });
        }
        let price = self.price(members);
        if !self.is_worth_it(members, price.dollars(), Some(PATIENCE)) {
            return Err(Why::TooLittle(price));
        }
        let most = members.len() * MOST_FOR_EACH;
        let mut rehoused = self.rehouse(members, Reason::Underutilized, most, Some(worth))?;
        let saving = self.saving(members, &rehoused);
        if saving <= Price::ZERO {
            return Err(Why::NotCheaper);
        }
        if !self.is_worth_it(members, saving.dollars(), Some(PATIENCE)) {
            return Err(Why::TooLittle(saving));
        }
        let least: f64 = members.iter().map(|member| self.least_saving(*member, Some(PATIENCE))).sum();
        let below = self.price(members) - Price::from_dollars(least);
        self.make_cheaper(members, &mut rehoused.claims, below)?;
        let cost: f64 = members.iter().map(|member| self.facts[*member as usize].cost).sum();
        Ok(((saving.dollars() - least) / cost, rehoused))
    }
}

/// Sorts by gain, and leaves out what is there twice.
fn best_first(found: &mut Vec<Found>) {
    found.sort_by(|a, b| b.gain.total_cmp(&a.gain).then_with(|| a.members.cmp(&b.members)));
    found.dedup_by(|a, b| a.members == b.members);
}
