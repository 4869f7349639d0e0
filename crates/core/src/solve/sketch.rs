//! A fleet by amounts alone, in which thousands of moves can be tried in the time of a few exact questions.
//!
//! It knows what classes of pods need, which nodes and machines their labels and taints allow, and how much room there is.
//! What pods want of each other, ports, volumes and limits it does not know: [`Without`](super::without) has the last word.

use crate::hash;
use crate::solve::bits::Bits;
use crate::solve::offers::{Machine, Offers};

/// A fleet by amounts alone.
pub(crate) struct Sketch {
    pub(super) kinds: Vec<Kind>,
    /// The class of each pod of the snapshot.
    pub(super) of_pod: Vec<u32>,
    pub(super) nodes: Vec<Room>,
    /// Nodes by what their room is worth, the least first.
    pub(super) order: Vec<(f64, u32)>,
    pub(super) machines: Vec<Machine>,
    pub(super) offers: Vec<Offers>,
    /// What a step of each column costs on an ideal fleet.
    pub(super) worth: Vec<f64>,
}

/// What matters about the pods of a class.
pub(super) struct Kind {
    pub(super) need: Vec<i64>,
    /// What a place for one of them costs on an ideal fleet.
    pub(super) value: f64,
    /// What it can be bought.
    pub(super) offers: u32,
    /// Nodes that suit it.
    pub(super) hosts: Bits,
}

/// What is left of a node.
pub(super) struct Room {
    pub(super) free: Vec<i64>,
    pub(super) value: f64,
    pub(super) is_out: bool,
}

/// Where a pod goes: to a node, by its position in the problem, or to a new one, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Node(u32),
    New(u32),
}

/// Places for some pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) homes: Vec<(u32, Home)>,
    /// What each node that is bought costs.
    pub(crate) prices: Vec<f64>,
}

impl Draft {
    /// What all nodes that are bought cost.
    pub(crate) fn spent(&self) -> f64 {
        self.prices.iter().sum()
    }
}

/// What is tried first, and how strongly chance has a say in what goes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Style {
    /// Machines are bought before nodes are looked at if their pods are worth this share of their price; none if zero.
    pub new_first: f64,
    /// Chance has no say if this is zero.
    pub lot: u64,
}

/// How much chance may change what a pod is good for.
const NOISE: f64 = 1.0;

/// How many pods on a machine are exchanged for others at most.
const MOST_EXCHANGED: usize = 16;

/// Pods of a class that have no place yet.
struct Left {
    kind: usize,
    pods: Vec<u32>,
    favour: f64,
}

/// A machine and what goes there: how many of each class in line.
struct Filled {
    ratio: f64,
    price: f64,
    counts: Vec<usize>,
    /// Its number among all machines, and what is used of it.
    machine: usize,
    total: Vec<i64>,
}

impl Sketch {
    /// What a place for a pod costs on an ideal fleet.
    pub(crate) fn value(&self, pod: u32) -> f64 {
        self.kinds[self.of_pod[pod as usize] as usize].value
    }

    /// Takes a node out, or puts it back.
    pub(crate) fn set_out(&mut self, node: u32, is_out: bool) {
        self.nodes[node as usize].is_out = is_out;
    }

    /// Finds places for pods on nodes and machines; what they take on nodes is theirs until it is undone.
    ///
    /// No more than `most` machines are bought, for less than `limit` together.
    pub(crate) fn place(&mut self, pods: &[u32], style: Style, most: usize, limit: f64) -> Option<Draft> {
        let mut draft = Draft::default();
        let mut left = self.by_class(pods, style.lot);
        if style.new_first > 0.0 {
            self.buy(&mut left, &mut draft, most, style.new_first, f64::INFINITY);
        }
        self.fill_nodes(&mut left, &mut draft);
        self.buy(&mut left, &mut draft, most, 0.0, limit);
        if left.is_empty() {
            return Some(draft);
        }
        self.undo(&draft);
        None
    }

    /// Gives back what pods took on nodes.
    pub(crate) fn undo(&mut self, draft: &Draft) {
        self.shift(draft, 1);
    }

    /// Takes it again.
    pub(crate) fn redo(&mut self, draft: &Draft) {
        self.shift(draft, -1);
    }

    fn shift(&mut self, draft: &Draft, sign: i64) {
        for (pod, home) in &draft.homes {
            if let Home::Node(node) = home {
                let kind = self.of_pod[*pod as usize] as usize;
                self.give(*node as usize, kind, sign);
            }
        }
    }

