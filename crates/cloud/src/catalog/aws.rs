//! AWS instance types of us-east-1, with the labels Karpenter's AWS provider gives them.

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

const TABLE: &str = include_str!("../../data/aws-us-east-1.csv");
const FILE: &str = "aws-us-east-1.csv";
const REGION: &str = "us-east-1";

const COLUMNS: [&str; 15] = [
    "type",
    "arch",
    "vcpu",
    "memory_mib",
    "allocatable_cpu_m",
    "allocatable_memory_mib",
    "pods",
    "category",
    "generation",
    "accelerators",
    "gpu_name",
    "local_nvme_gb",
    "burstable",
    "bare_metal",
    "on_demand_usd_per_hour",
];

/// Memory the hypervisor takes, in thousandths; Karpenter's default for AWS.
const VM_OVERHEAD_PERMILLE: i64 = 75;
/// Memory that arm64 kernels set aside for contiguous allocation.
const ARM_CMA_MIB: i64 = 64;
const EVICTION_MIB: i64 = 100;
const ROOT_DISK_GIB: i64 = 20;

mod label {
    pub(super) const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
    pub(super) const FAMILY: &str = "karpenter.k8s.aws/instance-family";
    pub(super) const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
    pub(super) const SIZE: &str = "karpenter.k8s.aws/instance-size";
    pub(super) const CPU: &str = "karpenter.k8s.aws/instance-cpu";
    pub(super) const CPU_MAKER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
    pub(super) const MEMORY: &str = "karpenter.k8s.aws/instance-memory";
    pub(super) const HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
    pub(super) const FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
    pub(super) const NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
    pub(super) const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
    pub(super) const GPU_MAKER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
    pub(super) const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
    pub(super) const ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
    pub(super) const ACCELERATOR_MAKER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
    pub(super) const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
    pub(super) const ALL: [&str; 16] = [
        CATEGORY,
        FAMILY,
        GENERATION,
        SIZE,
        CPU,
        CPU_MAKER,
        MEMORY,
        HYPERVISOR,
        FLEX,
        NVME,
        GPU_NAME,
        GPU_MAKER,
        GPU_COUNT,
        ACCELERATOR_NAME,
        ACCELERATOR_MAKER,
        ACCELERATOR_COUNT,
    ];
}

pub(super) fn catalog() -> Result<(Catalog, Vec<BadRow>), CatalogError> {
    read(FILE, TABLE)
}

pub(super) fn read(file: &str, table: &str) -> Result<(Catalog, Vec<BadRow>), CatalogError> {
    let table = Table::open(file, table, &COLUMNS)?;
    let zones: Vec<Zone> = ["a", "b", "c"].iter().map(|z| Zone::new(format!("{REGION}{z}"))).collect();
    let base = model::base(REGION, &zones, &label::ALL);
    let (types, bad) = table.read(|row| instance_type(row, &base, &zones));
    let mut well_known = WellKnown::default();
    well_known.extend(label::ALL);
    let mut catalog = Catalog::new("aws", types, well_known);
    catalog.modelled.push(model::NOTE.to_owned());
    Ok((catalog, bad))
}

fn instance_type(row: &Row<'_, '_>, base: &Requirements, zones: &[Zone]) -> Result<InstanceType, BadRow> {
    let name = row.text("type");
    let Some((family, size)) = name.split_once('.') else {
        return Err(row.bad("type", name, "a type of the form family.size"));
    };
    let price: Price = row.parse_if("on_demand_usd_per_hour", "a price above zero", |p| *p > Price::ZERO)?;
    let machine = Machine::read(row)?;
    Ok(InstanceType {
        requirements: machine.requirements(row, base, name, (family, size))?,
        offerings: model::offerings(family, price, zones),
        capacity: machine.capacity(),
        overhead: machine.overhead(),
        name: name.into(),
        ..InstanceType::default()
    })
}

/// The numbers of a row.
struct Machine<'a> {
    vcpu: i64,
    nominal_mib: i64,
    memory_mib: i64,
    allocatable_cpu_m: i64,
    allocatable_mib: i64,
    pods: i64,
    accelerator: Option<(&'a str, i64)>,
}

impl<'a> Machine<'a> {
    fn read(row: &Row<'a, '_>) -> Result<Self, BadRow> {
        const COUNT: &str = "a whole number above zero";
        let count = |column| row.parse_if(column, COUNT, |n: &i64| *n > 0);
        let (vcpu, nominal_mib) = (count("vcpu")?, count("memory_mib")?);
        let usable = nominal_mib - if row.text("arch") == "arm64" { ARM_CMA_MIB } else { 0 };
        let memory_mib = usable - (usable * VM_OVERHEAD_PERMILLE + 999) / 1000;
        let below = "a whole number above zero and not above the capacity";
        Ok(Self {
            vcpu,
            nominal_mib,
            memory_mib,
            allocatable_cpu_m: row.parse_if("allocatable_cpu_m", below, |n| (1..=vcpu * 1000).contains(n))?,
            allocatable_mib: row
                .parse_if("allocatable_memory_mib", below, |n| (1..=memory_mib).contains(n))?,
            pods: count("pods")?,
            accelerator: accelerator(row)?,
        })
    }

    fn capacity(&self) -> Resources {
        let mut capacity = Resources::new();
        capacity.set(CPU, Quantity::from_units(self.vcpu));
        capacity.set(MEMORY, Quantity::from_bytes(self.memory_mib * MIB));
        capacity.set(PODS, Quantity::from_units(self.pods));
        capacity.set(EPHEMERAL_STORAGE, Quantity::from_bytes(ROOT_DISK_GIB * GIB));
        if let Some((resource, count)) = self.accelerator {
            capacity.set(resource, Quantity::from_units(count));
        }
        capacity
    }

