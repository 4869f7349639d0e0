//! Two machines: `a` with two cores and `b` with four, each spot and on demand in zones `east` and `west` at a price of 1.

use std::sync::Arc;

use headstart_core::catalog::{InstanceType, Offering};
use headstart_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE};
use headstart_core::price::Price;
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;
use headstart_core::types::Types;

pub(crate) fn catalog() -> Arc<Types> {
    let offering = |(capacity_type, zone)| Offering {
        requirements: Requirements::from_labels([(CAPACITY_TYPE, capacity_type), (ZONE, zone)]),
        price: Price::from_dollars(1.0),
        available: true,
        ..Offering::default()
    };
    let one = |(name, cpu, disks): (&str, &str, u32)| {
        Arc::new(InstanceType {
            name: name.into(),
            requirements: [
                Requirement::any_of(INSTANCE_TYPE, &[name]),
                Requirement::any_of(ZONE, &["east", "west"]),
                Requirement::any_of(CAPACITY_TYPE, &[SPOT, ON_DEMAND]),
            ]
            .into_iter()
            .collect(),
            offerings: [(SPOT, "east"), (SPOT, "west"), (ON_DEMAND, "east"), (ON_DEMAND, "west")]
                .map(offering)
                .into(),
            capacity: [("cpu", cpu), ("memory", "8Gi"), ("pods", "10")]
                .into_iter()
                .map(|(name, amount)| (name, amount.parse().unwrap()))
                .collect(),
            volume_limits: [("csi.example.com".into(), disks)].into(),
            ..InstanceType::default()
        })
    };
    Arc::new([("a", "2", 1), ("b", "4", 3)].map(one).into_iter().collect())
}
