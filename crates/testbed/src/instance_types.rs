//! A catalogue as a file that both Karpenter's KWOK provider and Headstart read.

use headstart_cloud::catalog::Catalog;
use headstart_core::catalog::{InstanceType, Offering};
use headstart_core::quantity::Quantity;
use serde_json::{Value, json};

/// What Karpenter's KWOK provider subtracts from every type on its own.
const RESERVED: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "10Mi")];

/// The catalogue in the KWOK provider's format.
///
/// The format has no overhead: a type's resources here are what pods can use plus what the provider will subtract
/// again, so that both sides see the same allocatable.
pub fn kwok_file(catalog: &Catalog) -> Value {
    catalog.types().iter().map(|instance_type| row(instance_type)).collect()
}

fn row(instance_type: &InstanceType) -> Value {
    let mut resources = instance_type.allocatable();
    for (name, reserved) in RESERVED {
        let reserved: Quantity = reserved.parse().unwrap_or_default();
        resources.set(name, resources.get(name) + reserved);
    }
    let values = |key: &str| -> Vec<&str> {
        instance_type
            .requirements
            .get(key)
            .map(|requirement| requirement.values().collect())
            .unwrap_or_default()
    };
    json!({
        "name": instance_type.name.as_ref(),
        "architecture": values("kubernetes.io/arch").first(),
        "operatingSystems": values("kubernetes.io/os"),
        "offerings": instance_type.offerings.iter().map(offering).collect::<Value>(),
        "resources": resources,
    })
}

fn offering(offering: &Offering) -> Value {
    json!({
        "Price": offering.price.dollars(),
        "Available": true,
        "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [offering.capacity_type()]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [offering.zone()]},
        ],
    })
}
