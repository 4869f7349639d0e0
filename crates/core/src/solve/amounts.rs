//! Resources as columns of machine integers.
//!
//! Only resources that some pod or daemon asks for get a column: a resource nobody asks for decides nothing. Each column
//! has the coarsest unit that represents every amount exactly, so nothing is rounded unless amounts of wildly different
//! size meet in one resource; then requests round up and room rounds down.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::quantity::{Notation, Quantity};
use crate::resources::{CPU, MEMORY, PODS, Resources};
use crate::snapshot::Snapshot;

/// The column of `cpu`, which rows are ordered by.
pub(crate) const CPU_COLUMN: usize = 0;

const UNITS: [i128; 4] = [1_000_000_000, 1_000_000, 1_000, 1];

/// Which resources have columns, and in what unit.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Vec<Arc<str>>,
    nanos_per_step: Vec<i128>,
}

impl Columns {
    /// Columns for every resource asked for in the snapshot.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut asked: BTreeMap<&str, Unit> =
            [CPU, MEMORY, PODS].into_iter().map(|name| (name, Unit::default())).collect();
        let mut last = None;
        let shapes =
            snapshot.pods.iter().map(|pod| &pod.shape).chain(snapshot.daemons.iter().map(|d| &d.shape));
        for shape in shapes {
            // Pods of one template share their shape and mostly stand together.
            if last.is_some_and(|last| Arc::ptr_eq(last, shape)) {
                continue;
            }
            last = Some(shape);
            for (name, amount) in shape.requests.iter().filter(|(_, amount)| !amount.is_zero()) {
                asked.entry(name).or_default().see(amount, Seen::Asked);
            }
        }
        let mut see = |resources: &Resources, seen: Seen| {
            for (name, amount) in resources.iter() {
                if let Some(unit) = asked.get_mut(name) {
                    unit.see(amount, seen);
                }
            }
        };
        for node in &snapshot.nodes {
            see(&node.allocatable, Seen::There);
            see(&node.requested, Seen::There);
        }
        for (name, sold) in snapshot.pools.iter().flat_map(|pool| &pool.types.units.0) {
            if let Some(unit) = asked.get_mut(&**name) {
                unit.join(*sold);
            }
        }
        let rest = asked.keys().copied().filter(|name| ![CPU, MEMORY, PODS].contains(name));
        let names: Vec<&str> = [CPU, MEMORY, PODS].into_iter().chain(rest).collect();
        Self {
            nanos_per_step: names.iter().map(|name| asked[name].step()).collect(),
            names: names.into_iter().map(Into::into).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, column: usize) -> &Arc<str> {
        &self.names[column]
    }

    /// What is asked for, rounded up.
    pub(crate) fn need(&self, resources: &Resources) -> Vec<i64> {
        self.map(resources, |nanos, step| nanos.max(0).saturating_add(step - 1).div_euclid(step))
    }

    /// What there is, rounded down.
    pub(crate) fn room(&self, resources: &Resources) -> Vec<i64> {
        self.map(resources, i128::div_euclid)
    }

    /// The amount that a number of steps stands for.
    pub(crate) fn quantity(&self, column: usize, steps: i64) -> Quantity {
        let nanos = i128::from(steps).saturating_mul(self.nanos_per_step[column]);
        Quantity::from_nanos(nanos, Notation::Decimal)
    }

    fn map(&self, resources: &Resources, convert: impl Fn(i128, i128) -> i128) -> Vec<i64> {
        self.names
            .iter()
            .zip(&self.nanos_per_step)
            .map(|(name, step)| {
                let steps = convert(resources.get(name).nanos(), *step);
                // A quarter of the range, so that sums of a few amounts cannot overflow.
                steps.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
            })
            .collect()
    }
}

/// How finely amounts on sale are given, for each resource.
#[derive(Debug, Default)]
pub(crate) struct Units(BTreeMap<Box<str>, Unit>);

