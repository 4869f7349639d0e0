//! Our own search for nodes that are not worth their price.
//!
//! What a place for a pod costs on an ideal fleet is known (the prices behind the lower bound), so the *excess* of a node is
//! what it costs beyond places for its pods. A [`plan`](super::plan) for the whole fleet is made in a sketch, by amounts
//! alone; of its groups, those that gain most for each eviction are put to the solver and carried out, as many as budgets
//! allow. The rest is for the next pass, which makes a new plan. A plan asks for much for each eviction at first, and for
//! less only if that finds nothing, so that good moves do not depend on poor ones. Work is limited by counting.
//!
//! Every move makes the fleet cheaper by at least the least that its evictions must save, and a fleet is never free: so
//! there comes a pass in which nothing moves.

use std::collections::BTreeMap;

use crate::disrupt::balanced::{PATIENCE, PATIENCES};
use crate::disrupt::draw::Lots;
use crate::disrupt::pass::{Pass, Rehoused};
use crate::disrupt::plan::{Alone, Item, MOST_FOR_EACH, Plan};
use crate::disrupt::{Reason, Why};
use crate::price::Price;
use crate::solve::Home;

/// For how many pods places are looked for to make a plan better, for each node, and at most.
const WORK_FOR_EACH: usize = 1_000;
const MOST_WORK: usize = 450_000;
/// Which part of the work must find something, or less is asked for.
const PROBE: usize = 8;
/// The share of the best gain that a move must have; what gains less may find a better company in the next pass.
const LEAST_SHARE: f64 = 0.3;