    fn give(&mut self, node: usize, kind: usize, sign: i64) {
        let (room, kind) = (&mut self.nodes[node], &self.kinds[kind]);
        for (free, need) in room.free.iter_mut().zip(&kind.need) {
            *free += sign * need;
        }
        let from = position(&self.order, room.value, node as u32);
        room.value = room.free.iter().zip(&self.worth).map(|(free, worth)| *free as f64 * worth).sum();
        let to = position(&self.order, room.value, node as u32);
        if to > from {
            self.order[from..to].rotate_left(1);
            self.order[to - 1].0 = room.value;
        } else {
            self.order[to..=from].rotate_right(1);
            self.order[to].0 = room.value;
        }
    }

    /// Pods by class, those first whose places cost most.
    fn by_class(&self, pods: &[u32], lot: u64) -> Vec<Left> {
        let mut sorted: Vec<(u32, u32)> = pods.iter().map(|pod| (self.of_pod[*pod as usize], *pod)).collect();
        sorted.sort_unstable();
        let favour = |kind: u32| match lot {
            0 => 1.0,
            lot => 1.0 + NOISE * (hash::mix(lot ^ u64::from(kind)) % 1024) as f64 / 1024.0,
        };
        let mut left: Vec<Left> = sorted
            .chunk_by(|a, b| a.0 == b.0)
            .map(|same| Left {
                kind: same[0].0 as usize,
                pods: same.iter().map(|(_, pod)| *pod).collect(),
                favour: favour(same[0].0),
            })
            .collect();
        let size = |left: &Left| self.kinds[left.kind].value * left.favour;
        left.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.kind.cmp(&b.kind)));
        left
    }

    /// Puts pods on nodes, each where it leaves the least room.
    fn fill_nodes(&mut self, left: &mut Vec<Left>, draft: &mut Draft) {
        for of in left.iter_mut() {
            while let Some(pod) = of.pods.last().copied() {
                let Some(node) = self.tightest(of.kind) else { break };
                self.give(node, of.kind, -1);
                draft.homes.push((pod, Home::Node(node as u32)));
                of.pods.pop();
            }
        }
        left.retain(|left| !left.pods.is_empty());
    }

    fn tightest(&self, kind: usize) -> Option<usize> {
        let value = self.kinds[kind].value;
        let first = self.order.partition_point(|(room, _)| *room < value);
        self.order[first..].iter().map(|(_, node)| *node as usize).find(|node| self.takes(*node, kind))
    }

    /// Whether a pod of a class can go to a node as it is now.
    pub(super) fn takes(&self, node: usize, kind: usize) -> bool {
        let (room, Kind { need, hosts, .. }) = (&self.nodes[node], &self.kinds[kind]);
        need.iter().zip(&room.free).all(|(need, free)| need <= free) && !room.is_out && hosts.has(node)
    }

    /// Buys machines while what goes there is worth enough of their price.
    fn buy(&self, left: &mut Vec<Left>, draft: &mut Draft, most: usize, least: f64, limit: f64) {
        let value = |left: &Left| self.kinds[left.kind].value * left.pods.len() as f64;
        while !left.is_empty() && draft.prices.len() < most {
            // No machine is worth more than it costs.
            if draft.spent() + left.iter().map(value).sum::<f64>() > limit {
                return;
            }
            let Some(chosen) = self.best_machine(left).filter(|chosen| chosen.ratio >= least) else { return };
            let number = draft.prices.len() as u32;
            for (of, count) in left.iter_mut().zip(&chosen.counts) {
                let pods = of.pods.split_off(of.pods.len() - count);
                draft.homes.extend(pods.into_iter().map(|pod| (pod, Home::New(number))));
            }
            draft.prices.push(chosen.price);
            left.retain(|left| !left.pods.is_empty());
        }
    }

    /// The machine whose pods are worth most for its price, among those that the dearest pod can use.
    fn best_machine(&self, left: &[Left]) -> Option<Filled> {
        let offers = &self.offers[self.kinds[left.first()?.kind].offers as usize];
        let mut best: Option<Filled> = None;
        for machine in &offers.best {
            let (counts, total) = self.filled(left, *machine as usize);
            let value: f64 =
                left.iter().zip(&counts).map(|(of, count)| *count as f64 * self.kinds[of.kind].value).sum();
            if value <= 0.0 {
                continue;
            }
            let suits = |known: &usize| {
                let known = &self.machines[*known];
                known.holds(&total)
                    && left.iter().zip(&counts).all(|(of, count)| {
                        *count == 0 || known.allows.has(self.kinds[of.kind].offers as usize)
                    })
            };
            let cheapest = offers.all.iter().map(|known| *known as usize).find(suits);
            let machine = cheapest.unwrap_or(*machine as usize);
            let price = self.machines[machine].price;
            let ratio = value / price.max(f64::MIN_POSITIVE);
            if best.as_ref().is_none_or(|known| ratio > known.ratio) {
                best = Some(Filled { ratio, price, counts, machine, total });
            }
        }
        best.map(|best| self.exchanged(left, best))
    }

    /// Exchanges pods on a machine for others that are worth more, one for one, as long as some fit.
    fn exchanged(&self, left: &[Left], mut filled: Filled) -> Filled {
        let Machine { room, allows, .. } = &self.machines[filled.machine];
        let mut free: Vec<i64> = room.iter().zip(&filled.total).map(|(room, total)| room - total).collect();
        let kinds: Vec<&Kind> = left.iter().map(|of| &self.kinds[of.kind]).collect();
        for _ in 0..MOST_EXCHANGED {
            let mut best: Option<(f64, usize, usize)> = None;
            for (new, kind) in kinds.iter().enumerate() {
                if filled.counts[new] == left[new].pods.len() || !allows.has(kind.offers as usize) {
                    continue;
                }
                for old in (0..kinds.len()).filter(|old| filled.counts[*old] > 0) {
                    let gain = kind.value - kinds[old].value;
                    let mut amounts = kind.need.iter().zip(&kinds[old].need).zip(&free);
                    if gain > best.map_or(0.0, |(known, ..)| known)
                        && amounts.all(|((need, given), free)| *need <= given + free)
                    {
                        best = Some((gain, new, old));
                    }
                }
            }
            let Some((gain, new, old)) = best else { break };
            let amounts = kinds[new].need.iter().zip(&kinds[old].need);
            for (free, (need, given)) in free.iter_mut().zip(amounts) {
                *free += given - need;
            }
            filled.counts[new] += 1;
            filled.counts[old] -= 1;
            filled.ratio += gain / filled.price.max(f64::MIN_POSITIVE);
        }
        filled
    }

    /// Fills a machine with pods, each time with one that asks for what there is most of, in shares of the room.
    fn filled(&self, left: &[Left], machine: usize) -> (Vec<usize>, Vec<i64>) {
        let Machine { room, allows, .. } = &self.machines[machine];
        let mut free = room.clone();
        let mut counts = vec![0; left.len()];
        let mut open: Vec<usize> =
            (0..left.len()).filter(|at| allows.has(self.kinds[left[*at].kind].offers as usize)).collect();
        let mut plenty = vec![0.0; room.len()];
        loop {
            for (plenty, ((free, room), worth)) in
                plenty.iter_mut().zip(free.iter().zip(room).zip(&self.worth))
            {
                *plenty = if *worth > 0.0 { *free as f64 / (*room as f64).powi(2).max(1.0) } else { 0.0 };
            }
            let mut best: Option<(f64, usize)> = None;
            open.retain(|at| {
                let of = &left[*at];
                let need = &self.kinds[of.kind].need;
                // What does not fit now will not fit later.
                let fits =
                    counts[*at] < of.pods.len() && need.iter().zip(&free).all(|(need, free)| need <= free);
                if fits {
                    let suits: f64 =
                        need.iter().zip(&plenty).map(|(need, plenty)| *need as f64 * plenty).sum();
                    let score = of.favour * suits;
                    if best.is_none_or(|(known, _)| score > known) {
                        best = Some((score, *at));
                    }
                }
                fits
            });
            let Some((_, at)) = best else { break };
            for (free, need) in free.iter_mut().zip(&self.kinds[left[at].kind].need) {
                *free -= need;
            }
            counts[at] += 1;
        }
        let total = room.iter().zip(&free).map(|(room, free)| room - free).collect();
        (counts, total)
    }
}

/// Where a node stands, or would stand, among those in order.
fn position(order: &[(f64, u32)], value: f64, node: u32) -> usize {
    order.partition_point(|(known, other)| known.total_cmp(&value).then_with(|| other.cmp(&node)).is_lt())
}
