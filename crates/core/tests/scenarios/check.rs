//! The one harness: a scenario in, the plan out as text.

use std::collections::BTreeMap;

use headstart_core::plan::Plan;
use headstart_core::snapshot::Snapshot;
use headstart_core::solve::{Packing, solve};

use crate::fixture::{parse, tally};

/// Solves the scenario and shows the plan.
pub(crate) fn plan(scenario: &str) -> String {
    let snapshot = parse(scenario);
    shown(&snapshot, &solve(&snapshot, Packing::Compat))
}

/// One line for each kind of place: how many, what, where, with which pods.
pub(crate) fn shown(snapshot: &Snapshot, plan: &Plan) -> String {
    let names = |pods: &[u32]| tally(pods.iter().map(|pod| &*snapshot.pods[*pod as usize].name));
    let mut lines = Vec::new();
    for node in &plan.existing {
        lines.push(format!("node {}: {}", snapshot.nodes[node.node as usize].name, names(&node.pods)));
    }
    let mut claims: BTreeMap<String, usize> = BTreeMap::new();
    for claim in &plan.claims {
        let zones: Vec<_> = claim.zones.iter().map(|zone| zone.trim_start_matches("zone-")).collect();
        let cheapest = claim.instance_types.first().map_or("nothing", |name| name);
        let relaxed = if claim.min_values_relaxed { " with relaxed minValues" } else { "" };
        let line = format!(
            "{} {cheapest} of {} in {}{relaxed}: {}",
            claim.pool,
            claim.instance_types.len(),
            zones.join(""),
            names(&claim.pods)
        );
        *claims.entry(line).or_default() += 1;
    }
    lines.extend(claims.into_iter().map(|(line, count)| format!("{count} × {line}")));
    let mut pending: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for unplaced in &plan.unplaced {
        pending.entry(unplaced.obstacles[0].to_string()).or_default().push(unplaced.pod);
    }
    lines.extend(pending.into_iter().map(|(why, pods)| format!("pending {}: {why}", names(&pods))));
    lines.join("\n")
}