impl Pass<'_> {
    pub(super) fn consolidate_wide(&mut self, candidates: &[u32]) {
        let mut plan = self.plan(candidates);
        if plan.items.is_empty() {
            return;
        }
        let unclear = self.look_at_each(&mut plan);
        for idea in &self.fleet.ideas {
            plan.hold(&idea.members, idea.style);
        }
        let mut work = (plan.items.len() * WORK_FOR_EACH).min(MOST_WORK);
        let probe = work / PROBE;
        for patience in PATIENCES {
            plan.ask_for(|item| self.least_saving(item.member, Some(patience)));
            plan.improve(probe);
            if !plan.is_empty() {
                plan.improve(std::mem::take(&mut work));
                self.take_best(&plan, patience);
            }
            if !self.decision.moves.is_empty() {
                break;
            }
        }
        for member in unclear {
            self.take_alone(member);
        }
    }

    /// Says why nodes stay that are not worth removing alone; returns those that are, though the sketch cannot tell.
    fn look_at_each(&mut self, plan: &mut Plan) -> Vec<u32> {
        let mut unclear = Vec::new();
        for item in 0..plan.items.len() {
            let Item { member, least, .. } = plan.items[item];
            let why = match plan.alone(item) {
                Alone::Saves(saving) if saving <= 0.0 => Why::NotCheaper,
                Alone::Saves(saving) if saving < least => Why::TooLittle(Price::from_dollars(saving)),
                Alone::Saves(_) => continue,
                Alone::Nowhere => {
                    if let Err(why) = self.gains(&[member], None, PATIENCE) {
                        why
                    } else {
                        unclear.push(member);
                        continue;
                    }
                }
            };
            self.stays(member, Reason::Underutilized, why);
        }
        unclear
    }

    /// Lays the fleet out for planning.
    pub(super) fn plan(&mut self, candidates: &[u32]) -> Plan {
        let everybody: Vec<u32> =
            self.members().flat_map(|member| self.movers(member, Reason::Underutilized)).collect();
        let sketch = self.without.sketch(everybody.into_iter());
        let mut ranked: Vec<(f64, &str, Item)> = Vec::with_capacity(candidates.len());
        for member in candidates {
            if self.left(*member, Reason::Underutilized) == 0 {
                self.stays(*member, Reason::Underutilized, Why::Budget(Reason::Underutilized));
                continue;
            }
            let item = self.item(*member);
            let value: f64 = item.pods.iter().map(|pod| sketch.value(*pod)).sum();
            ranked.push(((item.price - value) / item.cost, self.facts[*member as usize].name, item));
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let names: Vec<&str> = ranked.iter().map(|(_, name, _)| *name).collect();
        let lots = Lots::new(&names);
        let items = ranked.into_iter().map(|(.., item)| item).collect();
        Plan::new(sketch, items, self.fleet.snapshot.nodes.len(), lots)
    }

    fn item(&self, member: u32) -> Item {
        let (of, facts) = (self.member(member), &self.facts[member as usize]);
        Item {
            member,
            node: self.without.position(of.node),
            pods: self.movers(member, Reason::Underutilized).collect(),
            price: facts.price.unwrap_or_default().dollars(),
            cost: facts.cost,
            least: self.least_saving(member, Some(PATIENCE)),
            pool: self.totals.keys().position(|pool| **pool == *of.pool).unwrap_or(0),
            left: self.left(member, Reason::Underutilized) as usize,
        }
    }

    /// Removes those groups that gain most for each eviction.
    fn take_best(&mut self, plan: &Plan, patience: f64) {
        let mut least = None;
        for part in plan.best_first() {
            let members: Vec<u32> = part.items.iter().map(|item| plan.items[*item].member).collect();
            // What was proposed when less was asked for stays proposed.
            let patience = if part.is_firm { PATIENCE } else { patience };
            match self.gains(&members, Some(&part.homes), patience) {
                Ok((gain, rehoused)) if gain >= *least.get_or_insert(gain * LEAST_SHARE) => {
                    self.choose(Reason::Underutilized, members, rehoused);
                    if let Some(chosen) = self.decision.moves.last_mut() {
                        chosen.style = Some(part.style);
                    }
                }
                Err(why @ Why::Budget(_)) => {
                    for member in members {
                        self.stays(member, Reason::Underutilized, why.clone());
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Removes a node that the sketch could not judge, if that gains something.
    fn take_alone(&mut self, member: u32) {
        match self.gains(&[member], None, PATIENCE) {
            Ok((_, rehoused)) => self.choose(Reason::Underutilized, vec![member], rehoused),
            Err(Why::Leaving) => {}
            Err(why) => self.stays(member, Reason::Underutilized, why),
        }
    }

    /// What removing some members gains for each eviction, beyond what it must.
    fn gains(
        &mut self,
        members: &[u32],
        homes: Option<&[(u32, Home)]>,
        patience: f64,
    ) -> Result<(f64, Rehoused), Why> {
        self.may_go(members)?;
        let most = members.len() * MOST_FOR_EACH;
        let mut rehoused = self.rehouse(members, Reason::Underutilized, most, homes)?;
        let saving = self.saving(members, &rehoused);
        if saving <= Price::ZERO {
            return Err(Why::NotCheaper);
        }
        if !self.is_worth_it(members, saving.dollars(), Some(patience)) {
            return Err(Why::TooLittle(saving));
        }
        let least = |patience: f64| -> f64 {
            members.iter().map(|member| self.least_saving(*member, Some(patience))).sum()
        };
        // A replacement may become whatever is worth it at all, so that the cloud has a choice.
        let (asked, below) = (least(patience), self.price(members) - Price::from_dollars(least(PATIENCE)));
        self.make_cheaper(members, &mut rehoused.claims, below)?;
        let cost: f64 = members.iter().map(|member| self.facts[*member as usize].cost).sum();
        Ok(((saving.dollars() - asked) / cost, rehoused))
    }

    /// Whether members may still go together in this pass.
    fn may_go(&self, members: &[u32]) -> Result<(), Why> {
        let mut wanted: BTreeMap<&str, u32> = BTreeMap::new();
        for member in members {
            if self.facts[*member as usize].is_taken {
                return Err(Why::Leaving);
            }
            let wanted = wanted.entry(&*self.member(*member).pool).or_default();
            *wanted += 1;
            if *wanted > self.left(*member, Reason::Underutilized) {
                return Err(Why::Budget(Reason::Underutilized));
            }
        }
        Ok(())
    }
}
