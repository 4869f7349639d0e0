//! `headstart explain`: why a pod goes where it goes, or nowhere; why a node may go or has to stay.

use std::{io::Write, process::ExitCode};

use anyhow::bail;
use headstart_core::{
    explain::{Obstacle, Place, Refusal},
    plan::Plan,
    remedy::{Change, remedy},
    snapshot::Snapshot,
    solve::{Packing, obstacles, solve},
};
use headstart_engine::{Consolidation, Settings};
use serde_json::{Value, json};

use crate::{
    explain_node, manifests,
    output::{self, Paint},
    plan::{FITS_NOWHERE, Format, columns, dollars},
};

/// Say why a pod fits nowhere or where it would go, or why a node may go or has to stay
///
/// The pod is one that waits for a node, or one that a workload still has to make, as `headstart plan` names it.
///
/// For a pod that fits nowhere: every NodePool and node with the rule that excluded it, nearest miss first. Rules are asked
/// in a fixed order (taints, labels, room, ports, volumes, other pods, limits); the place that passed most of them is the
/// nearest, and among equals the one that lacks the smallest part of what is asked for. What would make it fit is said only
/// after it was tried.
///
/// For a node, as node/NAME: what it costs, whether it may be removed or replaced now and what that would save, and otherwise
/// what keeps it: budgets of its pool and of its pods, annotations, pods without another place.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status:
  0  the pod has a place; all was said about the node
  1  an error: no such pod or node, input that cannot be read, a wrong argument
  2  the pod fits nowhere")]
