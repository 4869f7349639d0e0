//! The same question many times: where would the pods of some nodes go if those nodes were not there?
//!
//! The problem is laid out once, with the pods of all nodes that may be asked about as if they wanted a node. A question
//! takes the nodes out, places their pods, and afterwards only what it touched is put back.

use rustc_hash::FxHashMap;

use crate::explain::Obstacle;
use crate::plan::{PlannedClaim, PlannedNode};
use crate::resources::Resources;
use crate::snapshot::{Demand, Snapshot};
use crate::solve::attempt::Verdict;
use crate::solve::bits::Bits;
use crate::solve::bound;
use crate::solve::candidates::Candidates;
use crate::solve::claims::Claims;
use crate::solve::classes::ClassId;
use crate::solve::compat::{Order, place_all, ranks, sorted};
use crate::solve::finish;
use crate::solve::homes;
use crate::solve::line::Line;
use crate::solve::offers::offers;
use crate::solve::problem::{About, Problem, take_back};
use crate::solve::sketch::{Home, Kind, Room, Sketch};
use crate::solve::state::{Progress, State};
use crate::solve::why;

/// A problem from which nodes can be taken.
pub(crate) struct Without<'a> {
    problem: Problem<'a>,
    /// What every question starts from.
    ground: State,
    state: State,
    ranks: Vec<u32>,
    /// Where the nodes of the snapshot stand among those of the problem.
    position: Vec<usize>,
    /// Pods on each node of the snapshot, as indices of the snapshot's bound pods.
    bound_on: Vec<Vec<u32>>,
    about: About<'a>,
    /// Nodes that refuse a variant of a class for good, for those to which other pods do not matter.
    refusals: FxHashMap<usize, Bits>,
    /// Nodes that take nobody.
    closed: Bits,
    touched: Vec<usize>,
}

/// Which nodes are gone, and which pods need a place because of that.
pub(crate) struct Question<'q> {
    /// Indices of nodes in the snapshot.
    pub(crate) gone: &'q [u32],
    /// Indices of pods in the snapshot.
    pub(crate) pods: &'q [u32],
    /// The pools of the nodes, and what the nodes had.
    pub(crate) credit: &'q [(&'q str, &'q Resources)],
    /// How many new nodes are too many to go on.
    pub(crate) most_claims: usize,
    /// Where they should go if they may; as Karpenter does if left out.
    pub(crate) homes: Option<&'q [(u32, Home)]>,
}

/// Where the pods would go.
pub(crate) enum Answer {
    /// Everybody has a place.
    Placed {
        /// On new nodes.
        claims: Vec<PlannedClaim>,
        /// On nodes that stay.
        existing: Vec<PlannedNode>,
    },
    /// More new nodes are needed than were allowed.
    TooMany,
    /// This pod has no place.
    Nowhere(u32),
}

impl<'a> Without<'a> {
    /// Lays the snapshot out; of its pods the first `waiting` ones have no node and are given places first, if there is one
    /// on a node that exists.
    pub(crate) fn new(snapshot: &'a Snapshot, waiting: usize) -> Self {
        let mut problem = Problem::new(snapshot);
        let ranks = ranks(&problem.classes);
        let mut position = vec![0; problem.nodes.len()];
        for (at, row) in problem.nodes.iter().enumerate() {
            position[row.index as usize] = at;
        }
        let mut bound_on = vec![Vec::new(); problem.nodes.len()];
        for (index, bound) in (0..).zip(&snapshot.bound) {
            if let Some(pods) = bound_on.get_mut(bound.node as usize) {
                pods.push(index);
            }
        }
        let mut trial = State::new(&problem);
        for demand in [Demand::Real, Demand::Expected] {
            let of_demand = |pod: &u32| snapshot.pods[*pod as usize].demand == demand;
            let chosen: Vec<u32> = (0..waiting as u32).filter(of_demand).collect();
            let queue = sorted(&problem, &ranks, &chosen, Order::Size);
            place_all(&mut problem, &mut trial, queue, usize::MAX);
        }
        // Nodes that would have to be bought for those that wait are none of our business.
        let mut ground = State::new(&problem);
        for (node, filled) in trial.nodes.iter().enumerate() {
            for pod in &filled.pods {
                let class = problem.classes.of_pod[*pod as usize];
                ground.put_on_node(&mut problem, class, *pod, node);
            }
        }
        let closed = Bits::none(problem.nodes.len());
        Self {
            state: ground.clone(),
            problem,
            ground,
            ranks,
            position,
            bound_on,
            about: About::default(),
            refusals: FxHashMap::default(),
            closed,
            touched: Vec::new(),
        }
    }

