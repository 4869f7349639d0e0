//! One look at all nodes: who may not go, how many may, and what becomes of their pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::Offering;
use crate::disrupt::balanced::Totals;
use crate::disrupt::budget;
use crate::disrupt::cost;
use crate::disrupt::{Consolidation, Decision, Fleet, Member, Move, Policy, Reason, Search, Why};
use crate::labels::{CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE};
use crate::plan::{PlannedClaim, PlannedNode};
use crate::price::Price;
use crate::snapshot::{Demand, Pool, Snapshot};
use crate::solve::{Answer, Home, Question, Without};

/// One look at all nodes.
pub(super) struct Pass<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) without: Without<'a>,
    pub(super) facts: Vec<Facts<'a>>,
    policies: BTreeMap<&'a str, &'a Policy>,
    /// How many nodes of each pool may be going at once.
    allowed: BTreeMap<(&'a str, Reason), u32>,
    pub(super) totals: BTreeMap<&'a str, Totals>,
    /// Nodes that go in this pass, by pool.
    chosen: BTreeMap<&'a str, u32>,
    /// Nodes that come in this pass to pools that keep a number of them.
    pub(super) swapped: BTreeMap<&'a str, u64>,
    /// Why nodes stay, by whether that is about saving money.
    whys: BTreeMap<(u32, bool), Why>,
    pub(super) decision: Decision,
}

/// What follows about a member.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) policy: Option<&'a Policy>,
    /// What it costs, if that is known.
    pub(super) price: Option<Price>,
    pub(super) is_spot: bool,
    /// What removing it costs.
    pub(super) cost: f64,
    /// Pods that are foreseen and would be there.
    expected: Vec<u32>,
    /// Pods that wait will go there.
    is_awaited: bool,
    /// It goes, or takes pods of those that go.
    pub(super) is_taken: bool,
}

/// What becomes of the pods of some members.
pub(super) struct Rehoused {
    pub(super) claims: Vec<PlannedClaim>,
    pub(super) existing: Vec<PlannedNode>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(fleet: &'a Fleet) -> Self {
        let Fleet { snapshot, .. } = fleet;
        let without = Without::new(snapshot, fleet.waiting);
        let policies: BTreeMap<&str, &Policy> =
            fleet.pools.iter().map(|policy| (&*policy.pool, policy)).collect();
        let pools: BTreeMap<&str, &Pool> = snapshot.pools.iter().map(|pool| (&*pool.name, pool)).collect();
        let mut pass = Self {
            fleet,
            facts: Vec::with_capacity(fleet.members.len()),
            without,
            totals: BTreeMap::new(),
            chosen: BTreeMap::new(),
            swapped: BTreeMap::new(),
            whys: BTreeMap::new(),
            decision: Decision::default(),
            policies,
            allowed: BTreeMap::new(),
        };
        for member in &fleet.members {
            let node = &snapshot.nodes[member.node as usize];
            let label = |key: &str| node.labels.get(key).map_or("", |value| &**value);
            let given = pass.without.given(member.node);
            let is_expected = |pod: &&u32| snapshot.pods[**pod as usize].demand == Demand::Expected;
            let pool = pools.get(&*member.pool).copied();
            let facts = Facts {
                name: &node.name,
                policy: pass.policies.get(&*member.pool).copied(),
                price: pool
                    .and_then(|pool| price(pool, label(INSTANCE_TYPE), label(ZONE), label(CAPACITY_TYPE))),
                is_spot: label(CAPACITY_TYPE) == SPOT,
                cost: cost::removal(
                    member.residents.iter().filter(|pod| pod.pod.is_some()).map(|pod| pod.cost),
                ),
                expected: given.iter().filter(is_expected).copied().collect(),
                is_awaited: given.iter().any(|pod| !is_expected(&pod)),
                is_taken: false,
            };
            let totals = pass.totals.entry(&*member.pool).or_default();
            totals.price += facts.price.unwrap_or_default().dollars();
            totals.cost += facts.cost;
            pass.facts.push(facts);
        }
        for policy in pass.policies.values() {
            for reason in Reason::ALL {
                let allowed = budget::allowed(&policy.budgets, reason, fleet.now, policy.nodes);
                pass.allowed.insert((&*policy.pool, reason), allowed);
                pass.decision.allowed.push((policy.pool.clone(), reason, allowed.min(policy.nodes)));
            }
        }
        if fleet.options.search == Search::Compat {
            // COMPAT: running pods do not move to nodes that have just changed (since v1.14).
            for member in fleet.members.iter().filter(|member| member.is_restless) {
                pass.without.close(member.node);
            }
        }
        pass
    }

