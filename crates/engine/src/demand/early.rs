//! Nodes that were started for pods that were expected, as the cluster itself tells: any process can see them.

use std::collections::BTreeMap;

use headstart_api::annotations::EXPECTED_BY;
use headstart_core::price::Price;

use crate::demand::open;
use crate::overview::Early;
use crate::store::{Claim, Store};

/// Nodes that were started early, by who expected the most of their pods.
pub(crate) fn early(store: &Store, price: impl Fn(&Claim) -> Price) -> Vec<Early> {
    let mut by_source: BTreeMap<&str, Early> = BTreeMap::new();
    for claim in store.claims.values().filter(|claim| !claim.is_leaving()) {
        let Some(by) = claim.metadata.annotations.get(EXPECTED_BY) else { continue };
        let source = by.split(',').next().unwrap_or_default();
        let early = by_source.entry(source).or_default();
        source.clone_into(&mut early.source);
        early.nodes += 1;
        if open::is_used(claim, store) {
            early.used += 1;
        } else {
            early.idle += price(claim);
        }
    }
    by_source.into_values().collect()
}