    /// Pods without a node that were given one, by node of the snapshot.
    pub(crate) fn given(&self, node: u32) -> &[u32] {
        &self.ground.nodes[self.position[node as usize]].pods
    }

    /// Lets a node take nobody from now on.
    pub(crate) fn close(&mut self, node: u32) {
        self.closed.insert(self.position[node as usize]);
    }

    /// Whether a node takes nobody.
    pub(crate) fn is_closed(&self, node: u32) -> bool {
        self.closed.has(self.position[node as usize])
    }

    /// Where a node of the snapshot stands in sketches.
    pub(crate) fn position(&self, node: u32) -> u32 {
        self.position[node as usize] as u32
    }

    /// The fleet by amounts alone; places cost what they do on a fleet that is ideal for these pods.
    pub(crate) fn sketch(&mut self, pods: impl Iterator<Item = u32>) -> Sketch {
        let mut counts = vec![0; self.problem.classes.all.len()];
        for pod in pods {
            counts[self.problem.classes.of_pod[pod as usize].0 as usize] += 1;
        }
        let worth = bound::worth(&mut self.problem, &counts);
        let value = |amounts: &[i64]| -> f64 {
            amounts.iter().zip(&worth).map(|(amount, worth)| *amount as f64 * worth).sum()
        };
        let (machines, offers, set_of) = offers(&mut self.problem, &worth);
        let mut kinds = Vec::with_capacity(set_of.len());
        for (class, offers) in (0..).map(ClassId).zip(set_of) {
            let mut hosts = Bits::none(self.problem.nodes.len());
            for node in (0..self.problem.nodes.len()).filter(|node| !self.closed.has(*node)) {
                let is_ready = self.problem.nodes[node].node.initialized;
                if is_ready && self.ground.node_suits(&mut self.problem, class, 0, node) {
                    hosts.insert(node);
                }
            }
            let need = self.problem.classes.all[class.0 as usize].need.clone();
            kinds.push(Kind { value: value(&need), need, offers, hosts });
        }
        let rooms = self.ground.nodes.iter();
        let nodes: Vec<Room> = rooms
            .map(|node| Room { value: value(&node.free), free: node.free.clone(), is_out: false })
            .collect();
        let mut order: Vec<(f64, u32)> = nodes.iter().map(|room| room.value).zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let of_pod = self.problem.classes.of_pod.iter().map(|class| class.0).collect();
        Sketch { kinds, of_pod, nodes, order, machines, offers, worth }
    }

    /// Asks where pods would go without some nodes.
    pub(crate) fn ask(&mut self, question: &Question<'_>) -> Answer {
        self.restore();
        for node in question.gone {
            self.take_out(*node);
        }
        for (pool, capacity) in question.credit {
            if let Some(at) = self.problem.pools.iter().position(|known| &*known.pool.name == *pool) {
                self.state.pools[at].give_back(&self.problem, at, capacity);
            }
        }
        self.prepare(question.pods);
        let queue = sorted(&self.problem, &self.ranks, question.pods, Order::Size);
        let (problem, state) = (&mut self.problem, &mut self.state);
        let queue = match question.homes {
            None => queue,
            Some(homes) => {
                let left = homes::settle(problem, state, homes);
                queue.into_iter().filter(|pod| left.contains(pod)).collect()
            }
        };
        let left = place_all(problem, state, queue, question.most_claims);
        if self.state.claims.len() > question.most_claims {
            return Answer::TooMany;
        }
        if let Some(pod) = left.first() {
            return Answer::Nowhere(*pod);
        }
        let (claims, lost) = finish::claims(&mut self.problem, &self.state);
        if let Some(pod) = lost.first() {
            return Answer::Nowhere(*pod);
        }
        let mut existing = Vec::new();
        for (at, row) in self.problem.nodes.iter().enumerate() {
            let before = self.ground.nodes[at].pods.len();
            let new = self.state.nodes[at].pods.get(before..).unwrap_or_default();
            if !new.is_empty() {
                existing.push(PlannedNode { node: row.index, pods: new.to_vec() });
            }
        }
        Answer::Placed { claims, existing }
    }

    /// What stands in the way of a pod that the last question found no place for.
    pub(crate) fn obstacles(&mut self, pod: u32) -> Vec<Obstacle> {
        let class = self.problem.classes.of_pod[pod as usize];
        why::in_pools(&mut self.problem, &mut self.state, class)
    }

