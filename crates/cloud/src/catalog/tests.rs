//! Catalogs are complete, sane, equal to upstream's where they claim to be, and complain about the right cell.

use std::path::PathBuf;

use headstart_core::labels::{ON_DEMAND, SPOT};
use headstart_core::price::Price;
use headstart_core::resources::{CPU, MEMORY, PODS};

use super::*;

fn load(source: &Source) -> Catalog {
    Catalog::load(source).unwrap()
}

fn key(instance_type: &str, zone: &str, capacity_type: &str) -> OfferingKey {
    OfferingKey {
        instance_type: instance_type.into(),
        zone: zone.into(),
        capacity_type: capacity_type.into(),
        reservation: None,
    }
}

fn price(catalog: &Catalog, instance_type: &str, zone: &str, capacity_type: &str) -> Price {
    catalog.offering(&key(instance_type, zone, capacity_type)).unwrap().1.price
}

#[test]
fn every_price_is_above_zero_and_no_type_allocates_more_than_it_has() {
    for (source, n_types, n_offerings) in
        [(Source::Kwok, 144, 8), (Source::Aws, 1340, 6), (Source::Azure, 1293, 6)]
    {
        let catalog = load(&source);
        assert_eq!(catalog.types().len(), n_types, "{}", catalog.source);
        for t in catalog.types().iter() {
            assert_eq!(t.offerings.len(), n_offerings, "{}", t.name);
            assert!(t.offerings.iter().all(|o| o.price > Price::ZERO && o.available), "{}", t.name);
            for (resource, amount) in t.allocatable().iter() {
                assert!(!amount.is_negative(), "{}: {resource} {amount}", t.name);
                assert!(amount <= t.capacity.get(resource), "{}: {resource} {amount}", t.name);
            }
        }
    }
}

#[test]
fn every_offering_is_found_by_its_key() {
    for source in [Source::Kwok, Source::Aws, Source::Azure] {
        let catalog = load(&source);
        for t in catalog.types().iter() {
            for o in &t.offerings {
                let (found_type, found) = catalog.offering(&key_of(t, o)).unwrap();
                assert_eq!((&found_type.name, found), (&t.name, o));
            }
        }
    }
}

#[test]
fn modelled_prices_say_so_and_stay_within_the_model() {
    assert!(load(&Source::Kwok).modelled.is_empty());
    for source in [Source::Aws, Source::Azure] {
        let catalog = load(&source);
        assert!(catalog.modelled[0].contains("spot prices and zones are modelled"));
        for t in catalog.types().iter() {
            for pair in t.offerings.chunks(2) {
                assert_eq!((pair[0].capacity_type(), pair[1].capacity_type()), (ON_DEMAND, SPOT));
                let share = pair[1].price.dollars() / pair[0].price.dollars();
                assert!((0.249..=0.451).contains(&share), "{}: {share}", t.name);
            }
        }
    }
}

#[test]
fn kwok_prices_follow_the_formula() {
    let catalog = load(&Source::Kwok);
    assert_eq!(price(&catalog, "c-1x-amd64-linux", "test-zone-a", ON_DEMAND).to_string(), "0.027147484");
    assert_eq!(price(&catalog, "c-1x-amd64-linux", "test-zone-d", SPOT).to_string(), "0.019003239");
    let largest = catalog.get("m-256x-arm64-windows").unwrap();
    assert_eq!(largest.capacity.to_string(), "cpu 256, ephemeral-storage 20Gi, memory 2Ti, pods 1024");
    assert_eq!(largest.allocatable().get(CPU).millis(), 255_900);
}

