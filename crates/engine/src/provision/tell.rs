//! What people are told about decisions on pods.

use std::time::Duration;

use headstart_core::plan::{Plan, PlannedClaim};
use headstart_core::price::Price;
use headstart_core::snapshot::{self, Snapshot};

use crate::action::ObjectRef;
use crate::capacity::Capacity;
use crate::kind::Kind;
use crate::out::Out;
use crate::provision::Decision;
use crate::report::Level;
use crate::store::{PodLife as _, Store};

/// How often a pod is told that it fits nowhere.
const FAILED_EVERY: Duration = Duration::from_mins(5);
/// Most events about single pods that one decision tells.
pub(super) const MOST_EVENTS: usize = 10;

/// Tells a pod which claim is made for it.
pub(super) fn nominated(pod: &snapshot::Pod, claim: &str, out: &mut Out<'_>) {
    out.note(about(pod), "Nominated", format!("Pod should schedule on: nodeclaim/{claim}"));
}

/// Tells what is bought, if anything is.
pub(super) fn decision(snapshot: &Snapshot, plan: &Plan, out: &mut Out<'_>) {
    if plan.claims.is_empty() {
        return;
    }
    let expected = snapshot.pods.iter().filter(|pod| pod.demand == snapshot::Demand::Expected).count();
    let ahead = if expected == 0 { String::new() } else { format!(", {expected} of them expected") };
    let message = format!(
        "{} pods need a place{ahead}: {} fit on existing nodes, {} need {} new nodes, {} fit nowhere",
        snapshot.pods.len(),
        plan.existing.iter().map(|node| node.pods.len()).sum::<usize>(),
        plan.claims.iter().map(|claim| claim.pods.len()).sum::<usize>(),
        plan.claims.len(),
        plan.unplaced.len(),
    );
    let (price, bound) = (an_hour(plan.price), an_hour(plan.lower_bound));
    out.line(Level::Info, message, &[("price", &price), ("atLeast", &bound)]);
}

/// Tells pods why they fit nowhere.
pub(super) fn unplaced(store: &Store, capacity: &Capacity, decision: &Decision, out: &mut Out<'_>) {
    let Decision { taken, plan, .. } = decision;
    let avoided = capacity.avoided(out.now.time);
    let real = plan.unplaced.iter().filter(|unplaced| decision.is_real(unplaced.pod));
    for unplaced in real.take(MOST_EVENTS) {
        let pod = &taken.snapshot.pods[unplaced.pod as usize];
        let mut why: Vec<String> = unplaced.obstacles.iter().take(3).map(ToString::to_string).collect();
        if why.is_empty() {
            why.push("no NodePool is ready to buy nodes".to_owned());
        }
        if avoided > 0 {
            why.push(format!("{avoided} offerings have no capacity at present"));
        }
        let message = format!("Failed to schedule pod, {}", why.join("; "));
        out.event(about(pod), true, "FailedScheduling", message, FAILED_EVERY);
    }
    for rejected in taken.rejected.iter().take(MOST_EVENTS) {
        let (namespace, name) = rejected.pod.split_once('/').unwrap_or_default();
        let Some(pod) = store.world.pod(namespace, name) else { continue };
        let message = format!("Failed to schedule pod, {}", rejected.reason);
        out.event(pod.object(), true, "FailedScheduling", message, FAILED_EVERY);
    }
}

fn about(pod: &snapshot::Pod) -> ObjectRef {
    ObjectRef {
        kind: Kind::Pod,
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
    }
}

/// A price as people read it.
fn an_hour(price: Price) -> String {
    format!("${:.3}/h", price.dollars())
}

/// Tells of a claim that is asked for.
pub(super) fn claim(
    planned: &PlannedClaim,
    expected: usize,
    reasons: Option<&(String, String)>,
    name: &str,
    out: &mut Out<'_>,
) {
    let (what, price) = match &planned.launch {
        Some(launch) => (
            format!("{} {} {}", launch.instance_type, launch.zone, launch.capacity_type),
            an_hour(launch.price),
        ),
        None => (String::from("unknown"), String::new()),
    };
    let ahead = if expected == 0 { String::new() } else { format!(", {expected} of which are expected") };
    let message = format!("created NodeClaim for {} pods{ahead}", planned.pods.len());
    let types = planned.instance_types.len().to_string();
    let mut fields = vec![
        ("NodeClaim", name),
        ("NodePool", &*planned.pool),
        ("cheapest", what.as_str()),
        ("price", price.as_str()),
        ("types", types.as_str()),
    ];
    if let Some((_, because)) = reasons {
        fields.push(("because", because));
    }
    out.line(Level::Info, message, &fields);
}
