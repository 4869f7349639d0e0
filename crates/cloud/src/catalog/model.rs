//! What the public tables do not tell, modelled: zones and spot prices.

use headstart_core::catalog::Offering;
use headstart_core::labels::{CAPACITY_TYPE, ON_DEMAND, OS, REGION, SPOT, ZONE};
use headstart_core::price::Price;
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;

use headstart_core::hash;

/// Said wherever prices of such a catalog are shown.
pub(super) const NOTE: &str = "spot prices and zones are modelled: spot is 25 to 45 % of on-demand, \
fixed for each family and zone; on-demand prices are the cloud's own";

/// The offerings of a type in some zones, on demand and spot.
pub(super) fn offerings(family: &str, on_demand: Price, zones: &[Zone]) -> Vec<Offering> {
    let offering = |requirements: &Requirements, price| Offering {
        requirements: requirements.clone(),
        price,
        available: true,
        ..Offering::default()
    };
    zones
        .iter()
        .flat_map(|zone| {
            [offering(&zone.on_demand, on_demand), offering(&zone.spot, spot(family, &zone.name, on_demand))]
        })
        .collect()
}

/// What all types of such a catalog have in common: zones, capacity types, Linux, and none of the special labels.
///
/// PERF: types clone it and replace what differs, so most keys are shared; AWS loads in 13 ms instead of 24.
pub(super) fn base(region: &str, zones: &[Zone], special: &[&str]) -> Requirements {
    let names: Vec<&str> = zones.iter().map(|zone| &*zone.name).collect();
    special
        .iter()
        .map(|key| Requirement::absent(key))
        .chain([
            Requirement::any_of(ZONE, &names),
            Requirement::any_of(CAPACITY_TYPE, &[ON_DEMAND, SPOT]),
            Requirement::any_of(OS, &["linux"]),
            Requirement::any_of(REGION, &[region]),
        ])
        .collect()
}

/// A zone with the labels of what is sold there, built once for all types.
pub(super) struct Zone {
    name: String,
    on_demand: Requirements,
    spot: Requirements,
}

impl Zone {
    pub(super) fn new(name: String) -> Self {
        let sold = |capacity_type| {
            Requirements::from_labels([(ZONE, name.as_str()), (CAPACITY_TYPE, capacity_type)])
        };
        Self { on_demand: sold(ON_DEMAND), spot: sold(SPOT), name }
    }
}

fn spot(family: &str, zone: &str, on_demand: Price) -> Price {
    let thousandths = 250 + hash::stable(&[family, zone]) % 201;
    let nanos = on_demand.nanos().unsigned_abs() * thousandths;
    Price::from_nanos(((nanos + 500) / 1000).cast_signed())
}