impl Units {
    /// Takes notice of amounts that are on sale.
    pub(crate) fn see(&mut self, sold: &Resources) {
        for (name, amount) in sold.iter() {
            match self.0.get_mut(name) {
                Some(unit) => unit.see(amount, Seen::Sold),
                None => self.0.entry(name.into()).or_default().see(amount, Seen::Sold),
            }
        }
    }
}

/// Where an amount was seen; later variants say better how large amounts can sensibly be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Asked,
    There,
    Sold,
}

/// The coarsest unit that is exact for every amount seen.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    level: usize,
    /// The largest amount seen, and where.
    largest: Option<(Seen, i128)>,
}

impl Unit {
    /// Takes notice of an amount.
    ///
    /// Only machines on sale decide the range, or nodes where nothing is sold: one pod that asks for the moon must not make
    /// what all others ask for coarse. It fits nowhere, whatever the unit.
    fn see(&mut self, amount: Quantity, seen: Seen) {
        let nanos = amount.nanos();
        while nanos % UNITS[self.level] != 0 {
            self.level += 1;
        }
        self.largest = self.largest.max(Some((seen, nanos.saturating_abs())));
    }

    /// Takes notice of all that another unit has seen.
    fn join(&mut self, other: Self) {
        self.level = self.level.max(other.level);
        self.largest = self.largest.max(other.largest);
    }

    fn step(self) -> i128 {
        // Exactness gives way to range: sums over many pods must stay far from the limit.
        let range = i128::from(i64::MAX) / (1 << 20);
        let largest = self.largest.map_or(0, |(_, largest)| largest);
        let level = (0..=self.level).rev().find(|level| largest / UNITS[*level] <= range).unwrap_or(0);
        UNITS[level]
    }
}

/// Whether `total + more` fits into `room`.
pub(crate) fn fits(total: &[i64], more: &[i64], room: &[i64]) -> bool {
    total.iter().zip(more).zip(room).all(|((total, more), room)| total + more <= *room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Daemon, Shape};

    fn columns(requests: &[(&str, &str)]) -> Columns {
        let requests = requests.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect();
        let daemon = Daemon { name: "d".into(), shape: Arc::new(Shape { requests, ..Shape::default() }) };
        Columns::new(&Snapshot { daemons: vec![daemon], ..Snapshot::default() })
    }

    #[test]
    fn units_are_as_coarse_as_exactness_allows() {
        let columns = columns(&[("cpu", "250m"), ("memory", "1Gi"), ("gpu", "1"), ("unused", "0")]);
        assert_eq!(columns.names.iter().map(|n| &**n).collect::<Vec<_>>(), ["cpu", "memory", "pods", "gpu"]);
        assert_eq!(columns.nanos_per_step, [1_000_000, 1_000_000_000, 1_000_000_000, 1_000_000_000]);
    }

    #[test]
    fn requests_round_up_and_room_rounds_down() {
        let columns = columns(&[("cpu", "1")]);
        let list = |amount: &str| [("cpu", amount.parse().unwrap())].into_iter().collect();
        assert_eq!((columns.need(&list("1500m"))[0], columns.room(&list("1500m"))[0]), (2, 1));
    }

    #[test]
    fn range_wins_over_exactness() {
        let columns = columns(&[("memory", "1m"), ("memory", "1m")]);
        assert_eq!(columns.nanos_per_step[1], 1_000_000);
        let mut unit = Unit::default();
        unit.see("1n".parse().unwrap(), Seen::Asked);
        unit.see("1Ei".parse().unwrap(), Seen::Sold);
        assert_eq!(unit.step(), 1_000_000_000);
    }

    #[test]
    fn who_asks_for_the_moon_does_not_make_others_coarse() {
        let mut unit = Unit::default();
        unit.see("250m".parse().unwrap(), Seen::Asked);
        unit.see("1e400".parse().unwrap(), Seen::Asked);
        unit.see("96".parse().unwrap(), Seen::Sold);
        assert_eq!(250_000_000 % unit.step(), 0);
    }
}
