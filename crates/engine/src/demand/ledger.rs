//! What beliefs bought, and what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_core::demand::Expected;
use headstart_core::plan::Plan;
use headstart_core::price::Price;
use headstart_core::snapshot::Snapshot;

use crate::demand::{Injected, NewClaim, open};
use crate::observation::Belief;
use crate::out::Out;
use crate::provision::strikes::need;
use crate::store::{Claim, Pod, Store};
use crate::time::{Time, Wall};

/// The source that foresees pods of the very owner that makes them.
pub(crate) const GAP: &str = "gap";

/// What beliefs bought, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    claims: BTreeMap<String, Bought>,
    sources: BTreeMap<&'static str, Tally>,
    /// When idle nodes were last counted.
    ticked: Option<Time>,
}

/// A claim that was made for pods that were expected.
#[derive(Debug)]
struct Bought {
    at: Wall,
    /// What it was to cost an hour.
    price: Price,
    /// For whom: source, uid of the owner, and how many of its pods have not come.
    of: Vec<(&'static str, Arc<str>, u32)>,
    /// What its pods need.
    needs: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct Tally {
    bought: u64,
    arrived: u64,
    /// Seconds that they waited less.
    saved: f64,
    /// How long nodes that were bought for them had no pod, and what that cost.
    idle_seconds: f64,
    idle_dollars: f64,
    /// What has not been told yet: pods that came, and seconds that they waited less.
    untold: (u64, f64),
}

impl Tally {
    fn save(&mut self, pods: u64, seconds: f64) {
        self.arrived += pods;
        self.saved += seconds;
        self.untold.0 += pods;
        self.untold.1 += seconds;
    }
}

impl Ledger {
    /// Takes notice that a claim was made.
    pub(crate) fn bought(
        &mut self,
        claim: &NewClaim,
        expected: &[Expected],
        snapshot: &Snapshot,
        injected: &Injected,
        out: &mut Out<'_>,
    ) {
        let (at, price) = (out.now.wall, claim.price);
        let mut bought = Bought { at, price, of: Vec::new(), needs: BTreeSet::new() };
        for pod in &claim.pods {
            let Some(belief) = injected.belief(*pod) else { continue };
            let Expected { source, owner, .. } = &expected[belief];
            bought.needs.insert(need(&snapshot.pods[*pod as usize].shape));
            match bought.of.iter_mut().find(|(known, uid, _)| known == source && *uid == owner.uid) {
                Some((.., count)) => *count += 1,
                None => bought.of.push((source, owner.uid.clone(), 1)),
            }
        }
        for (source, _, count) in &bought.of {
            self.sources.entry(source).or_default().bought += u64::from(*count);
            out.measure("proactive_bought_pods_total", &[("source", source)], f64::from(*count));
        }
        if !bought.of.is_empty() {
            self.claims.insert(claim.name.clone(), bought);
        }
    }

    /// What a claim that is not launched yet was to cost an hour.
    pub(crate) fn price(&self, claim: &str) -> Price {
        self.claims.get(claim).map(|bought| bought.price).unwrap_or_default()
    }

    /// Takes notice that a claim is gone; what the pods needed that it was made for, if they were expected.
    pub(crate) fn gone(&mut self, claim: &str) -> Option<BTreeSet<u64>> {
        self.claims.remove(claim).map(|bought| bought.needs)
    }

    /// Takes notice that a pod came to a node: one that was expected, if the node was asked for before the pod was there.
    pub(crate) fn bound(&mut self, pod: &Pod, store: &Store) {
        let node = pod.node().and_then(|node| store.nodes.get(node));
        let Some(claim) = node.and_then(|node| store.claim_of_node(node)) else { return };
        let Some(bought) = self.claims.get_mut(claim.name()).filter(|_| !pod.is_daemon()) else { return };
        // Objects are stamped in whole seconds.
        let ahead = pod.created() - bought.at.0.div_euclid(1000) * 1000;
        if ahead < 0 {
            return;
        }
        let is_it = |(source, uid, left): &&mut (&str, Arc<str>, u32)| {
            // A gap is about pods of one owner; a run's pods are a Job's, and room is for whoever comes.
            *left > 0 && (*source != GAP || pod.owner() == Some(uid))
        };
        let Some((source, _, left)) = bought.of.iter_mut().find(is_it) else { return };
        *left -= 1;
        let seconds = (ahead as f64 / 1000.0).min(startup(claim));
        self.sources.entry(source).or_default().save(1, seconds);
    }

    /// A claim that pods which an owner is about to make were to go to.
    pub(crate) fn awaits(&self, owner: &str) -> Option<&str> {
        let is_it =
            |(source, uid, left): &(&str, Arc<str>, u32)| *left > 0 && *source == GAP && **uid == *owner;
        let claim = self.claims.iter().find(|(_, bought)| bought.of.iter().any(is_it));
        claim.map(|(name, _)| name.as_str())
    }

    /// Takes notice that a pod would come to a claim that nobody makes; who had expected it.
    pub(crate) fn came_to(&mut self, claim: &str, owner: &str) -> Option<&'static str> {
        let is_it = |(source, uid, left): &&mut (&str, Arc<str>, u32)| {
            *left > 0 && (*source != GAP || **uid == *owner)
        };
        let (source, _, left) = self.claims.get_mut(claim)?.of.iter_mut().find(is_it)?;
        *left -= 1;
        self.sources.entry(source).or_default().save(1, 0.0);
        Some(source)
    }

    /// Takes notice of what an expected pod saved at a claim that nobody made.
    pub(crate) fn saved(&mut self, source: &'static str, seconds: f64) {
        self.sources.entry(source).or_default().save(0, seconds);
    }

    /// Takes notice that a claim nobody made would have stood idle.
    pub(crate) fn idled(&mut self, claim: &str, seconds: f64, out: &mut Out<'_>) {
        if let Some(bought) = self.claims.get(claim)
            && let Some((source, ..)) = bought.of.first()
        {
            let dollars = bought.price.dollars() * seconds / 3600.0;
            tell_idle(&mut self.sources, source, seconds, dollars, out);
        }
    }

    /// Owners whose pods a claim is still to get.
    pub(crate) fn owners(&self, claim: &str) -> impl Iterator<Item = &Arc<str>> {
        let of = self.claims.get(claim).into_iter().flat_map(|bought| &bought.of);
        of.filter(|(.., left)| *left > 0).map(|(_, owner, _)| owner)
    }

    /// How many pods that an owner is about to make some claims are still to get.
    pub(crate) fn left(&self, claims: &BTreeSet<String>, owner: &str) -> u32 {
        let of = claims.iter().filter_map(|claim| self.claims.get(claim)).flat_map(|bought| &bought.of);
        of.filter(|(source, uid, _)| *source == GAP && **uid == *owner).map(|(.., left)| left).sum()
    }

    /// Tells what has changed, and counts nodes that stand idle.
    pub(crate) fn tick(&mut self, store: &Store, price: impl Fn(&Claim) -> Price, out: &mut Out<'_>) {
        for (source, tally) in &mut self.sources {
            let (arrived, saved) = std::mem::take(&mut tally.untold);
            if arrived > 0 || saved > 0.0 {
                out.measure("proactive_arrived_pods_total", &[("source", source)], arrived as f64);
                out.measure("proactive_saved_seconds_total", &[("source", source)], saved);
            }
        }
        let now = out.now.time;
        let passed = self.ticked.map_or(0.0, |before| (now - before).as_secs_f64());
        self.ticked = Some(now);
        let mut idle: BTreeMap<&'static str, (f64, f64)> = BTreeMap::new();
        for (name, bought) in &self.claims {
            let claim = store.claims.get(name).filter(|claim| claim.is_registered());
            if let (Some((source, ..)), Some(claim)) = (bought.of.first(), claim)
                && !open::is_used(claim, store)
            {
                let (seconds, dollars) = idle.entry(source).or_default();
                *seconds += passed;
                *dollars += price(claim).dollars() * passed / 3600.0;
            }
        }
        for (source, (seconds, dollars)) in idle {
            tell_idle(&mut self.sources, source, seconds, dollars, out);
        }
    }

    /// What each source has been right and wrong about so far.
    pub(crate) fn beliefs(&self) -> Vec<Belief> {
        let belief = |(source, tally): (&&'static str, &Tally)| Belief {
            source: (*source).to_owned(),
            expected: tally.bought,
            arrived: tally.arrived,
            saved_seconds: tally.saved,
            idle_node_seconds: tally.idle_seconds,
            idle_dollars: tally.idle_dollars,
        };
        self.sources.iter().map(belief).collect()
    }

    /// What was needed of nodes that are ready, run nothing, and got none of those they were bought for.
    pub(crate) fn useless(&self, store: &Store, snapshot: &Snapshot, plan: &Plan) -> BTreeSet<u64> {
        let used: BTreeSet<&str> =
            plan.existing.iter().map(|node| &*snapshot.nodes[node.node as usize].name).collect();
        let is_useless = |claim: &Claim| {
            let node = claim.status.node_name.as_deref().unwrap_or_default();
            claim.is_initialized()
                && !claim.is_leaving()
                && !used.contains(node)
                && !used.contains(claim.name())
                && !open::is_used(claim, store)
        };
        let useless = self.claims.iter().filter(|(name, _)| store.claims.get(name).is_some_and(is_useless));
        useless.flat_map(|(_, bought)| bought.needs.iter().copied()).collect()
    }

    /// How many of the pods that each source bought for have come.
    pub(crate) fn hit_rates(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let bought = self.sources.iter().filter(|(_, tally)| tally.bought > 0);
        bought.map(|(source, tally)| (*source, tally.arrived as f64 / tally.bought as f64))
    }
}

fn tell_idle(
    sources: &mut BTreeMap<&'static str, Tally>,
    source: &'static str,
    seconds: f64,
    dollars: f64,
    out: &mut Out<'_>,
) {
    if seconds > 0.0 {
        let tally = sources.entry(source).or_default();
        tally.idle_seconds += seconds;
        tally.idle_dollars += dollars;
        out.measure("proactive_idle_node_seconds_total", &[("source", source)], seconds);
        out.measure("proactive_idle_dollars_total", &[("source", source)], dollars);
    }
}

/// How many seconds a claim's node took to be ready.
fn startup(claim: &Claim) -> f64 {
    let ready = claim.since(headstart_api::conditions::nodeclaim::INITIALIZED);
    (ready - claim.metadata.created()).as_secs_f64()
}