pub(crate) struct Args {
    /// The pod, as NAMESPACE/NAME or, in the namespace default, as NAME; or a node, as node/NAME
    #[arg(value_name = "NAMESPACE/POD|node/NODE")]
    what: String,
    /// How to look for nodes that are not worth their price, as the operator was told
    #[arg(long, value_enum, value_name = "SEARCH", default_value = "compat")]
    consolidation: Search,
    #[command(flatten)]
    from: manifests::From,
    /// Format to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// How to look for nodes that are not worth their price.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Search {
    /// As Karpenter does
    Compat,
    /// Any set of nodes, any number of replacements
    Search,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    if let Some(node) = args.what.strip_prefix("node/") {
        let consolidation = match args.consolidation {
            Search::Compat => Consolidation::Compat,
            Search::Search => Consolidation::Search,
        };
        let settings = Settings { consolidation, ..Settings::default() };
        explain_node::run(node, &args.from, args.output, settings, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let cluster = manifests::load(&args.from)?;
    let snapshot = &cluster.taken.snapshot;
    let (namespace, name) = args.what.split_once('/').unwrap_or(("default", &args.what));
    let full = format!("{namespace}/{name}");
    if let Some(rejected) = cluster.taken.rejected.iter().find(|rejected| rejected.pod == full) {
        match args.output {
            Format::Json => print(&json!({ "pod": full, "place": null, "reasons": [rejected.reason] }), out)?,
            Format::Table => writeln!(out, "{full} cannot be placed: {}.", rejected.reason)?,
        }
        return Ok(FITS_NOWHERE.into());
    }
    let found = snapshot.pods.iter().position(|pod| *pod.namespace == *namespace && *pod.name == *name);
    let Some(pod) = found.and_then(|at| u32::try_from(at).ok()) else {
        let about = cluster.taken.diagnostics.iter().filter(|diagnostic| {
            let object = &diagnostic.object;
            object.ends_with(&full) || (namespace == "default" && object.ends_with(&format!(" {name}")))
        });
        let said: Vec<String> = about.map(|diagnostic| format!("\n  ! {diagnostic}")).collect();
        bail!("no pod {full} is waiting for a node{}", said.concat());
    };
    let plan = solve(snapshot, Packing::Compat);
    let refused = obstacles(snapshot, pod);
    let fits = plan.unplaced.iter().all(|unplaced| unplaced.pod != pod);
    let changes = if fits { Vec::new() } else { remedy(snapshot, pod, &refused) };
    match args.output {
        Format::Json => print(&document(snapshot, &plan, pod, &full, &refused, &changes), out)?,
        Format::Table if fits => placed(snapshot, &plan, pod, &full, &refused, out)?,
        Format::Table => {
            writeln!(out, "{full} cannot be placed.")?;
            columns(&rows(&refused), Paint::PLAIN, out)?;
            if !changes.is_empty() {
                let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
                writeln!(out, "It would fit if {}.", changes.join(" and "))?;
            }
        }
    }
    Ok(if fits { ExitCode::SUCCESS } else { FITS_NOWHERE.into() })
}

fn print(document: &Value, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(write!(out, "{}", output::json(document)?)?)
}

/// The explanation for programs.
fn document(
    snapshot: &Snapshot,
    plan: &Plan,
    pod: u32,
    full: &str,
    refused: &[Obstacle],
    changes: &[Change],
) -> Value {
    let node = plan.existing.iter().find(|node| node.pods.contains(&pod));
    let node = node.map(|node| json!({ "node": &*snapshot.nodes[node.node as usize].name }));
    let claim = plan.claims.iter().find(|claim| claim.pods.contains(&pod));
    let claim = claim.map(|claim| {
        let launch = claim.launch.as_ref();
        json!({
            "nodePool": &*claim.pool,
            "instanceType": launch.map(|launch| &*launch.instance_type),
            "zone": launch.map(|launch| &*launch.zone),
            "capacityType": launch.map(|launch| &*launch.capacity_type),
            "pricePerHour": launch.map(|launch| launch.price.dollars()),
        })
    });
    let reasons = refused.iter().map(|obstacle| {
        let (kind, name) = match &obstacle.place {
            Place::Pool(name) => ("NodePool", &**name),
            Place::Node(name) => ("Node", &**name),
            Place::Nowhere => ("", ""),
        };
        json!({ "kind": kind, "name": name, "reason": obstacle.rule.to_string() })
    });
    json!({
        "pod": full,
        "place": node.or(claim),
        "reasons": reasons.collect::<Vec<_>>(),
        "wouldFitIf": changes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Pools one by one; nodes that refuse by the same rule together, the nearest of them speaking for all.
fn rows(obstacles: &[Obstacle]) -> Vec<Vec<String>> {
    let mut rows: Vec<(Option<String>, usize, Vec<String>)> = Vec::new();
    for obstacle in obstacles {
        let reason = obstacle.rule.to_string();
        match &obstacle.place {
            Place::Pool(name) => rows.push((None, 1, vec![format!("NodePool {name}"), reason])),
            Place::Nowhere => rows.push((None, 1, vec!["nowhere".to_owned(), reason])),
            Place::Node(name) => {
                let rule = kind(&obstacle.rule);
                match rows.iter_mut().find(|(known, ..)| known.as_ref() == Some(&rule)) {
                    Some((_, count, _)) => *count += 1,
                    None => rows.push((Some(rule), 1, vec![format!("node {name}"), reason])),
                }
            }
        }
    }
    for (_, count, row) in rows.iter_mut().filter(|(_, count, _)| *count > 1) {
        row[0] = format!("{count} nodes, nearest {}", row[0].trim_start_matches("node "));
    }
    rows.into_iter().map(|(_, _, row)| row).collect()
}

/// What tells refusals of nodes apart that people would not count as one.
fn kind(rule: &Refusal) -> String {
    match rule {
        Refusal::Resource(short) => short.name.to_string(),
        Refusal::Combination { .. } => "combination".to_owned(),
        other => other.to_string(),
    }
}

fn placed(
    snapshot: &Snapshot,
    plan: &Plan,
    pod: u32,
    full: &str,
    refused: &[Obstacle],
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
        let because = match snapshot.nodes.len() {
            0 => String::new(),
            1 => ": the node that is there does not take it".to_owned(),
            nodes => format!(": none of {nodes} nodes takes it"),
        };
        writeln!(out, "{full} needs a new node of NodePool {}{because}.", claim.pool)?;
        if let Some(launch) = &claim.launch {
            let (what, zone, how) = (&launch.instance_type, &launch.zone, &launch.capacity_type);
            let price = dollars(launch.price);
            let of = match claim.instance_types.len() {
                1 => "the only type that holds its pods".to_owned(),
                types => format!("of {types} types that hold its pods"),
            };
            writeln!(out, "  It is cheapest as {what} in {zone} ({how}) for {price}, {of}.")?;
        }
        match claim.pods.len() - 1 {
            0 => writeln!(out, "  It has the node for itself.")?,
            others => writeln!(out, "  {} it.", shares(others))?,
        }
        writeln!(out, "  The node must have: {}", claim.requirements)?;
    }
    for relaxed in plan.relaxed.iter().filter(|relaxed| relaxed.pod == pod) {
        let given_up: Vec<_> = relaxed.dropped.iter().map(ToString::to_string).collect();
        writeln!(out, "  Given up for it: {}.", given_up.join(", then "))?;
    }
    if !refused.is_empty() {
        writeln!(out, "Passed over, once all pods have their places:")?;
        columns(&rows(refused), Paint::PLAIN, out)?;
    }
    Ok(())
}

fn shares(others: usize) -> String {
    if others == 1 { "1 other pod shares".to_owned() } else { format!("{others} other pods share") }
}
