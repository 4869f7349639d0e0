//! Nodes that are kept for pods that are expected.

use std::collections::BTreeMap;

use headstart_api::annotations::EXPECTED_BY;
use headstart_core::demand::Expected;
use headstart_core::plan::Plan;
use headstart_core::snapshot::Snapshot;

use crate::demand::{Injected, NewClaim};
use crate::store::Claim;

/// Nodes that are kept for pods that are expected.
#[derive(Debug)]
pub(crate) struct Held {
    /// Why, by the name of a node, or of a claim before it has one.
    by_name: BTreeMap<String, String>,
    /// Whether nobody has asked yet what is believed.
    is_unknown: bool,
}

/// Whether a claim was made for pods that were expected, at least in part.
pub(crate) fn is_ahead(claim: &Claim) -> bool {
    claim.metadata.annotations.contains_key(EXPECTED_BY)
}

impl Held {
    pub(crate) fn new(is_unknown: bool) -> Self {
        Self { by_name: BTreeMap::new(), is_unknown }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Takes notice of where a plan puts expected pods.
    pub(crate) fn planned(
        &mut self,
        expected: &[Expected],
        snapshot: &Snapshot,
        plan: &Plan,
        injected: &Injected,
        made: &[NewClaim],
    ) {
        self.is_unknown = false;
        let existing = plan
            .existing
            .iter()
            .map(|node| (&*snapshot.nodes[node.node as usize].name, node.pods.as_slice()));
        let made = made.iter().map(|claim| (claim.name.as_str(), claim.pods.as_slice()));
        self.by_name = existing
            .chain(made)
            .filter_map(|(name, pods)| {
                let (_, because) = injected.reasons(expected, pods)?;
                Some((name.to_owned(), because))
            })
            .collect();
    }

    /// Whether it is known what is believed.
    pub(crate) fn is_known(&self) -> bool {
        !self.is_unknown
    }

    /// Why a claim's node is kept.
    pub(crate) fn why(&self, claim: &Claim) -> Option<String> {
        if self.is_unknown {
            return Some("it is not known yet which pods are expected".to_owned());
        }
        let node = claim.status.node_name.as_deref().unwrap_or_default();
        self.by_name.get(claim.name()).or_else(|| self.by_name.get(node)).cloned()
    }
}
