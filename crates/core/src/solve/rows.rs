//! The instance types of a pool as columns.
//!
//! A row is an instance type with one allocatable vector; a type whose offerings differ in capacity has several. Rows are
//! ordered by processor, largest first, so that a search for room meets the roomiest rows first and stops early.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::catalog::{InstanceType, Offering};
use crate::price::Price;
use crate::requirement::Requirement;
use crate::requirements::{Requirements, conflict};
use crate::resources::Resources;
use crate::snapshot::HostPort;
use crate::solve::amounts::{CPU_COLUMN, Columns};
use crate::solve::bits::Bits;
use crate::solve::reqs::{ReqId, ReqSets};

/// What can be bought for a pool.
#[derive(Debug)]
pub(crate) struct Rows {
    types: Arc<[Arc<InstanceType>]>,
    all: Vec<Row>,
    /// Room for pods after daemons, row by row, one amount for each column.
    room: Vec<i64>,
    stride: usize,
    /// Offerings of all rows, those of one row together.
    offerings: Vec<(u32, u32)>,
    by_type: KeyIndex,
    by_offering: KeyIndex,
    available: Bits,
    some_types_repeat: bool,
    /// Zone and capacity type of each offering, by number.
    labels: Vec<(u8, u8)>,
    zones: Vec<Arc<str>>,
    capacity_types: Vec<Arc<str>>,
    usable: FxHashMap<ReqId, Rc<Usable>>,
    priced: FxHashMap<ReqId, Rc<Vec<Buy>>>,
    /// Daemon pods that run together on some types.
    pub(crate) daemon_sets: Vec<DaemonSet>,
}

#[derive(Debug)]
struct Row {
    of_type: u32,
    daemons: u32,
    offerings: (u32, u32),
}

/// Daemon pods that would run on the types of some rows, as one.
#[derive(Debug, Default)]
pub(crate) struct DaemonSet {
    pub(crate) members: Vec<usize>,
    pub(crate) requests: Resources,
    pub(crate) ports: Vec<HostPort>,
}

/// The rows that some requirements leave.
#[derive(Debug)]
pub(crate) struct Usable {
    pub(crate) rows: Bits,
    /// For each column the most that any row has.
    most: Vec<i64>,
    /// Rows that no other row beats in every column, in row order: if these have no room, none has.
    best: Vec<u32>,
}

/// The cheapest way to buy a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buy {
    pub(crate) price: Price,
    pub(crate) row: u32,
    pub(crate) offering: u32,
    /// Where the row can be launched at all, a bit for each zone.
    pub(crate) zones: u64,
    /// As what the row can be launched at all, a bit for each capacity type.
    pub(crate) capacity_types: u64,
}

