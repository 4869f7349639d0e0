//! What has been decided so far.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::quantity::Quantity;
use crate::requirements::Requirements;
use crate::resources::{NODES, Resources};
use crate::snapshot::{HostPort, Volume};
use crate::solve::attempt::Way;
use crate::solve::bits::Bits;
use crate::solve::candidates::Candidates;
use crate::solve::claims::{ClaimIndex, Claims};
use crate::solve::classes::{Class, ClassId};
use crate::solve::constraints::Variant;
use crate::solve::line::Line;
use crate::solve::problem::{Problem, out_of_nodes, record};
use crate::solve::reqs::ReqId;
use crate::solve::reservations::Reservations;
use crate::solve::topology::{Counts, Rule};

/// What has been decided so far, and what is left.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) counts: Vec<Counts>,
    pub(crate) reverse_counts: Vec<Counts>,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) claims: Claims,
    pub(crate) line: Line,
    pub(crate) pools: Vec<PoolState>,
    pub(crate) reservations: Reservations,
    /// Pods that were placed with wishes given up: which variant it took.
    pub(crate) relaxed: Vec<(u32, usize)>,
    /// How far each variant of each class has got.
    pub(crate) progress: Vec<Progress>,
}

/// What is left of a node.
#[derive(Clone)]
pub(crate) struct NodeState {
    pub(crate) free: Vec<i64>,
    pub(crate) pods: Vec<u32>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) volumes: BTreeSet<Volume>,
}

/// What is left of a pool.
#[derive(Clone)]
pub(crate) struct PoolState {
    /// What is left of the limits.
    left: Option<Vec<(Arc<str>, Quantity)>>,
    /// Rows that the limits still allow; none means all.
    allowed: Option<Rc<Bits>>,
    /// Whether the limits turned somebody away.
    pub(crate) turned_away: bool,
    /// Whether no claim may be opened any more.
    pub(crate) closed: bool,
    /// Whether none may be filled either.
    pub(crate) barred: bool,
}

/// Where a variant of a class need not look again.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    /// Nodes before this one are out for good.
    pub(crate) first_node: usize,
    /// Nodes that are out for good.
    pub(crate) no_nodes: Bits,
    pub(crate) candidates: Candidates,
    /// No pool will ever open a claim for it.
    pub(crate) no_claims: bool,
    /// The state of the world when it last failed.
    pub(crate) failed_at: Option<Epoch>,
    /// For a requirement set, what the groups narrow it to, as of some version of their counts.
    pub(crate) ways: FxHashMap<ReqId, (u32, Rc<[Way]>)>,
}

/// What has to change before a failed attempt is worth repeating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    claims: usize,
    counts: u32,
    reservations: u32,
}

