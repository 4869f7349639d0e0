//! A plan for the whole fleet in a sketch: which nodes go together, and where their pods go.
//!
//! Nodes that go are in groups, each with places for its pods on nodes that stay and on any number of new ones. A step draws
//! some nodes by lot, breaks up the groups that are in the way, and looks for places for all their pods anew; it is kept if
//! everything together gains more than before, and at first now and then if it gains a little less, so that the plan does
//! not get stuck. A pod that was to move anyway moves somewhere else for free, so that a plan gets better without more
//! evictions.

use std::collections::BTreeMap;

use crate::disrupt::draw::Lots;
use crate::solve::{Draft, Home, Leaver, Sketch, Style};

/// Most nodes that go together.
const LARGEST: usize = 24;
/// Most nodes that are drawn in a step.
const DRAWN: usize = 4;
/// Of how many nodes drawn by lot the best is taken.
const TOURNAMENT: usize = 8;
/// How many of a hundred draws look at what nodes cost for each eviction, and not at their excess.
const BY_PRICE: usize = 70;
/// How many of a hundred draws are among those nodes that go in the best plan of parts.
const BY_PARTS: usize = 60;
/// The least part of a node that goes there.
const LEAST_PART: f64 = 0.05;
/// How much less a step may gain at first, as a share of what a node costs.
const HEAT: f64 = 0.0075;
/// The share of the work after which no step may gain less.
const COOL: f64 = 0.8;
/// Which share of their price machines must be worth to be bought before nodes are looked at; zero is never.
const NEW_FIRST: [f64; 6] = [0.0, 0.0, 0.0, 0.92, 0.95, 0.97];
/// Most nodes that some may be replaced by, for each of them.
pub(super) const MOST_FOR_EACH: usize = 2;
/// What is no gain but rounding.
const NOTHING: f64 = 1e-6;

/// A node that may go.
pub(super) struct Item {
    pub(super) member: u32,
    /// Its position in the sketch.
    pub(super) node: u32,
    pub(super) pods: Vec<u32>,
    pub(super) price: f64,
    /// What its pods' moving costs, and what must be saved for that.
    pub(super) cost: f64,
    pub(super) least: f64,
    /// Its pool, and how many nodes of it may go.
    pub(super) pool: usize,
    pub(super) left: usize,
}

/// Nodes that are planned together.
struct Group {
    /// Indices of items.
    items: Vec<usize>,
    draft: Draft,
    /// What is saved beyond what must be.
    gain: f64,
    /// How places were looked for.
    style: Style,
    /// Whether it stays as it is and comes first.
    is_firm: bool,
}

/// Nodes that go together.
pub(super) struct Part {
    /// Indices of items.
    pub(super) items: Vec<usize>,
    pub(super) homes: Vec<(u32, Home)>,
    pub(super) style: Style,
    /// What is saved beyond what must be, and what moving the pods costs.
    gain: f64,
    cost: f64,
    pub(super) is_firm: bool,
}

pub(super) struct Plan {
    pub(super) sketch: Sketch,
    /// Those with the largest excess for each eviction first.
    pub(super) items: Vec<Item>,
    /// The same, those that cost most for each eviction first.
    by_price: Vec<usize>,
    /// Those that go in the best plan of parts.
    likely: Vec<usize>,
    groups: Vec<Option<Group>>,
    group_of: Vec<Option<usize>>,
    /// For each node the groups whose pods go there.
    guests: Vec<Vec<usize>>,
    lots: Lots,
    /// For how many pods places were looked for.
    work: usize,
}

/// What becomes of a node that goes alone.
pub(super) enum Alone {
    Saves(f64),
    Nowhere,
}

impl Plan {
    pub(super) fn new(sketch: Sketch, items: Vec<Item>, nodes: usize, lots: Lots) -> Self {
        let mut by_price: Vec<usize> = (0..items.len()).collect();
        let ratio = |item: usize| items[item].price / items[item].cost;
        by_price.sort_by(|a, b| ratio(*b).total_cmp(&ratio(*a)).then_with(|| a.cmp(b)));
        Self {
            by_price,
            likely: Vec::new(),
            group_of: vec![None; items.len()],
            guests: vec![Vec::new(); nodes],
            sketch,
            items,
            groups: Vec::new(),
            lots,
            work: 0,
        }
    }

    /// What is saved if an item goes alone.
    pub(super) fn alone(&mut self, item: usize) -> Alone {
        let Item { node, pods, price, .. } = &self.items[item];
        self.sketch.set_out(*node, true);
        let draft = self.sketch.place(pods, Style::default(), MOST_FOR_EACH, f64::INFINITY);
        self.sketch.set_out(*node, false);
        match draft {
            None => Alone::Nowhere,
            Some(draft) => {
                self.sketch.undo(&draft);
                Alone::Saves(price - draft.spent())
            }
        }
    }

