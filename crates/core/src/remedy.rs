//! What would have to change for a pod that fits nowhere to fit.
//!
//! Changes are guessed from what stood in the way and then tried: the snapshot is changed and solved again. Only what was
//! seen to help is told.

use std::fmt;
use std::sync::Arc;

use crate::explain::{Obstacle, Place, Refusal};
use crate::quantity::Quantity;
use crate::requirements::Requirements;
use crate::resources::PODS;
use crate::snapshot::{Shape, Snapshot, Taint, Toleration};
use crate::solve::{Packing, obstacles, solve};

/// Most places that are looked at, nearest first.
const MAX_PLACES: usize = 6;
/// Most changes that are proposed together.
const MAX_CHANGES: usize = 3;
/// Most plans that are made in search of a remedy.
const MAX_PLANS: usize = 60;
/// How much further limits are raised when others take what a pod was meant to get.
const RAISES: [u64; 5] = [1, 2, 4, 16, 256];

/// A change to a pod, or to a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pod asks for less.
    AskLess {
        /// The resource.
        resource: Arc<str>,
        /// What is left of the request.
        at_most: Quantity,
    },
    /// The pod tolerates a taint.
    Tolerate(Taint),
    /// The pod does not ask for a label.
    NotAsk {
        /// The label.
        key: Arc<str>,
        /// What it asked.
        asked: String,
    },
    /// The pod does without a port of the node.
    NoPort(u16),
    /// The pod does not care where others are.
    NoGroup(Group, Arc<str>),
    /// A pool may have more.
    RaiseLimit {
        /// The pool.
        pool: Arc<str>,
        /// The resource, or `nodes`.
        resource: Arc<str>,
        /// How much more.
        by: Quantity,
    },
}

/// A way in which pods look at where others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Required topology spread.
    Spread,
    /// Required affinity.
    Affinity,
    /// Required anti-affinity.
    AntiAffinity,
}

impl Change {
    /// Makes the change.
    pub fn apply(&self, snapshot: &mut Snapshot, pod: u32) {
        if let Self::RaiseLimit { pool, resource, by } = self {
            let limits = snapshot.pools.iter_mut().filter(|known| known.name == *pool);
            for limits in limits.filter_map(|pool| pool.limits.as_mut()) {
                limits.set(resource, limits.get(resource) + *by);
            }
            return;
        }
        let Some(pod) = snapshot.pods.get_mut(pod as usize) else { return };
        let shape = Arc::make_mut(&mut pod.shape);
        match self {
            Self::AskLess { resource, at_most } => shape.requests.set(resource, *at_most),
            Self::Tolerate(taint) => shape.tolerations.push(Toleration {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: Some(taint.effect),
                ..Toleration::default()
            }),
            Self::NotAsk { key, .. } => {
                shape.node_selector.remove(key);
                shape.required.iter_mut().for_each(|term| term.remove(key));
            }
            Self::NoPort(port) => shape.host_ports.retain(|own| own.port != *port),
            Self::NoGroup(Group::Spread, key) => {
                shape.spread.retain(|spread| !spread.required || spread.topology_key != *key);
            }
            Self::NoGroup(Group::Affinity, key) => {
                shape.affinity.required.retain(|term| term.topology_key != *key);
            }
            Self::NoGroup(Group::AntiAffinity, key) => {
                shape.anti_affinity.required.retain(|term| term.topology_key != *key);
            }
            Self::RaiseLimit { .. } => {}
        }
    }
}

/// Changes that together give the pod a place and take it from nobody; empty when none are known.
///
/// `found` is what stood in the way, nearest miss first. A single change is preferred to several, and among those the
/// nearest place decides.
pub fn remedy(snapshot: &Snapshot, pod: u32, found: &[Obstacle]) -> Vec<Change> {
    let mut search =
        Search { snapshot, pod, unplaced: solve(snapshot, Packing::Compat).unplaced.len(), plans: MAX_PLANS };
    let places = &found[..found.len().min(MAX_PLACES)];
    let single = places.iter().find_map(|obstacle| search.one(&[], obstacle));
    single.or_else(|| places.iter().find_map(|obstacle| search.several(obstacle))).unwrap_or_default()
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    pod: u32,
    /// How many pods have no place without a change.
    unplaced: usize,
    /// How many more plans may be made.
    plans: usize,
}

