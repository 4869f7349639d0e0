//! A snapshot laid out for deciding: everything numbered, everything that does not change worked out once.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::catalog::InstanceType;
use crate::labels::{HOSTNAME, INITIALIZED, NODE_POOL, REGISTERED};
use crate::quantity::Quantity;
use crate::requirement::{Operator, Requirement};
use crate::requirements::Requirements;
use crate::resources::{NODES, Resources};
use crate::snapshot::{BoundPod, Daemon, Node, Pool, Shape, Snapshot, Taint, untolerated};
use crate::solve::amounts::Columns;
use crate::solve::classes::{Classes, mentioned_keys};
use crate::solve::constraints::TaintSets;
use crate::solve::launches::Launches;
use crate::solve::relax::tolerate_avoided;
use crate::solve::reqs::{ReqId, ReqSets};
use crate::solve::rows::{DaemonSet, Rows};
use crate::solve::topology::{Counts, Group, GroupId};

/// A snapshot laid out for deciding.
pub(crate) struct Problem<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) columns: Columns,
    pub(crate) reqs: ReqSets,
    pub(crate) taint_sets: TaintSets,
    pub(crate) classes: Classes,
    /// In the order in which they are asked.
    pub(crate) pools: Vec<PoolRows<'a>>,
    /// In the order in which they are tried.
    pub(crate) nodes: Vec<NodeRow<'a>>,
    /// Counts of groups and of reverse groups before anything is placed.
    pub(crate) counts: Vec<Counts>,
    pub(crate) reverse_counts: Vec<Counts>,
}

/// A pool and what it can buy.
pub(crate) struct PoolRows<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) taints: u32,
    pub(crate) template: ReqId,
    pub(crate) rows: Rows,
    /// What is left of the limits, `nodes` included.
    pub(crate) left: Option<Vec<(Arc<str>, Quantity)>>,
    /// Whether the template asks for a number of distinct values.
    pub(crate) min_values: bool,
    /// Whether some offering is reserved.
    pub(crate) reserved: bool,
}

/// A node and what is left of it.
pub(crate) struct NodeRow<'a> {
    pub(crate) node: &'a Node,
    /// Its index in the snapshot.
    pub(crate) index: u32,
    pub(crate) taints: u32,
    /// The labels that somebody mentions.
    pub(crate) labels: ReqId,
    /// Whether labels may still turn out to be one of several.
    pub(crate) undecided: bool,
    pub(crate) free: Vec<i64>,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let columns = Columns::new(snapshot);
        let mut reqs = ReqSets::new(&snapshot.well_known);
        let mut taint_sets = TaintSets::default();
        let mut pools: Vec<&Pool> = snapshot.pools.iter().collect();
        // COMPAT: ties between weights go to the later name, as in upstream's `OrderByWeight`.
        pools.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
        let mut pools: Vec<PoolRows<'a>> = pools
            .into_iter()
            .map(|pool| pool_rows(pool, snapshot, &columns, &mut reqs, &mut taint_sets))
            .collect();
        let node_taints: Vec<u32> = snapshot.nodes.iter().map(|node| taint_sets.add(&node.taints)).collect();
        let classes = Classes::new(snapshot, &columns, &taint_sets, &mut reqs);
        let keys = mentioned_keys(&classes, &reqs, snapshot);
        let mut launches = Launches::new(snapshot, &keys);
        let mut nodes: Vec<NodeRow<'a>> = Vec::with_capacity(snapshot.nodes.len());
        for (node, taints) in snapshot.nodes.iter().zip(node_taints) {
            let mut labels = mentioned_labels(node, &keys);
            let foreseen = launches.foresee(node);
            let free = match &foreseen {
                Some(foreseen) => {
                    labels.add_all(&foreseen.labels);
                    if node.allocatable.is_empty() {
                        count_against_limits(&mut pools, node, &foreseen.most);
                    }
                    foreseen.free(node)
                }
                None => free(node, &snapshot.daemons),
            };
            nodes.push(NodeRow {
                node,
                index: nodes.len() as u32,
                taints,
                labels: reqs.intern(labels),
                undecided: foreseen.is_some(),
                free: columns.room(&free),
            });
        }
        nodes.sort_by(|a, b| {
            b.node.initialized.cmp(&a.node.initialized).then_with(|| a.node.name.cmp(&b.node.name))
        });
        let mut problem = Self {
            snapshot,
            columns,
            reqs,
            taint_sets,
            classes,
            pools,
            nodes,
            counts: Vec::new(),
            reverse_counts: Vec::new(),
        };
        problem.count();
        problem
    }

    /// The domains of a group in which there are nodes or could be, all empty.
    fn known_domains(&mut self, group: &Group, universe: &mut Universe) -> Counts {
        let mut known = universe.domains(group, &self.pools);
        if group.is_by_host() {
            return known;
        }
        for row in &self.nodes {
            let labels = self.reqs.get(row.labels).clone();
            if let Some(domain) = labels.get(&group.key).and_then(Requirement::single)
                && group.counted.includes(row.labels, &row.node.taints, &mut self.reqs)
            {
                known.register(domain);
            }
        }
        known
    }

    /// Counts the pods that are already somewhere.
    fn count(&mut self) {
        let mut universe = Universe::default();
        let (groups, owners) = (self.classes.groups.list(), self.classes.reverse.list());
        let mut domains = |group: &Rc<Group>| self.known_domains(group, &mut universe);
        let mut counts: Vec<Counts> = groups.iter().map(&mut domains).collect();
        let mut reverse: Vec<Counts> = owners.iter().map(&mut domains).collect();
        let mut position = vec![0; self.nodes.len()];
        for (at, row) in self.nodes.iter().enumerate() {
            position[row.index as usize] = at;
        }
        let mut about = About::default();
        let snapshot = self.snapshot;
        for bound in &snapshot.bound {
            let Some(&host) = position.get(bound.node as usize) else { continue };
            let found = about.of(self, bound);
            let [counting, shunned] = &*found;
            let row = &self.nodes[host];
            for id in counting {
                let group = self.classes.groups.get(*id).clone();
                if group.counted.includes(row.labels, &row.node.taints, &mut self.reqs) {
                    let labels = self.reqs.get(row.labels).clone();
                    record(&group, &mut counts[id.0 as usize], host, &labels);
                }
            }
            for id in shunned {
                let labels = self.reqs.get(row.labels).clone();
                record(self.classes.reverse.get(*id), &mut reverse[id.0 as usize], host, &labels);
            }
        }
        (self.counts, self.reverse_counts) = (counts, reverse);
    }
}

