//! The packing policy `compat`: Karpenter's choices.
//!
//! Pods in order of size; for each the first node that takes it, else the emptiest claim that does, else a new claim of the
//! first pool that can. Pods that fail are tried again as long as others succeed.

use std::cmp::Reverse;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::price::Price;
use crate::resources::{CPU, MEMORY};
use crate::snapshot::{Demand, Pod};
use crate::solve::attempt::Verdict;
use crate::solve::claims::ClaimIndex;
use crate::solve::classes::{ClassId, Classes};
use crate::solve::line::Line;
use crate::solve::problem::Problem;
use crate::solve::state::{Allowed, Narrowed, State};

/// The order in which pods are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The largest first.
    Size,
    /// The most important first, then the largest.
    Priority,
}

/// Places all pods of one kind of demand; returns those that found no place.
pub(crate) fn pack(problem: &mut Problem<'_>, state: &mut State, demand: Demand, order: Order) -> Vec<u32> {
    let of_demand = (0..).zip(&problem.snapshot.pods).filter(|(_, of)| of.demand == demand);
    let chosen: Vec<u32> = of_demand.map(|(pod, _)| pod).collect();
    let queue = sorted(problem, &ranks(&problem.classes), &chosen, order);
    place_all(problem, state, queue, usize::MAX)
}

/// Places pods in this order; returns those that found no place, or were not tried because too many claims are open.
pub(crate) fn place_all(
    problem: &mut Problem<'_>,
    state: &mut State,
    queue: Vec<u32>,
    most_claims: usize,
) -> Vec<u32> {
    let mut queue: VecDeque<u32> = queue.into();
    let mut length_when_pushed: FxHashMap<u32, usize> = FxHashMap::default();
    while let Some(&pod) = queue.front() {
        if length_when_pushed.get(&pod) == Some(&queue.len()) || state.claims.len() > most_claims {
            break;
        }
        queue.pop_front();
        let class = problem.classes.of_pod[pod as usize];
        if !state.place(problem, class, pod) {
            queue.push_back(pod);
            length_when_pushed.insert(pod, queue.len());
        }
    }
    queue.into()
}

/// Pods in the order in which they are tried.
pub(crate) fn sorted(problem: &Problem<'_>, ranks: &[u32], chosen: &[u32], order: Order) -> Vec<u32> {
    let pods = &problem.snapshot.pods;
    let rank = |pod: u32, of: &Pod| {
        let priority = if order == Order::Priority { of.shape.priority } else { 0 };
        (Reverse(priority), ranks[problem.classes.of_pod[pod as usize].0 as usize], pod)
    };
    let mut chosen: Vec<_> = chosen.iter().map(|pod| rank(*pod, &pods[*pod as usize])).collect();
    // Names are compared only among pods of equal size, who mostly stand in order already.
    chosen.sort_unstable();
    for equal in chosen.chunk_by_mut(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let age = |pod: u32| {
            let pod = &pods[pod as usize];
            (pod.created, &pod.uid, &pod.namespace, &pod.name)
        };
        equal.sort_by(|(.., a), (.., b)| age(*a).cmp(&age(*b)));
    }
    chosen.into_iter().map(|(.., pod)| pod).collect()
}

/// For each class the number of classes that ask for more processor, or for as much and more memory.
pub(crate) fn ranks(classes: &Classes) -> Vec<u32> {
    let mut sizes: Vec<(_, _, usize)> = (0..)
        .zip(&classes.all)
        .map(|(class, of)| (of.shape.requests.get(CPU), of.shape.requests.get(MEMORY), class))
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let (mut ranks, mut before) = (vec![0; sizes.len()], 0);
    for equal in sizes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        for (.., class) in equal {
            ranks[*class] = before;
        }
        before += equal.len() as u32;
    }
    ranks
}

/// Up to so many claims upstream sorts without changing the order of equally full ones.
const IN_ORDER: usize = 12;
/// Most equally full claims among which the cheapest is chosen.
const MOST_TIES: usize = 16;

/// A claim that takes the pod, and how much dearer that makes it.
struct Offer {
    claim: ClaimIndex,
    narrowed: Narrowed,
    more: Price,
}

/// How an attempt with some wishes given up ended.
enum Outcome {
    Placed,
    Failed,
    /// The pod should wait for a reservation instead of giving up more wishes.
    Wait,
}

