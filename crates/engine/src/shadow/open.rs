//! A decision that is being followed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::capacity::Capacity;
use crate::observation::{Decision, Nodes, Side, State};
use crate::provision::Ordered;
use crate::settings::Mode;
use crate::store::Store;
use crate::time::Wall;

use super::fleet::{self, Landing};
use super::lead::Leads;

/// Most reasons that a decision names.
const MOST_REASONS: usize = 3;
/// Stamps are in whole seconds: what seems this much earlier may be later.
const BLUR: i64 = 1_000;

/// How many followed pods came to each node, by decision.
pub(super) type Landed = BTreeMap<Arc<str>, BTreeMap<u64, u32>>;

/// A decision that is being followed.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: u64,
    mode: Mode,
    pub(super) at: Wall,
    /// Its claims, and whether they still await pods.
    pub(super) claims: BTreeMap<String, Sought>,
    pub(super) pods: BTreeMap<Arc<str>, Followed>,
    gone: u32,
    /// What is known of the nodes that pods came to; they may be gone when somebody asks.
    landings: BTreeMap<Arc<str>, Landing>,
    /// Whether something has changed since it was last told.
    pub(super) is_news: bool,
}

/// A claim of a decision.
#[derive(Debug)]
pub(super) struct Sought {
    pub(super) ordered: Ordered,
    /// Whether pods may still come to it.
    pub(super) is_standing: bool,
    /// Until when it is known whether it would have stood idle; none once it was used.
    pub(super) idle_to: Option<Wall>,
}

/// A pod of a decision.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) claim: String,
    pub(super) source: Option<&'static str>,
    pub(super) created: Wall,
    /// When it came to a node.
    pub(super) bound: Option<Wall>,
}

impl Open {
    pub(super) fn new(id: u64, mode: Mode, at: Wall) -> Self {
        Self {
            id,
            mode,
            at,
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            gone: 0,
            landings: BTreeMap::new(),
            is_news: true,
        }
    }

    pub(super) fn order(&mut self, ordered: Ordered) {
        let sought = Sought { is_standing: true, idle_to: Some(self.at), ordered };
        self.claims.insert(sought.ordered.name.clone(), sought);
    }

    /// A pod has gone without having had a node, or is somebody else's now.
    pub(super) fn lose(&mut self, uid: &str) {
        if self.pods.remove(uid).is_some() {
            self.gone += 1;
            self.is_news = true;
        }
    }

    /// When a pod would have had its node.
    pub(super) fn would_bind(&self, pod: &Followed, leads: &Leads) -> Wall {
        (self.at + self.lead(&pod.claim, leads).0).max(pod.created)
    }

    /// How long the node of a claim would have taken, and of how many that was learned.
    pub(super) fn lead(&self, claim: &str, leads: &Leads) -> (Duration, u32) {
        leads.of(self.claims.get(claim).map_or("", |sought| &sought.ordered.pool))
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.pods.values().filter(|pod| pod.bound.is_none()).count()
    }

    /// The nodes that its claims would become.
    pub(super) fn would(&self) -> impl Iterator<Item = Nodes> {
        self.claims.values().map(|sought| nodes(&sought.ordered))
    }

    /// Learns about the nodes that its pods came to.
    pub(super) fn look(&mut self, landed: &Landed, store: &Store, leads: &Leads, capacity: &Capacity) {
        for (node, _) in landed.iter().filter(|(_, by)| by.contains_key(&self.id)) {
            let is_known = self.landings.get(node).is_some_and(|landing| landing.kind.dollars > 0.0);
            if !is_known && let Some(landing) = fleet::landing(node, store, leads, capacity) {
                self.landings.insert(node.clone(), landing);
                self.is_news = true;
            }
        }
    }

    /// The nodes that were asked for because of its pods.
    pub(super) fn bought(&self) -> impl Iterator<Item = (&Arc<str>, &Landing)> {
        let first = self.pods.values().map(|pod| pod.created).min().unwrap_or(self.at).min(self.at);
        self.landings.iter().filter(move |(_, landing)| landing.asked.0 >= first.0 - BLUR)
    }

    /// The decision as it stands.
    pub(super) fn record(&self, state: State, landed: &Landed, leads: &Leads) -> Decision {
        let orders = || self.claims.values().map(|sought| &sought.ordered);
        let (mut would, mut real) = (Side::default(), Side::default());
        for pod in self.pods.values() {
            if let Some(bound) = pod.bound {
                let millis = |until: Wall| u64::try_from(until.0 - pod.created.0).unwrap_or(0);
                real.waits.add(millis(bound));
                would.waits.add(millis(self.would_bind(pod, leads)));
            }
        }
        (would.first, would.last) = (Some(self.at), Some(self.at));
        would.dollars = self.would().map(|nodes| nodes.dollars).sum();
        would.nodes = fleet::together(self.would());
        for (node, landing) in self.bought() {
            let by = landed.get(node);
            let all: u32 = by.map_or(1, |by| by.values().sum());
            let own = by.and_then(|by| by.get(&self.id)).copied().unwrap_or(1);
            real.dollars += landing.kind.dollars * f64::from(own) / f64::from(all.max(1));
        }
        real.first = self.bought().map(|(_, landing)| landing.asked).min();
        real.last = self.bought().map(|(_, landing)| landing.asked).max();
        real.nodes = fleet::together(self.bought().map(|(_, landing)| landing.kind.clone()));

        let first = self.claims.keys().next().map_or("", String::as_str);
        let (lead, lead_of) = self.lead(first, leads);
        let bound = self.pods.len() - self.n_waiting();
        Decision {
            id: self.id,
            mode: self.mode,
            at: self.at,
            because: because(orders()),
            sources: sources(orders()),
            pods: orders().map(|ordered| ordered.pods).sum(),
            expected: orders().map(|ordered| ordered.expected).sum(),
            bound: count(bound),
            gone: self.gone,
            waiting: count(self.n_waiting()),
            state,
            would,
            real,
            lead: lead.as_secs_f64(),
            lead_of,
        }
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn nodes(ordered: &Ordered) -> Nodes {
    Nodes {
        instance_type: ordered.instance_type.clone(),
        zone: ordered.zone.clone(),
        capacity_type: ordered.capacity_type.clone(),
        count: 1,
        dollars: ordered.price.dollars(),
    }
}

fn because<'a>(orders: impl Iterator<Item = &'a Ordered>) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut waiting = 0;
    for ordered in orders {
        waiting += ordered.pods - ordered.expected;
        if let Some((_, because)) = &ordered.reasons
            && !reasons.contains(because)
        {
            reasons.push(because.clone());
        }
    }
    let others = reasons.len().saturating_sub(MOST_REASONS);
    reasons.truncate(MOST_REASONS);
    if others > 0 {
        reasons.push(format!("{others} more reasons"));
    }
    if waiting > 0 {
        reasons.insert(0, format!("{waiting} pods wait"));
    }
    reasons.join("; ")
}

fn sources<'a>(orders: impl Iterator<Item = &'a Ordered>) -> Vec<String> {
    let mut all: Vec<String> = orders
        .filter_map(|ordered| ordered.reasons.as_ref())
        .flat_map(|(by, _)| by.split(','))
        .map(str::to_owned)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