impl State {
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        let nodes = problem.nodes.iter().map(|row| NodeState {
            free: row.free.clone(),
            pods: Vec::new(),
            ports: row.node.host_ports.clone(),
            volumes: row.node.volumes.iter().cloned().collect(),
        });
        let mut progress = Vec::with_capacity(problem.classes.all.len());
        for class in &problem.classes.all {
            progress.extend(class.variants.iter().map(|variant| Progress {
                no_nodes: Bits::none(problem.nodes.len()),
                candidates: Candidates::new(!class.is_social(variant)),
                ..Progress::default()
            }));
        }
        let pools = problem.pools.iter().map(|pool| PoolState {
            left: pool.left.clone(),
            allowed: None,
            turned_away: false,
            closed: false,
            barred: false,
        });
        let mut state = Self {
            counts: problem.counts.clone(),
            reverse_counts: problem.reverse_counts.clone(),
            nodes: nodes.collect(),
            claims: Claims::default(),
            line: Line::new(&problem.classes, problem.columns.len()),
            pools: pools.collect(),
            reservations: Reservations::new(problem),
            relaxed: Vec::new(),
            progress,
        };
        (0..problem.pools.len()).for_each(|pool| state.pools[pool].filter(problem, pool));
        state
    }

    /// The host number of a claim; nodes come first.
    pub(crate) fn host_of(&self, claim: ClaimIndex) -> usize {
        self.nodes.len() + claim as usize
    }

    /// The state of the world as far as a variant can tell.
    pub(crate) fn epoch(&self, class: &Class, variant: &Variant) -> Epoch {
        Epoch {
            claims: self.claims.len(),
            counts: self.counts_version(class, variant),
            reservations: self.reservations.version(),
        }
    }

    /// Changes whenever the groups that a variant obeys count something new.
    pub(crate) fn counts_version(&self, class: &Class, variant: &Variant) -> u32 {
        let obeyed = variant.obeys.iter().map(|(id, _)| self.counts[id.0 as usize].version);
        let shunned = class.shunned_by.iter().map(|id| self.reverse_counts[id.0 as usize].version);
        obeyed.chain(shunned).fold(0, u32::wrapping_add)
    }

    /// Puts a pod on a node.
    pub(crate) fn put_on_node(
        &mut self,
        problem: &mut Problem<'_>,
        class_id: ClassId,
        pod: u32,
        node: usize,
    ) {
        let class = &problem.classes.all[class_id.0 as usize];
        let state = &mut self.nodes[node];
        for (free, need) in state.free.iter_mut().zip(&class.need) {
            *free -= need;
        }
        state.pods.push(pod);
        state.ports.extend(class.shape.host_ports.iter().cloned());
        state.volumes.extend(class.volumes.iter().cloned());
        let row = &problem.nodes[node];
        let (reqs, taints) = (row.labels, row.taints);
        self.record(problem, class_id, node, reqs, taints);
    }

    /// Puts a pod on a claim, which thereby narrows.
    pub(crate) fn put_on_claim(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        pod: u32,
        claim: ClaimIndex,
        narrowed: Narrowed,
    ) {
        let of = &problem.classes.all[class.0 as usize];
        self.claims.put(claim, pod, &of.need);
        let host = self.host_of(claim);
        self.reservations.hold(&mut self.claims.get_mut(claim).reservations, narrowed.reservations);
        let open = self.claims.get_mut(claim);
        let before = std::mem::replace(&mut open.reqs, narrowed.reqs);
        open.rows = narrowed.rows;
        open.ports.extend(of.shape.host_ports.iter().cloned());
        open.volumes.extend(of.volumes.iter().cloned());
        let taints = problem.pools[open.pool].taints;
        self.record(problem, class, host, narrowed.reqs, taints);
        if before != narrowed.reqs {
            self.settle(problem, claim, before);
        }
    }

    /// Counts the pods of a claim in the domains that its last pod has made certain.
    ///
    /// COMPAT: upstream counts a pod where its claim is certain to be when the pod comes, and never later; kube-scheduler
    /// counts it wherever the node turns out to be.
    fn settle(&mut self, problem: &mut Problem<'_>, claim: ClaimIndex, before: ReqId) {
        let open = self.claims.get(claim);
        let (was, is) = (problem.reqs.get(before).clone(), problem.reqs.get(open.reqs).clone());
        let certain = |requirements: &Requirements, key: &str| {
            requirements.get(key).is_some_and(|requirement| requirement.single().is_some())
        };
        let settled = |key: &str| certain(&is, key) && !certain(&was, key);
        if !problem.classes.domain_keys.iter().any(|key| settled(key)) {
            return;
        }
        let taints = problem.taint_sets.get(problem.pools[open.pool].taints);
        for pod in &open.pods[..open.pods.len() - 1] {
            let class = problem.classes.of_pod[*pod as usize];
            for id in &problem.classes.all[class.0 as usize].counted_by {
                let group = problem.classes.groups.get(*id);
                // Those who must stay apart have been counted everywhere they might be.
                if group.rule != Rule::Apart
                    && settled(&group.key)
                    && group.counted.includes(open.reqs, taints, &mut problem.reqs)
                {
                    record(group, &mut self.counts[id.0 as usize], 0, &is);
                }
            }
        }
    }

    /// Tells every group that counts the class where a pod of it went.
    fn record(&mut self, problem: &mut Problem<'_>, class: ClassId, host: usize, reqs: ReqId, taints: u32) {
        let class = &problem.classes.all[class.0 as usize];
        for id in &class.counted_by {
            let group = problem.classes.groups.get(*id);
            if group.counted.includes(reqs, problem.taint_sets.get(taints), &mut problem.reqs) {
                record(group, &mut self.counts[id.0 as usize], host, problem.reqs.get(reqs));
            }
        }
        for id in &class.shuns {
            let group = problem.classes.reverse.get(*id);
            record(group, &mut self.reverse_counts[id.0 as usize], host, problem.reqs.get(reqs));
        }
    }
}