#[test]
fn aws_types_carry_the_labels_karpenter_gives_them() {
    let catalog = load(&Source::Aws);
    let (t, o) = catalog.offering(&key("g6.xlarge", "us-east-1c", ON_DEMAND)).unwrap();
    let labels: Vec<String> = labels_of(t, o).iter().map(|(k, v)| format!("{k}={v}")).collect();
    insta::assert_snapshot!(labels.join("\n"), @r#"
    karpenter.k8s.aws/instance-capability-flex=false
    karpenter.k8s.aws/instance-category=g
    karpenter.k8s.aws/instance-cpu=4
    karpenter.k8s.aws/instance-cpu-manufacturer=intel
    karpenter.k8s.aws/instance-family=g6
    karpenter.k8s.aws/instance-generation=6
    karpenter.k8s.aws/instance-gpu-count=1
    karpenter.k8s.aws/instance-gpu-manufacturer=nvidia
    karpenter.k8s.aws/instance-gpu-name=l4
    karpenter.k8s.aws/instance-hypervisor=nitro
    karpenter.k8s.aws/instance-local-nvme=250
    karpenter.k8s.aws/instance-memory=16384
    karpenter.k8s.aws/instance-size=xlarge
    karpenter.sh/capacity-type=on-demand
    kubernetes.io/arch=amd64
    kubernetes.io/os=linux
    node.kubernetes.io/instance-type=g6.xlarge
    topology.kubernetes.io/region=us-east-1
    topology.kubernetes.io/zone=us-east-1c
    "#);
    insta::assert_snapshot!(t.capacity, @"cpu 4, ephemeral-storage 20Gi, memory 15155Mi, nvidia.com/gpu 1, pods 58");
    insta::assert_snapshot!(t.allocatable(), @"cpu 3920m, ephemeral-storage 17Gi, memory 14162Mi, nvidia.com/gpu 1, pods 58");
    let neuron = catalog.get("inf2.24xlarge").unwrap();
    assert!(neuron.requirements.allow("karpenter.k8s.aws/instance-accelerator-name", "inferentia"));
    let plain = catalog.get("m7a.large").unwrap();
    assert!(plain.requirements.get("karpenter.k8s.aws/instance-gpu-count").unwrap().is_empty());
    assert!(plain.requirements.allow("karpenter.k8s.aws/instance-cpu-manufacturer", "amd"));
    assert!(
        catalog
            .get("m7i.metal-24xl")
            .unwrap()
            .requirements
            .get("karpenter.k8s.aws/instance-hypervisor")
            .unwrap()
            .is_empty()
    );
}

#[test]
fn azure_reserves_what_aks_reserves() {
    let catalog = load(&Source::Azure);
    // 4 cores and 16 GiB: 140m and 2,662 MiB are reserved.
    let t = catalog.get("Standard_D4s_v5").unwrap();
    assert_eq!(t.overhead.kube_reserved.to_string(), "cpu 140m, memory 2662Mi");
    assert_eq!(t.allocatable().get(PODS).units(), 110);
    let mib = (16384 - 1229) - 2662 - 750;
    assert_eq!(t.allocatable().get(MEMORY).units(), mib * 1024 * 1024);
    assert_eq!(catalog.get("Standard_E4-2s_v5").unwrap().capacity.get(CPU).units(), 2);
}

#[test]
fn azure_types_carry_the_labels_karpenter_gives_them() {
    let catalog = load(&Source::Azure);
    let (t, o) = catalog.offering(&key("Standard_NC24ads_A100_v4", "eastus-2", SPOT)).unwrap();
    let labels: Vec<String> = labels_of(t, o).iter().map(|(k, v)| format!("{k}={v}")).collect();
    insta::assert_snapshot!(labels.join("\n"), @r#"
    karpenter.azure.com/sku-cpu=24
    karpenter.azure.com/sku-family=NC
    karpenter.azure.com/sku-gpu-count=1
    karpenter.azure.com/sku-gpu-manufacturer=nvidia
    karpenter.azure.com/sku-gpu-name=A100
    karpenter.azure.com/sku-memory=225280
    karpenter.azure.com/sku-name=Standard_NC24ads_A100_v4
    karpenter.azure.com/sku-storage-premium-capable=true
    karpenter.azure.com/sku-version=4
    karpenter.sh/capacity-type=spot
    kubernetes.io/arch=amd64
    kubernetes.io/os=linux
    node.kubernetes.io/instance-type=Standard_NC24ads_A100_v4
    topology.kubernetes.io/region=eastus
    topology.kubernetes.io/zone=eastus-2
    "#);
    assert_eq!(t.capacity.get("nvidia.com/gpu").units(), 1);
    let family = |name| {
        catalog.get(name).unwrap().requirements.get("karpenter.azure.com/sku-family").unwrap().single()
    };
    assert_eq!(family("Standard_DS11-1_v2"), Some("D"));
    assert_eq!(family("Standard_EC16ads_v5"), Some("EC"));
}

/// Upstream's own files, where its module has been downloaded.
fn upstream(file: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = std::env::var_os("GOMODCACHE").map_or_else(|| home.join("go/pkg/mod"), PathBuf::from);
    let path = cache.join("sigs.k8s.io/karpenter@v1.15.0/kwok").join(file);
    if !path.exists() {
        eprintln!("not compared with upstream: {} is not there", path.display());
    }
    path.exists().then_some(path)
}

#[test]
fn the_generated_catalog_equals_upstreams_embedded_one() {
    let Some(path) = upstream("cloudprovider/instance_types.json") else { return };
    let (ours, theirs) = (load(&Source::Kwok), load(&Source::File(path)));
    assert_eq!(ours.types().len(), theirs.types().len());
    for (ours, theirs) in ours.types().iter().zip(theirs.types().iter()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.well_known, theirs.well_known);
}

#[test]
fn upstreams_example_files_are_understood() {
    let Some(path) = upstream("examples/instance_types.json") else { return };
    let catalog = load(&Source::File(path));
    assert_eq!(price(&catalog, "g5.4xlarge", "us-east-1b", ON_DEMAND).to_string(), "1.7");
    assert_eq!(catalog.get("g5.4xlarge").unwrap().capacity.get("nvidia.com/gpu").units(), 1);
    let Some(path) = upstream("examples/aws_instance_types.json") else { return };
    assert!(load(&Source::File(path)).types().len() > 500);
}

/// What is wrong with a file made of the given entries.
fn complaints(text: &str) -> Vec<String> {
    let (_, bad) = file::parse("types.json", text).unwrap();
    bad.iter().map(ToString::to_string).collect()
}

const GOOD: &str = r#"{"name": "big", "architecture": "amd64", "operatingSystems": ["linux"],
    "resources": {"cpu": "4", "memory": "8Gi", "example.com/card": 2},
    "offerings": [{"Price": 0.125, "ReservationCapacity": 3, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
        {"key": "example.com/reservation-id", "operator": "In", "values": ["r-1"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]}]}"#;

#[test]
fn a_file_may_have_custom_resources_and_reservations() {
    let (catalog, bad) = file::parse("types.json", &format!("[{GOOD}]")).unwrap();
    assert_eq!(bad, []);
    let reserved = OfferingKey { reservation: Some("r-1".into()), ..key("big", "z1", "reserved") };
    let (t, o) = catalog.offering(&reserved).unwrap();
    assert_eq!((o.reservation_capacity, o.price.to_string()), (3, "0.125".to_owned()));
    assert_eq!(t.capacity.to_string(), "cpu 4, example.com/card 2, memory 8Gi, pods 110");
    assert!(catalog.well_known.has("example.com/reservation-id"));
    assert_eq!(catalog.offering(&key("big", "z1", "reserved")), None);
}

#[test]
fn a_bad_entry_is_named_and_leaves_its_neighbors_alone() {
    let bad = [
        GOOD.replace("0.125", "\"cheap\""),
        GOOD.replace("8Gi", "8Gigs"),
        GOOD.replace("\"In\", \"values\": [\"z1\"]", "\"Inside\""),
        GOOD.replace("[\"z1\"]", "[\"z1\", \"z2\"]"),
        GOOD.replace("\"big\"", "7"),
        GOOD.replace("0.125", "-1"),
    ];
    let text = format!("[{GOOD}, {}]", bad.join(","));
    insta::assert_snapshot!(complaints(&text).join("\n"), @r#"
    catalog types.json, entry 1 ("big"), offerings[0].price: "cheap" is not a price in dollars, as a JSON number
    catalog types.json, entry 2 ("big"), resources.memory: "8Gigs" is not a quantity such as 16 or 64Gi
    catalog types.json, entry 3 ("big"), offerings[0].requirements[2].operator: "Inside" is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte
    catalog types.json, entry 4 ("big"), offerings[0].requirements: topology.kubernetes.io/zone ["z1", "z2"] is not exactly one value
    catalog types.json, entry 5, name: 7 is not a name
    catalog types.json, entry 6 ("big"), offerings[0].price: -1 is not a price of at least zero
    "#);
    let (catalog, _) = file::parse("types.json", &text).unwrap();
    assert_eq!(catalog.types().len(), 1);
}

#[test]
fn a_bad_row_of_a_table_is_named() {
    let table = "type,arch,vcpu,memory_mib,allocatable_cpu_m,allocatable_memory_mib,pods,category,generation,accelerators,\
gpu_name,local_nvme_gb,burstable,bare_metal,on_demand_usd_per_hour
a1.large,arm64,2,4096,1930,3055,29,a,1,,,,no,no,0.051
a1.medium,arm64,1,2048,1001,1392,8,a,1,,,,no,no,0.0255
a1.xlarge,arm64,4,8192,3920,6513,58,a,1,,,,no,no,0
a1.huge,arm64,four,8192,3920,6513,58,a,1,,,,no,no,0.1
a1.tiny,arm64,1
";
    let (catalog, bad) = aws::read("prices.csv", table).unwrap();
    assert_eq!(catalog.types().len(), 1);
    let bad: Vec<String> = bad.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(bad.join("\n"), @r#"
    catalog prices.csv, line 3, allocatable_cpu_m: "1001" is not a whole number above zero and not above the capacity
    catalog prices.csv, line 4, on_demand_usd_per_hour: "0" is not a price above zero
    catalog prices.csv, line 5, vcpu: "four" is not a whole number above zero
    catalog prices.csv, line 6, the row: "a1.tiny,arm64,1" is not one value for each column
    "#);
    let Err(error) = aws::read("prices.csv", "type,arch\n") else {
        panic!("a table without prices was taken")
    };
    assert_eq!(error.to_string(), "catalog prices.csv: the first line names no column \"vcpu\"");
}

#[test]
fn what_is_no_catalog_says_so() {
    let error = |text: &str| Catalog::load(&text.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(
        error("gcp"),
        "unknown catalog \"gcp\": it is neither kwok, aws nor azure, and there is no such file"
    );
    assert_eq!(error("no/such.json"), "cannot read catalog no/such.json");
    let malformed = |text| file::parse("types.json", text).unwrap_err().to_string();
    assert_eq!(malformed("{}"), "catalog types.json: it must be a JSON list of instance types");
    assert!(malformed("[").starts_with("catalog types.json: it is not JSON: EOF"));
}
