//! Launches under way, which can no longer be narrowed.

use std::sync::Arc;

use crate::catalog::{InstanceType, Offering};
use crate::labels::WellKnown;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::snapshot::Labels;
use crate::types::Types;

/// What a node may still turn out to be, as long as only its claim exists.
#[derive(Clone, Debug)]
pub struct Launching {
    /// What the claim asks for.
    pub requirements: Requirements,
    /// What its pool can buy.
    pub types: Arc<Types>,
}

/// An instance type that a launch may end with, and through which offerings.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// The instance type.
    pub instance_type: &'a InstanceType,
    /// The offerings, at least one.
    pub offerings: Vec<&'a Offering>,
}

impl Launching {
    /// What the claim asks for, once some labels are known.
    pub fn asked(&self, known: &Labels) -> Requirements {
        let mut asked = self.requirements.clone();
        for (key, value) in known {
            asked.replace(Requirement::any_of(key, &[value]));
        }
        asked
    }

    /// The most of every resource that the launch may end with, once some labels are known.
    pub fn most(&self, known: &Labels, well_known: &WellKnown) -> Resources {
        let asked = self.asked(known);
        let mut most = Resources::default();
        for outcome in self.outcomes(&asked, well_known) {
            most.max(&outcome.instance_type.capacity);
        }
        most
    }

    /// Everything that a launch which asks for this may end with.
    ///
    /// Whether an offering is available plays no part: the launch may have got the last of it.
    pub fn outcomes<'a>(
        &'a self,
        asked: &'a Requirements,
        well_known: &'a WellKnown,
    ) -> impl Iterator<Item = Outcome<'a>> {
        self.types.iter().filter(|known| known.requirements.intersects(asked).is_ok()).filter_map(|known| {
            let sold = |offering: &&Offering| asked.compatible(&offering.requirements, well_known).is_ok();
            let offerings: Vec<_> = known.offerings.iter().filter(sold).collect();
            (!offerings.is_empty()).then_some(Outcome { instance_type: known, offerings })
        })
    }
}

impl Outcome<'_> {
    /// What a label may be: a set of values, the empty set if it is absent for certain, anything if it may be either.
    pub fn label(&self, key: &str, asked: &Requirements) -> Requirement {
        let narrowed = |one: Option<&Requirement>| match (one, asked.get(key)) {
            (Some(one), Some(asked)) => one.intersection(asked),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => Requirement::absent(key),
        };
        let of_type = narrowed(self.instance_type.requirements.get(key));
        let each = self.offerings.iter().map(|offering| match offering.requirements.get(key) {
            Some(own) => narrowed(Some(own)),
            None => of_type.clone(),
        });
        each.reduce(|one, other| either(&one, &other)).unwrap_or(of_type)
    }
}

/// What a label may be if one or the other holds.
pub fn either(one: &Requirement, other: &Requirement) -> Requirement {
    if one == other {
        return one.clone();
    }
    if one.is_complement() || other.is_complement() || one.is_empty() || other.is_empty() {
        return Requirement::exists(one.key());
    }
    let values: Vec<&str> = one.values().chain(other.values()).collect();
    Requirement::any_of(one.key(), &values)
}
