//! The instance types of a pool as columns.
//!
//! A row is an instance type with one allocatable vector; a type whose offerings differ in capacity has several. Rows are
//! ordered by processor, largest first, so that a search for room meets the roomiest rows first and stops early.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::catalog::{InstanceType, Offering};
use crate::price::Price;
use crate::requirement::Requirement;
use crate::requirements::{Requirements, conflict};
use crate::resources::Resources;
use crate::snapshot::HostPort;
use crate::solve::amounts::{CPU_COLUMN, Columns};
use crate::solve::bits::Bits;
use crate::solve::reqs::{ReqId, ReqSets};
use crate::types::Types;

/// What can be bought for a pool.
#[derive(Debug)]
pub(crate) struct Rows {
    types: Arc<Types>,
    all: Vec<Row>,
    /// Room for pods after daemons, row by row, one amount for each column.
    room: Vec<i64>,
    stride: usize,
    /// Rows whose labels can meet a requirement.
    meeting: FxHashMap<Requirement, Bits>,
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
        types: &Arc<Types>,
        columns: &Columns,
        mut daemons_of: impl FnMut(&InstanceType) -> DaemonSet,
    ) -> Self {
        let stride = columns.len();
        let mut daemon_sets: Vec<(DaemonSet, Vec<i64>)> = Vec::new();
        let mut drafts: Vec<(Row, Vec<i64>)> = Vec::with_capacity(types.sold.len());
        let mut last = None;
        for sold in &types.sold {
            if last.is_none_or(|(of_type, _)| of_type != sold.of_type) {
                let set = daemons_of(&types[sold.of_type as usize]);
                let known = daemon_sets.iter().position(|(known, _)| known.members == set.members);
                let daemons = known.unwrap_or_else(|| {
                    let overhead = columns.need(&set.requests);
                    daemon_sets.push((set, overhead));
                    daemon_sets.len() - 1
                });
                last = Some((sold.of_type, daemons));
            }
            let Some((of_type, daemons)) = last else { continue };
            let mut room = columns.room(&sold.allocatable);
            for (room, overhead) in room.iter_mut().zip(&daemon_sets[daemons].1) {
                *room -= overhead;
            }
            if room.iter().all(|room| *room >= 0) {
                drafts.push((Row { of_type, daemons: daemons as u32, offerings: sold.offerings }, room));
            }
        }
        let name = |row: &Row| &types[row.of_type as usize].name;
        drafts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| name(&a.0).cmp(name(&b.0))));
        let mut all = Self {
            types: types.clone(),
            all: Vec::with_capacity(drafts.len()),
            room: Vec::with_capacity(drafts.len() * stride),
            stride,
            meeting: FxHashMap::default(),
            usable: FxHashMap::default(),
            priced: FxHashMap::default(),
            daemon_sets: daemon_sets.into_iter().map(|(set, _)| set).collect(),
        };
        for (row, room) in drafts {
            all.all.push(row);
            all.room.extend(room);
        }
        all
    }

    /// Whether some offering is reserved.
    pub(crate) fn some_are_reserved(&self) -> bool {
        self.types.kinds.iter().any(|kind| kind.reserved)
    }

    /// The zones whose bits are set, in order.
    pub(crate) fn zones(&self, bits: u64) -> Vec<Arc<str>> {
        named(&self.types.zones, bits)
    }

    /// The capacity types whose bits are set, in order.
    pub(crate) fn capacity_types(&self, bits: u64) -> Vec<Arc<str>> {
        named(&self.types.capacity_types, bits)
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
        self.types.offering(index)
    }

    /// Leaves only rows whose labels can meet a requirement.
    fn keep_meeting(&mut self, rows: &mut Bits, requirement: &Requirement) {
        if let Some(known) = self.meeting.get(requirement) {
            rows.and(known);
            return;
        }
        let Some(of_type) = self.types.meeting(requirement) else { return };
        let mut met = Bits::none(self.all.len());
        for (index, row) in self.all.iter().enumerate() {
            if of_type[row.of_type as usize] {
                met.insert(index);
            }
        }
        rows.and(&met);
        self.meeting.insert(requirement.clone(), met);
    }

    /// The rows whose type can meet the requirements and has an available offering that meets them too.
    pub(crate) fn usable(&mut self, id: ReqId, reqs: &ReqSets) -> Rc<Usable> {
        if let Some(known) = self.usable.get(&id) {
            return known.clone();
        }
        let requirements = reqs.get(id).clone();
        let mut rows = Bits::all(self.all.len());
        for requirement in requirements.iter() {
            self.keep_meeting(&mut rows, requirement);
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
    pub(crate) fn usable_offerings(&self, requirements: &Requirements, reqs: &ReqSets) -> Bits {
        let meets = |own: &Requirement| match requirements.get(own.key()) {
            Some(asked) => !conflict(own, asked),
            // An offering may name a label that the requirements do not know only if a launch fills it in.
            None => reqs.well_known().has(own.key()) || own.operator().allows_absence(),
        };
        let mut usable = Bits::none(self.types.offerings.len());
        for kind in &self.types.kinds {
            if self.offering(kind.example as usize).requirements.iter().all(meets) {
                usable.or(&kind.offerings);
            }
        }
        usable.and(&self.types.available);
        usable
    }

    /// Whether a type has several rows, or a name several types.
    pub(crate) fn some_types_repeat(&self) -> bool {
        self.types.some_repeat
    }

    /// The cheapest launchable offering of every row that the requirements leave, cheapest first.
    pub(crate) fn priced(&mut self, id: ReqId, reqs: &ReqSets) -> Rc<Vec<Buy>> {
        if let Some(known) = self.priced.get(&id) {
            return known.clone();
        }
        let usable = self.usable(id, reqs);
        let mut offerings = self.usable_offerings(reqs.get(id), reqs);
        offerings.and(&self.types.launchable);
        let mut buys: Vec<Buy> = usable
            .rows
            .iter()
            .map(|row| {
                let (from, to) = self.all[row].offerings;
                let nothing =
                    Buy { price: Price::MAX, row: row as u32, offering: from, zones: 0, capacity_types: 0 };
                (from..to).filter(|index| offerings.has(*index as usize)).fold(nothing, |best, index| {
                    let listed = &self.types.offerings[index as usize];
                    let (zone, capacity_type) = self.types.kinds[listed.kind as usize].labels;
                    Buy {
                        price: listed.price.min(best.price),
                        row: best.row,
                        offering: if listed.price < best.price { index } else { best.offering },
                        zones: best.zones | zone,
                        capacity_types: best.capacity_types | capacity_type,
                    }
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

fn named(names: &[Arc<str>], bits: u64) -> Vec<Arc<str>> {
    let chosen = names.iter().enumerate().filter(|(at, _)| bits & (1 << at.min(&63)) != 0);
    let mut chosen: Vec<_> = chosen.map(|(_, name)| name.clone()).collect();
    chosen.sort_unstable();
    chosen
}
