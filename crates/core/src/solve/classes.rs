//! Pods with equal needs, as one.
//!
//! A class is what decides placement: the shape of a pod, with only those labels that some selector looks at. Feasibility is
//! worked out once for a class, however many pods it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::labels::HOSTNAME;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::snapshot::{Labels, Namespaces, Pod, PodTerm, Shape, Snapshot, Taint, Volume, untolerated};
use crate::solve::amounts::Columns;
use crate::solve::bits::Bits;
use crate::solve::relax::{Dropped, Wishes, ladder};
use crate::solve::reqs::{ReqId, ReqSets};
use crate::solve::topology::{Counted, Group, GroupId, Groups, Rule};

/// The number of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(pub(crate) u32);

/// Pods that nothing tells apart.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) shape: Arc<Shape>,
    pub(crate) namespace: Arc<str>,
    pub(crate) volumes: Box<[Volume]>,
    pub(crate) need: Vec<i64>,
    /// From all wishes down to the bare necessities.
    pub(crate) variants: Vec<Variant>,
    /// Alternatives for where the volumes are; never empty.
    pub(crate) volume_topology: Vec<ReqId>,
    /// Groups that count pods of this class.
    pub(crate) counted_by: Vec<GroupId>,
    /// Reverse groups whose owners do not want pods of this class near them.
    pub(crate) shunned_by: Vec<GroupId>,
    /// Reverse groups that pods of this class own.
    pub(crate) shuns: Vec<GroupId>,
}

/// A class with some of its wishes given up.
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
    /// Groups the class must obey, and whether they count the class itself.
    pub(crate) obeys: Vec<(GroupId, bool)>,
    /// Which taint sets are tolerated.
    pub(crate) tolerates: Bits,
}

impl Class {
    /// Whether other pods' places matter to this class or variant.
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

/// What of a pod decides its place: namespace, shape and volumes.
type Need = (Arc<str>, Arc<Shape>, Box<[Volume]>);

/// All classes, and which one each pod belongs to.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) all: Vec<Class>,
    pub(crate) of_pod: Vec<ClassId>,
    pub(crate) groups: Groups,
    /// Groups of required anti-affinity, which count their owners instead of those they select.
    pub(crate) reverse: Groups,
    /// Labels other than host names whose values are domains of some group.
    pub(crate) domain_keys: BTreeSet<Arc<str>>,
}

/// What building classes needs to know.
pub(crate) struct Context<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) columns: &'a Columns,
    pub(crate) taint_sets: &'a TaintSets,
    pub(crate) reqs: &'a mut ReqSets,
}

impl Classes {
    pub(crate) fn new(mut cx: Context<'_>) -> Self {
        let mut classes = Self::default();
        let looked_at = selector_keys(cx.snapshot);
        let avoidable = cx.snapshot.pools.iter().flat_map(|pool| &pool.taints);
        let avoidable =
            avoidable.into_iter().any(|taint| taint.effect == crate::snapshot::Effect::PreferNoSchedule);
        let mut by_template: FxHashMap<(*const Shape, &str), ClassId> = FxHashMap::default();
        let mut by_need: FxHashMap<Need, ClassId> = FxHashMap::default();
        for pod in &cx.snapshot.pods {
            let template = (Arc::as_ptr(&pod.shape), &*pod.namespace);
            let known = by_template.get(&template).filter(|_| pod.volumes.is_empty());
            if let Some(class) = known {
                classes.of_pod.push(*class);
                continue;
            }
            let (namespace, shape) = project(pod, looked_at.as_ref());
            let key = (namespace, shape, pod.volumes.clone());
            let class = if let Some(class) = by_need.get(&key) {
                *class
            } else {
                let class = ClassId(classes.all.len() as u32);
                let new = classes.build(&mut cx, key.0.clone(), key.1.clone(), key.2.clone(), avoidable);
                classes.all.push(new);
                by_need.insert(key, class);
                class
            };
            if pod.volumes.is_empty() {
                by_template.insert(template, class);
            }
            classes.of_pod.push(class);
        }
        classes.connect(&mut cx);
        classes
    }