impl Rows {
    /// Lays out the types; `daemons_of` says which daemons would run on a type.
    pub(crate) fn new(
        types: &Arc<[Arc<InstanceType>]>,
        columns: &Columns,
        mut daemons_of: impl FnMut(&InstanceType) -> DaemonSet,
    ) -> Self {
        let stride = columns.len();
        let mut daemon_sets: Vec<DaemonSet> = Vec::new();
        let mut drafts = Vec::new();
        for (of_type, instance_type) in types.iter().enumerate() {
            let set = daemons_of(instance_type);
            let daemons =
                daemon_sets.iter().position(|known| known.members == set.members).unwrap_or_else(|| {
                    daemon_sets.push(set);
                    daemon_sets.len() - 1
                });
            let overhead = columns.need(&daemon_sets[daemons].requests);
            for (allocatable, offerings) in by_allocatable(instance_type) {
                // COMPAT: a negative amount of anything means that nothing fits.
                if allocatable.iter().any(|(_, amount)| amount.is_negative()) {
                    continue;
                }
                let room: Vec<i64> = columns
                    .room(&allocatable)
                    .iter()
                    .zip(&overhead)
                    .map(|(room, daemons)| room - daemons)
                    .collect();
                if room.iter().all(|room| *room >= 0) {
                    drafts.push((of_type, daemons, room, offerings));
                }
            }
        }
        drafts.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| types[a.0].name.cmp(&types[b.0].name)));
        let mut names: FxHashSet<&str> = FxHashSet::default();
        let some_types_repeat = !drafts.iter().all(|(of_type, ..)| names.insert(&types[*of_type].name));
        let mut all = Self {
            types: types.clone(),
            all: Vec::with_capacity(drafts.len()),
            room: Vec::with_capacity(drafts.len() * stride),
            stride,
            offerings: Vec::new(),
            by_type: KeyIndex::default(),
            by_offering: KeyIndex::default(),
            available: Bits::default(),
            some_types_repeat,
            labels: Vec::new(),
            zones: Vec::new(),
            capacity_types: Vec::new(),
            usable: FxHashMap::default(),
            priced: FxHashMap::default(),
            daemon_sets,
        };
        for (of_type, daemons, room, offerings) in drafts {
            let from = all.offerings.len() as u32;
            all.offerings.extend(offerings.iter().map(|offering| (of_type as u32, *offering)));
            let to = all.offerings.len() as u32;
            all.all.push(Row { of_type: of_type as u32, daemons: daemons as u32, offerings: (from, to) });
            all.room.extend(room);
        }
        all.available = Bits::none(all.offerings.len());
        for index in 0..all.offerings.len() {
            let (of_type, offering) = all.offerings[index];
            let offering = &types[of_type as usize].offerings[offering as usize];
            if offering.available {
                all.available.insert(index);
            }
            let zone = number(&mut all.zones, offering.zone());
            all.labels.push((zone, number(&mut all.capacity_types, offering.capacity_type())));
        }
        all
    }

    /// The zones whose bits are set, in order.
    pub(crate) fn zones(&self, bits: u64) -> Vec<Arc<str>> {
        named(&self.zones, bits)
    }

    /// The capacity types whose bits are set, in order.
    pub(crate) fn capacity_types(&self, bits: u64) -> Vec<Arc<str>> {
        named(&self.capacity_types, bits)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn instance_type(&self, row: usize) -> &InstanceType {
        &self.types[self.all[row].of_type as usize]
    }

    pub(crate) fn room(&self, row: usize) -> &[i64] {
        &self.room[row * self.stride..(row + 1) * self.stride]
    }

    pub(crate) fn daemons(&self, row: usize) -> &DaemonSet {
        &self.daemon_sets[self.all[row].daemons as usize]
    }

    /// The offerings of several rows, with their numbers.
    pub(crate) fn offerings_of<'a>(&'a self, rows: &'a Bits) -> impl Iterator<Item = (&'a Offering, usize)> {
        rows.iter().flat_map(|row| {
            let (from, to) = self.all[row].offerings;
            (from as usize..to as usize).map(|index| (self.offering(index), index))
        })
    }

    pub(crate) fn offering(&self, index: usize) -> &Offering {
        let (of_type, offering) = self.offerings[index];
        &self.types[of_type as usize].offerings[offering as usize]
    }

    /// The rows whose type can meet the requirements and has an available offering that meets them too.
    pub(crate) fn usable(&mut self, id: ReqId, reqs: &ReqSets) -> Rc<Usable> {
        if let Some(known) = self.usable.get(&id) {
            return known.clone();
        }
        let requirements = reqs.get(id).clone();
        let mut rows = Bits::all(self.all.len());
        for requirement in requirements.iter() {
            let (rows_of, types) = (&self.all, &self.types);
            let of_row = |row: usize| &types[rows_of[row].of_type as usize].requirements;
            rows.and(self.by_type.meeting(requirement, rows_of.len(), of_row));
        }
        let offerings = self.usable_offerings(&requirements, reqs);
        for (row, of) in self.all.iter().enumerate() {
            if !offerings.any_in(of.offerings.0 as usize, of.offerings.1 as usize) {
                rows.remove(row);
            }
        }
        let usable = Rc::new(Usable::new(rows, |row| self.room(row), self.stride));
        self.usable.insert(id, usable.clone());
        usable
    }

    /// Available offerings that meet the requirements.
    pub(crate) fn usable_offerings(&mut self, requirements: &Requirements, reqs: &ReqSets) -> Bits {
        let mut usable = self.available.clone();
        let count = self.offerings.len();
        let (offerings, types) = (&self.offerings, &self.types);
        let of = |index: usize| {
            let (of_type, offering) = offerings[index];
            &types[of_type as usize].offerings[offering as usize].requirements
        };
        for requirement in requirements.iter() {
            usable.and(self.by_offering.meeting(requirement, count, of));
        }
        // An offering may name labels that the requirements do not know; that is fine only if a launch fills them in.
        usable.and(&self.by_offering.nameable(count, of, |requirement| {
            reqs.well_known().has(requirement.key())
                || requirements.has(requirement.key())
                || requirement.operator().allows_absence()
        }));
        usable
    }

    /// Whether a type has several rows, or a name several types.
    pub(crate) fn some_types_repeat(&self) -> bool {
        self.some_types_repeat
    }

    /// The cheapest launchable offering of every row that the requirements leave, cheapest first.
    pub(crate) fn priced(&mut self, id: ReqId, reqs: &ReqSets) -> Rc<Vec<Buy>> {
        if let Some(known) = self.priced.get(&id) {
            return known.clone();
        }
        let usable = self.usable(id, reqs);
        let offerings = self.usable_offerings(&reqs.get(id).clone(), reqs);
        let mut buys: Vec<Buy> = usable
            .rows
            .iter()
            .map(|row| {
                let (from, to) = self.all[row].offerings;
                let nothing =
                    Buy { price: Price::MAX, row: row as u32, offering: from, zones: 0, capacity_types: 0 };
                (from..to)
                    .filter(|index| {
                        offerings.has(*index as usize) && self.offering(*index as usize).launchable()
                    })
                    .fold(nothing, |best, index| {
                        let (zone, capacity_type) = self.labels[index as usize];
                        let zones = best.zones | 1 << zone;
                        let capacity_types = best.capacity_types | 1 << capacity_type;
                        let price = self.offering(index as usize).price;
                        let offering = if price < best.price { index } else { best.offering };
                        Buy { price: price.min(best.price), row: best.row, offering, zones, capacity_types }
                    })
            })
            .collect();
        buys.sort_by(|a, b| {
            let name = |buy: &Buy| &self.instance_type(buy.row as usize).name;
            a.price.cmp(&b.price).then_with(|| name(a).cmp(name(b)))
        });
        let buys = Rc::new(buys);
        self.priced.insert(id, buys.clone());
        buys
    }

    /// The first row, at or after `from`, that is in both sets and has room for `total + more`.
    pub(crate) fn find(
        &self,
        usable: &Usable,
        base: Option<&Bits>,
        total: &[i64],
        more: &[i64],
    ) -> Option<usize> {
        if !crate::solve::amounts::fits(total, more, &usable.most) {
            return None;
        }
        let needed = total[CPU_COLUMN] + more[CPU_COLUMN];
        let enough = |row: &usize| self.room[row * self.stride + CPU_COLUMN] >= needed;
        let has_room = |row: &usize| crate::solve::amounts::fits(total, more, self.room(*row));
        match base {
            None => usable.best.iter().map(|row| *row as usize).take_while(enough).find(has_room),
            Some(base) => usable.rows.iter().take_while(enough).filter(|row| base.has(*row)).find(has_room),
        }
    }

    /// All rows that are in both sets and have room for `total`.
    pub(crate) fn holding<'a>(
        &'a self,
        usable: &'a Usable,
        base: Option<&'a Bits>,
        total: &'a [i64],
    ) -> impl Iterator<Item = usize> + 'a {
        usable
            .rows
            .iter()
            .filter(move |row| base.is_none_or(|base| base.has(*row)))
            .filter(move |row| self.room(*row).iter().zip(total).all(|(room, total)| total <= room))
    }
}

