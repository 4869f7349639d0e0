//! What a cloud sells: instance types and where they can be had.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels::{CAPACITY_TYPE, RESERVED, ZONE};
use crate::price::Price;
use crate::quantity::Quantity;
use crate::requirements::Requirements;
use crate::resources::{HUGE_PAGES_PREFIX, MEMORY, Resources};

/// A kind of machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceType {
    /// The value of `node.kubernetes.io/instance-type`.
    pub name: Arc<str>,
    /// The labels a node of this type may have.
    pub requirements: Requirements,
    /// Where and how it can be bought.
    pub offerings: Vec<Offering>,
    /// What the machine has.
    pub capacity: Resources,
    /// What is kept from pods.
    pub overhead: Overhead,
    /// How many volumes of each CSI driver can be attached; a driver that is absent is unlimited.
    pub volume_limits: BTreeMap<Arc<str>, u32>,
}

/// Resources of a machine that pods cannot use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Kept for Kubernetes itself.
    pub kube_reserved: Resources,
    /// Kept for the operating system.
    pub system_reserved: Resources,
    /// Kept free so that pods are evicted before the machine runs dry.
    pub eviction_threshold: Resources,
}

/// One way to buy an instance type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offering {
    /// The labels that come with it; zone and capacity type are always among them.
    pub requirements: Requirements,
    /// The price per hour.
    pub price: Price,
    /// Whether launches there are believed to succeed.
    pub available: bool,
    /// For reserved capacity: how many instances are left.
    pub reservation_capacity: u32,
    /// Capacity that differs from the type's; the resources named here replace it.
    pub capacity_override: Option<Resources>,
    /// Overhead that differs from the type's; the resources named here replace it.
    pub overhead_override: Option<Overhead>,
}

impl InstanceType {
    /// What pods can use: capacity less overhead, and memory less what is set aside for huge pages.
    pub fn allocatable(&self) -> Resources {
        allocatable(&self.capacity, &self.overhead.total())
    }

    /// What pods can use when the type is bought through this offering.
    pub fn allocatable_with(&self, offering: &Offering) -> Resources {
        let mut capacity = self.capacity.clone();
        if let Some(replaced) = &offering.capacity_override {
            capacity.merge(replaced);
        }
        let mut overhead = self.overhead.total();
        if let Some(replaced) = &offering.overhead_override {
            overhead.merge(&replaced.total());
        }
        allocatable(&capacity, &overhead)
    }
}

/// COMPAT: overhead for a resource the machine lacks leaves no negative amount, as in Karpenter's
/// `resources.Subtract`, which only looks at resources on its left.
fn allocatable(capacity: &Resources, overhead: &Resources) -> Resources {
    let mut allocatable: Resources =
        capacity.iter().map(|(name, amount)| (name, amount - overhead.get(name))).collect();
    for (name, amount) in capacity.iter() {
        if name.starts_with(HUGE_PAGES_PREFIX) {
            let memory: Quantity = allocatable.get(MEMORY) - amount;
            allocatable.set(MEMORY, memory.at_least_zero());
        }
    }
    allocatable
}

impl Overhead {
    /// All of it together.
    pub fn total(&self) -> Resources {
        let mut total = self.kube_reserved.clone();
        total.add(&self.system_reserved);
        total.add(&self.eviction_threshold);
        total
    }
}

impl Offering {
    /// The zone, or an empty text when the offering does not name exactly one.
    pub fn zone(&self) -> &str {
        self.single(ZONE)
    }

    /// The capacity type, or an empty text when the offering does not name exactly one.
    pub fn capacity_type(&self) -> &str {
        self.single(CAPACITY_TYPE)
    }

    /// Whether the offering is reserved capacity.
    pub fn is_reserved(&self) -> bool {
        self.requirements.get(CAPACITY_TYPE).is_some_and(|requirement| requirement.has(RESERVED))
    }

    /// Whether a node could be launched now: available, and not a reservation that is used up.
    pub fn launchable(&self) -> bool {
        self.available && (!self.is_reserved() || self.reservation_capacity > 0)
    }

    fn single(&self, key: &str) -> &str {
        self.requirements.get(key).and_then(|requirement| requirement.single()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::SPOT;

    fn list(amounts: &[(&str, &str)]) -> Resources {
        amounts.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect()
    }

    fn machine() -> InstanceType {
        InstanceType {
            capacity: list(&[("cpu", "4"), ("memory", "8Gi"), ("hugepages-2Mi", "1Gi")]),
            overhead: Overhead {
                kube_reserved: list(&[("cpu", "100m"), ("memory", "500Mi")]),
                system_reserved: list(&[("cpu", "100m"), ("ephemeral-storage", "1Gi")]),
                eviction_threshold: list(&[("memory", "12Mi")]),
            },
            ..InstanceType::default()
        }
    }

    #[test]
    fn allocatable_leaves_out_overhead_and_huge_pages() {
        assert_eq!(machine().allocatable().to_string(), "cpu 3800m, hugepages-2Mi 1Gi, memory 6656Mi");
    }

    #[test]
    fn huge_pages_never_make_memory_negative() {
        let mut machine = machine();
        machine.capacity.set("hugepages-1Gi", "9Gi".parse().unwrap());
        assert_eq!(machine.allocatable().get(MEMORY), Quantity::ZERO);
    }

    #[test]
    fn an_offering_replaces_what_it_names() {
        let offering = Offering {
            capacity_override: Some(list(&[("cpu", "2"), ("gpu", "1")])),
            overhead_override: Some(Overhead { kube_reserved: list(&[("cpu", "1")]), ..Overhead::default() }),
            ..Offering::default()
        };
        let expected = "cpu 1, gpu 1, hugepages-2Mi 1Gi, memory 6656Mi";
        assert_eq!(machine().allocatable_with(&offering).to_string(), expected);
    }

    #[test]
    fn a_used_up_reservation_is_available_but_not_launchable() {
        let offering = |capacity_type: &str, left| Offering {
            requirements: Requirements::from_labels([(CAPACITY_TYPE, capacity_type), (ZONE, "z")]),
            available: true,
            reservation_capacity: left,
            ..Offering::default()
        };
        assert!(offering(SPOT, 0).launchable());
        assert!(offering(RESERVED, 1).launchable());
        assert!(!offering(RESERVED, 0).launchable());
        assert!(!Offering { available: false, ..offering(SPOT, 0) }.launchable());
        assert_eq!((offering(SPOT, 0).zone(), offering(SPOT, 0).capacity_type()), ("z", SPOT));
    }
}