    /// Takes the last answer for granted in all questions that follow; nobody else goes to the new nodes.
    pub(crate) fn accept(&mut self) {
        let hosts = self.problem.nodes.len();
        let State { counts, reverse_counts, nodes, pools, reservations, .. } = &mut self.state;
        for counts in counts.iter_mut().chain(reverse_counts.iter_mut()) {
            counts.forget_hosts(hosts);
        }
        self.ground.counts.clone_from(counts);
        self.ground.reverse_counts.clone_from(reverse_counts);
        self.ground.nodes.clone_from(nodes);
        for (at, (pool, before)) in pools.iter_mut().zip(&self.ground.pools).enumerate() {
            pool.leave_at_most(&self.problem, at, before);
        }
        self.ground.pools.clone_from(pools);
        self.ground.reservations.clone_from(reservations);
    }

    /// Takes back what the last question did.
    fn restore(&mut self) {
        for at in 0..self.state.nodes.len() {
            if self.state.nodes[at].pods.len() != self.ground.nodes[at].pods.len() {
                self.touched.push(at);
            }
        }
        for at in std::mem::take(&mut self.touched) {
            self.state.nodes[at].clone_from(&self.ground.nodes[at]);
        }
        let all = [
            (&mut self.state.counts, &self.ground.counts),
            (&mut self.state.reverse_counts, &self.ground.reverse_counts),
        ];
        for (counts, before) in all {
            for (counts, before) in counts.iter_mut().zip(before) {
                if counts.version != before.version {
                    counts.clone_from(before);
                }
            }
        }
        self.state.pools.clone_from(&self.ground.pools);
        if self.state.reservations.version() != self.ground.reservations.version() {
            self.state.reservations = self.ground.reservations.clone();
        }
        self.state.claims = Claims::default();
        self.state.relaxed.clear();
        self.state.line = Line::new(&self.problem.classes, self.problem.columns.len());
    }

    /// Takes a node out of the state.
    fn take_out(&mut self, node: u32) {
        let at = self.position[node as usize];
        self.touched.push(at);
        // Nobody asks for nothing, so that nobody fits.
        self.state.nodes[at].free.fill(-1);
        let snapshot = self.problem.snapshot;
        for index in 0..self.bound_on[node as usize].len() {
            let bound = &snapshot.bound[self.bound_on[node as usize][index] as usize];
            let about = self.about.of(&self.problem, bound);
            let [counting, shunned] = &*about;
            let row = &self.problem.nodes[at];
            let labels = self.problem.reqs.get(row.labels).clone();
            for id in counting {
                let group = self.problem.classes.groups.get(*id).clone();
                if group.counted.includes(row.labels, &row.node.taints, &mut self.problem.reqs) {
                    take_back(&group, &mut self.state.counts[id.0 as usize], at, &labels);
                }
            }
            for id in shunned {
                let group = self.problem.classes.reverse.get(*id);
                take_back(group, &mut self.state.reverse_counts[id.0 as usize], at, &labels);
            }
        }
    }

    /// Forgets how far the classes of these pods got, except where nodes refuse them for good.
    fn prepare(&mut self, pods: &[u32]) {
        let mut classes: Vec<ClassId> =
            pods.iter().map(|pod| self.problem.classes.of_pod[*pod as usize]).collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes {
            for variant in 0..self.problem.classes.all[class.0 as usize].variants.len() {
                let of = &self.problem.classes.all[class.0 as usize];
                let (at, social) = (of.first_variant + variant, of.is_social(&of.variants[variant]));
                let mut no_nodes =
                    if social { self.closed.clone() } else { self.refused(class, variant, at) };
                no_nodes.or(&self.closed);
                let candidates = Candidates::new(!social);
                self.state.progress[at] = Progress { no_nodes, candidates, ..Progress::default() };
            }
        }
    }

    /// The nodes that refuse a variant for good.
    fn refused(&mut self, class: ClassId, variant: usize, at: usize) -> Bits {
        if let Some(known) = self.refusals.get(&at) {
            return known.clone();
        }
        let mut refused = Bits::none(self.problem.nodes.len());
        for node in 0..self.ground.nodes.len() {
            if matches!(self.ground.node_takes(&mut self.problem, class, variant, node), Verdict::Never) {
                refused.insert(node);
            }
        }
        self.refusals.insert(at, refused.clone());
        refused
    }
}
