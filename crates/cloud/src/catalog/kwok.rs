//! The catalog Karpenter's KWOK provider uses when it is given none: a grid of generic machines.
//!
//! COMPAT: v1.15.0 embeds the output of `kwok/tools/gen_instance_types.go`; here the same 144 types are generated.
//! Names, labels, sizes, order and prices are equal (prices to the billionth of a dollar).

use headstart_api::labels::{
    KWOK_INSTANCE_CPU, KWOK_INSTANCE_FAMILY, KWOK_INSTANCE_MEMORY, KWOK_INSTANCE_SIZE, KWOK_WELL_KNOWN,
};
use headstart_core::catalog::{InstanceType, Offering, Overhead};
use headstart_core::labels::{self, CAPACITY_TYPE, ON_DEMAND, SPOT, WellKnown, ZONE};
use headstart_core::price::Price;
use headstart_core::quantity::Quantity;
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;
use headstart_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

use super::Catalog;

pub(super) const GIB: i64 = 1 << 30;
pub(super) const MIB: i64 = 1 << 20;

const SIZES: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
const FAMILIES: [(&str, i64); 3] = [("c", 2), ("s", 4), ("m", 8)];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
const MAX_PODS: i64 = 1024;
const DEFAULT_PODS: i64 = 110;

/// The generated catalog.
pub(super) fn catalog() -> Catalog {
    let mut types = Vec::with_capacity(SIZES.len() * FAMILIES.len() * 4);
    let sold = ZONES.map(|zone| {
        [SPOT, ON_DEMAND].map(|kind| Requirements::from_labels([(CAPACITY_TYPE, kind), (ZONE, zone)]))
    });
    for cpu in SIZES {
        for (family, gib_per_cpu) in FAMILIES {
            for os in ["linux", "windows"] {
                for arch in ["amd64", "arm64"] {
                    types.push(Machine {
                        name: format!("{family}-{cpu}x-{arch}-{os}"),
                        architecture: arch.into(),
                        operating_systems: vec![os.into()],
                        resources: resources(cpu, cpu * gib_per_cpu),
                        offerings: offerings(&sold, cpu, cpu * gib_per_cpu),
                    });
                }
            }
        }
    }
    finish("kwok", types)
}

/// A machine of the KWOK provider before labels and defaults are worked out.
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) architecture: String,
    pub(super) operating_systems: Vec<String>,
    pub(super) resources: Resources,
    pub(super) offerings: Vec<Offering>,
}

/// Works out labels and defaults as the KWOK provider does.
pub(super) fn finish(source: &str, machines: Vec<Machine>) -> Catalog {
    let mut well_known = WellKnown::default();
    well_known.extend(KWOK_WELL_KNOWN);
    for offering in machines.iter().flat_map(|machine| &machine.offerings) {
        well_known.extend(offering.requirements.iter().map(Requirement::key));
    }
    Catalog::new(source, machines.into_iter().map(instance_type).collect(), well_known)
}

fn instance_type(machine: Machine) -> InstanceType {
    let Machine { name, architecture, operating_systems, resources, offerings } = machine;
    let sold = |key| -> Vec<&str> {
        offerings.iter().filter_map(|o| o.requirements.get(key)).flat_map(Requirement::values).collect()
    };
    let written = |resource: &str| resources.listed(resource).map_or_else(String::new, |q| q.to_string());
    let (cpu, memory) = (written(CPU), written(MEMORY));
    let mut requirements = Requirements::new();
    for (key, values) in [
        (labels::INSTANCE_TYPE, vec![name.as_str()]),
        (labels::ARCH, vec![architecture.as_str()]),
        (labels::OS, operating_systems.iter().map(String::as_str).collect()),
        (ZONE, sold(ZONE)),
        (CAPACITY_TYPE, sold(CAPACITY_TYPE)),
        (KWOK_INSTANCE_SIZE, vec![size(&name).unwrap_or(&cpu)]),
        (KWOK_INSTANCE_FAMILY, vec![family(&name)]),
        (KWOK_INSTANCE_CPU, vec![cpu.as_str()]),
        (KWOK_INSTANCE_MEMORY, vec![memory.as_str()]),
    ] {
        requirements.add(Requirement::any_of(key, &values));
    }
    let mut capacity = resources;
    if capacity.listed(PODS).is_none() {
        capacity.set(PODS, Quantity::from_units(DEFAULT_PODS));
    }
    let mut kube_reserved = Resources::new();
    kube_reserved.set(CPU, Quantity::from_millis(100));
    kube_reserved.set(MEMORY, Quantity::from_bytes(10 * MIB));
    InstanceType {
        name: name.into(),
        requirements,
        offerings,
        capacity,
        overhead: Overhead { kube_reserved, ..Overhead::default() },
        ..InstanceType::default()
    }
}

/// The size in a name of AWS's form, `<family>.<size>`; other names have none.
fn size(name: &str) -> Option<&str> {
    let (family, size) = name.split_once('.')?;
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let multiple = size.strip_suffix("xlarge").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let named = ["nano", "micro", "small", "medium", "large", "metal"].contains(&size);
    (word(family) && (named || multiple)).then_some(size)
}

/// What stands before the first dot or dash of a name, or else its first letter.
fn family(name: &str) -> &str {
    match name.split_once(['.', '-']) {
        Some((family, _)) => family,
        None => name.chars().next().map_or("", |first| &name[..first.len_utf8()]),
    }
}

fn resources(cpu: i64, gib: i64) -> Resources {
    let mut resources = Resources::new();
    resources.set(CPU, Quantity::from_units(cpu));
    resources.set(MEMORY, Quantity::from_bytes(gib * GIB));
    resources.set(PODS, Quantity::from_units((cpu * 16).min(MAX_PODS)));
    resources.set(EPHEMERAL_STORAGE, Quantity::from_bytes(20 * GIB));
    resources
}

/// 2.5 cents per CPU and a tenth of a cent per (decimal) gigabyte; spot costs 70 % of that.
fn offerings(sold: &[[Requirements; 2]], cpu: i64, gib: i64) -> Vec<Offering> {
    // A tenth of a cent per 10⁹ bytes is a thousandth of a nano-dollar per byte.
    let thousandths = cpu * 25_000_000 * 1000 + gib * GIB;
    let price = |tenths: i64| Price::from_nanos((thousandths * tenths + 5_000) / 10_000);
    let offering = |(requirements, price): (&Requirements, Price)| Offering {
        requirements: requirements.clone(),
        price,
        available: true,
        ..Offering::default()
    };
    sold.iter().flat_map(|zone| zone.iter().zip([price(7), price(10)])).map(offering).collect()
}
