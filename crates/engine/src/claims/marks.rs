//! What makes a claim a candidate for disruption: that it drifted, and that nothing has happened on its node for a while.

use std::time::Duration;

use headstart_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use headstart_api::conditions::{Status, nodeclaim as condition, reasons};
use headstart_api::nodeclaim::NodeClaimStatus;
use headstart_api::{NODEPOOL_HASH_VERSION as HASH_VERSION, NodePool};
use headstart_core::catalog::Offering;
use headstart_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, WellKnown, ZONE};
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;
use headstart_core::types::Types;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::store::Claim;
use crate::time::Wall;

/// How old a claim is before it matters that its instance type is no longer sold.
pub(super) const TO_DOUBT_TYPE: Duration = Duration::from_hours(1);
/// How often it is written down at most that pods came or went.
const WRITTEN_EVERY: Duration = Duration::from_secs(10);

/// What is known about a claim beyond what it says.
#[derive(Debug, Default)]
pub(super) struct Marks<'a> {
    /// Its pool, if there is one that is ours.
    pub(super) pool: Option<&'a NodePool>,
    /// Why it is no longer what its pool asks for.
    pub(super) drifted: Option<&'static str>,
    /// When pods last came or went.
    pub(super) stirred: Option<Wall>,
}

/// Why a claim is no longer what its pool asks for.
pub(super) fn drifted(
    claim: &Claim,
    pool: &NodePool,
    hash: &str,
    types: &Types,
    well_known: &WellKnown,
    now: Wall,
) -> Option<&'static str> {
    let own = &claim.metadata.annotations;
    let is_comparable = own.get(NODEPOOL_HASH_VERSION).is_some_and(|version| **version == *HASH_VERSION);
    if is_comparable && own.get(NODEPOOL_HASH).is_some_and(|own| **own != *hash) {
        return Some(reasons::NODEPOOL_DRIFTED);
    }
    let asked = pool.spec.template.spec.requirements.iter().filter_map(|written| {
        let operator = written.operator.as_str().parse().ok()?;
        Requirement::new(&written.key, operator, &written.values, None).ok()
    });
    let mut all = Requirements::new();
    asked.for_each(|requirement| all.add(requirement));
    let labels = claim.metadata.labels.iter().map(|(k, v)| (&**k, &**v));
    let labels = Requirements::from_labels(labels.filter(|(key, _)| all.get(key).is_some()));
    if labels.compatible(&all, well_known).is_err() {
        return Some(reasons::REQUIREMENTS_DRIFTED);
    }
    let is_old = now >= claim.metadata.created() + TO_DOUBT_TYPE;
    (is_old && !is_sold(claim, types)).then_some(reasons::INSTANCE_TYPE_NOT_FOUND)
}

/// Whether what a claim became is still on the list, available or not.
fn is_sold(claim: &Claim, types: &Types) -> bool {
    let label = |key| claim.metadata.label(key);
    let suits = |offering: &Offering| {
        // A reservation may have ended, and the instance goes on.
        let kind = offering.capacity_type();
        let is_kind = kind == label(CAPACITY_TYPE) || (label(CAPACITY_TYPE) == RESERVED && kind == ON_DEMAND);
        offering.zone() == label(ZONE) && is_kind
    };
    types.named(label(INSTANCE_TYPE)).is_some_and(|known| known.offerings.iter().any(suits))
}

/// When a node will have been left alone for as long as its pool wants, or was; `None` if it never will be.
pub(crate) fn settles(claim: &Claim, stirred: Option<&Time>, pool: &NodePool) -> Option<Wall> {
    let after = pool.spec.disruption.consolidate_after.duration()?;
    if !claim.is_initialized() {
        return None;
    }
    let since = stirred.map_or_else(|| claim.since(condition::INITIALIZED), |time| Wall::from(time.0));
    Some(Wall(since.0.saturating_add(after.as_nanos() / 1_000_000)))
}

/// Writes down what makes the claim a candidate.
pub(super) fn mark(claim: &Claim, marks: &Marks<'_>, status: &mut NodeClaimStatus, now: Wall) {
    let Some(pool) = marks.pool else { return };
    if let Some(stirred) = marks.stirred {
        let written = status.last_pod_event_time.as_ref().map(|time| Wall::from(time.0));
        if written.is_none_or(|written| stirred >= written + WRITTEN_EVERY) {
            status.last_pod_event_time = Some(Time(stirred.stamp()));
        }
    }
    let settles = settles(claim, status.last_pod_event_time.as_ref(), pool);
    let mut said = std::mem::take(&mut status.conditions);
    let mut wanted: [(&str, Option<(&str, &str)>); 2] =
        [(condition::DRIFTED, None), (condition::CONSOLIDATABLE, None)];
    if let Some(reason) = marks.drifted.filter(|_| claim.is_launched()) {
        wanted[0].1 = Some((reason, reason));
    }
    if settles.is_some_and(|settles| settles <= now) {
        wanted[1].1 = Some((condition::CONSOLIDATABLE, ""));
    }
    for (kind, wanted) in wanted {
        let Some((reason, message)) = wanted else {
            said.retain(|condition| condition.type_ != kind);
            continue;
        };
        claim.conditions_in(&mut said, now).set(kind, Status::True, reason, message);
    }
    status.conditions = said;
}
