//! Nodes of which only the claim exists: a pod may go there only if it fits whatever the claim becomes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::catalog::InstanceType;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::snapshot::{Launching, Node, Snapshot, Taint, either};
use crate::solve::problem::{NodeRow, daemons_on};
use crate::solve::reqs::{ReqId, ReqSets};
use crate::solve::topology::{Choice, Counts, Group, Rule};

/// What is certain about a launch.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    /// What each label that somebody mentions may be.
    pub(crate) labels: Requirements,
    /// The least that pods can use, daemons taken off.
    least: Resources,
    /// The most that daemons ask for.
    daemons: Resources,
    /// The most that the machine may have.
    pub(crate) most: Resources,
}

/// Requirements, taints and types of a launch, which is all that it depends on.
type Asked<'a> = (Requirements, &'a [Taint], *const Arc<InstanceType>);

/// Launches that were looked at; those of one decision are mostly alike.
pub(crate) struct Launches<'a> {
    snapshot: &'a Snapshot,
    keys: &'a BTreeSet<Arc<str>>,
    known: FxHashMap<Asked<'a>, Option<Rc<Foreseen>>>,
}

impl<'a> Launches<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, keys: &'a BTreeSet<Arc<str>>) -> Self {
        Self { snapshot, keys, known: FxHashMap::default() }
    }

    /// What is certain about a node, or `None` if it exists or nothing that can be bought is like it.
    pub(crate) fn foresee(&mut self, node: &'a Node) -> Option<Rc<Foreseen>> {
        let launching = node.launching.as_deref()?;
        let asked = launching.asked(&node.labels);
        let key = (asked, node.taints.as_slice(), launching.types.as_ptr());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let foreseen = self.work_out(launching, &key.0, &node.taints).map(Rc::new);
        self.known.insert(key, foreseen.clone());
        foreseen
    }

    fn work_out(&self, launching: &Launching, asked: &Requirements, taints: &[Taint]) -> Option<Foreseen> {
        let mut all: Option<Foreseen> = None;
        let mut labels: BTreeMap<&Arc<str>, Requirement> = BTreeMap::new();
        for outcome in launching.outcomes(asked, &self.snapshot.well_known) {
            let instance_type = outcome.instance_type;
            let daemons = daemons_on(asked, taints, instance_type, self.snapshot).requests;
            let mut most = instance_type.capacity.clone();
            let mut least: Option<Resources> = None;
            let plain = |offering: &&&crate::catalog::Offering| {
                offering.capacity_override.is_none() && offering.overhead_override.is_none()
            };
            let mut each: Vec<Resources> = outcome
                .offerings
                .iter()
                .filter(|offering| !plain(offering))
                .map(|offering| instance_type.allocatable_with(offering))
                .collect();
            each.extend(outcome.offerings.iter().any(|o| plain(&o)).then(|| instance_type.allocatable()));
            for mut left in each {
                left.sub(&daemons);
                least = Some(least.map_or_else(|| left.clone(), |least| least.at_most(&left)));
            }
            for replaced in
                outcome.offerings.iter().filter_map(|offering| offering.capacity_override.as_ref())
            {
                most.max(replaced);
            }
            let least = least.unwrap_or_default();
            all = Some(match all {
                None => Foreseen { labels: Requirements::new(), least, daemons, most },
                Some(mut all) => {
                    all.least = all.least.at_most(&least);
                    all.daemons.max(&daemons);
                    all.most.max(&most);
                    all
                }
            });
            for key in self.keys {
                let may = outcome.label(key, asked);
                labels.entry(key).and_modify(|known| *known = either(known, &may)).or_insert(may);
            }
        }
        let mut all = all?;
        // A label that is absent for certain needs no mention.
        all.labels = labels.into_values().filter(|requirement| !requirement.is_empty()).collect();
        Some(all)
    }
}

impl Foreseen {
    /// What is left of the node for certain; once the launch has told what it has, that counts.
    pub(crate) fn free(&self, node: &Node) -> Resources {
        let mut free = self.least.clone();
        if !node.allocatable.is_empty() {
            free.clone_from(&*node.allocatable);
            free.sub(&self.daemons);
        }
        free.sub(&node.requested);
        free
    }
}

impl NodeRow<'_> {
    /// Whether the node meets what is asked, whatever it turns out to be.
    pub(crate) fn meets(&self, asked: ReqId, reqs: &mut ReqSets) -> bool {
        if !self.undecided {
            return reqs.labels_meet(self.labels, asked);
        }
        let labels = reqs.get(self.labels);
        reqs.get(asked).iter().all(|asked| match labels.get(asked.key()) {
            None => asked.operator().allows_absence(),
            Some(may) => !may.is_complement() && may.values().all(|value| asked.has(value)),
        })
    }

    /// Whether a group lets a pod go to the node, whichever of these domains it turns out to be in.
    ///
    /// Where a pod goes is counted only if it is certain, so nothing that depends on an exact count, and no first pod of those
    /// that want to be together, may go to a node that is undecided.
    pub(crate) fn allowed(
        &self,
        group: &Group,
        counts: &Counts,
        selects_itself: bool,
        pod: Option<&Requirement>,
        own: &Requirement,
    ) -> bool {
        let may = |selects: bool, own: &Requirement| {
            counts.choose(group.rule, selects, pod, Some(own)) != Choice::Nowhere
        };
        if !self.undecided || own.len() == Some(1) {
            return may(selects_itself, own);
        }
        !own.is_complement()
            && !matches!(group.rule, Rule::Spread { .. })
            && own.values().all(|value| may(false, &Requirement::any_of(own.key(), &[value])))
    }
}