/// The groups that bound pods count in and those that they own, found once for each template.
#[derive(Default)]
pub(crate) struct About<'a> {
    known: FxHashMap<(*const Shape, &'a str), Rc<[Vec<GroupId>; 2]>>,
}

impl<'a> About<'a> {
    /// Groups that count a pod on a node, and reverse groups that it owns.
    pub(crate) fn of(&mut self, problem: &Problem<'a>, bound: &'a BoundPod) -> Rc<[Vec<GroupId>; 2]> {
        let template = (Arc::as_ptr(&bound.shape), &*bound.namespace);
        let found = self.known.entry(template).or_insert_with(|| {
            let groups = &problem.classes.groups;
            let counting =
                groups.ids().filter(|id| groups.get(*id).selects(&bound.namespace, &bound.shape.labels));
            let shunned = problem.classes.shunned_around(&bound.shape, &bound.namespace, problem.snapshot);
            Rc::new([counting.collect(), shunned])
        });
        found.clone()
    }
}

/// Counts a pod on a host with these labels, in every domain the host may turn out to be in when pods must stay apart, else
/// only where the domain is certain.
pub(crate) fn record(group: &Group, counts: &mut Counts, host: usize, labels: &Requirements) {
    if group.is_by_host() {
        counts.record_host(host);
        return;
    }
    for domain in counted_in(group, labels) {
        counts.record(domain);
    }
}

/// Takes back that a pod is on a host with these labels.
pub(crate) fn take_back(group: &Group, counts: &mut Counts, host: usize, labels: &Requirements) {
    if group.is_by_host() {
        counts.take_back_host(host);
        return;
    }
    for domain in counted_in(group, labels) {
        counts.take_back(domain);
    }
}

/// The domains in which pods on a host with these labels count.
fn counted_in<'l>(group: &Group, labels: &'l Requirements) -> impl Iterator<Item = &'l str> {
    let requirement = labels.get(&group.key).filter(|requirement| {
        let certain = requirement.len() == Some(1);
        !requirement.is_complement() && (certain || group.rule == crate::solve::topology::Rule::Apart)
    });
    requirement.into_iter().flat_map(Requirement::values)
}

fn pool_rows<'a>(
    pool: &'a Pool,
    snapshot: &Snapshot,
    columns: &Columns,
    reqs: &mut ReqSets,
    taint_sets: &mut TaintSets,
) -> PoolRows<'a> {
    let template = template(pool);
    let rows = Rows::new(&pool.types, columns, |instance_type| {
        daemons_on(&template, &pool.taints, instance_type, snapshot)
    });
    let left = pool.limits.as_ref().map(|limits| {
        limits.iter().map(|(name, limit)| (name.into(), limit - pool.used.get(name))).collect()
    });
    PoolRows {
        taints: taint_sets.add(&pool.taints),
        min_values: template.has_min_values(),
        reserved: rows.some_are_reserved(),
        template: reqs.intern(template),
        pool,
        rows,
        left,
    }
}

/// What every node of the pool will be like.
fn template(pool: &Pool) -> Requirements {
    let mut all = pool.requirements.clone();
    all.add_all(&Requirements::from_labels(pool.labels.iter().map(|(key, value)| (&**key, &**value))));
    for (key, value) in [(NODE_POOL, &*pool.name), (REGISTERED, "true"), (INITIALIZED, "true")] {
        all.add(Requirement::any_of(key, &[value]));
    }
    all
}

