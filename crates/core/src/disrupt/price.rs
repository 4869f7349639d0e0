//! What a replacement may still become so that it is cheaper for certain.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::{InstanceType, Offering};
use crate::labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, WellKnown, ZONE};
use crate::plan::{Launch, PlannedClaim};
use crate::price::Price;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::types::Types;

/// How many cheaper types there must be for a spot node to be replaced by another, so that the cloud has a choice and the
/// new node is not replaced again by the next cheaper one.
pub(super) const SPOT_FLEXIBILITY: usize = 15;

/// The most that a launch of a type may cost: reserved capacity is used first, then spot, and the cloud chooses the zone.
fn worst(of: &InstanceType, asked: &Requirements, well_known: &WellKnown) -> Option<Price> {
    let usable: Vec<&Offering> = launchable(of, asked, well_known).collect();
    [RESERVED, SPOT, ON_DEMAND].into_iter().find_map(|capacity_type| {
        let of_kind = usable.iter().filter(|offering| offering.capacity_type() == capacity_type);
        of_kind.map(|offering| offering.price).max()
    })
}

fn launchable<'t>(
    of: &'t InstanceType,
    asked: &'t Requirements,
    well_known: &'t WellKnown,
) -> impl Iterator<Item = &'t Offering> {
    let suits = |offering: &&Offering| {
        offering.launchable() && asked.compatible(&offering.requirements, well_known).is_ok()
    };
    of.offerings.iter().filter(suits)
}

/// Lets a claim become only types that cost less than this for certain; whether any are left, and enough.
pub(super) fn keep_cheaper(
    claim: &mut PlannedClaim,
    types: &Types,
    well_known: &WellKnown,
    below: Price,
) -> bool {
    let PlannedClaim { instance_types, requirements, .. } = claim;
    instance_types.retain(|name| {
        let known = types.named(name);
        known.and_then(|known| worst(known, requirements, well_known)).is_some_and(|price| price < below)
    });
    !instance_types.is_empty() && has_enough_values(claim, types) && relaunch(claim, types, well_known)
}

/// Lets a claim be launched as this capacity type only.
pub(super) fn pin(claim: &mut PlannedClaim, capacity_type: &str) {
    claim.requirements.add(Requirement::any_of(CAPACITY_TYPE, &[capacity_type]));
    claim.capacity_types = vec![capacity_type.into()];
}

/// Keeps only so many of the cheapest types, or more if the pool asks for more distinct values.
pub(super) fn keep_cheapest(claim: &mut PlannedClaim, types: &Types, most: usize) {
    let all = claim.instance_types.clone();
    for kept in most..=all.len() {
        claim.instance_types = all[..kept].to_vec();
        if has_enough_values(claim, types) {
            return;
        }
    }
}

/// Whether the types that are left have as many distinct values as the pool asks for.
fn has_enough_values(claim: &PlannedClaim, types: &Types) -> bool {
    claim.min_values_relaxed
        || claim.requirements.iter().all(|asked| {
            let Some(least) = asked.min_values() else { return true };
            let named = claim.instance_types.iter().filter_map(|name| types.named(name));
            let own = named.filter_map(|known| known.requirements.get(asked.key()));
            let values: BTreeSet<&str> =
                own.flat_map(Requirement::values).filter(|value| asked.has(value)).collect();
            values.len() >= least as usize
        })
}

/// Finds the cheapest launch among what is left.
fn relaunch(claim: &mut PlannedClaim, types: &Types, well_known: &WellKnown) -> bool {
    let mut cheapest: Option<Launch> = None;
    let mut zones: BTreeSet<Arc<str>> = BTreeSet::new();
    for known in claim.instance_types.iter().filter_map(|name| types.named(name)) {
        for offering in launchable(known, &claim.requirements, well_known) {
            if claim.requirements.allow(ZONE, offering.zone()) && !zones.contains(offering.zone()) {
                zones.insert(offering.zone().into());
            }
            if cheapest.as_ref().is_none_or(|best| offering.price < best.price) {
                cheapest = Some(Launch {
                    instance_type: known.name.clone(),
                    zone: offering.zone().into(),
                    capacity_type: offering.capacity_type().into(),
                    price: offering.price,
                });
            }
        }
    }
    claim.zones = zones.into_iter().collect();
    claim.launch = cheapest;
    claim.launch.is_some()
}
