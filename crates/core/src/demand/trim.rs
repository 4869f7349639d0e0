//! How much belief may cost. What is over a limit is left out, and the rest is solved again.

use crate::plan::Plan;
use crate::price::Price;
use crate::snapshot::{Demand, Snapshot};

/// Expected pods to leave out so that no more than so many pods still need a node; real pods are never left out.
///
/// COMPAT: `--pod-injection-limit` as Cluster Autoscaler means it: pods that fit on nodes that exist do not count, and those
/// that must stay (buffers) count but are not left out. With a limit of 10, of 3 real and 10 expected pods 7 expected ones
/// are left. Of the expected the least sure go first, then the last.
pub fn over_limit(
    snapshot: &Snapshot,
    plan: &Plan,
    limit: usize,
    sure: impl Fn(u32) -> Option<u8>,
) -> Vec<u32> {
    let claimed = plan.claims.iter().flat_map(|claim| claim.pods.iter().copied());
    let needing: Vec<u32> = claimed.chain(plan.unplaced.iter().map(|unplaced| unplaced.pod)).collect();
    let surplus = needing.len().saturating_sub(limit);
    let mut optional: Vec<(u8, std::cmp::Reverse<u32>)> = needing
        .into_iter()
        .filter(|pod| snapshot.pods[*pod as usize].demand == Demand::Expected)
        .filter_map(|pod| Some((sure(pod)?, std::cmp::Reverse(pod))))
        .collect();
    optional.sort_unstable();
    optional.into_iter().take(surplus).map(|(_, pod)| pod.0).collect()
}

/// Expected pods to leave out so that new nodes for expected pods cost no more than what is left to spend an hour.
///
/// A node that is also for real pods counts by the share of its pods that are expected.
pub fn over_budget(snapshot: &Snapshot, plan: &Plan, left: Price) -> Vec<u32> {
    let is_expected = |pod: &&u32| snapshot.pods[**pod as usize].demand == Demand::Expected;
    let (mut left, mut out) = (left.dollars(), Vec::new());
    for claim in &plan.claims {
        let expected = claim.pods.iter().filter(is_expected).count();
        let price = claim.launch.as_ref().map_or(0.0, |launch| launch.price.dollars());
        let cost = price * expected as f64 / claim.pods.len().max(1) as f64;
        if expected == 0 {
            continue;
        }
        if cost > left {
            out.extend(claim.pods.iter().filter(is_expected));
        } else {
            left -= cost;
        }
    }
    out
}

/// The snapshot without some of its pods.
pub fn without(snapshot: &mut Snapshot, pods: &[u32]) {
    let mut at = 0..;
    let pods: std::collections::BTreeSet<u32> = pods.iter().copied().collect();
    snapshot.pods.retain(|_| at.next().is_none_or(|at| !pods.contains(&at)));
}
