//! Corrections to a catalog: other prices for offerings, more extended resources for instance types.
//!
//! Overlays are taken by weight, and what one has changed no later one changes again: the first writer wins for each
//! offering and for each resource. Two overlays of one weight that would both write the same thing contradict each other;
//! the later of them is left out altogether, for every pool.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::catalog::InstanceType;
use crate::labels::{NODE_POOL, WellKnown};
use crate::price::Price;
use crate::quantity::Quantity;
use crate::requirement::Requirement;
use crate::requirements::{Requirements, conflict};
use crate::resources::Resources;
use crate::snapshot::Labels;
use crate::types::Types;

/// A correction to the offerings and instance types that meet its requirements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// The overlay's name.
    pub name: Arc<str>,
    /// Overlays with more weight write first.
    pub weight: i32,
    /// What a pool, type and offering must be like.
    pub requirements: Requirements,
    /// What happens to the price of offerings.
    pub price: Option<PriceChange>,
    /// Extended resources that instance types get.
    pub capacity: Resources,
}

/// What happens to a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceChange {
    /// It becomes this.
    To(Price),
    /// This is added to it.
    By(Price),
    /// It grows by a share of itself, in billionths of a percent.
    Percent(i64),
}

/// A text that is no price change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceChangeError {
    /// Not a price.
    #[error("must be a decimal number without a sign")]
    NotAPrice,
    /// Not a change of a price.
    #[error("must be a signed decimal number or a signed percentage of at least -100%")]
    NotAChange,
}

/// What one pool may buy before overlays.
#[derive(Clone, Debug)]
pub struct Offered<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The labels of its template.
    pub labels: &'a Labels,
    /// Its instance types.
    pub types: Arc<Types>,
}

/// What one pool may buy, overlays applied.
#[derive(Clone, Debug, Default)]
pub struct Overlaid {
    /// Its instance types in the same order; those that no overlay touches are shared with the catalog.
    pub types: Arc<Types>,
    /// The names of types with a price that an overlay set.
    pub priced: BTreeSet<Arc<str>>,
    /// The names of types with a resource that an overlay set.
    pub extended: BTreeSet<Arc<str>>,
}

/// The outcome for all pools.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// What each pool may buy, in the order in which the pools were given.
    pub pools: Vec<Overlaid>,
    /// Why overlays were left out; an overlay that is not mentioned was applied.
    pub conflicts: Vec<Conflict>,
}

/// The first thing that two overlays of one weight would both write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The overlay that is left out.
    pub overlay: Arc<str>,
    /// The overlay that came first.
    pub with: Arc<str>,
    /// The pool where they meet.
    pub pool: Arc<str>,
    /// The instance type on which they meet.
    pub instance_type: Arc<str>,
    /// What both would write.
    pub over: Contested,
}

/// What two overlays would both write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contested {
    /// The price of an offering.
    Price {
        /// Where it is offered.
        zone: Arc<str>,
        /// How it is paid for.
        capacity_type: Arc<str>,
    },
    /// A resource.
    Resource(Arc<str>),
}

impl fmt::Display for Contested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Price { zone, capacity_type } => write!(f, "the {capacity_type} price in {zone}"),
            Self::Resource(name) => f.write_str(name),
        }
    }
}

