//! What decisions about disruption look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_api::NodePool;
use headstart_api::annotations::DO_NOT_DISRUPT;
use headstart_api::conditions::nodeclaim as condition;
use headstart_api::nodepool::ConsolidationPolicy;
use headstart_api::taints;
use headstart_api::{Budget as Written, BudgetLimit, DisruptionReason};
use headstart_core::cron::Cron;
use headstart_core::disrupt::budget::{Budget, Limit, Window};
use headstart_core::disrupt::{
    BlockedBy, Consolidation, Fixed, Fleet, Member, PodBlock, Policy, Reason, Resident, Size, cost as costs,
};
use headstart_core::repair::Diagnosis;
use headstart_core::snapshot::{Effect, Snapshot, Taint};
use headstart_core::types::Types;
use headstart_intake::Taken;

use crate::claims::settles;
use crate::disrupt::moved::RESTS;
use crate::disrupt::{Disrupt, REPLACES, health, is_tainted, node_of, replaced};
use crate::fixed::{count, template};
use crate::provision::Provision;
use crate::store::{Claim, Node, Pod, PodKey, PodLife as _, Store};
use crate::time::{Now, Time, Wall};

impl Disrupt {
    /// All nodes that may be disrupted, with the names of their claims.
    pub(super) fn fleet(
        &self,
        store: &Store,
        provision: &Provision,
        taken: Taken,
        types: &Arc<Types>,
        now: Now,
    ) -> (Fleet, Vec<String>) {
        let Taken { mut snapshot, residents, .. } = taken;
        let busy = self.busy();
        let going = close_going(&mut snapshot, &busy, store);
        provision.demand.join(&mut snapshot);
        // Who lives on a node that goes has been found another place, which nobody else may take.
        let (moving, staying): (Vec<_>, Vec<_>) =
            residents.into_iter().partition(|resident| going.contains(&resident.node));
        snapshot.pods.extend(moving.into_iter().filter_map(|resident| resident.pod));
        let waiting = snapshot.pods.len();
        let mut wanted: BTreeMap<PodKey, Option<u32>> = BTreeMap::new();
        for resident in staying {
            let pod = resident.pod.map(|pod| {
                snapshot.pods.push(pod);
                snapshot.pods.len() as u32 - 1
            });
            wanted.insert((resident.namespace, resident.name), pod);
        }
        let pools = self.policies(store, types, now.time);
        let nominated: BTreeSet<&str> =
            store.waiting.iter().filter_map(|key| store.pod(key)?.nominated().map(|node| &**node)).collect();
        let (mut members, mut names) = (Vec::new(), Vec::new());
        for (index, known) in (0..).zip(&snapshot.nodes) {
            let Some(node) = store.nodes.get(&known.name) else { continue };
            let Some(claim) = store.claim_of_node(node).filter(|claim| claim.is_registered()) else {
                continue;
            };
            let Some(pool) = store.pools.get(claim.pool()) else { continue };
            let is_out = claim.is_leaving()
                || node.is_leaving()
                || is_tainted(node)
                || self.reboots(claim)
                || busy.contains(claim.name())
                || self.failures.is_out(now.time, &claim.name().to_owned())
                || !store.is_ours(&pool.spec.template.spec.node_class_ref);
            if is_out {
                continue;
            }
            let is_nominated = nominated.contains(node.name())
                || provision.awaits(claim.name())
                || is_expected(claim, &busy, store);
            let Diagnosis { remedy, .. } = health::diagnose(claim, node, store, now.wall);
            let sick = remedy.map(|remedy| health::sickness(claim, node, &remedy));
            let member = member(index, claim, node, pool, is_nominated, &wanted, store, now);
            let movers = store.pods_on(node.name()).filter(|pod| wanted.contains_key(&pod.key()));
            let rests = movers.filter_map(|pod| self.moved.rests_until(pod)).max().map(seconds);
            members.push(Member { sick, rests_until: member.rests_until.max(rests), ..member });
            names.push(claim.name().to_owned());
        }
        let ideas = self.ideas(&names);
        (
            Fleet { snapshot, waiting, members, pools, now: seconds(now.wall), options: self.options, ideas },
            names,
        )
    }