    /// Lets members go together as they were planned before, if all may and that still gains something.
    pub(super) fn hold(&mut self, members: &[u32], style: Style) {
        let item = |member: &u32| self.items.iter().position(|item| item.member == *member);
        let items: Option<Vec<usize>> = members.iter().map(item).collect();
        let Some(items) = items else { return };
        if self.attempt(items, None, style, 0.0)
            && let Some(Some(group)) = self.groups.last_mut()
        {
            group.is_firm = true;
        }
    }

    /// Changes what must be saved for the evictions on items.
    pub(super) fn ask_for(&mut self, least: impl Fn(&Item) -> f64) {
        for item in &mut self.items {
            item.least = least(item);
        }
        for at in 0..self.groups.len() {
            let Some(mut group) = self.groups[at].take() else { continue };
            let (price, least) = self.sum(&group.items);
            group.gain = price - least - group.draft.spent();
            self.groups[at] = Some(group);
        }
        let parts = self.sketch.relax(&self.leavers(|item| item.least));
        self.likely = (0..parts.len()).filter(|item| parts[*item] > LEAST_PART).collect();
    }

    /// Whether nothing is planned.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.iter().all(Option::is_none)
    }

    /// Lets each item go alone that gains something, and makes the plan better until places for so many pods were looked for.
    pub(super) fn improve(&mut self, work: usize) {
        for item in 0..self.items.len() {
            self.attempt(vec![item], None, Style::default(), 0.0);
        }
        let price: f64 = self.items.iter().map(|item| item.price).sum();
        let heat = HEAT * price / self.items.len().max(1) as f64;
        let start = self.work;
        while self.work - start < work {
            let left = (1.0 - (self.work - start) as f64 / (COOL * work as f64)).max(0.0);
            let items = self.draw();
            let spared = (self.lots.below(3) == 0).then(|| self.lots.next());
            let lot = if self.lots.below(2) == 0 { 0 } else { self.lots.next() };
            let style = Style { new_first: NEW_FIRST[self.lots.below(NEW_FIRST.len())], lot };
            let luck = self.lots.luck() * heat * left;
            self.attempt(items, spared, style, luck);
        }
    }

    /// What the sketch is asked about items whose evictions must save this much.
    pub(super) fn leavers<'a>(&'a self, least: impl Fn(&Item) -> f64) -> Vec<Leaver<'a>> {
        let leaver = |item: &'a Item| Leaver {
            node: item.node,
            pods: &item.pods,
            price: item.price,
            least: least(item),
        };
        self.items.iter().map(leaver).collect()
    }

    /// Some items by lot.
    fn draw(&mut self) -> Vec<usize> {
        let count = 1 + self.lots.below(DRAWN);
        let by_parts = !self.likely.is_empty() && self.lots.below(100) < BY_PARTS;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            if by_parts {
                items.push(self.likely[self.lots.below(self.likely.len())]);
                continue;
            }
            let at = self.lots.early(self.items.len(), TOURNAMENT);
            items.push(if self.lots.below(100) < BY_PRICE { self.by_price[at] } else { at });
        }
        items.sort_unstable();
        items.dedup();
        items
    }

    /// What to do, that first which gains most for each eviction.
    pub(super) fn best_first(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = self.groups.iter().flatten().flat_map(|group| self.parts(group)).collect();
        parts.retain(|part| part.is_firm || part.gain > 0.0);
        let ratio = |part: &Part| part.gain / part.cost;
        parts.sort_by(|a, b| {
            let by_gain = || ratio(b).total_cmp(&ratio(a)).then_with(|| a.items.cmp(&b.items));
            b.is_firm.cmp(&a.is_firm).then_with(by_gain)
        });
        parts
    }

    /// A group in parts that have no new node in common, so that one does not wait for the other.
    fn parts(&self, group: &Group) -> Vec<Part> {
        let Group { items, draft, style, is_firm, .. } = group;
        let item_of: BTreeMap<u32, usize> = (0..)
            .zip(items)
            .flat_map(|(at, item)| self.items[*item].pods.iter().map(move |pod| (*pod, at)))
            .collect();
        // Each part is known by its first item.
        let mut part_of: Vec<usize> = (0..items.len()).collect();
        let mut first_on: Vec<Option<usize>> = vec![None; draft.prices.len()];
        for (pod, home) in &draft.homes {
            let Home::New(number) = home else { continue };
            let part = part_of[item_of[pod]];
            let other = part_of[*first_on[*number as usize].get_or_insert(item_of[pod])];
            let (from, to) = (part.max(other), part.min(other));
            part_of.iter_mut().filter(|part| **part == from).for_each(|part| *part = to);
        }
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        for (item, part) in items.iter().zip(&part_of) {
            let Item { price, least, cost, .. } = self.items[*item];
            let part = parts.entry(*part).or_insert_with(|| Part {
                items: Vec::new(),
                homes: Vec::new(),
                gain: 0.0,
                cost: 0.0,
                style: *style,
                is_firm: *is_firm,
            });
            part.items.push(*item);
            part.gain += price - least;
            part.cost += cost;
        }
        for (pod, home) in &draft.homes {
            parts.entry(part_of[item_of[pod]]).and_modify(|part| part.homes.push((*pod, *home)));
        }
        for (price, first) in draft.prices.iter().zip(first_on) {
            let Some(first) = first else { continue };
            parts.entry(part_of[first]).and_modify(|part| part.gain -= price);
        }
        parts.into_values().collect()
    }

    /// Tries to let these items go together, with all that are in the way; by lot one of them is spared, and with luck
    /// it may gain so much less than before.
    fn attempt(&mut self, mut items: Vec<usize>, spared: Option<u64>, style: Style, luck: f64) -> bool {
        self.work += 1;
        let Some(broken) = self.in_the_way(&mut items) else { return false };
        if let Some(lot) = spared.filter(|_| items.len() > 1) {
            items.swap_remove((lot % items.len() as u64) as usize);
        }
        items.sort_unstable();
        let gain = |group: &usize| self.groups[*group].as_ref().map_or(0.0, |group| group.gain);
        let before: f64 = broken.iter().map(gain).sum();
        let (price, least) = self.sum(&items);
        let limit = price - least - before - NOTHING + luck;
        if limit <= 0.0 || !self.is_allowed(&items) {
            return false;
        }
        let mut old = Vec::with_capacity(broken.len());
        for number in broken {
            if let Some(group) = self.groups[number].take() {
                self.sketch.undo(&group.draft);
                self.set_out(&group.items, false);
                old.push((number, group));
            }
        }
        self.set_out(&items, true);
        let pods: Vec<u32> = items.iter().flat_map(|item| self.items[*item].pods.iter().copied()).collect();
        self.work += pods.len();
        if let Some(draft) = self.sketch.place(&pods, style, items.len() * MOST_FOR_EACH, limit) {
            if draft.spent() < limit {
                for (number, group) in old {
                    self.forget(number, &group);
                }
                let gain = price - least - draft.spent();
                self.remember(items, draft, gain, style);
                return true;
            }
            self.sketch.undo(&draft);
        }
        self.set_out(&items, false);
        for (number, group) in old {
            self.set_out(&group.items, true);
            self.sketch.redo(&group.draft);
            self.groups[number] = Some(group);
        }
        false
    }

    fn set_out(&mut self, items: &[usize], is_out: bool) {
        for item in items {
            self.sketch.set_out(self.items[*item].node, is_out);
        }
    }

    /// Groups that the items are in or whose pods are to go to their nodes; the items of those come along. None if that
    /// are too many, or some must stay as they are.
    fn in_the_way(&self, items: &mut Vec<usize>) -> Option<Vec<usize>> {
        let mut broken: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < items.len() {
            let item = items[at];
            let guests = &self.guests[self.items[item].node as usize];
            for number in self.group_of[item].iter().chain(guests) {
                if broken.contains(number) {
                    continue;
                }
                broken.push(*number);
                let group = self.groups[*number].as_ref().filter(|group| !group.is_firm)?;
                for other in &group.items {
                    if !items.contains(other) {
                        items.push(*other);
                    }
                }
            }
            if items.len() > LARGEST {
                return None;
            }
            at += 1;
        }
        Some(broken)
    }

    /// Whether budgets allow these items to go together.
    fn is_allowed(&self, items: &[usize]) -> bool {
        items.iter().all(|item| {
            let Item { pool, left, .. } = self.items[*item];
            items.iter().filter(|other| self.items[**other].pool == pool).count() <= left
        })
    }

    /// What items cost, and what must be saved for their evictions.
    fn sum(&self, items: &[usize]) -> (f64, f64) {
        let items = items.iter().map(|item| &self.items[*item]);
        items.fold((0.0, 0.0), |(price, least), item| (price + item.price, least + item.least))
    }

    fn forget(&mut self, number: usize, group: &Group) {
        for item in &group.items {
            self.group_of[*item] = None;
        }
        for (_, home) in &group.draft.homes {
            if let Home::Node(node) = home {
                self.guests[*node as usize].retain(|guest| *guest != number);
            }
        }
    }

    fn remember(&mut self, items: Vec<usize>, draft: Draft, gain: f64, style: Style) {
        let number = self.groups.len();
        for item in &items {
            self.group_of[*item] = Some(number);
        }
        for (_, home) in &draft.homes {
            if let Home::Node(node) = home
                && !self.guests[*node as usize].contains(&number)
            {
                self.guests[*node as usize].push(number);
            }
        }
        self.groups.push(Some(Group { items, draft, gain, style, is_firm: false }));
    }
}
