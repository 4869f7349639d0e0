//! What pods insist on besides amounts.
//!
//! Pods that differ in what they ask for mostly agree in everything else. Whether labels, taints and neighbours suit them is
//! worked out once for all that agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::labels::HOSTNAME;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::snapshot::{
    HostPort, Labels, Namespaces, PodTerm, PodTerms, Shape, Snapshot, Spread, Taint, Toleration, Weighted,
    untolerated,
};
use crate::solve::bits::Bits;
use crate::solve::relax::{Dropped, Wishes, ladder};
use crate::solve::reqs::{ReqId, ReqSets};
use crate::solve::topology::{Counted, Group, GroupId, Groups, Rule};

/// What pods insist on besides amounts.
#[derive(Debug)]
pub(crate) struct Constraints {
    /// From all wishes down to the bare necessities.
    pub(crate) variants: Vec<Variant>,
    /// Alternatives for where the volumes are; never empty.
    pub(crate) volume_topology: Vec<ReqId>,
    /// Groups that count these pods.
    pub(crate) counted_by: Vec<GroupId>,
    /// Reverse groups whose owners do not want these pods near them.
    pub(crate) shunned_by: Vec<GroupId>,
    /// Reverse groups that these pods own.
    pub(crate) shuns: Vec<GroupId>,
}

/// Constraints with some of its wishes given up.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) dropped: Option<Dropped>,
    /// What nodes must be like, wishes included.
    pub(crate) node_reqs: ReqId,
    /// The same for a node that is still to be bought: host names left out.
    pub(crate) claim_reqs: ReqId,
    /// Without wishes.
    pub(crate) strict: ReqId,
    /// Whether a node whose name is not known yet can do.
    pub(crate) any_host: bool,
    /// Groups that must be obeyed, and whether they count these pods themselves.
    pub(crate) obeys: Vec<(GroupId, bool)>,
    /// Which taint sets are tolerated.
    pub(crate) tolerates: Bits,
}

impl Constraints {
    /// Whether other pods' places matter to a variant.
    pub(crate) fn is_social(&self, variant: &Variant) -> bool {
        !variant.obeys.is_empty() || !self.shunned_by.is_empty()
    }
}

/// Taint sets by number, so that tolerating one is a bit.
#[derive(Debug, Default)]
pub(crate) struct TaintSets {
    all: Vec<Vec<Taint>>,
}

impl TaintSets {
    pub(crate) fn add(&mut self, taints: &[Taint]) -> u32 {
        let known = self.all.iter().position(|known| known == taints);
        known.unwrap_or_else(|| {
            self.all.push(taints.to_vec());
            self.all.len() - 1
        }) as u32
    }

    pub(crate) fn get(&self, id: u32) -> &[Taint] {
        &self.all[id as usize]
    }
}

/// All that constraints follow from, as pods have it; of labels only those that somebody looks at.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Stated<'a> {
    namespace: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    node_selector: &'a Requirements,
    required: &'a [Requirements],
    preferred: &'a [Weighted<Requirements>],
    tolerations: &'a [Toleration],
    spread: &'a [Spread],
    affinity: &'a PodTerms,
    anti_affinity: &'a PodTerms,
    host_ports: &'a [HostPort],
    volume_topology: &'a [Requirements],
}

impl<'a> Stated<'a> {
    pub(crate) fn new(namespace: &'a str, shape: &'a Shape, looked_at: Option<&BTreeSet<Arc<str>>>) -> Self {
        let Shape {
            requests: _,
            labels,
            node_selector,
            required,
            preferred,
            tolerations,
            spread,
            affinity,
            anti_affinity,
            host_ports,
            volume_topology,
            priority: _,
        } = shape;
        let labels = looked_at.map(|keys| labels.iter().filter(|(key, _)| keys.contains(*key)));
        Self {
            namespace,
            labels: labels.into_iter().flatten().map(|(key, value)| (&**key, &**value)).collect(),
            node_selector,
            required,
            preferred,
            tolerations,
            spread,
            affinity,
            anti_affinity,
            host_ports,
            volume_topology,
        }
    }
}

/// What working out constraints needs to know, and the groups it finds.
pub(crate) struct Context<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) taint_sets: &'a TaintSets,
    pub(crate) reqs: &'a mut ReqSets,
    pub(crate) groups: &'a mut Groups,
    /// Groups of required anti-affinity, which count their owners instead of those they select.
    pub(crate) reverse: &'a mut Groups,
    /// Whether some pool has a taint that pods only prefer to avoid.
    pub(crate) avoidable: bool,
}

