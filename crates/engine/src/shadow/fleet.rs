//! The nodes that there are, and what they cost.

use std::collections::BTreeMap;

use headstart_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};

use crate::capacity::Capacity;
use crate::observation::Nodes;
use crate::store::{Meta, Store};
use crate::time::Wall;

use super::lead::Leads;

/// A node that pods came to.
#[derive(Clone, Debug)]
pub(super) struct Landing {
    /// When it was asked for.
    pub(super) asked: Wall,
    pub(super) kind: Nodes,
}

/// A node by its name: when it was asked for, and what it is.
pub(super) fn landing(node: &str, store: &Store, leads: &Leads, capacity: &Capacity) -> Option<Landing> {
    let node = store.nodes.get(node)?;
    let claim = store.claim_of_node(node);
    // Nodes that no claim made are asked for when they are there, for all that is known.
    let asked = claim.map_or_else(|| node.metadata.created(), |claim| leads.made(claim));
    let labeled = claim.map_or(&node.metadata, |claim| &claim.metadata);
    Some(Landing { asked, kind: kind(labeled, capacity) })
}

fn kind(labeled: &Meta, capacity: &Capacity) -> Nodes {
    Nodes {
        instance_type: labeled.label(INSTANCE_TYPE).to_owned(),
        zone: labeled.label(ZONE).to_owned(),
        capacity_type: labeled.label(CAPACITY_TYPE).to_owned(),
        count: 1,
        dollars: capacity.price_by(labeled).dollars(),
    }
}

/// How many nodes and nodes to be there are of each type, and what all cost an hour.
pub(super) fn all(store: &Store, capacity: &Capacity) -> (BTreeMap<String, u32>, f64) {
    let claims = store.claims.values().filter(|claim| !claim.is_assumed && claim.is_launched());
    let alone = store.nodes.values().filter(|node| store.claim_of_node(node).is_none());
    let labeled = claims.map(|claim| &claim.metadata).chain(alone.map(|node| &node.metadata));
    let (mut types, mut dollars) = (BTreeMap::new(), 0.0);
    for one in labeled {
        *types.entry(one.label(INSTANCE_TYPE).to_owned()).or_default() += 1;
        dollars += capacity.price_by(one).dollars();
    }
    (types, dollars)
}

/// Alike nodes together.
pub(super) fn together(all: impl IntoIterator<Item = Nodes>) -> Vec<Nodes> {
    let mut groups: Vec<Nodes> = Vec::new();
    for one in all {
        let is_like = |known: &&mut Nodes| {
            (&known.instance_type, &known.zone, &known.capacity_type)
                == (&one.instance_type, &one.zone, &one.capacity_type)
        };
        match groups.iter_mut().find(is_like) {
            Some(known) => known.count += one.count,
            None => groups.push(one),
        }
    }
    groups
}