    /// The table gives allocatable amounts; what is missing from the capacity is the overhead.
    fn overhead(&self) -> Overhead {
        let kept_mib = self.memory_mib - self.allocatable_mib;
        let eviction_mib = EVICTION_MIB.min(kept_mib);
        let mut kube_reserved = Resources::new();
        kube_reserved.set(CPU, Quantity::from_millis(self.vcpu * 1000 - self.allocatable_cpu_m));
        kube_reserved.set(MEMORY, Quantity::from_bytes((kept_mib - eviction_mib) * MIB));
        kube_reserved.set(EPHEMERAL_STORAGE, Quantity::from_bytes(GIB));
        let mut eviction_threshold = Resources::new();
        eviction_threshold.set(MEMORY, Quantity::from_bytes(eviction_mib * MIB));
        eviction_threshold.set(EPHEMERAL_STORAGE, Quantity::from_bytes(ROOT_DISK_GIB * GIB / 10));
        Overhead { kube_reserved, eviction_threshold, ..Overhead::default() }
    }

    fn requirements(
        &self,
        row: &Row<'a, '_>,
        base: &Requirements,
        name: &str,
        (family, size): (&str, &str),
    ) -> Result<Requirements, BadRow> {
        let arch = row.text("arch");
        if !["amd64", "arm64"].contains(&arch) {
            return Err(row.bad("arch", arch, "amd64 or arm64"));
        }
        let bare_metal = match row.text("bare_metal") {
            "yes" => true,
            "no" => false,
            other => return Err(row.bad("bare_metal", other, "yes or no")),
        };
        let (vcpu, memory) = (self.vcpu.to_string(), self.nominal_mib.to_string());
        let generation: u32 = row.parse("generation", "a whole number")?;
        let (generation, flex) = (generation.to_string(), family.ends_with("-flex").to_string());
        let local_gb = row.text("local_nvme_gb");
        if !local_gb.is_empty() {
            row.parse::<u64>("local_nvme_gb", "a whole number or nothing")?;
        }
        let gpu = self.accelerator.filter(|(resource, _)| *resource == NVIDIA).map(|(_, n)| n.to_string());
        let neuron = self.accelerator.filter(|(resource, _)| *resource == NEURON).map(|(_, n)| n.to_string());
        let mut requirements = base.clone();
        for (key, value) in [
            (labels::INSTANCE_TYPE, Some(name)),
            (labels::ARCH, Some(arch)),
            (label::CATEGORY, Some(row.text("category"))),
            (label::FAMILY, Some(family)),
            (label::GENERATION, Some(&*generation)),
            (label::SIZE, Some(size)),
            (label::CPU, Some(&*vcpu)),
            (label::CPU_MAKER, Some(cpu_maker(family, arch))),
            (label::MEMORY, Some(&*memory)),
            (label::HYPERVISOR, hypervisor(family, bare_metal)),
            (label::FLEX, Some(&*flex)),
            (label::NVME, (!local_gb.is_empty()).then_some(local_gb)),
            (label::GPU_NAME, gpu.as_ref().map(|_| row.text("gpu_name"))),
            (label::GPU_MAKER, gpu.as_ref().map(|_| "nvidia")),
            (label::GPU_COUNT, gpu.as_deref()),
            (label::ACCELERATOR_NAME, neuron.as_ref().map(|_| accelerator_name(family))),
            (label::ACCELERATOR_MAKER, neuron.as_ref().map(|_| "aws")),
            (label::ACCELERATOR_COUNT, neuron.as_deref()),
        ] {
            if let Some(value) = value {
                requirements.replace(Requirement::any_of(key, &[value]));
            }
        }
        Ok(requirements)
    }
}

const NVIDIA: &str = "nvidia.com/gpu";
const NEURON: &str = "aws.amazon.com/neuron";

fn accelerator<'a>(row: &Row<'a, '_>) -> Result<Option<(&'a str, i64)>, BadRow> {
    let text = row.text("accelerators");
    if text.is_empty() {
        return Ok(None);
    }
    let pair = text.split_once('=').and_then(|(resource, n)| Some((resource, n.parse::<i64>().ok()?)));
    match pair {
        Some((resource @ (NVIDIA | NEURON), count)) if count > 0 => Ok(Some((resource, count))),
        _ => Err(row.bad("accelerators", text, "nvidia.com/gpu=<count> or aws.amazon.com/neuron=<count>")),
    }
}

/// The letters after a family's generation tell the processor: `a` AMD, `g` Graviton, else Intel.
fn cpu_maker(family: &str, arch: &str) -> &'static str {
    let generation = family.find(|c: char| c.is_ascii_digit()).unwrap_or(family.len());
    let features = family[generation..].trim_start_matches(|c: char| c.is_ascii_digit());
    match arch {
        "arm64" => "aws",
        _ if features.starts_with('a') || ["g5", "gr6", "g4ad"].contains(&family) => "amd",
        _ => "intel",
    }
}

/// Nitro since the fifth generation and in a few families before; machines without a hypervisor have none.
fn hypervisor(family: &str, bare: bool) -> Option<&'static str> {
    const XEN: [&str; 24] = [
        "c1", "c3", "c4", "d2", "f1", "g2", "g3", "h1", "i2", "i3", "m1", "m2", "m3", "m4", "p2", "p3", "r3",
        "r4", "t1", "t2", "x1", "x1e", "cc2", "cr1",
    ];
    match bare {
        true => None,
        false if XEN.contains(&family) => Some("xen"),
        false => Some("nitro"),
    }
}

fn accelerator_name(family: &str) -> &'static str {
    if family.starts_with("trn") { "trainium" } else { "inferentia" }
}