impl PriceChange {
    /// Reads a price that replaces others.
    pub fn price(text: &str) -> Result<Self, PriceChangeError> {
        let error = PriceChangeError::NotAPrice;
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(error);
        }
        decimal(text).map(Self::To).ok_or(error)
    }

    /// Reads a change: an amount such as `-0.5`, or a percentage such as `+10%`.
    pub fn adjustment(text: &str) -> Result<Self, PriceChangeError> {
        let error = PriceChangeError::NotAChange;
        let (sign, unsigned) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(error),
        };
        let Some(share) = unsigned.strip_suffix('%') else {
            let amount = decimal(unsigned).ok_or(error)?;
            return Ok(Self::By(amount.times(sign)));
        };
        // COMPAT: the schema wants one or two digits before the point of a discount, or exactly 100.
        let whole = share.split('.').next().unwrap_or_default().len();
        if sign < 0 && share != "100" && !(1..=2).contains(&whole) {
            return Err(error);
        }
        decimal(share).map(|share| Self::Percent(sign * share.nanos())).ok_or(error)
    }

    /// The price after the change, which is never below zero.
    pub fn of(self, price: Price) -> Price {
        const WHOLE: i128 = 100_000_000_000;
        let changed = match self {
            Self::To(price) => return price,
            Self::By(amount) => price + amount,
            Self::Percent(share) => {
                let product = i128::from(price.nanos()) * (WHOLE + i128::from(share));
                let rounded = (product + WHOLE / 2) / WHOLE;
                Price::from_nanos(i64::try_from(rounded).unwrap_or(i64::MAX))
            }
        };
        changed.max(Price::ZERO)
    }
}

/// Digits, with a point only if more digits follow.
fn decimal(text: &str) -> Option<Price> {
    let starts_and_ends = !text.starts_with(['+', '-']) && text.ends_with(|c: char| c.is_ascii_digit());
    starts_and_ends.then(|| text.parse().ok()).flatten()
}

