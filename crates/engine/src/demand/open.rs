//! Whether real pods use what was bought ahead.

use crate::store::{Claim, Pod, Store};

/// Whether a pod that is no daemon runs on a claim's node.
pub(crate) fn is_used(claim: &Claim, store: &Store) -> bool {
    let node = claim.provider_id().and_then(|id| store.node_with(&id).ok().flatten());
    node.is_some_and(|node| store.pods_on(node.name()).any(|pod| is_real(pod) && !store.is_placeholder(pod)))
}

/// Whether a pod that keeps room for others is on a claim's node.
pub(crate) fn is_kept(claim: &Claim, store: &Store) -> bool {
    let node = claim.provider_id().and_then(|id| store.node_with(&id).ok().flatten());
    node.is_some_and(|node| store.pods_on(node.name()).any(|pod| store.is_placeholder(pod)))
}

fn is_real(pod: &Pod) -> bool {
    !pod.is_daemon() && !pod.is_mirror() && !pod.is_over()
}
