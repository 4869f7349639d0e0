//! Pods with equal needs, as one.
//!
//! A class is what decides placement: what a pod asks for, and its [`Constraints`]. Feasibility is worked out once for a
//! class, however many pods it has.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::snapshot::{Effect, Pod, PodTerm, Shape, Snapshot, Volume};
use crate::solve::amounts::Columns;
use crate::solve::constraints::{Constraints, Context, Stated, TaintSets, apart, meant};
use crate::solve::reqs::ReqSets;
use crate::solve::topology::{GroupId, Groups};

/// The number of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(pub(crate) u32);

/// Pods that nothing tells apart.
#[derive(Debug)]
pub(crate) struct Class {
    /// That of one of the pods; labels that nobody looks at and priorities differ.
    pub(crate) shape: Arc<Shape>,
    pub(crate) volumes: Box<[Volume]>,
    pub(crate) need: Vec<i64>,
    /// How many pods there are.
    pub(crate) size: u32,
    /// Where its variants start when those of all classes stand in one list.
    pub(crate) first_variant: usize,
    constraints: Rc<Constraints>,
}

impl Deref for Class {
    type Target = Constraints;

    fn deref(&self) -> &Constraints {
        &self.constraints
    }
}

/// All classes, and which one each pod belongs to.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) all: Vec<Class>,
    pub(crate) of_pod: Vec<ClassId>,
    /// What classes insist on, each once.
    constraints: Vec<Rc<Constraints>>,
    pub(crate) groups: Groups,
    /// Groups of required anti-affinity, which count their owners instead of those they select.
    pub(crate) reverse: Groups,
    /// Labels other than host names whose values are domains of some group.
    pub(crate) domain_keys: BTreeSet<Arc<str>>,
}

/// A class while not all groups are known.
struct Draft<'a> {
    constraints: usize,
    /// One of its pods.
    pod: &'a Pod,
    size: u32,
}

/// What tells pods with the same constraints apart.
type Need<'a> = (usize, &'a Resources, &'a [Volume]);

impl Classes {
    pub(crate) fn new(
        snapshot: &Snapshot,
        columns: &Columns,
        taint_sets: &TaintSets,
        reqs: &mut ReqSets,
    ) -> Self {
        let mut classes = Self { of_pod: Vec::with_capacity(snapshot.pods.len()), ..Self::default() };
        let looked_at = selector_keys(snapshot);
        let mut taints = snapshot.pools.iter().flat_map(|pool| &pool.taints);
        let mut cx = Context {
            snapshot,
            taint_sets,
            reqs,
            groups: &mut classes.groups,
            reverse: &mut classes.reverse,
            avoidable: taints.any(|taint| taint.effect == Effect::PreferNoSchedule),
        };
        // Where nobody looks at other pods, namespaces tell nothing apart.
        let anywhere: Arc<str> = Arc::default();
        let mut constraints: Vec<(Constraints, &Arc<str>, &Shape)> = Vec::new();
        let mut drafts: Vec<Draft<'_>> = Vec::new();
        let mut by_template: FxHashMap<(*const Shape, &str), ClassId> = FxHashMap::default();
        let mut by_terms: FxHashMap<Stated<'_>, usize> = FxHashMap::default();
        let mut by_need: FxHashMap<Need<'_>, ClassId> = FxHashMap::default();
        for pod in &snapshot.pods {
            let namespace = if looked_at.is_some() { &pod.namespace } else { &anywhere };
            let template = (Arc::as_ptr(&pod.shape), &**namespace);
            let known = by_template.get(&template).filter(|_| pod.volumes.is_empty());
            let class = known.copied().unwrap_or_else(|| {
                let stated = Stated::new(namespace, &pod.shape, looked_at.as_ref());
                let terms = *by_terms.entry(stated).or_insert_with(|| {
                    constraints.push((cx.constraints(namespace, &pod.shape), namespace, &pod.shape));
                    constraints.len() - 1
                });
                let need = (terms, &pod.shape.requests, &*pod.volumes);
                let class = *by_need.entry(need).or_insert_with(|| {
                    drafts.push(Draft { constraints: terms, pod, size: 0 });
                    ClassId(drafts.len() as u32 - 1)
                });
                if pod.volumes.is_empty() {
                    by_template.insert(template, class);
                }
                class
            });
            drafts[class.0 as usize].size += 1;
            classes.of_pod.push(class);
        }
        classes.connect(snapshot, constraints);
        classes.write_out(&drafts, columns);
        classes
    }

    /// Finds out which groups are about which pods, once all groups are known.
    fn connect(&mut self, snapshot: &Snapshot, constraints: Vec<(Constraints, &Arc<str>, &Shape)>) {
        for bound in &snapshot.bound {
            for term in &bound.shape.anti_affinity.required {
                self.reverse.add(apart(snapshot, term, &bound.namespace));
            }
        }
        for (mut constraints, namespace, shape) in constraints {
            let about = |groups: &Groups| {
                groups.ids().filter(|id| groups.get(*id).selects(namespace, &shape.labels)).collect()
            };
            constraints.counted_by = about(&self.groups);
            constraints.shunned_by = about(&self.reverse);
            self.constraints.push(Rc::new(constraints));
        }
        let by_domain = self.groups.list().into_iter().filter(|group| !group.is_by_host());
        self.domain_keys = by_domain.map(|group| group.key.clone()).collect();
    }

    fn write_out(&mut self, drafts: &[Draft<'_>], columns: &Columns) {
        let mut first_variant = 0;
        self.all.reserve_exact(drafts.len());
        for draft in drafts {
            let constraints = self.constraints[draft.constraints].clone();
            let next = first_variant + constraints.variants.len();
            self.all.push(Class {
                shape: draft.pod.shape.clone(),
                volumes: draft.pod.volumes.clone(),
                need: columns.need(&draft.pod.shape.requests),
                size: draft.size,
                first_variant,
                constraints,
            });
            first_variant = next;
        }
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

/// Every label key that requirements or groups mention: other labels of nodes decide nothing.
pub(crate) fn mentioned_keys(classes: &Classes, reqs: &ReqSets, snapshot: &Snapshot) -> BTreeSet<Arc<str>> {
    let mut keys: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut mention = |requirements: &Requirements| keys.extend(requirements.iter().map(|r| r.key().into()));
    for constraints in &classes.constraints {
        let variants = constraints.variants.iter().flat_map(|variant| [variant.node_reqs, variant.strict]);
        for id in variants.chain(constraints.volume_topology.iter().copied()) {
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