impl State {
    /// Finds a place for a pod, giving up its wishes one by one.
    fn place(&mut self, problem: &mut Problem<'_>, class: ClassId, pod: u32) -> bool {
        for variant in 0..problem.classes.all[class.0 as usize].variants.len() {
            let of = &problem.classes.all[class.0 as usize];
            let (epoch, progress) = (self.epoch(of, &of.variants[variant]), of.first_variant + variant);
            if self.progress[progress].failed_at == Some(epoch) {
                continue;
            }
            match self.place_variant(problem, class, variant, pod) {
                Outcome::Placed => {
                    if variant > 0 {
                        self.relaxed.push((pod, variant));
                    }
                    return true;
                }
                Outcome::Wait => return false,
                Outcome::Failed => self.progress[progress].failed_at = Some(epoch),
            }
        }
        false
    }

    fn place_variant(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        pod: u32,
    ) -> Outcome {
        if let Some(node) = self.first_node(problem, class, variant) {
            self.put_on_node(problem, class, pod, node);
            return Outcome::Placed;
        }
        if self.fill_claim(problem, class, variant, pod) {
            return Outcome::Placed;
        }
        self.open_claim(problem, class, variant, pod)
    }

    /// The first node that takes the pod.
    fn first_node(&mut self, problem: &mut Problem<'_>, class: ClassId, variant: usize) -> Option<usize> {
        let progress = problem.classes.all[class.0 as usize].first_variant + variant;
        for node in self.progress[progress].first_node..self.nodes.len() {
            if self.progress[progress].no_nodes.has(node) {
                continue;
            }
            match self.node_takes(problem, class, variant, node) {
                Verdict::Yes(()) => return Some(node),
                Verdict::Never => {
                    let progress = &mut self.progress[progress];
                    progress.no_nodes.insert(node);
                    if progress.first_node == node {
                        progress.first_node += 1;
                    }
                }
                Verdict::NotNow | Verdict::Wait => {}
            }
        }
        None
    }

    /// Puts the pod on the emptiest claim that takes it.
    ///
    /// COMPAT: beyond a dozen claims upstream's sort leaves equally full ones in no order that anyone could rely on. Where
    /// other pods matter too, its choice is one of many, and we take the one that costs least.
    fn fill_claim(&mut self, problem: &mut Problem<'_>, class: ClassId, variant: usize, pod: u32) -> bool {
        let of = &problem.classes.all[class.0 as usize];
        if Line::is_for(of) && !of.is_social(&of.variants[variant]) {
            return self.fill_claim_in_line(problem, class, variant, pod);
        }
        let progress = of.first_variant + variant;
        let mut candidates = std::mem::take(&mut self.progress[progress].candidates);
        candidates.update(&self.claims);
        let may_choose = of.is_social(&of.variants[variant]) && self.claims.len() > IN_ORDER;
        let mut looks = if may_choose { MOST_TIES } else { 1 };
        let (mut later, mut best) = (Vec::new(), None::<Offer>);
        while looks > 0 {
            let claims = std::mem::take(&mut self.claims);
            let next = candidates.pop(&claims, |reqs| self.is_open(problem, class, variant, reqs));
            self.claims = claims;
            let Some(claim) = next else { break };
            if best.as_ref().is_some_and(|best| !self.claims.are_tied(best.claim, claim)) {
                later.push(claim);
                break;
            }
            match self.claim_takes(problem, class, variant, claim) {
                Verdict::Yes(narrowed) => {
                    looks -= 1;
                    let more =
                        if may_choose { self.dearer(problem, class, claim, &narrowed) } else { Price::ZERO };
                    if best.as_ref().is_none_or(|best| more < best.more) {
                        later.extend(best.replace(Offer { claim, narrowed, more }).map(|other| other.claim));
                    } else {
                        later.push(claim);
                    }
                }
                Verdict::Never => {}
                Verdict::NotNow | Verdict::Wait => later.push(claim),
            }
        }
        let placed = best.is_some();
        if let Some(Offer { claim, narrowed, .. }) = best {
            self.put_on_claim(problem, class, pod, claim, narrowed);
            later.push(claim);
        }
        for claim in later {
            candidates.push(&self.claims, claim);
        }
        self.progress[progress].candidates = candidates;
        placed
    }