/// What every pool may buy once the overlays are applied, and which overlays contradict each other.
pub fn apply(pools: &[Offered<'_>], overlays: &[Overlay], well_known: &WellKnown) -> Applied {
    let mut order: Vec<&Overlay> = overlays.iter().collect();
    order.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    let mut changes: Vec<Changes<'_>> = vec![BTreeMap::new(); pools.len()];
    let mut conflicts = Vec::new();
    for overlay in order {
        let touched: Vec<Vec<Touched>> =
            pools.iter().map(|pool| touched(pool, overlay, well_known)).collect();
        let before = conflicts.len();
        for ((pool, touched), changes) in pools.iter().zip(&touched).zip(&changes) {
            contradictions(pool, touched, overlay, changes, &mut conflicts);
        }
        // An overlay is applied to every pool or to none.
        if conflicts.len() == before {
            for (touched, changes) in touched.iter().zip(&mut changes) {
                write(overlay, touched, changes);
            }
        } else {
            let mut seen = BTreeSet::new();
            let later = conflicts.split_off(before);
            conflicts.extend(later.into_iter().filter(|conflict| seen.insert(conflict.with.clone())));
        }
    }
    let mut overlaid: Vec<Overlaid> = Vec::with_capacity(pools.len());
    for (at, (pool, own)) in pools.iter().zip(&changes).enumerate() {
        // Pools that agree on everything share the result.
        let same =
            (0..at).find(|&other| Arc::ptr_eq(&pools[other].types, &pool.types) && changes[other] == *own);
        let result = same.map_or_else(|| rewrite(&pool.types, own), |other| overlaid[other].clone());
        overlaid.push(result);
    }
    Applied { pools: overlaid, conflicts }
}

/// What overlays have written so far in one pool, by the index of the instance type.
type Changes<'a> = BTreeMap<usize, Change<'a>>;

#[derive(Clone, Debug, Default, PartialEq)]
struct Change<'a> {
    /// By the index of the offering.
    prices: BTreeMap<usize, Written<'a>>,
    capacity: BTreeMap<&'a str, Quantity>,
    /// The last overlay that wrote capacity here.
    last: Option<&'a Overlay>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Written<'a> {
    change: PriceChange,
    /// The last overlay that would have written here.
    last: &'a Overlay,
}

/// An instance type that an overlay is about, and which of its offerings.
struct Touched {
    instance_type: usize,
    offerings: Vec<usize>,
}

fn touched(pool: &Offered<'_>, overlay: &Overlay, well_known: &WellKnown) -> Vec<Touched> {
    let mut own = Requirements::from_labels([(NODE_POOL, pool.pool)]);
    own.add_all(&Requirements::from_labels(pool.labels.iter().map(|(key, value)| (&**key, &**value))));
    let asked = &overlay.requirements;
    let one = |(at, known): (usize, &Arc<InstanceType>)| {
        if !meets(&own, &known.requirements, asked) {
            return None;
        }
        let offerings = known.offerings.iter().enumerate();
        let offerings: Vec<usize> = offerings
            .filter(|(_, offering)| asked.compatible(&offering.requirements, well_known).is_ok())
            .map(|(at, _)| at)
            .collect();
        (!offerings.is_empty()).then_some(Touched { instance_type: at, offerings })
    };
    pool.types.iter().enumerate().filter_map(one).collect()
}

/// Whether what a pool and a type say together meets what is asked; labels that neither mentions count as absent.
fn meets(pool: &Requirements, of_type: &Requirements, asked: &Requirements) -> bool {
    let met = |asked: &Requirement| match (pool.get(asked.key()), of_type.get(asked.key())) {
        (None, None) => asked.operator().allows_absence(),
        (Some(one), None) | (None, Some(one)) => !conflict(one, asked),
        (Some(one), Some(other)) => !conflict(&other.intersection(one), asked),
    };
    asked.iter().all(met)
}

/// COMPAT: as in upstream's `InstanceTypeStore`, a price contradicts the last overlay that touched the offering, and capacity
/// only the last overlay that wrote capacity to the type, even if one before it has the same weight.
fn contradictions(
    pool: &Offered<'_>,
    touched: &[Touched],
    overlay: &Overlay,
    changes: &Changes<'_>,
    conflicts: &mut Vec<Conflict>,
) {
    for Touched { instance_type, offerings } in touched {
        let Some(change) = changes.get(instance_type) else { continue };
        let known = &pool.types[*instance_type];
        let mut add = |with: &Overlay, over| {
            conflicts.push(Conflict {
                overlay: overlay.name.clone(),
                with: with.name.clone(),
                pool: pool.pool.into(),
                instance_type: known.name.clone(),
                over,
            });
        };
        if overlay.price.is_some() {
            for at in offerings {
                if let Some(written) = change.prices.get(at).filter(|w| w.last.weight == overlay.weight) {
                    let offering = &known.offerings[*at];
                    let (zone, capacity_type) = (offering.zone().into(), offering.capacity_type().into());
                    add(written.last, Contested::Price { zone, capacity_type });
                }
            }
        }
        if let Some(last) = change.last.filter(|last| last.weight == overlay.weight) {
            let both = overlay.capacity.iter().filter(|(name, _)| last.capacity.listed(name).is_some());
            for (name, _) in both {
                add(last, Contested::Resource(name.into()));
            }
        }
    }
}

fn write<'a>(overlay: &'a Overlay, touched: &[Touched], changes: &mut Changes<'a>) {
    if overlay.price.is_none() && overlay.capacity.is_empty() {
        return;
    }
    for Touched { instance_type, offerings } in touched {
        let own = changes.entry(*instance_type).or_default();
        if let Some(change) = overlay.price {
            for at in offerings {
                own.prices.entry(*at).or_insert(Written { change, last: overlay }).last = overlay;
            }
        }
        if !overlay.capacity.is_empty() {
            own.last = Some(overlay);
            for (name, amount) in overlay.capacity.iter() {
                own.capacity.entry(name).or_insert(amount);
            }
        }
    }
}

fn rewrite(types: &Arc<Types>, changes: &Changes<'_>) -> Overlaid {
    if changes.is_empty() {
        return Overlaid { types: types.clone(), ..Overlaid::default() };
    }
    let (mut priced, mut extended) = (BTreeSet::new(), BTreeSet::new());
    let one = |(at, known): (usize, &Arc<InstanceType>)| {
        let Some(change) = changes.get(&at) else { return known.clone() };
        let mut copy = InstanceType::clone(known);
        for (at, written) in &change.prices {
            let offering = &mut copy.offerings[*at];
            offering.price = written.change.of(offering.price);
            priced.insert(known.name.clone());
        }
        for (name, amount) in &change.capacity {
            copy.capacity.set(name, *amount);
            extended.insert(known.name.clone());
        }
        Arc::new(copy)
    };
    let types = Arc::new(types.iter().enumerate().map(one).collect());
    Overlaid { types, priced, extended }
}