impl Search<'_> {
    /// One change, or several that belong together, that help at once.
    fn one(&mut self, made: &[Change], obstacle: &Obstacle) -> Option<Vec<Change>> {
        let shape = &self.changed(made).pods[self.pod as usize].shape.clone();
        candidates(shape, obstacle).into_iter().find_map(|more| {
            let all = [made, &more].concat();
            self.helps(&all).then_some(all)
        })
    }

    /// Removes what stands in the way in one place, one after the other.
    fn several(&mut self, first: &Obstacle) -> Option<Vec<Change>> {
        let (mut made, mut obstacle): (Vec<Change>, Obstacle) = (Vec::new(), first.clone());
        while made.len() < MAX_CHANGES && self.plans > 0 {
            let changed = self.changed(&made);
            made.extend(candidates(&changed.pods[self.pod as usize].shape, &obstacle).into_iter().next()?);
            let next = obstacles(&self.changed(&made), self.pod);
            obstacle = next.into_iter().find(|next| next.place == first.place)?;
            if let Some(found) = self.one(&made, &obstacle) {
                return Some(found);
            }
        }
        None
    }

    fn changed(&self, changes: &[Change]) -> Snapshot {
        let mut snapshot = self.snapshot.clone();
        for change in changes {
            change.apply(&mut snapshot, self.pod);
        }
        snapshot
    }

    /// Whether the pod then has a place and no other has lost its own.
    fn helps(&mut self, changes: &[Change]) -> bool {
        if self.plans == 0 {
            return false;
        }
        self.plans -= 1;
        let plan = solve(&self.changed(changes), Packing::Compat);
        plan.unplaced.len() < self.unplaced && plan.unplaced.iter().all(|unplaced| unplaced.pod != self.pod)
    }
}

/// What may remove an obstacle: alternatives, each a number of changes.
fn candidates(shape: &Shape, Obstacle { place, rule }: &Obstacle) -> Vec<Vec<Change>> {
    let less =
        |resource: &Arc<str>, at_most: Quantity| Change::AskLess { resource: resource.clone(), at_most };
    match rule {
        Refusal::Taint(taint) => vec![vec![Change::Tolerate(taint.clone())]],
        Refusal::Labels(_) | Refusal::NoInstanceType(_) => {
            let terms = std::iter::once(&shape.node_selector).chain(&shape.required);
            let asked = terms.flat_map(Requirements::iter);
            asked.map(|r| vec![Change::NotAsk { key: r.key().into(), asked: r.to_string() }]).collect()
        }
        // A pod is one pod.
        Refusal::Resource(short) if &*short.name == PODS => Vec::new(),
        Refusal::Resource(short) => vec![vec![less(&short.name, short.most)]],
        Refusal::Combination { short, .. } if short.iter().any(|short| &*short.name == PODS) => Vec::new(),
        Refusal::Combination { short, .. } => {
            vec![short.iter().map(|short| less(&short.name, short.most)).collect()]
        }
        Refusal::HostPort(port) => vec![vec![Change::NoPort(*port)]],
        Refusal::Topology(_) => {
            let spread = shape.spread.iter().filter(|spread| spread.required);
            let spread = spread.map(|spread| (Group::Spread, &spread.topology_key));
            let near = shape.affinity.required.iter().map(|term| (Group::Affinity, &term.topology_key));
            let apart =
                shape.anti_affinity.required.iter().map(|term| (Group::AntiAffinity, &term.topology_key));
            spread
                .chain(near)
                .chain(apart)
                .map(|(group, key)| vec![Change::NoGroup(group, key.clone())])
                .collect()
        }
        Refusal::Limit { more, .. } => {
            let Place::Pool(pool) = place else { return Vec::new() };
            let raise = |(resource, by): &(Arc<str>, Quantity), times: u64| Change::RaiseLimit {
                pool: pool.clone(),
                resource: resource.clone(),
                by: by.times(times),
            };
            RAISES.iter().map(|times| more.iter().map(|more| raise(more, *times)).collect()).collect()
        }
        Refusal::NoPools
        | Refusal::VolumeTopology(_)
        | Refusal::VolumeLimit(_)
        | Refusal::MinValues(_)
        | Refusal::Reservation => Vec::new(),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AskLess { resource, at_most } if at_most.is_zero() => {
                write!(f, "it asked for no {resource}")
            }
            Self::AskLess { resource, at_most } => write!(f, "it asked for at most {at_most} {resource}"),
            Self::Tolerate(taint) => write!(f, "it tolerated {taint}"),
            Self::NotAsk { asked, .. } => write!(f, "it did not ask for {asked}"),
            Self::NoPort(port) => write!(f, "it did without host port {port}"),
            Self::NoGroup(Group::Spread, key) => write!(f, "it did not insist on being spread over {key}"),
            Self::NoGroup(Group::Affinity, key) => write!(f, "it did not insist on company in its {key}"),
            Self::NoGroup(Group::AntiAffinity, key) => {
                write!(f, "it did not insist on being alone in its {key}")
            }
            Self::RaiseLimit { pool, resource, by } => {
                write!(f, "NodePool {pool} had {by} more {resource} in its limits")
            }
        }
    }
}