    fn build(
        &mut self,
        cx: &mut Context<'_>,
        namespace: Arc<str>,
        shape: Arc<Shape>,
        volumes: Box<[Volume]>,
        avoidable: bool,
    ) -> Class {
        let mut variants: Vec<Variant> = Vec::new();
        for wishes in ladder(&shape, cx.snapshot.options.preferences, avoidable) {
            let variant = self.variant(cx, &namespace, &shape, &wishes);
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
        let shuns = shape.anti_affinity.required.iter().map(|term| {
            let group = group(cx, Rule::Apart, term, &namespace);
            self.reverse.add(group)
        });
        let shuns: BTreeSet<_> = shuns.collect();
        let mut volume_topology: Vec<_> =
            shape.volume_topology.iter().map(|alternative| cx.reqs.intern(alternative.clone())).collect();
        if volume_topology.is_empty() {
            volume_topology.push(ReqId::NONE);
        }
        Class {
            need: cx.columns.need(&shape.requests),
            shape,
            namespace,
            volumes,
            variants,
            volume_topology,
            counted_by: Vec::new(),
            shunned_by: Vec::new(),
            shuns: shuns.into_iter().collect(),
        }
    }

    fn variant(
        &mut self,
        cx: &mut Context<'_>,
        namespace: &Arc<str>,
        shape: &Shape,
        wishes: &Wishes,
    ) -> Variant {
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
                    nodes: nodes.map(|nodes| cx.reqs.intern(nodes)).collect(),
                    tolerations: spread.honor_taints.then(|| wishes.tolerations.clone()),
                },
            };
            groups.insert(self.groups.add(group));
        }
        let near = wishes.near(shape).map(|term| (Rule::Near, term));
        let apart = wishes.apart(shape).map(|term| (Rule::Apart, term));
        for (rule, term) in near.chain(apart) {
            let group = group(cx, rule, term, namespace);
            groups.insert(self.groups.add(group));
        }
        let obeys = groups.into_iter().map(|id| (id, self.groups.get(id).selects(namespace, &shape.labels)));
        let mut tolerates = Bits::none(cx.taint_sets.all.len());
        for (index, taints) in cx.taint_sets.all.iter().enumerate() {
            if untolerated(taints, &wishes.tolerations).is_none() {
                tolerates.insert(index);
            }
        }
        Variant {
            dropped: wishes.dropped,
            any_host,
            obeys: obeys.collect(),
            claim_reqs: cx.reqs.intern(without_host),
            node_reqs: cx.reqs.intern(requirements),
            strict: cx.reqs.intern(wishes.strict_requirements(shape)),
            tolerates,
        }
    }

    /// Finds out which groups are about which classes, once all groups are known.
    fn connect(&mut self, cx: &mut Context<'_>) {
        for bound in &cx.snapshot.bound {
            for term in &bound.shape.anti_affinity.required {
                let group = group(cx, Rule::Apart, term, &bound.namespace);
                self.reverse.add(group);
            }
        }
        for class in &mut self.all {
            let about = |groups: &Groups| {
                groups
                    .ids()
                    .filter(|id| groups.get(*id).selects(&class.namespace, &class.shape.labels))
                    .collect()
            };
            class.counted_by = about(&self.groups);
            class.shunned_by = about(&self.reverse);
        }
        let by_domain = self.groups.list().into_iter().filter(|group| !group.is_by_host());
        self.domain_keys = by_domain.map(|group| group.key.clone()).collect();
    }

    /// The reverse groups that a pod on a node owns.
    pub(crate) fn shunned_around(
        &self,
        shape: &Shape,
        namespace: &Arc<str>,
        snapshot: &Snapshot,
    ) -> Vec<GroupId> {
        let known = |term: &PodTerm| {
            let namespaces = meant(&term.namespaces, namespace, &snapshot.namespaces);
            self.reverse.ids().find(|id| {
                let group = self.reverse.get(*id);
                group.key == term.topology_key
                    && group.selector == term.selector
                    && group.namespaces == namespaces
            })
        };
        shape.anti_affinity.required.iter().filter_map(known).collect()
    }
}