    /// What all pools want, and how many nodes they have.
    fn policies(&self, store: &Store, types: &Arc<Types>, now: Time) -> Vec<Policy> {
        let mut policies: BTreeMap<&str, Policy> = BTreeMap::new();
        for (name, pool) in &store.pools {
            let is_in_vain = self.vain.holds(now, name);
            policies.insert(name, policy(name, pool, self.size(name, pool, store, types), is_in_vain));
        }
        for node in store.nodes.values() {
            if let Some(policy) = policies.get_mut(node.pool()) {
                policy.known += 1;
                policy.sick += u32::from(node.symptoms().next().is_some());
            }
        }
        let busy = self.busy();
        for claim in store.claims.values() {
            let Some(policy) = policies.get_mut(claim.pool()) else { continue };
            // COMPAT: an instance that is ending no longer counts, neither among all nodes nor among those that go.
            let reboots = self.reboots(claim);
            let is_counted = claim.is_initialized() || reboots;
            if !is_counted || claim.is(condition::INSTANCE_TERMINATING) {
                continue;
            }
            let node = node_of(claim, store);
            policy.nodes += 1;
            let is_going = claim.is_leaving()
                || reboots
                || busy.contains(claim.name())
                // A removal that was given up counts until nothing says any more that it is on its way.
                || claim.is(condition::DISRUPTION_REASON)
                || node.is_none_or(|node| node.is_leaving() || is_tainted(node));
            if is_going {
                policy.going += 1;
            } else if node.is_some_and(|node| !node.is_ready()) {
                policy.unready += 1;
            }
        }
        policies.into_values().collect()
    }

    /// How many nodes a pool has.
    fn size(&self, name: &str, pool: &NodePool, store: &Store, types: &Arc<Types>) -> Size {
        let Some(count) = count(name, pool, store, &self.swaps(), &BTreeSet::new()) else {
            return Size::ByNeed;
        };
        if !self.keeps_static {
            return Size::Unkept;
        }
        Size::Fixed(Box::new(Fixed {
            count,
            is_refilled: store.is_usable(name) && pool.metadata.deletion_timestamp.is_none(),
            replacement: template(pool),
            types: types.clone(),
        }))
    }
}

/// Lets nodes that are about to go take nobody, whether their mark is there yet or not; which they are.
fn close_going(snapshot: &mut Snapshot, busy: &BTreeSet<&str>, store: &Store) -> BTreeSet<u32> {
    let mut going = BTreeSet::new();
    for (index, known) in (0..).zip(&mut snapshot.nodes) {
        let Some(node) = store.nodes.get(&known.name) else { continue };
        let is_marked = is_tainted(node);
        if is_marked || store.claim_of_node(node).is_some_and(|claim| busy.contains(claim.name())) {
            going.insert(index);
        }
        if !is_marked && going.contains(&index) {
            let mark = Taint { key: taints::DISRUPTED.into(), value: "".into(), effect: Effect::NoSchedule };
            known.taints = known.taints.iter().cloned().chain([mark]).collect();
        }
    }
    going
}

/// Whether a node has replaced others whose pods have not all left yet.
fn is_expected(claim: &Claim, busy: &BTreeSet<&str>, store: &Store) -> bool {
    replaced(claim, store).any(|old| old.is_leaving() || busy.contains(old.name()))
}

#[expect(clippy::too_many_arguments, reason = "they are what a node is made of")]
fn member(
    index: u32,
    claim: &Claim,
    node: &Node,
    pool: &NodePool,
    is_nominated: bool,
    wanted: &BTreeMap<PodKey, Option<u32>>,
    store: &Store,
    now: Now,
) -> Member {
    let mut residents: Vec<Resident> = Vec::new();
    let mut block: BTreeMap<PodKey, PodBlock> = blocks(node, store, now.wall).collect();
    for pod in store.pods_on(node.name()).filter(|pod| !pod.is_over()) {
        let listed = wanted.get(&pod.key()).copied();
        let mut block = block.remove(&pod.key());
        if listed == Some(None) && block.is_none() {
            block = Some(PodBlock { pod: full_name(pod), by: BlockedBy::Nowhere });
        }
        residents.push(Resident { pod: listed.flatten(), cost: cost(pod), block });
    }
    let settles = settles(claim, claim.status.last_pod_event_time.as_ref(), pool);
    let waits = pool.spec.disruption.consolidate_after.duration().is_some_and(|after| after.as_nanos() > 0);
    let replaced = claim.metadata.annotations.contains_key(REPLACES);
    Member {
        node: index,
        pool: claim.pool().into(),
        capacity: node.capacity().clone(),
        is_initialized: claim.is_initialized(),
        is_nominated,
        do_not_disrupt: node.metadata.annotations.get(DO_NOT_DISRUPT).is_some_and(|text| **text == *"true"),
        has_grace_period: claim.spec.termination_grace_period.is_some(),
        is_consolidatable: claim.is(condition::CONSOLIDATABLE),
        is_restless: waits && settles.is_some_and(|settles| settles > now.wall),
        rests_until: replaced.then(|| seconds(claim.since(condition::INITIALIZED) + RESTS)),
        drifted: claim.is(condition::DRIFTED).then(|| seconds(claim.since(condition::DRIFTED))),
        sick: None,
        residents,
    }
}

