//! Small made-up catalogues, like those upstream tests with.

use std::sync::Arc;

use headstart_core::catalog::{InstanceType, Offering, Overhead};
use headstart_core::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, SPOT, WellKnown, ZONE};
use headstart_core::price::Price;
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;
use headstart_core::resources::{CPU, MEMORY, PODS, Resources};
use headstart_core::types::Types;

/// Labels that launches fill in with these catalogues.
pub(crate) fn well_known() -> WellKnown {
    let mut keys = WellKnown::default();
    keys.extend(["karpenter.sh/reservation-id", "size", "special", "integer"]);
    keys
}

/// The catalogue of that name: `F`, `A`, or a number of types of growing size.
pub(crate) fn catalog(name: &str) -> Arc<Types> {
    Arc::new(Types::new(match name {
        "F" => [
            ("default", "4", "4Gi", "5", "amd64", ""),
            ("small", "2", "2Gi", "5", "amd64", ""),
            ("gpu-a", "4", "4Gi", "5", "amd64", "fake.com/vendor-a"),
            ("gpu-b", "4", "4Gi", "5", "amd64", "fake.com/vendor-b"),
            ("arm", "16", "128Gi", "5", "arm64", ""),
            ("single-pod", "4", "4Gi", "1", "amd64", ""),
        ]
        .map(|(name, cpu, memory, pods, arch, gpu)| {
            let mut capacity = resources(&[(CPU, cpu), (MEMORY, memory), (PODS, pods)]);
            if !gpu.is_empty() {
                capacity.set(gpu, "2".parse().unwrap());
            }
            Arc::new(instance_type(name, capacity, arch))
        })
        .into(),
        "A" => assorted(),
        count => (0..count.parse::<usize>().unwrap())
            .map(|i| {
                let (cpu, memory, pods) =
                    ((i + 1).to_string(), format!("{}Gi", 2 * (i + 1)), (10 * (i + 1)).to_string());
                let capacity = resources(&[(CPU, &cpu), (MEMORY, &memory), (PODS, &pods)]);
                Arc::new(instance_type(&format!("fake-it-{i}"), capacity, "amd64"))
            })
            .collect(),
    }))
}

pub(crate) fn resources(amounts: &[(&str, &str)]) -> Resources {
    amounts.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect()
}

fn price(capacity: &Resources) -> Price {
    let bytes = capacity.get(MEMORY).as_f64();
    Price::from_dollars(0.1 * capacity.get(CPU).as_f64() + 0.1 * bytes / 1e9)
}

fn offering(capacity_type: &str, zone: &str, price: Price) -> Offering {
    let requirements = Requirements::from_labels([(CAPACITY_TYPE, capacity_type), (ZONE, zone)]);
    Offering { requirements, price, available: true, ..Offering::default() }
}

fn overhead() -> Overhead {
    Overhead { kube_reserved: resources(&[(CPU, "100m"), (MEMORY, "10Mi")]), ..Overhead::default() }
}

pub(crate) fn instance_type(name: &str, capacity: Resources, arch: &str) -> InstanceType {
    let price = price(&capacity);
    let offerings: Vec<_> = [
        (SPOT, "zone-1"),
        (SPOT, "zone-2"),
        (ON_DEMAND, "zone-1"),
        (ON_DEMAND, "zone-2"),
        (ON_DEMAND, "zone-3"),
    ]
    .map(|(capacity_type, zone)| offering(capacity_type, zone, price))
    .into();
    let cpu = capacity.get(CPU).units();
    let large = cpu > 4 && capacity.get(MEMORY) > "8Gi".parse().unwrap();
    let requirements = [
        Requirement::any_of(INSTANCE_TYPE, &[name]),
        Requirement::any_of(ARCH, &[arch]),
        Requirement::any_of(OS, &["linux", "windows", "darwin"]),
        Requirement::any_of(ZONE, &["zone-1", "zone-2", "zone-3"]),
        Requirement::any_of(CAPACITY_TYPE, &[SPOT, ON_DEMAND]),
        Requirement::any_of("size", &[if large { "large" } else { "small" }]),
        if large { Requirement::any_of("special", &["optional"]) } else { Requirement::absent("special") },
        Requirement::any_of("integer", &[cpu.to_string()]),
    ];
    InstanceType {
        name: name.into(),
        requirements: requirements.into_iter().collect(),
        offerings,
        capacity,
        overhead: overhead(),
        ..InstanceType::default()
    }
}

/// Every combination of size, zone, capacity type, system and architecture, each with a single offering.
fn assorted() -> Vec<Arc<InstanceType>> {
    let mut all = Vec::new();
    for cpu in [1, 2, 4, 8, 16, 32, 64] {
        for memory in [1, 2, 4, 8, 16, 32, 64, 128] {
            for zone in ["zone-1", "zone-2", "zone-3"] {
                for capacity_type in [SPOT, ON_DEMAND] {
                    for os in ["linux", "windows"] {
                        for arch in ["amd64", "arm64"] {
                            let name = format!("{cpu}-cpu-{memory}-mem-{arch}-{os}-{zone}-{capacity_type}");
                            let amounts = [
                                (CPU, cpu.to_string()),
                                (MEMORY, format!("{memory}Gi")),
                                (PODS, "110".into()),
                            ];
                            let capacity: Resources = amounts
                                .iter()
                                .map(|(name, amount)| (*name, amount.parse().unwrap()))
                                .collect();
                            let requirements = [
                                Requirement::any_of(INSTANCE_TYPE, &[&name]),
                                Requirement::any_of(ARCH, &[arch]),
                                Requirement::any_of(OS, &[os]),
                                Requirement::any_of(ZONE, &[zone]),
                                Requirement::any_of(CAPACITY_TYPE, &[capacity_type]),
                            ];
                            all.push(Arc::new(InstanceType {
                                name: name.into(),
                                requirements: requirements.into_iter().collect(),
                                offerings: vec![offering(capacity_type, zone, price(&capacity))],
                                capacity,
                                overhead: overhead(),
                                ..InstanceType::default()
                            }));
                        }
                    }
                }
            }
        }
    }
    all
}