fn group(cx: &Context<'_>, rule: Rule, term: &PodTerm, namespace: &Arc<str>) -> Group {
    Group {
        rule,
        key: term.topology_key.clone(),
        namespaces: meant(&term.namespaces, namespace, &cx.snapshot.namespaces),
        selector: term.selector.clone(),
        counted: Counted::default(),
    }
}

/// Whether a host that has no name yet meets the requirement.
fn accepts_unknown_host(requirement: &Requirement) -> bool {
    requirement.is_complement() && requirement.bounds() == (None, None)
}

/// The namespaces a term is about.
fn meant(namespaces: &Namespaces, own: &Arc<str>, known: &BTreeMap<Arc<str>, Labels>) -> BTreeSet<Arc<str>> {
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

/// The label keys that some selector looks at, or `None` when there is no selector at all.
fn selector_keys(snapshot: &Snapshot) -> Option<BTreeSet<Arc<str>>> {
    let mut keys = None;
    let mut seen: Option<*const Shape> = None;
    let shapes =
        snapshot.pods.iter().map(|pod| &pod.shape).chain(snapshot.bound.iter().map(|bound| &bound.shape));
    for shape in shapes {
        if seen == Some(Arc::as_ptr(shape)) {
            continue;
        }
        seen = Some(Arc::as_ptr(shape));
        let terms = [&shape.affinity, &shape.anti_affinity].into_iter().flat_map(|terms| {
            terms.required.iter().chain(terms.preferred.iter().map(|preferred| &preferred.term))
        });
        let selectors = terms
            .map(|term| &term.selector)
            .chain(shape.spread.iter().map(|spread| &spread.selector))
            .flatten();
        for selector in selectors {
            keys.get_or_insert_with(BTreeSet::new).extend(selector.keys().cloned());
        }
    }
    keys
}

/// What of a pod matters: its shape without labels that nobody looks at, and its namespace if somebody might.
fn project(pod: &Pod, looked_at: Option<&BTreeSet<Arc<str>>>) -> (Arc<str>, Arc<Shape>) {
    let shape = &*pod.shape;
    let labels = looked_at.map_or_else(Labels::new, |keys| {
        shape
            .labels
            .iter()
            .filter(|(key, _)| keys.contains(*key))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    });
    let namespace = if looked_at.is_some() { pod.namespace.clone() } else { Arc::default() };
    let shape = if shape.priority == 0 && shape.labels.len() == labels.len() {
        pod.shape.clone()
    } else {
        Arc::new(Shape { labels, priority: 0, ..shape.clone() })
    };
    (namespace, shape)
}

/// Every label key that requirements or groups mention: other labels of nodes decide nothing.
pub(crate) fn mentioned_keys(classes: &Classes, reqs: &ReqSets, snapshot: &Snapshot) -> BTreeSet<Arc<str>> {
    let mut keys: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut mention = |requirements: &Requirements| keys.extend(requirements.iter().map(|r| r.key().into()));
    for class in &classes.all {
        let variants = class.variants.iter().flat_map(|variant| [variant.node_reqs, variant.strict]);
        for id in variants.chain(class.volume_topology.iter().copied()) {
            mention(reqs.get(id));
        }
    }
    for shape in snapshot.daemons.iter().map(|daemon| &daemon.shape) {
        mention(&shape.node_selector);
        shape.required.iter().for_each(&mut mention);
    }
    for groups in [&classes.groups, &classes.reverse] {
        for id in groups.ids() {
            let group = groups.get(id);
            for nodes in &group.counted.nodes {
                keys.extend(reqs.get(*nodes).iter().map(|requirement| requirement.key().into()));
            }
            if !group.is_by_host() {
                keys.insert(group.key.clone());
            }
        }
    }
    keys
}
