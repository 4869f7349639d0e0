//! Instances as Nodes, and Nodes as instances.

use std::collections::BTreeMap;

use headstart_api::{labels, taints};
use headstart_core::resources::Resources;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::PROVIDER_PREFIX;
use crate::catalog::{Catalog, labels_of};
use crate::port::{DryOffering, Instance, Launch, LaunchRequest, OfferingKey, ProviderId, State, Token, tag};

/// The launch token, so that a list can tell whose an instance is.
const TOKEN: &str = "headstart.dev/launch-token";
/// What the token was used for.
const DIGEST: &str = "headstart.dev/launch-digest";
/// Tags of the instance, as JSON.
const TAGS: &str = "headstart.dev/tags";
/// Offerings that were preferred and dry, as JSON.
const DRY: &str = "headstart.dev/dry-offerings";
/// The reservation an instance draws from.
const RESERVATION: &str = "headstart.dev/reservation";
/// On a Node whose instance was terminated, while a finalizer keeps the object.
pub(super) const TERMINATED: &str = "headstart.dev/instance-terminated";

/// COMPAT: upstream has one partition.
const PARTITION: &str = "a";

/// The Node of a new instance.
pub(super) fn new(
    name: &str,
    request: &LaunchRequest,
    key: &OfferingKey,
    dry: &[DryOffering],
    catalog: &Catalog,
) -> Node {
    let mut node_labels = request.node.labels.clone();
    let (mut capacity, mut allocatable) = (request.requests.clone(), request.requests.clone());
    if let Some((instance_type, offering)) = catalog.offering(key) {
        node_labels.extend(labels_of(instance_type, offering));
        // COMPAT: `%f`, as eks-node-viewer reads it.
        let price = format!("{:.6}", offering.price.dollars());
        node_labels.insert(labels::NODE_VIEWER_PRICE.into(), price);
        // What was asked for and the type does not have, an overlay promised: the Node shows it, as upstream's does.
        capacity.merge(&instance_type.capacity);
        if let Some(replaced) = &offering.capacity_override {
            capacity.merge(replaced);
        }
        allocatable.merge(&instance_type.allocatable_with(offering));
    }
    for (label, value) in [
        (labels::KWOK_PARTITION, PARTITION),
        (labels::HOSTNAME, &request.claim),
        (labels::KWOK_NODE, labels::KWOK_NODE_VALUE),
    ] {
        node_labels.insert(label.into(), value.into());
    }
    let mut annotations = request.node.annotations.clone();
    for (annotation, value) in [
        (labels::KWOK_NODE, labels::KWOK_NODE_VALUE.to_owned()),
        (TOKEN, request.token.0.clone()),
        (DIGEST, request.digest()),
        (TAGS, json(&request.all_tags())),
    ] {
        annotations.insert(annotation.into(), value);
    }
    if !dry.is_empty() {
        annotations.insert(DRY.into(), json(&dry));
    }
    annotations.extend(key.reservation.clone().map(|reservation| (RESERVATION.to_owned(), reservation)));
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(node_labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{PROVIDER_PREFIX}{name}")),
            taints: Some(vec![taints::unregistered()]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(to_quantities(&capacity)),
            allocatable: Some(to_quantities(&allocatable)),
            phase: Some("Pending".to_owned()),
            ..NodeStatus::default()
        }),
    }
}

/// What the launch that made a Node gave.
pub(super) fn launch(node: &Node, catalog: &Catalog) -> Launch {
    let annotation = |key| node.annotations().get(key);
    let label = |key| node.labels().get(key).cloned().unwrap_or_default();
    let offering = OfferingKey {
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        capacity_type: label(labels::CAPACITY_TYPE),
        reservation: annotation(RESERVATION).cloned(),
    };
    let what_it_is =
        catalog.offering(&offering).map(|(instance_type, offering)| labels_of(instance_type, offering));
    let amounts = |amounts: fn(&NodeStatus) -> &Option<BTreeMap<String, Quantity>>| {
        node.status
            .as_ref()
            .and_then(|status| amounts(status).as_ref())
            .map(from_quantities)
            .unwrap_or_default()
    };
    let instance = Instance {
        id: ProviderId(provider_id(node).cloned().unwrap_or_default()),
        token: annotation(TOKEN).cloned().map(Token),
        state: State::Running,
        capacity: amounts(|status| &status.capacity),
        allocatable: amounts(|status| &status.allocatable),
        // A type that left the catalog is known by what its Node says.
        labels: what_it_is.unwrap_or_else(|| node.labels().clone()),
        tags: tags(node),
        image: None,
        offering,
    };
    let dry = annotation(DRY).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    Launch { instance, dry }
}

/// The provider id of a Node.
pub(super) fn provider_id(node: &Node) -> Option<&String> {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref())
}

/// What a Node's token was used for.
pub(super) fn digest(node: &Node) -> Option<&String> {
    node.annotations().get(DIGEST)
}

/// Whether the instance behind a Node is gone.
pub(super) fn is_terminated(node: &Node) -> bool {
    node.annotations().contains_key(TERMINATED)
}

/// The tags; a Node that another provisioner launched has none but its owner's name.
fn tags(node: &Node) -> BTreeMap<String, String> {
    let written = node.annotations().get(TAGS).and_then(|text| serde_json::from_str(text).ok());
    let owner = || node.labels().get(labels::HOSTNAME).map(|claim| (tag::CLAIM.to_owned(), claim.clone()));
    written.unwrap_or_else(|| owner().into_iter().collect())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn to_quantities(resources: &Resources) -> BTreeMap<String, Quantity> {
    resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect()
}

/// Amounts that cannot be read are left out: somebody else wrote them.
fn from_quantities(amounts: &BTreeMap<String, Quantity>) -> Resources {
    let mut resources = Resources::new();
    for (name, Quantity(amount)) in amounts {
        if let Ok(amount) = amount.parse() {
            resources.set(name, amount);
        }
    }
    resources
}