/// Takes off what is left of a pool's limits what a launch that has not told its size may take at most.
fn count_against_limits(pools: &mut [PoolRows<'_>], node: &Node, most: &Resources) {
    let of = node.labels.get(NODE_POOL);
    let left = pools.iter_mut().find(|pool| Some(&pool.pool.name) == of).and_then(|pool| pool.left.as_mut());
    for (name, amount) in left.into_iter().flatten() {
        *amount -= most.get(name);
    }
}

/// The daemons that would run on a new node of this type.
pub(crate) fn daemons_on(
    template: &Requirements,
    taints: &[Taint],
    on: &InstanceType,
    snapshot: &Snapshot,
) -> DaemonSet {
    let mut set = DaemonSet::default();
    for (index, daemon) in snapshot.daemons.iter().enumerate() {
        let mut tolerations = daemon.shape.tolerations.clone();
        tolerations.push(tolerate_avoided());
        let runs = untolerated(taints, &tolerations).is_none()
            && alternatives(&daemon.shape).iter().any(|asked| {
                template.compatible(asked, &snapshot.well_known).is_ok()
                    && on.requirements.intersects(asked).is_ok()
            });
        if runs {
            set.members.push(index);
            set.requests.add(&daemon.shape.requests);
            set.ports.extend(daemon.shape.host_ports.iter().cloned());
        }
    }
    set
}

fn alternatives(shape: &Shape) -> Vec<Requirements> {
    if shape.required.is_empty() {
        return vec![shape.node_selector.clone()];
    }
    let with = |term: &Requirements| {
        let mut all = shape.node_selector.clone();
        all.add_all(term);
        all
    };
    shape.required.iter().map(with).collect()
}

/// What a node has left once the daemons it does not run yet have come.
fn free(node: &Node, daemons: &[Daemon]) -> Resources {
    let labels = Requirements::from_labels(node.labels.iter().map(|(key, value)| (&**key, &**value)));
    let mut expected = Resources::new();
    for daemon in daemons {
        let mut tolerations = daemon.shape.tolerations.clone();
        tolerations.push(tolerate_avoided());
        let runs = untolerated(&node.taints, &tolerations).is_none()
            && alternatives(&daemon.shape)
                .iter()
                .any(|asked| labels.compatible(asked, &crate::labels::WellKnown::none()).is_ok());
        if runs {
            expected.add(&daemon.shape.requests);
        }
    }
    let missing = expected
        .iter()
        .map(|(name, amount)| (name, (amount - node.daemon_requested.get(name)).at_least_zero()));
    let missing: Resources = missing.collect();
    let mut free = (*node.allocatable).clone();
    free.sub(&node.requested);
    free.sub(&missing);
    free
}

fn mentioned_labels(node: &Node, keys: &BTreeSet<Arc<str>>) -> Requirements {
    let mut all = Requirements::from_labels(
        node.labels.iter().filter(|(key, _)| keys.contains(*key)).map(|(key, value)| (&**key, &**value)),
    );
    if keys.contains(HOSTNAME) && !all.has(HOSTNAME) {
        all.add(Requirement::any_of(HOSTNAME, &[&*node.name]));
    }
    all
}

/// The domains that new nodes could be in, for each key and pool.
#[derive(Default)]
struct Universe {
    by_key: BTreeMap<Arc<str>, Vec<BTreeSet<Arc<str>>>>,
}

impl Universe {
    fn domains(&mut self, group: &Group, pools: &[PoolRows<'_>]) -> Counts {
        let mut counts = Counts::default();
        if group.is_by_host() {
            return counts;
        }
        let by_pool = self
            .by_key
            .entry(group.key.clone())
            .or_insert_with(|| pools.iter().map(|pool| domains_of(pool.pool, &group.key)).collect());
        for (pool, domains) in pools.iter().zip(by_pool.iter()) {
            let tolerated = group.counted.tolerations.as_ref();
            if tolerated.is_none_or(|tolerations| untolerated(&pool.pool.taints, tolerations).is_none()) {
                for domain in domains {
                    counts.register(domain);
                }
            }
        }
        counts
    }
}

fn domains_of(pool: &Pool, key: &str) -> BTreeSet<Arc<str>> {
    let template = template(pool);
    let own = template.get(key);
    let listed = |requirement: &Requirement| {
        let values = requirement.values().filter(|_| requirement.operator() == Operator::In);
        values.map(Arc::from).collect::<Vec<Arc<str>>>()
    };
    let mut domains: BTreeSet<Arc<str>> = own.map(listed).unwrap_or_default().into_iter().collect();
    let mut last: Option<&Requirement> = None;
    for requirement in pool.types.iter().filter_map(|instance_type| instance_type.requirements.get(key)) {
        if last == Some(requirement) {
            continue;
        }
        last = Some(requirement);
        domains.extend(listed(&own.map_or_else(|| requirement.clone(), |own| own.intersection(requirement))));
    }
    domains
}

/// Whether a limit on the number of nodes is used up.
pub(crate) fn out_of_nodes(left: &[(Arc<str>, Quantity)]) -> bool {
    left.iter().any(|(name, amount)| &**name == NODES && *amount < Quantity::from_units(1))
}