/// What a claim becomes by taking a pod.
#[derive(Debug)]
pub(crate) struct Narrowed {
    pub(crate) reqs: ReqId,
    pub(crate) rows: Option<Rc<Bits>>,
    pub(crate) reservations: BTreeSet<Arc<str>>,
}

/// What the limits of a pool leave.
pub(crate) enum Allowed {
    All,
    Some(Rc<Bits>),
    Nothing,
}

impl PoolState {
    /// The rows that limits allow for a new claim.
    pub(crate) fn allowed(&self) -> Allowed {
        match &self.allowed {
            None => Allowed::All,
            Some(rows) if rows.is_empty() || out_of_nodes(self.left()) => Allowed::Nothing,
            Some(rows) => Allowed::Some(rows.clone()),
        }
    }

    /// What is left of the limits.
    pub(crate) fn left(&self) -> &[(Arc<str>, Quantity)] {
        self.left.as_deref().unwrap_or_default()
    }

    /// Takes the most that a new claim may use from the limits: the largest of its rows in every resource.
    pub(crate) fn spend(&mut self, problem: &Problem<'_>, pool: usize, rows: &[usize]) {
        let Some(left) = &mut self.left else { return };
        for (name, left) in left.iter_mut() {
            *left -= if &**name == NODES {
                Quantity::from_units(1)
            } else {
                let capacity = |row: &usize| problem.pools[pool].rows.instance_type(*row).capacity.get(name);
                rows.iter().map(capacity).max().unwrap_or_default()
            };
        }
        self.filter(problem, pool);
    }

    /// Gives back what a node that goes away has taken from the limits.
    pub(crate) fn give_back(&mut self, problem: &Problem<'_>, pool: usize, capacity: &Resources) {
        let Some(left) = &mut self.left else { return };
        for (name, left) in left.iter_mut() {
            *left += if &**name == NODES { Quantity::from_units(1) } else { capacity.get(name) };
        }
        self.filter(problem, pool);
    }

    /// Leaves no more than there was before: what a node gives back is for what replaces it, and for nobody else until it is gone.
    pub(crate) fn leave_at_most(&mut self, problem: &Problem<'_>, pool: usize, before: &Self) {
        let (Some(left), Some(before)) = (&mut self.left, &before.left) else { return };
        for ((_, left), (_, before)) in left.iter_mut().zip(before) {
            *left = (*left).min(*before);
        }
        self.filter(problem, pool);
    }

    fn filter(&mut self, problem: &Problem<'_>, pool: usize) {
        let Some(left) = &self.left else { return };
        let rows = &problem.pools[pool].rows;
        let mut allowed = Bits::none(rows.len());
        for row in 0..rows.len() {
            let capacity = &rows.instance_type(row).capacity;
            if left.iter().all(|(name, left)| capacity.get(name) <= *left) {
                allowed.insert(row);
            }
        }
        self.allowed = Some(Rc::new(allowed));
    }
}