    /// The same for a class that has few pods, to which other pods do not matter.
    fn fill_claim_in_line(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        pod: u32,
    ) -> bool {
        let mut line = std::mem::take(&mut self.line);
        line.update(&self.claims, &problem.classes.all[class.0 as usize].need);
        let (mut last, mut placed) = (None, false);
        while let Some(next) = line.next(&self.claims, last) {
            last = Some(next);
            let open = self.claims.get(next.claim);
            let usable = problem.pools[open.pool].rows.usable(open.reqs, &problem.reqs);
            if !line.keeps(next, &open.total, usable.most()) {
                continue;
            }
            if let Verdict::Yes(narrowed) = self.claim_takes(problem, class, variant, next.claim) {
                self.put_on_claim(problem, class, pod, next.claim, narrowed);
                placed = true;
                break;
            }
        }
        self.line = line;
        placed
    }

    /// Whether groups let the class onto claims with this requirement set at all.
    fn is_open(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        reqs: crate::solve::reqs::ReqId,
    ) -> bool {
        let of = &problem.classes.all[class.0 as usize];
        let alternatives = of.volume_topology.len();
        let Some(narrowed) = problem.reqs.narrow(reqs, of.variants[variant].claim_reqs) else { return false };
        (0..alternatives).any(|alternative| {
            let asked = problem.classes.all[class.0 as usize].volume_topology[alternative];
            let before = problem.reqs.narrow(narrowed, asked);
            before.is_some_and(|before| !self.ways(problem, class, variant, before).is_empty())
        })
    }

    /// Opens a claim of the first pool that can.
    fn open_claim(&mut self, problem: &mut Problem<'_>, class: ClassId, variant: usize, pod: u32) -> Outcome {
        let progress = problem.classes.all[class.0 as usize].first_variant + variant;
        if self.progress[progress].no_claims {
            return Outcome::Failed;
        }
        let mut for_good = true;
        for pool in 0..problem.pools.len() {
            if self.pools[pool].closed {
                continue;
            }
            let rows = match self.pools[pool].allowed() {
                Allowed::All => None,
                Allowed::Some(rows) => Some(rows),
                Allowed::Nothing => {
                    self.pools[pool].turned_away = true;
                    continue;
                }
            };
            let limited = rows.is_some();
            match self.pool_takes(problem, class, variant, pool, rows) {
                Verdict::Yes(narrowed) => {
                    self.open(problem, class, pod, pool, narrowed);
                    return Outcome::Placed;
                }
                // COMPAT: a pool whose reservation may become free is not passed over for one of less weight.
                Verdict::Wait => return Outcome::Wait,
                Verdict::NotNow => for_good = false,
                Verdict::Never => {
                    let fits_otherwise = limited
                        && matches!(self.pool_takes(problem, class, variant, pool, None), Verdict::Yes(_));
                    self.pools[pool].turned_away |= fits_otherwise;
                }
            }
        }
        self.progress[progress].no_claims = for_good;
        Outcome::Failed
    }

    /// Opens a claim for a pod as it is, if a pool can.
    pub(crate) fn open_for(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        pod: u32,
    ) -> Option<ClaimIndex> {
        let index = self.claims.len();
        matches!(self.open_claim(problem, class, 0, pod), Outcome::Placed).then_some(index as ClaimIndex)
    }

    fn open(&mut self, problem: &mut Problem<'_>, class: ClassId, pod: u32, pool: usize, narrowed: Narrowed) {
        let columns = problem.columns.len();
        let template = problem.pools[pool].template;
        let relaxed = problem.pools[pool].min_values && {
            let least =
                |reqs| problem.reqs.get(reqs).iter().map(|r| r.min_values().unwrap_or(0)).sum::<u32>();
            least(narrowed.reqs) < least(template)
        };
        let claim = self.claims.open(pool, narrowed.reqs, narrowed.rows.clone(), columns);
        self.claims.get_mut(claim).min_values_relaxed = relaxed;
        self.put_on_claim(problem, class, pod, claim, narrowed);
        if !self.pools[pool].left().is_empty() {
            let open = self.claims.get(claim);
            let rows = &mut problem.pools[pool].rows;
            let usable = rows.usable(open.reqs, &problem.reqs);
            let holding: Vec<usize> = rows.holding(&usable, open.rows.as_deref(), &open.total).collect();
            self.pools[pool].spend(problem, pool, &holding);
        }
    }
}