    pub(super) fn finish(mut self) -> Decision {
        let moved = self.decision.moves.iter().flat_map(|chosen| &chosen.members);
        let gone: BTreeSet<u32> = moved.chain(&self.decision.reboots).copied().collect();
        for ((member, _), why) in self.whys {
            let is_new = self.decision.blocked.last() != Some(&(member, why.clone()));
            if !gone.contains(&member) && is_new {
                self.decision.blocked.push((member, why));
            }
        }
        self.decision
    }

    pub(super) fn member(&self, member: u32) -> &'a Member {
        &self.fleet.members[member as usize]
    }

    pub(super) fn members(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.fleet.members.len() as u32
    }

    /// Says why a node does not go for a reason; what is said last counts.
    pub(super) fn stays(&mut self, member: u32, reason: Reason, why: Why) {
        let saves = matches!(reason, Reason::Empty | Reason::Underutilized);
        self.whys.insert((member, saves), why);
    }

    /// How many more nodes of a member's pool may go in this pass.
    pub(super) fn left(&self, member: u32, reason: Reason) -> u32 {
        let Some(policy) = self.facts[member as usize].policy else { return 0 };
        let allowed = self.allowed.get(&(&*policy.pool, reason)).copied().unwrap_or(0);
        // COMPAT: a node that is not ready does not use up the budget for repairs (since v1.15).
        let unready = if reason == Reason::Unhealthy { 0 } else { policy.unready };
        let chosen = self.chosen.get(&*policy.pool).copied().unwrap_or(0);
        allowed.saturating_sub(policy.going).saturating_sub(unready).saturating_sub(chosen)
    }

    /// Why a node may not be touched whatever is wrong with it.
    pub(super) fn veto(&self, member: u32, reason: Reason) -> Option<Why> {
        let (of, facts) = (self.member(member), &self.facts[member as usize]);
        let is_repair = reason == Reason::Unhealthy;
        if facts.is_taken {
            return Some(Why::Leaving);
        }
        if !of.is_initialized && !is_repair {
            return Some(Why::NotInitialized);
        }
        if of.is_nominated || facts.is_awaited {
            return Some(Why::Nominated);
        }
        if of.do_not_disrupt && !is_repair {
            return Some(Why::DoNotDisrupt);
        }
        if facts.policy.is_none() {
            return Some(Why::NoPool(of.pool.clone()));
        }
        let is_bounded = match reason {
            Reason::Unhealthy => of.sick.is_some_and(|sick| sick.is_bounded),
            Reason::Drifted => of.has_grace_period,
            Reason::Empty | Reason::Underutilized => false,
        };
        if is_bounded {
            return None;
        }
        of.residents.iter().find_map(|pod| pod.block.clone()).map(Why::Pod)
    }

    /// Whether nobody would miss a node.
    pub(super) fn is_empty(&self, member: u32) -> bool {
        let facts = &self.facts[member as usize];
        facts.cost <= cost::OF_NODE
    }

    /// Pods that need another place if a member goes.
    pub(super) fn movers(&self, member: u32, reason: Reason) -> impl Iterator<Item = u32> {
        // What cannot be moved now will not be when the drain begins; only a repair must be ready for it.
        let moves = move |blocked: bool| !blocked || reason == Reason::Unhealthy;
        let residents = self.member(member).residents.iter();
        let own = residents.filter(move |pod| moves(pod.block.is_some())).filter_map(|pod| pod.pod);
        own.chain(self.facts[member as usize].expected.iter().copied())
    }

    pub(super) fn has_expected(&self, member: u32) -> bool {
        !self.facts[member as usize].expected.is_empty()
    }

    /// Finds places for the pods of some members as if those were gone.
    pub(super) fn rehouse(
        &mut self,
        members: &[u32],
        reason: Reason,
        most_claims: usize,
        homes: Option<&[(u32, Home)]>,
    ) -> Result<Rehoused, Why> {
        let gone: Vec<u32> = members.iter().map(|member| self.member(*member).node).collect();
        let pods: Vec<u32> = members.iter().flat_map(|member| self.movers(*member, reason)).collect();
        let credit: Vec<_> =
            members.iter().map(|member| self.member(*member)).map(|of| (&*of.pool, &*of.capacity)).collect();
        let question = Question { gone: &gone, pods: &pods, credit: &credit, most_claims, homes };
        match self.without.ask(&question) {
            Answer::TooMany => Err(Why::TooMany),
            Answer::Nowhere(pod) => {
                let of = &self.fleet.snapshot.pods[pod as usize];
                let pod_name: Arc<str> = format!("{}/{}", of.namespace, of.name).into();
                let nearest = if members.len() == 1 { self.without.obstacles(pod) } else { Vec::new() };
                let obstacle = nearest.into_iter().next().map(Box::new);
                Err(Why::Nowhere { pod: pod_name, obstacle })
            }
            Answer::Placed { claims, existing } => {
                let nodes = &self.fleet.snapshot.nodes;
                let unready =
                    existing.iter().map(|on| &nodes[on.node as usize]).find(|node| !node.initialized);
                match unready {
                    Some(node) => Err(Why::Unready(node.name.clone())),
                    None => Ok(Rehoused { claims, existing }),
                }
            }
        }
    }

    /// What some members cost together.
    pub(super) fn price(&self, members: &[u32]) -> Price {
        members.iter().map(|member| self.facts[*member as usize].price.unwrap_or_default()).sum()
    }

    /// Decides on a move, whose question must have been the last one.
    pub(super) fn choose(&mut self, reason: Reason, members: Vec<u32>, rehoused: Rehoused) {
        let Rehoused { claims, existing } = rehoused;
        let launches = claims.iter().filter_map(|claim| claim.launch.as_ref());
        let spent: Price = launches.map(|launch| launch.price).sum();
        let evicted =
            |member: &u32| self.member(*member).residents.iter().filter(|pod| pod.pod.is_some()).count();
        let chosen = Move {
            reason,
            saving: self.price(&members) - spent,
            evictions: members.iter().map(evicted).sum(),
            replacements: claims,
            terminates_first: None,
            style: None,
            existing,
            members,
        };
        self.without.accept();
        for member in &chosen.members {
            self.facts[*member as usize].is_taken = true;
            *self.chosen.entry(&*self.member(*member).pool).or_default() += 1;
        }
        // Nobody should move twice in one pass.
        let taking: BTreeSet<u32> = chosen.existing.iter().map(|on| on.node).collect();
        for (member, facts) in self.fleet.members.iter().zip(&mut self.facts) {
            facts.is_taken |= taking.contains(&member.node);
        }
        self.decision.moves.push(chosen);
    }

    /// Decides to restart a node where it is; nobody needs another place for good.
    pub(super) fn reboot(&mut self, member: u32) {
        self.facts[member as usize].is_taken = true;
        *self.chosen.entry(&*self.member(member).pool).or_default() += 1;
        self.decision.reboots.push(member);
    }

    /// Removes nodes that nobody would miss.
    pub(super) fn remove_empty(&mut self) {
        let mut empty = Vec::new();
        for member in self.members() {
            let Some(policy) = self.facts[member as usize].policy else { continue };
            let of = self.member(member);
            if policy.is_static() || !self.is_empty(member) || self.veto(member, Reason::Empty).is_some() {
                continue;
            }
            if !policy.consolidates {
                self.stays(member, Reason::Empty, Why::Never);
            } else if self.has_expected(member) {
                self.stays(member, Reason::Empty, Why::Expected);
            } else if !of.is_consolidatable {
                self.stays(member, Reason::Empty, Why::NotYet);
            } else {
                empty.push(member);
            }
        }
        self.decision.eligible.push((Reason::Empty, empty.len()));
        self.sort_by_ratio(&mut empty);
        for member in empty {
            if self.left(member, Reason::Empty) == 0 {
                self.stays(member, Reason::Empty, Why::Budget(Reason::Empty));
                continue;
            }
            // Pods that are glad to go are not asked whether they find another place.
            let node = self.member(member).node;
            let question = Question { gone: &[node], pods: &[], credit: &[], most_claims: 0, homes: None };
            if let Answer::Placed { claims, existing } = self.without.ask(&question) {
                self.choose(Reason::Empty, vec![member], Rehoused { claims, existing });
            }
        }
    }

    /// Removes or replaces nodes that are not worth their price.
    pub(super) fn consolidate(&mut self) {
        let mut candidates = Vec::new();
        for member in self.members() {
            if let Err(why) = self.may_consolidate(member) {
                if let Some(why) = why {
                    self.stays(member, Reason::Underutilized, why);
                }
                continue;
            }
            candidates.push(member);
        }
        self.decision.eligible.push((Reason::Underutilized, candidates.len()));
        self.sort_by_ratio(&mut candidates);
        match self.fleet.options.search {
            Search::Compat => self.consolidate_compat(&candidates),
            Search::Wide => self.consolidate_wide(&candidates),
        }
    }

    /// Whether a node may be removed to save money; if not, why, unless that has been said.
    fn may_consolidate(&self, member: u32) -> Result<(), Option<Why>> {
        let (of, facts) = (self.member(member), &self.facts[member as usize]);
        if facts.is_taken {
            return Err(None);
        }
        if let Some(why) = self.veto(member, Reason::Underutilized) {
            return Err(Some(why));
        }
        let Some(policy) = facts.policy.filter(|policy| !policy.is_static()) else { return Err(None) };
        let is_wide = self.fleet.options.search == Search::Wide;
        if self.is_empty(member) && !(is_wide && self.has_expected(member)) {
            // Emptiness has looked at it, within the budget for empty nodes.
            return Err(None);
        }
        let why = if !policy.consolidates {
            Why::Never
        } else if facts.price.is_none() {
            Why::Unpriced
        } else if policy.consolidation == Consolidation::WhenEmpty {
            Why::WhenEmpty
        } else if !of.is_consolidatable {
            Why::NotYet
        } else if is_wide && of.rests_until.is_some_and(|until| until > self.fleet.now) {
            Why::Resting
        } else if policy.is_in_vain {
            Why::InVain
        } else {
            return Ok(());
        };
        Err(Some(why))
    }

    /// Those that save most for what moving their pods costs come first.
    fn sort_by_ratio(&self, members: &mut [u32]) {
        let ratio = |member: u32| {
            let facts = &self.facts[member as usize];
            facts.price.unwrap_or_default().dollars() / facts.cost
        };
        members.sort_by(|a, b| {
            let name = |member: u32| self.facts[member as usize].name;
            ratio(*b).total_cmp(&ratio(*a)).then_with(|| name(*a).cmp(name(*b)))
        });
    }
}

/// What a node of a pool costs.
fn price(pool: &Pool, instance_type: &str, zone: &str, capacity_type: &str) -> Option<Price> {
    let of = pool.types.named(instance_type)?;
    let is_it = |offering: &&Offering| offering.zone() == zone && offering.capacity_type() == capacity_type;
    of.offerings.iter().find(is_it).map(|offering| offering.price)
}

/// The pool of that name.
pub(super) fn pool_named<'s>(snapshot: &'s Snapshot, name: &str) -> Option<&'s Pool> {
    snapshot.pools.iter().find(|pool| &*pool.name == name)
}
