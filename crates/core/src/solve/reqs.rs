//! Sets of requirements by number, and products of them by table.
//!
//! A cluster has few distinct requirement sets but compares them millions of times. Each distinct set is kept once; whether
//! two sets are compatible, and what they narrow to, is worked out on strings once and then is a table lookup.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::labels::WellKnown;
use crate::requirement::Requirement;
use crate::requirements::Requirements;

/// The number of a requirement set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReqId(pub(crate) u32);

impl ReqId {
    /// The set that requires nothing.
    pub(crate) const NONE: Self = Self(0);
}

/// All requirement sets of one decision.
#[derive(Debug)]
pub(crate) struct ReqSets {
    well_known: WellKnown,
    sets: Vec<Rc<Requirements>>,
    ids: FxHashMap<Rc<Requirements>, ReqId>,
    products: FxHashMap<(ReqId, ReqId), Option<ReqId>>,
    strict: FxHashMap<(ReqId, ReqId), bool>,
}

impl ReqSets {
    pub(crate) fn new(well_known: &WellKnown) -> Self {
        let mut sets = Self {
            well_known: well_known.clone(),
            sets: Vec::new(),
            ids: FxHashMap::default(),
            products: FxHashMap::default(),
            strict: FxHashMap::default(),
        };
        sets.intern(Requirements::new());
        sets
    }

    pub(crate) fn intern(&mut self, requirements: Requirements) -> ReqId {
        if let Some(id) = self.ids.get(&requirements) {
            return *id;
        }
        let requirements = Rc::new(requirements);
        let id = ReqId(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.sets.push(requirements.clone());
        self.ids.insert(requirements, id);
        id
    }

    pub(crate) fn get(&self, id: ReqId) -> &Rc<Requirements> {
        &self.sets[id.0 as usize]
    }

    pub(crate) fn well_known(&self) -> &WellKnown {
        &self.well_known
    }

    /// What a claim with the first set narrows to when it must also meet the second, if that is possible.
    pub(crate) fn narrow(&mut self, claim: ReqId, more: ReqId) -> Option<ReqId> {
        if more == ReqId::NONE || claim == more {
            return Some(claim);
        }
        if let Some(known) = self.products.get(&(claim, more)) {
            return *known;
        }
        let (mine, theirs) = (self.get(claim).clone(), self.get(more).clone());
        let product = mine.compatible(&theirs, &self.well_known).is_ok().then(|| {
            let mut both = (*mine).clone();
            both.add_all(&theirs);
            self.intern(both)
        });
        self.products.insert((claim, more), product);
        product
    }

    /// What a claim narrows to when one label must be among these values.
    pub(crate) fn narrow_to<V: AsRef<str>>(
        &mut self,
        claim: ReqId,
        key: &str,
        values: &[V],
    ) -> Option<ReqId> {
        let one: Requirements = [Requirement::any_of(key, values)].into_iter().collect();
        let one = self.intern(one);
        self.narrow(claim, one)
    }

    /// Whether exact labels meet the second set, no label being filled in later.
    pub(crate) fn labels_meet(&mut self, labels: ReqId, asked: ReqId) -> bool {
        if asked == ReqId::NONE {
            return true;
        }
        if let Some(known) = self.strict.get(&(labels, asked)) {
            return *known;
        }
        let meet = self.get(labels).compatible(self.get(asked), &WellKnown::none()).is_ok();
        self.strict.insert((labels, asked), meet);
        meet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::ZONE;

    #[test]
    fn equal_sets_have_one_number_and_products_are_remembered() {
        let mut sets = ReqSets::new(&WellKnown::default());
        let zones = |values: &[&str]| [Requirement::any_of(ZONE, values)].into_iter().collect();
        let (ab, bc) = (sets.intern(zones(&["a", "b"])), sets.intern(zones(&["b", "c"])));
        assert_eq!(sets.intern(zones(&["b", "a"])), ab);
        let b = sets.intern(zones(&["b"]));
        assert_eq!(sets.narrow(ab, bc), Some(b));
        assert_eq!(sets.narrow(ab, bc), Some(b));
        assert_eq!(sets.narrow_to(b, ZONE, &["c"]), None);
        assert_eq!(sets.narrow(ReqId::NONE, ab), Some(ab));
        assert!(!sets.labels_meet(ReqId::NONE, ab) && sets.labels_meet(b, ab));
    }
}