/// Seconds since 1970.
fn seconds(wall: Wall) -> i64 {
    wall.0.div_euclid(1000)
}

/// What evicting a pod costs.
pub(crate) fn cost(pod: &Pod) -> f64 {
    costs::eviction(pod.cost(), pod.priority())
}

fn full_name(pod: &Pod) -> Arc<str> {
    format!("{}/{}", pod.namespace(), pod.name()).into()
}

/// Pods of a node that may not be moved now, and why.
pub(super) fn blocks<'s>(
    node: &'s Node,
    store: &'s Store,
    now: Wall,
) -> impl Iterator<Item = (PodKey, PodBlock)> + 's {
    let active = store.pods_on(node.name()).filter(|pod| !pod.is_over() && !pod.is_leaving());
    active.filter_map(move |pod| {
        let by = if pod.is_protected(now) { Some(BlockedBy::DoNotDisrupt) } else { guarded(pod, store) };
        by.map(|by| (pod.key(), PodBlock { pod: full_name(pod), by }))
    })
}

/// The budgets of pods that keep a pod where it is.
fn guarded(pod: &Pod, store: &Store) -> Option<BlockedBy> {
    if pod.is_mirror() || store.guards.is_empty() || pod.tolerates_disruption() {
        return None;
    }
    let shape = pod.shape()?;
    let of_namespace = store.guards.iter().filter(|((namespace, _), _)| **namespace == **pod.namespace());
    let about: Vec<_> = of_namespace.filter(|(_, guard)| guard.is_about(&shape.labels)).collect();
    let named = |(namespace, name): &(String, String)| -> Arc<str> { format!("{namespace}/{name}").into() };
    match about[..] {
        [] => None,
        [(name, guard)] => {
            let is_free = guard.allowed > 0 || (guard.frees_unready && pod.is_unready());
            (!is_free).then(|| BlockedBy::Budget(named(name)))
        }
        _ => Some(BlockedBy::Budgets(about.iter().map(|(name, _)| named(name)).collect())),
    }
}

fn policy(name: &str, pool: &NodePool, size: Size, is_in_vain: bool) -> Policy {
    let disruption = &pool.spec.disruption;
    Policy {
        pool: name.into(),
        consolidation: match disruption.consolidation_policy {
            ConsolidationPolicy::WhenEmpty => Consolidation::WhenEmpty,
            ConsolidationPolicy::WhenEmptyOrUnderutilized => Consolidation::WhenEmptyOrUnderutilized,
            ConsolidationPolicy::Balanced => Consolidation::Balanced,
        },
        consolidates: disruption.consolidate_after.duration().is_some(),
        is_in_vain,
        size,
        budgets: disruption.budgets.iter().map(budget).collect(),
        nodes: 0,
        going: 0,
        unready: 0,
        known: 0,
        sick: 0,
    }
}

fn budget(written: &Written) -> Budget {
    let reason = |reason: &DisruptionReason| match reason {
        DisruptionReason::Underutilized => Reason::Underutilized,
        DisruptionReason::Empty => Reason::Empty,
        DisruptionReason::Drifted => Reason::Drifted,
        DisruptionReason::Unhealthy => Reason::Unhealthy,
    };
    let window = match (&written.schedule, written.duration) {
        (None, None) => None,
        (schedule, duration) => Some(Window {
            opens: schedule.as_ref().and_then(|line| Cron::parse(line).ok()).filter(|_| duration.is_some()),
            seconds: duration.map_or(0, |duration| duration.as_nanos() / 1_000_000_000),
        }),
    };
    Budget {
        reasons: written.reasons.as_ref().map(|reasons| reasons.iter().map(reason).collect()),
        nodes: match written.limit() {
            Ok(BudgetLimit::Count(count)) => Limit::Count(count),
            Ok(BudgetLimit::Percent(percent)) => Limit::Percent(percent),
            Err(_) => Limit::Unreadable,
        },
        window,
    }
}
