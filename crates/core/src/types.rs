//! Instance types on sale, laid out once for all decisions about them.
//!
//! Decisions come by the thousand, catalogues change by the hour. What follows from the types alone (what pods can use of
//! them, which offerings are alike, which types share a label) is worked out when the list is made.

use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::catalog::{InstanceType, Offering};
use crate::price::Price;
use crate::requirement::Requirement;
use crate::resources::Resources;
use crate::solve::{Bits, Units};

/// A list of instance types that can be bought.
#[derive(Debug, Default)]
pub struct Types {
    all: Vec<Arc<InstanceType>>,
    /// In the order of types; a type whose offerings differ in capacity is here several times.
    pub(crate) sold: Vec<Sold>,
    /// All offerings, those of one of `sold` together.
    pub(crate) offerings: Vec<Listed>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) available: Bits,
    /// Available, and not a reservation that is used up.
    pub(crate) launchable: Bits,
    pub(crate) zones: Vec<Arc<str>>,
    #[expect(clippy::struct_field_names, reason = "that is what Karpenter calls them")]
    pub(crate) capacity_types: Vec<Arc<str>>,
    /// Whether a type was sold several times, or a name belongs to several types.
    pub(crate) some_repeat: bool,
    /// How finely amounts of each resource are given.
    pub(crate) units: Units,
    labels: FxHashMap<Arc<str>, Label>,
    by_name: FxHashMap<Arc<str>, u32>,
}

/// A type with what pods can use of it when it is bought in one of these ways.
#[derive(Debug)]
pub(crate) struct Sold {
    pub(crate) of_type: u32,
    pub(crate) allocatable: Resources,
    /// From here to there in the list of offerings.
    pub(crate) offerings: (u32, u32),
}

/// An offering.
#[derive(Debug)]
pub(crate) struct Listed {
    of_type: u32,
    /// Its place among the offerings of its type.
    place: u32,
    pub(crate) kind: u32,
    pub(crate) price: Price,
}

/// Offerings with the same labels.
#[derive(Debug)]
pub(crate) struct Kind {
    /// One of them.
    pub(crate) example: u32,
    pub(crate) offerings: Bits,
    /// A bit for its zone and one for its capacity type.
    pub(crate) labels: (u64, u64),
    pub(crate) reserved: bool,
}

/// The distinct requirements that types have on one label.
#[derive(Debug, Default)]
struct Label {
    distinct: Vec<Requirement>,
    /// For each type which of them it has; types beyond the end have none.
    of_type: Vec<u32>,
}

/// Said of a type that has no requirement on a label.
const NONE: u32 = u32::MAX;

impl Types {
    /// Lays out a list of types.
    pub fn new(all: Vec<Arc<InstanceType>>) -> Self {
        let mut types = Self::default();
        for (of_type, instance_type) in all.iter().enumerate() {
            types.units.see(&instance_type.capacity);
            types.units.see(&instance_type.overhead.total());
            for (allocatable, offerings) in by_allocatable(instance_type) {
                // COMPAT: a negative amount of anything means that nothing fits.
                if allocatable.iter().any(|(_, amount)| amount.is_negative()) {
                    continue;
                }
                let from = types.offerings.len() as u32;
                types.offerings.extend(offerings.into_iter().map(|place| Listed {
                    of_type: of_type as u32,
                    place,
                    kind: 0,
                    price: instance_type.offerings[place as usize].price,
                }));
                let to = types.offerings.len() as u32;
                types.sold.push(Sold { of_type: of_type as u32, allocatable, offerings: (from, to) });
            }
        }
        for (index, known) in all.iter().enumerate() {
            types.by_name.entry(known.name.clone()).or_insert(index as u32);
        }
        types.some_repeat = types.by_name.len() < all.len()
            || types.sold.windows(2).any(|two| two[0].of_type == two[1].of_type);
        types.labels = labels(&all);
        types.all = all;
        types.sort_offerings();
        types
    }

    /// The type of that name, the first if there are several.
    pub fn named(&self, name: &str) -> Option<&Arc<InstanceType>> {
        self.by_name.get(name).map(|index| &self.all[*index as usize])
    }

    pub(crate) fn offering(&self, index: usize) -> &Offering {
        let listed = &self.offerings[index];
        &self.all[listed.of_type as usize].offerings[listed.place as usize]
    }

