//! Azure VM sizes of eastus, with the labels Karpenter's Azure provider gives them.

use headstart_core::catalog::{InstanceType, Overhead};
use headstart_core::labels::{self, WellKnown};
use headstart_core::price::Price;
use headstart_core::quantity::Quantity;
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;
use headstart_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

use super::Catalog;
use super::csv::{Row, Table};
use super::error::{BadRow, CatalogError};
use super::kwok::{GIB, MIB};
use super::model::{self, Zone};

const TABLE: &str = include_str!("../../data/azure-eastus.csv");
const FILE: &str = "azure-eastus.csv";
const REGION: &str = "eastus";

const COLUMNS: [&str; 7] = ["size", "family", "vcpu", "memory_mb", "gpus", "arch", "on_demand_usd_per_hour"];

const VM_OVERHEAD_PERMILLE: i64 = 75;
const EVICTION_MIB: i64 = 750;
const MAX_PODS: i64 = 110;
const DISK_GIB: i64 = 128;
/// Reserved CPU on AKS: so many thousandths of each core, up to that core.
const CPU_TIERS: [(i64, i64); 4] = [(1, 60), (2, 40), (4, 20), (i64::MAX, 10)];
/// Reserved memory on AKS: so many percent of each MiB, up to that MiB.
const MEMORY_TIERS: [(i64, i64); 5] =
    [(4 * 1024, 25), (8 * 1024, 20), (16 * 1024, 10), (128 * 1024, 6), (i64::MAX, 2)];

mod label {
    pub(super) const NAME: &str = "karpenter.azure.com/sku-name";
    pub(super) const FAMILY: &str = "karpenter.azure.com/sku-family";
    pub(super) const VERSION: &str = "karpenter.azure.com/sku-version";
    pub(super) const CPU: &str = "karpenter.azure.com/sku-cpu";
    pub(super) const MEMORY: &str = "karpenter.azure.com/sku-memory";
    pub(super) const PREMIUM: &str = "karpenter.azure.com/sku-storage-premium-capable";
    pub(super) const GPU_NAME: &str = "karpenter.azure.com/sku-gpu-name";
    pub(super) const GPU_MAKER: &str = "karpenter.azure.com/sku-gpu-manufacturer";
    pub(super) const GPU_COUNT: &str = "karpenter.azure.com/sku-gpu-count";
    pub(super) const ALL: [&str; 9] =
        [NAME, FAMILY, VERSION, CPU, MEMORY, PREMIUM, GPU_NAME, GPU_MAKER, GPU_COUNT];
}

pub(super) fn catalog() -> Result<(Catalog, Vec<BadRow>), CatalogError> {
    read(FILE, TABLE)
}

pub(super) fn read(file: &str, table: &str) -> Result<(Catalog, Vec<BadRow>), CatalogError> {
    let table = Table::open(file, table, &COLUMNS)?;
    let zones: Vec<Zone> = (1..=3).map(|n| Zone::new(format!("{REGION}-{n}"))).collect();
    let base = model::base(REGION, &zones, &label::ALL);
    let (types, bad) = table.read(|row| instance_type(row, &base, &zones));
    let mut well_known = WellKnown::default();
    well_known.extend(label::ALL);
    let mut catalog = Catalog::new("azure", types, well_known);
    catalog.modelled.push(model::NOTE.to_owned());
    Ok((catalog, bad))
}

fn instance_type(row: &Row<'_, '_>, base: &Requirements, zones: &[Zone]) -> Result<InstanceType, BadRow> {
    const COUNT: &str = "a whole number above zero";
    let name = row.text("size");
    let Some(size) = Size::parse(name) else {
        return Err(row.bad("size", name, "a size of the form Standard_<family><cpus>…"));
    };
    let vcpu: i64 = row.parse_if("vcpu", COUNT, |n| *n > 0)?;
    let vcpu = size.constrained.map_or(vcpu, |n| n.min(vcpu));
    let memory_mib: i64 = row.parse_if("memory_mb", COUNT, |n| *n > 0)?;
    let gpus: i64 = row.parse_if("gpus", "a whole number, not below zero", |n| *n >= 0)?;
    // The cards of NP sizes are FPGAs, which no device plugin serves as GPUs.
    let gpus = if size.family == "NP" { 0 } else { gpus };
    let price: Price = row.parse_if("on_demand_usd_per_hour", "a price above zero", |p| *p > Price::ZERO)?;
    let arch = row.text("arch");
    if !["amd64", "arm64"].contains(&arch) {
        return Err(row.bad("arch", arch, "amd64 or arm64"));
    }
    let mut capacity = Resources::new();
    let usable_mib = memory_mib - (memory_mib * VM_OVERHEAD_PERMILLE + 999) / 1000;
    capacity.set(CPU, Quantity::from_units(vcpu));
    capacity.set(MEMORY, Quantity::from_bytes(usable_mib * MIB));
    capacity.set(PODS, Quantity::from_units(MAX_PODS));
    capacity.set(EPHEMERAL_STORAGE, Quantity::from_bytes(DISK_GIB * GIB));
    if gpus > 0 {
        capacity.set(size.gpu_resource(), Quantity::from_units(gpus));
    }
    Ok(InstanceType {
        requirements: requirements(base, name, &size, arch, [vcpu, memory_mib, gpus]),
        offerings: model::offerings(row.text("family"), price, zones),
        overhead: overhead(vcpu, memory_mib, usable_mib),
        capacity,
        name: name.into(),
        ..InstanceType::default()
    })
}