impl Context<'_> {
    /// Works out what a pod of this namespace and shape insists on.
    pub(crate) fn constraints(&mut self, namespace: &Arc<str>, shape: &Shape) -> Constraints {
        let mut variants: Vec<Variant> = Vec::new();
        for wishes in ladder(shape, self.snapshot.options.preferences, self.avoidable) {
            let variant = self.variant(namespace, shape, &wishes);
            let same = |last: &Variant| {
                last.node_reqs == variant.node_reqs
                    && last.strict == variant.strict
                    && last.obeys == variant.obeys
                    && last.tolerates == variant.tolerates
            };
            if !variants.last().is_some_and(same) {
                variants.push(variant);
            }
        }
        let shuns = shape.anti_affinity.required.iter();
        let shuns: BTreeSet<_> =
            shuns.map(|term| self.reverse.add(apart(self.snapshot, term, namespace))).collect();
        let mut volume_topology: Vec<_> =
            shape.volume_topology.iter().map(|alternative| self.reqs.intern(alternative.clone())).collect();
        if volume_topology.is_empty() {
            volume_topology.push(ReqId::NONE);
        }
        Constraints {
            variants,
            volume_topology,
            counted_by: Vec::new(),
            shunned_by: Vec::new(),
            shuns: shuns.into_iter().collect(),
        }
    }

    fn variant(&mut self, namespace: &Arc<str>, shape: &Shape, wishes: &Wishes) -> Variant {
        let requirements = wishes.requirements(shape);
        let any_host = requirements.get(HOSTNAME).is_none_or(accepts_unknown_host);
        let mut without_host = requirements.clone();
        without_host.remove(HOSTNAME);
        let mut groups: BTreeSet<GroupId> = BTreeSet::new();
        for spread in &wishes.spread {
            let nodes = if spread.honor_affinity { wishes.alternatives(shape) } else { Vec::new() };
            let nodes = nodes.into_iter().filter(|nodes| !nodes.is_empty());
            let group = Group {
                rule: Rule::Spread { max_skew: spread.max_skew, min_domains: spread.min_domains },
                key: spread.topology_key.clone(),
                namespaces: [namespace.clone()].into_iter().collect(),
                selector: spread.selector.clone(),
                counted: Counted {
                    nodes: nodes.map(|nodes| self.reqs.intern(nodes)).collect(),
                    tolerations: spread.honor_taints.then(|| wishes.tolerations.clone()),
                },
            };
            groups.insert(self.groups.add(group));
        }
        let to_be_near = wishes.near(shape).map(|term| (Rule::Near, term));
        let to_avoid = wishes.apart(shape).map(|term| (Rule::Apart, term));
        for (rule, term) in to_be_near.chain(to_avoid) {
            let group = Group { rule, ..apart(self.snapshot, term, namespace) };
            groups.insert(self.groups.add(group));
        }
        let obeys = groups.into_iter().map(|id| (id, self.groups.get(id).selects(namespace, &shape.labels)));
        let mut tolerates = Bits::none(self.taint_sets.all.len());
        for (index, taints) in self.taint_sets.all.iter().enumerate() {
            if untolerated(taints, &wishes.tolerations).is_none() {
                tolerates.insert(index);
            }
        }
        Variant {
            dropped: wishes.dropped,
            any_host,
            obeys: obeys.collect(),
            claim_reqs: self.reqs.intern(without_host),
            node_reqs: self.reqs.intern(requirements),
            strict: self.reqs.intern(wishes.strict_requirements(shape)),
            tolerates,
        }
    }
}

/// The group of those whom a pod wants to stay away from.
pub(crate) fn apart(snapshot: &Snapshot, term: &PodTerm, namespace: &Arc<str>) -> Group {
    Group {
        rule: Rule::Apart,
        key: term.topology_key.clone(),
        namespaces: meant(&term.namespaces, namespace, &snapshot.namespaces),
        selector: term.selector.clone(),
        counted: Counted::default(),
    }
}

/// Whether a host that has no name yet meets the requirement.
fn accepts_unknown_host(requirement: &Requirement) -> bool {
    requirement.is_complement() && requirement.bounds() == (None, None)
}

/// The namespaces a term is about.
pub(crate) fn meant(
    namespaces: &Namespaces,
    own: &Arc<str>,
    known: &BTreeMap<Arc<str>, Labels>,
) -> BTreeSet<Arc<str>> {
    let mut names: BTreeSet<_> = namespaces.names.iter().cloned().collect();
    match &namespaces.selector {
        None if names.is_empty() => {
            names.insert(own.clone());
        }
        None => {}
        Some(selector) => {
            names.extend(
                known.iter().filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| name.clone()),
            );
        }
    }
    names
}