impl Usable {
    fn new<'a>(rows: Bits, room: impl Fn(usize) -> &'a [i64], stride: usize) -> Self {
        let mut most = vec![i64::MIN / 4; stride];
        let mut best: Vec<u32> = Vec::new();
        for row in rows.iter() {
            let own = room(row);
            for (most, own) in most.iter_mut().zip(own) {
                *most = (*most).max(*own);
            }
            // Rows come with the largest processor first, so only rows already kept can beat this one.
            let beaten = |kept: &u32| room(*kept as usize).iter().zip(own).all(|(kept, own)| kept >= own);
            if !best.iter().any(beaten) {
                best.push(row as u32);
            }
        }
        Self { rows, most, best }
    }

    /// For each column the most that any row has.
    pub(crate) fn most(&self) -> &[i64] {
        &self.most
    }
}

/// The number of a name; names beyond the sixty-fourth share the last number.
fn number(names: &mut Vec<Arc<str>>, name: &str) -> u8 {
    let at = names.iter().position(|known| &**known == name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    });
    at.min(63) as u8
}

fn named(names: &[Arc<str>], bits: u64) -> Vec<Arc<str>> {
    let chosen = names.iter().enumerate().filter(|(at, _)| bits & (1 << at.min(&63)) != 0);
    let mut chosen: Vec<_> = chosen.map(|(_, name)| name.clone()).collect();
    chosen.sort_unstable();
    chosen
}