/// What AKS keeps; on the smallest sizes that is all there is, and nothing is left for pods.
fn overhead(vcpu: i64, memory_mib: i64, usable_mib: i64) -> Overhead {
    let reserved_mib = (tiers(memory_mib, &MEMORY_TIERS) / 100).min(usable_mib);
    let mut kube_reserved = Resources::new();
    kube_reserved.set(CPU, Quantity::from_millis(tiers(vcpu, &CPU_TIERS)));
    kube_reserved.set(MEMORY, Quantity::from_bytes(reserved_mib * MIB));
    let mut eviction_threshold = Resources::new();
    eviction_threshold.set(MEMORY, Quantity::from_bytes(EVICTION_MIB.min(usable_mib - reserved_mib) * MIB));
    Overhead { kube_reserved, eviction_threshold, ..Overhead::default() }
}

/// The sum of a rate that changes at given amounts.
fn tiers(amount: i64, tiers: &[(i64, i64)]) -> i64 {
    let (mut sum, mut from) = (0, 0);
    for (upto, rate) in tiers {
        sum += (amount.min(*upto) - from).max(0) * rate;
        from = *upto;
    }
    sum
}

fn requirements(
    base: &Requirements,
    name: &str,
    size: &Size<'_>,
    arch: &str,
    [vcpu, memory_mib, gpus]: [i64; 3],
) -> Requirements {
    let [vcpu, memory, gpu_count] = [vcpu, memory_mib, gpus].map(|n| n.to_string());
    let premium = size.premium().to_string();
    let gpu = |value| (gpus > 0).then_some(value).flatten();
    let mut requirements = base.clone();
    for (key, value) in [
        (labels::INSTANCE_TYPE, Some(name)),
        (labels::ARCH, Some(arch)),
        (label::NAME, Some(name)),
        (label::FAMILY, Some(size.family)),
        (label::VERSION, Some(size.version)),
        (label::CPU, Some(&*vcpu)),
        (label::MEMORY, Some(&*memory)),
        (label::PREMIUM, Some(&*premium)),
        (label::GPU_NAME, gpu(size.accelerator)),
        (label::GPU_MAKER, gpu(Some(size.gpu_maker()))),
        (label::GPU_COUNT, gpu(Some(&*gpu_count))),
    ] {
        if let Some(value) = value {
            requirements.replace(Requirement::any_of(key, &[value]));
        }
    }
    requirements
}

/// The parts of a size's name: `Standard_<family><cpus>[-<constrained>]<features>[_<accelerator>][_v<version>]`.
#[derive(Debug, PartialEq, Eq)]
struct Size<'a> {
    family: &'a str,
    constrained: Option<i64>,
    features: &'a str,
    accelerator: Option<&'a str>,
    version: &'a str,
}

impl<'a> Size<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_prefix("Standard_")?.split('_');
        let first = parts.next()?;
        let letters = first.find(|c: char| !c.is_ascii_uppercase())?;
        let digit = |c: char| c.is_ascii_digit();
        let after_cpus = first[letters..].trim_start_matches(digit);
        let features = after_cpus.trim_start_matches('-').trim_start_matches(digit);
        let constrained = after_cpus.strip_prefix('-').map(|rest| &rest[..rest.len() - features.len()]);
        let constrained = constrained.and_then(|n| n.parse().ok());
        let (mut accelerator, mut version) = (None, "1");
        for part in parts {
            match part.strip_prefix('v') {
                Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => version = number,
                _ if part.starts_with(|c: char| c.is_ascii_uppercase()) => accelerator = Some(part),
                _ => {}
            }
        }
        // The first generations write premium storage as a capital S after the family.
        let family = match &first[..letters] {
            "DS" => "D",
            "GS" => "G",
            family => family,
        };
        (letters > 0).then_some(Self { family, constrained, features, accelerator, version })
    }

    fn premium(&self) -> bool {
        self.features.contains('s')
    }

    /// `NVv4` and the V710 sizes have AMD cards, all others NVIDIA.
    fn gpu_maker(&self) -> &'static str {
        let amd = self.accelerator == Some("V710") || (self.family == "NV" && self.version == "4");
        if amd { "amd" } else { "nvidia" }
    }

    fn gpu_resource(&self) -> &'static str {
        if self.gpu_maker() == "amd" { "amd.com/gpu" } else { "nvidia.com/gpu" }
    }
}