    /// For each type whether its labels can meet a requirement; `None` if all can.
    pub(crate) fn meeting(&self, requirement: &Requirement) -> Option<Vec<bool>> {
        let label = self.labels.get(requirement.key())?;
        let meets: Vec<bool> =
            label.distinct.iter().map(|own| !crate::requirements::conflict(own, requirement)).collect();
        let of_type = (0..self.all.len()).map(|index| label.of_type.get(index).copied().unwrap_or(NONE));
        Some(of_type.map(|own| own == NONE || meets[own as usize]).collect())
    }

    /// Finds out which offerings are alike.
    fn sort_offerings(&mut self) {
        let count = self.offerings.len();
        (self.available, self.launchable) = (Bits::none(count), Bits::none(count));
        let mut kind = 0;
        for index in 0..count {
            kind = self.kind(kind, index);
            self.kinds[kind].offerings.insert(index);
            self.offerings[index].kind = kind as u32;
            let offering = self.offering(index);
            let (available, launchable) = (offering.available, offering.launchable());
            if available {
                self.available.insert(index);
            }
            if launchable {
                self.launchable.insert(index);
            }
        }
    }

    /// The number of the kind that an offering is of, which comes after one of kind `last`.
    fn kind(&mut self, last: usize, index: usize) -> usize {
        let offering = self.offering(index);
        let same = |kind: &Kind| self.offering(kind.example as usize).requirements == offering.requirements;
        // Most types are sold in the same ways in the same order.
        let guess = (last + 1) % self.kinds.len().max(1);
        let known = self.kinds.get(guess).is_some_and(same).then_some(guess);
        if let Some(known) = known.or_else(|| self.kinds.iter().position(same)) {
            return known;
        }
        let (zone, capacity_type) = (offering.zone().to_owned(), offering.capacity_type().to_owned());
        let reserved = offering.is_reserved();
        self.kinds.push(Kind {
            example: index as u32,
            offerings: Bits::none(self.offerings.len()),
            labels: (bit(&mut self.zones, &zone), bit(&mut self.capacity_types, &capacity_type)),
            reserved,
        });
        self.kinds.len() - 1
    }
}

impl Deref for Types {
    type Target = [Arc<InstanceType>];

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl FromIterator<Arc<InstanceType>> for Types {
    fn from_iter<I: IntoIterator<Item = Arc<InstanceType>>>(types: I) -> Self {
        Self::new(types.into_iter().collect())
    }
}

fn labels(types: &[Arc<InstanceType>]) -> FxHashMap<Arc<str>, Label> {
    let mut labels: FxHashMap<Arc<str>, Label> = FxHashMap::default();
    let mut known: FxHashMap<&Requirement, u32> = FxHashMap::default();
    for (index, instance_type) in types.iter().enumerate() {
        for requirement in instance_type.requirements.iter() {
            if !labels.contains_key(requirement.key()) {
                labels.insert(requirement.key().into(), Label::default());
            }
            let Some(label) = labels.get_mut(requirement.key()) else { continue };
            let number = *known.entry(requirement).or_insert_with(|| {
                label.distinct.push(requirement.clone());
                label.distinct.len() as u32 - 1
            });
            label.of_type.resize(index, NONE);
            label.of_type.push(number);
        }
    }
    labels
}

/// The bit of a name; names beyond the sixty-fourth share the last bit.
fn bit(names: &mut Vec<Arc<str>>, name: &str) -> u64 {
    let at = names.iter().position(|known| &**known == name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    });
    1 << at.min(63)
}

/// Allocatable vectors of a type with the offerings that have them; the type's own comes first.
fn by_allocatable(instance_type: &InstanceType) -> Vec<(Resources, Vec<u32>)> {
    let mut groups: Vec<(Resources, Vec<u32>)> = vec![(instance_type.allocatable(), Vec::new())];
    for (index, offering) in instance_type.offerings.iter().enumerate() {
        if offering.capacity_override.is_none() && offering.overhead_override.is_none() {
            groups[0].1.push(index as u32);
            continue;
        }
        let allocatable = instance_type.allocatable_with(offering);
        match groups.iter_mut().find(|(known, _)| *known == allocatable) {
            Some((_, offerings)) => offerings.push(index as u32),
            None => groups.push((allocatable, vec![index as u32])),
        }
    }
    groups
}