/// Allocatable vectors of a type with the available offerings that have them; the type's own comes first.
fn by_allocatable(instance_type: &InstanceType) -> Vec<(Resources, Vec<u32>)> {
    let mut groups: Vec<(Resources, Vec<u32>)> = vec![(instance_type.allocatable(), Vec::new())];
    for (index, offering) in instance_type.offerings.iter().enumerate() {
        let own = offering.capacity_override.is_some() || offering.overhead_override.is_some();
        let allocatable = if own { instance_type.allocatable_with(offering) } else { groups[0].0.clone() };
        match groups.iter_mut().find(|(known, _)| *known == allocatable) {
            Some((_, offerings)) => offerings.push(index as u32),
            None => groups.push((allocatable, vec![index as u32])),
        }
    }
    groups
}

/// For each label key, the distinct requirements that things have on it and which things have each.
#[derive(Debug, Default)]
struct KeyIndex {
    keys: FxHashMap<Arc<str>, Vec<(Requirement, Bits)>>,
    meeting: FxHashMap<Requirement, Bits>,
    named: Option<Vec<(Requirement, Bits)>>,
}

impl KeyIndex {
    /// Which things do not conflict with a requirement.
    fn meeting<'a>(
        &mut self,
        requirement: &Requirement,
        count: usize,
        of: impl Fn(usize) -> &'a Requirements,
    ) -> &Bits {
        if !self.meeting.contains_key(requirement) {
            let key = requirement.key();
            let groups = self.keys.entry(key.into()).or_insert_with(|| group(count, |i| of(i).get(key)));
            let mut met = Bits::all(count);
            for (own, things) in groups.iter().filter(|(own, _)| conflict(own, requirement)) {
                debug_assert_eq!(own.key(), key);
                met.without(things);
            }
            self.meeting.insert(requirement.clone(), met);
        }
        &self.meeting[requirement]
    }

    /// Which things name only labels that are allowed.
    fn nameable<'a>(
        &mut self,
        count: usize,
        of: impl Fn(usize) -> &'a Requirements,
        allowed: impl Fn(&Requirement) -> bool,
    ) -> Bits {
        let named = self.named.get_or_insert_with(|| {
            let mut by_requirement: FxHashMap<&Requirement, Bits> = FxHashMap::default();
            for index in 0..count {
                for requirement in of(index).iter() {
                    by_requirement.entry(requirement).or_insert_with(|| Bits::none(count)).insert(index);
                }
            }
            by_requirement.into_iter().map(|(requirement, things)| (requirement.clone(), things)).collect()
        });
        let mut fine = Bits::all(count);
        for (_, things) in named.iter().filter(|(requirement, _)| !allowed(requirement)) {
            fine.without(things);
        }
        fine
    }
}

fn group<'a>(count: usize, own: impl Fn(usize) -> Option<&'a Requirement>) -> Vec<(Requirement, Bits)> {
    let mut groups: FxHashMap<&Requirement, Bits> = FxHashMap::default();
    for index in 0..count {
        if let Some(requirement) = own(index) {
            groups.entry(requirement).or_insert_with(|| Bits::none(count)).insert(index);
        }
    }
    groups.into_iter().map(|(requirement, things)| (requirement.clone(), things)).collect()
}
