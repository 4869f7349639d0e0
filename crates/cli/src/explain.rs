//! `headstart explain`: why a pod goes where it goes, or nowhere.

use std::{collections::BTreeMap, io::Write, process::ExitCode};

use anyhow::bail;
use headstart_core::{
    explain::{Obstacle, Place},
    plan::Plan,
    snapshot::Snapshot,
    solve::{Packing, obstacles, solve},
};

use crate::{manifests, plan::columns};

/// Say why a pod fits nowhere, or where it would go
///
/// The pod is one that waits for a node, or one that a workload still has to make, as `headstart plan` names it.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 2 if the pod fits nowhere.")]
pub(crate) struct Args {
    /// The pod, as NAMESPACE/NAME or, in the namespace default, as NAME
    #[arg(value_name = "NAMESPACE/POD")]
    pod: String,
    #[command(flatten)]
    from: manifests::From,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let cluster = manifests::load(&args.from)?;
    let snapshot = &cluster.taken.snapshot;
    let (namespace, name) = args.pod.split_once('/').unwrap_or(("default", &args.pod));
    let full = format!("{namespace}/{name}");
    if let Some(rejected) = cluster.taken.rejected.iter().find(|rejected| rejected.pod == full) {
        writeln!(out, "{full} cannot be placed: {}.", rejected.reason)?;
        return Ok(2.into());
    }
    let found = snapshot.pods.iter().position(|pod| *pod.namespace == *namespace && *pod.name == *name);
    let Some(pod) = found.and_then(|at| u32::try_from(at).ok()) else {
        for diagnostic in
            cluster.taken.diagnostics.iter().filter(|diagnostic| diagnostic.object.ends_with(&full))
        {
            writeln!(out, "! {diagnostic}")?;
        }
        bail!("no pod {full} is waiting for a node");
    };
    let plan = solve(snapshot, Packing::Compat);
    if plan.unplaced.iter().any(|unplaced| unplaced.pod == pod) {
        writeln!(out, "{full} cannot be placed.")?;
        columns(&rows(&obstacles(snapshot, pod)), out)?;
        return Ok(2.into());
    }
    placed(snapshot, &plan, pod, &full, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Pools one by one; nodes that refuse for the same reason together.
fn rows(obstacles: &[Obstacle]) -> Vec<Vec<String>> {
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    let mut rows = Vec::new();
    for obstacle in obstacles {
        match &obstacle.place {
            Place::Pool(name) => rows.push(vec![format!("NodePool {name}"), obstacle.rule.to_string()]),
            Place::Node(_) => *nodes.entry(obstacle.rule.to_string()).or_default() += 1,
            Place::Nowhere => rows.push(vec!["nowhere".to_owned(), obstacle.rule.to_string()]),
        }
    }
    for (reason, count) in nodes {
        rows.push(vec![if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }, reason]);
    }
    rows
}

fn placed(
    snapshot: &Snapshot,
    plan: &Plan,
    pod: u32,
    full: &str,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if let Some(node) = plan.existing.iter().find(|node| node.pods.contains(&pod)) {
        let name = &snapshot.nodes[node.node as usize].name;
        writeln!(
            out,
            "{full} fits on node {name}: the first node, in order of readiness and name, that takes it."
        )?;
    }
    if let Some(claim) = plan.claims.iter().find(|claim| claim.pods.contains(&pod)) {
        let launch = claim.launch.as_ref().map(|launch| {
            format!(
                ", cheapest as {} in {} ({}) for ${:.3}/h",
                launch.instance_type,
                launch.zone,
                launch.capacity_type,
                launch.price.dollars()
            )
        });
        writeln!(out, "{full} needs a new node of NodePool {}{}.", claim.pool, launch.unwrap_or_default())?;
        let together = claim.pods.len() - 1;
        writeln!(out, "  {} types could serve; {together} other pods share it.", claim.instance_types.len())?;
        writeln!(out, "  It must have: {}", claim.requirements)?;
    }
    for relaxed in plan.relaxed.iter().filter(|relaxed| relaxed.pod == pod) {
        let given_up: Vec<_> = relaxed.dropped.iter().map(ToString::to_string).collect();
        writeln!(out, "  Given up for it: {}.", given_up.join(", then "))?;
    }
    Ok(())
}
