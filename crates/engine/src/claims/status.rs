//! What a claim says about itself.

use headstart_api::conditions::{self, Status, nodeclaim as condition, reasons};
use headstart_api::nodeclaim::NodeClaimStatus;
use headstart_core::cloud::Launch;
use headstart_core::resources::Resources;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::claims::marks::{self, Marks};
use crate::claims::node;
use crate::store::{Claim, Node};
use crate::time::Wall;

/// Why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The least part of what was promised that a node must have.
const LEAST: f64 = 0.9;

/// What a claim should say about itself.
pub(crate) fn desired(
    claim: &Claim,
    launch: Option<&Launch>,
    nodes: Result<Option<&Node>, ()>,
    trouble: Option<&Trouble>,
    marks: &Marks<'_>,
    now: Wall,
) -> NodeClaimStatus {
    let mut status = claim.status.written();
    if let Some(launch) = launch.filter(|_| !claim.is_launched()) {
        status.provider_id = Some(launch.instance.id.0.clone());
        status.image_id.clone_from(&launch.instance.image);
        status.capacity = Some(quantities(&launch.instance.capacity));
        status.allocatable = Some(quantities(&launch.instance.allocatable));
    }
    let mut said = std::mem::take(&mut status.conditions);
    let mut set = claim.conditions_in(&mut said, now);
    set.initialize();
    let is_launched = claim.is_launched() || launch.is_some();
    if is_launched {
        set.set_true(condition::LAUNCHED);
    } else if let Some(Trouble { reason, message }) = trouble {
        set.set(condition::LAUNCHED, Status::Unknown, reason, message);
    }
    if is_launched && !claim.is_registered() {
        match nodes {
            Err(()) => {
                let message = "Invariant violated, matched multiple nodes";
                set.set(condition::REGISTERED, Status::False, reasons::MULTIPLE_NODES_FOUND, message);
            }
            Ok(Some(node)) if node::is_registered(node) => {
                set.set_true(condition::REGISTERED);
                status.node_name = Some(node.name().to_owned());
            }
            Ok(_) => {
                let message = "Node not registered with cluster";
                set.set(condition::REGISTERED, Status::Unknown, reasons::NODE_NOT_FOUND, message);
            }
        }
    }
    let is_registered = conditions::is_true(set.conditions, condition::REGISTERED);
    // Before its restart a node looks as if it were back from it.
    if is_registered && !claim.is_initialized() && !claim.is(condition::REBOOTING) {
        let node = nodes.ok().flatten();
        let missing = (reasons::NODE_NOT_FOUND, "Node not registered with cluster".to_owned());
        match node.map_or(Some(missing), |node| node::obstacle(claim, node)) {
            Some((reason, message)) => {
                set.set(condition::INITIALIZED, Status::Unknown, reason, &message);
            }
            None if node.is_some_and(Node::is_initialized) => {
                set.set_true(condition::INITIALIZED);
            }
            None => {}
        }
    }
    if let (true, Ok(Some(node))) = (claim.is_initialized(), nodes) {
        match shortage(claim, node) {
            None => drop(set.set_true(condition::CONSISTENT_STATE_FOUND)),
            Some(message) => {
                let reason = reasons::CONSISTENCY_CHECK_FAILED;
                set.set(condition::CONSISTENT_STATE_FOUND, Status::False, reason, &message);
            }
        }
    }
    status.conditions = said;
    marks::mark(claim, marks, &mut status, now);
    status
}

/// What a node has much less of than was promised.
fn shortage(claim: &Claim, node: &Node) -> Option<String> {
    let expected = claim.status.capacity.as_ref()?;
    expected.read.iter().find_map(|(name, expected)| {
        let found = node.capacity().get(name);
        let share = found.as_f64() / expected.as_f64();
        (!expected.is_zero() && share < LEAST).then(|| {
            format!(
                "expected {expected} of resource {name}, but found {found} ({:.1}% of expected)",
                share * 100.0
            )
        })
    })
}

fn quantities(resources: &Resources) -> std::collections::BTreeMap<String, Quantity> {
    resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect()
}
