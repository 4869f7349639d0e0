//! `headstart plan`: where pods would go and what that would cost.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use headstart_core::{
    explain::{Obstacle, Place},
    plan::{Plan, PlannedClaim},
    price::Price,
    snapshot::Snapshot,
    solve::{Packing, solve},
};
use serde_json::{Value, json};

use crate::{
    manifests::{self, Cluster},
    output::{self, Paint},
};

/// Say which nodes would be bought for the pods that wait
///
/// Pods without a node count as waiting, unless they are gated, belong to a DaemonSet, or kube-scheduler is making room for
/// them. Deployments, ReplicaSets, StatefulSets and Jobs count as the pods they still have to make.
///
/// Nothing is changed: a live cluster is only read. What may not be read is left out with a warning, but pods and nodes
/// are needed.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status:
  0  every pod has a place, and nothing is wrong
  1  an error: no plan was made
  2  a pod fits nowhere
  3  every pod that was understood has a place, but an object has a mistake (listed with !)

Colors appear on a terminal only, and not if NO_COLOR is set.

Examples:
  headstart plan --catalog aws                        the cluster of the kubeconfig
  headstart plan -f examples/quickstart.yaml -o json  files")]
pub(crate) struct Args {
    #[command(flatten)]
    from: manifests::From,
    /// How pods are packed
    #[arg(long, value_enum, value_name = "POLICY", default_value = "compat")]
    packing: Policy,
    /// Format to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Policy {
    /// Karpenter's choices
    Compat,
}

/// A format for plans and explanations.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Exit status when a pod fits nowhere.
pub(crate) const FITS_NOWHERE: u8 = 2;
/// Exit status when an object could not be used, though all pods that could be have a place.
const MISTAKES: u8 = 3;

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let cluster = manifests::load(&args.from)?;
    let packing = match args.packing {
        Policy::Compat => Packing::Compat,
    };
    let start = Instant::now();
    let plan = solve(&cluster.taken.snapshot, packing);
    let solving = start.elapsed();
    match args.output {
        Format::Json => write!(out, "{}", output::json(&document(&cluster, &plan, solving))?)?,
        Format::Table => table(&cluster, &plan, Paint::of(&io::stdout()), out)?,
    }
    Ok(status(&cluster, &plan).into())
}

/// The exit status that a plan deserves.
fn status(cluster: &Cluster, plan: &Plan) -> u8 {
    // A kind that means nothing here is mentioned, but it is no mistake.
    let mistake = cluster.taken.diagnostics.iter().any(|diagnostic| diagnostic.field != "kind");
    if !plan.unplaced.is_empty() || !cluster.taken.rejected.is_empty() {
        FITS_NOWHERE
    } else if mistake {
        MISTAKES
    } else {
        0
    }
}

fn name(snapshot: &Snapshot, pod: u32) -> String {
    let pod = &snapshot.pods[pod as usize];
    format!("{}/{}", pod.namespace, pod.name)
}

fn names(snapshot: &Snapshot, pods: &[u32]) -> Vec<String> {
    pods.iter().map(|pod| name(snapshot, *pod)).collect()
}

/// An obstacle, with places called as `kubectl` calls them.
fn reason(obstacle: &Obstacle) -> String {
    match &obstacle.place {
        Place::Pool(name) => format!("NodePool {name}: {}", obstacle.rule),
        Place::Node(_) | Place::Nowhere => obstacle.to_string(),
    }
}

fn on_existing(plan: &Plan) -> usize {
    plan.existing.iter().map(|node| node.pods.len()).sum()
}

/// The plan for programs.
pub(crate) fn document(cluster: &Cluster, plan: &Plan, solving: Duration) -> Value {
    let snapshot = &cluster.taken.snapshot;
    let claims = plan.claims.iter().map(|claim| {
        let launch = claim.launch.as_ref().map(|launch| {
            json!({
                "instanceType": &*launch.instance_type,
                "zone": &*launch.zone,
                "capacityType": &*launch.capacity_type,
            })
        });
        json!({
            "nodePool": &*claim.pool,
            "instanceTypes": texts(&claim.instance_types),
            "zones": texts(&claim.zones),
            "capacityTypes": texts(&claim.capacity_types),
            "launch": launch,
            "pricePerHour": claim.launch.as_ref().map(|launch| launch.price.dollars()),
            "pods": names(snapshot, &claim.pods),
        })
    });
    let existing = plan.existing.iter().map(|node| {
        json!({ "node": &*snapshot.nodes[node.node as usize].name, "pods": names(snapshot, &node.pods) })
    });
    let unplaced = plan.unplaced.iter().map(|unplaced| {
        let reasons: Vec<String> = unplaced.obstacles.iter().map(reason).collect();
        json!({ "pod": name(snapshot, unplaced.pod), "reasons": reasons })
    });
    let rejected = cluster
        .taken
        .rejected
        .iter()
        .map(|rejected| json!({ "pod": rejected.pod, "reasons": [rejected.reason] }));
    let diagnostics = cluster.taken.diagnostics.iter().map(|diagnostic| {
        json!({ "object": diagnostic.object, "field": diagnostic.field, "message": diagnostic.message })
    });
    json!({
        "nodeClaims": claims.collect::<Vec<_>>(),
        "existing": existing.collect::<Vec<_>>(),
        "unschedulable": unplaced.chain(rejected).collect::<Vec<_>>(),
        "diagnostics": diagnostics.collect::<Vec<_>>(),
        "summary": {
            "pods": snapshot.pods.len() + cluster.taken.rejected.len(),
            "placedOnExisting": on_existing(plan),
            "nodeClaims": plan.claims.len(),
            "pricePerHour": plan.price.dollars(),
            "lowerBoundPerHour": plan.lower_bound.dollars(),
            "decodeMillis": cluster.decoding.as_secs_f64() * 1e3,
            "solveMillis": solving.as_secs_f64() * 1e3,
        },
    })
}

fn texts(list: &[Arc<str>]) -> Vec<&str> {
    list.iter().map(|text| &**text).collect()
}

/// The plan for people.
pub(crate) fn table(
    cluster: &Cluster,
    plan: &Plan,
    paint: Paint,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let snapshot = &cluster.taken.snapshot;
    let nowhere = plan.unplaced.len() + cluster.taken.rejected.len();
    let new: usize = plan.claims.iter().map(|claim| claim.pods.len()).sum();
    let all = snapshot.pods.len() + cluster.taken.rejected.len();
    if all == 0 {
        writeln!(out, "No pod needs a place.")?;
    } else {
        let parts = [
            (on_existing(plan), format!("{} on existing nodes", fit(on_existing(plan)))),
            (
                new,
                format!(
                    "{} {}",
                    if new == 1 { "needs" } else { "need" },
                    count(plan.claims.len(), "new node")
                ),
            ),
            (nowhere, format!("{} nowhere", fit(nowhere))),
        ];
        let parts: Vec<_> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        let verb = if all == 1 { "needs" } else { "need" };
        writeln!(out, "{} {verb} a place: {}.", count(all, "pod"), parts.join(", "))?;
    }
    let mut rows = node_rows(snapshot, plan);
    rows.extend(claim_rows(snapshot, &plan.claims));
    if !rows.is_empty() {
        writeln!(out)?;
        columns(&rows, paint, out)?;
        writeln!(out)?;
    }
    if !plan.claims.is_empty() {
        cost(plan, out)?;
    }
    for note in &cluster.modelled {
        writeln!(out, "Note: {note}")?;
    }
    misfits(cluster, plan, paint, out)?;
    for diagnostic in &cluster.taken.diagnostics {
        writeln!(out, "{}", paint.yellow(format_args!("! {diagnostic}")))?;
    }
    Ok(())
}

fn fit(n: usize) -> &'static str {
    if n == 1 { "fits" } else { "fit" }
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn cost(plan: &Plan, out: &mut impl Write) -> anyhow::Result<()> {
    write!(out, "New capacity {}", dollars(plan.price))?;
    if plan.lower_bound > Price::ZERO {
        let above = 100.0 * (plan.price.dollars() / plan.lower_bound.dollars() - 1.0);
        write!(out, "; the cheapest fleet possible costs at least {} ", dollars(plan.lower_bound))?;
        write!(out, "(this is {above:.1} % above)")?;
    }
    Ok(writeln!(out, ".")?)
}

/// Pods that fit nowhere, those with the same reason together.
fn misfits(cluster: &Cluster, plan: &Plan, paint: Paint, out: &mut impl Write) -> anyhow::Result<()> {
    let snapshot = &cluster.taken.snapshot;
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for unplaced in &plan.unplaced {
        let nearest = unplaced.obstacles.first().map(reason).unwrap_or_default();
        by_reason.entry(format!("Nearest: {nearest}")).or_default().push(name(snapshot, unplaced.pod));
    }
    for rejected in &cluster.taken.rejected {
        by_reason.entry(rejected.reason.clone()).or_default().push(rejected.pod.clone());
    }
    for (reason, pods) in by_reason {
        let others = if pods.len() == 1 { String::new() } else { format!(" and {} more", pods.len() - 1) };
        let fits = if pods.len() == 1 { "fits" } else { "fit" };
        let headline = paint.red(format_args!("✗ {}{others} {fits} nowhere.", pods[0]));
        writeln!(out, "{headline} {reason}")?;
        writeln!(out, "  → headstart explain {}", pods[0])?;
    }
    Ok(())
}

/// The existing nodes that get most pods.
fn node_rows(snapshot: &Snapshot, plan: &Plan) -> Vec<Vec<String>> {
    const SHOWN: usize = 5;
    let mut nodes: Vec<_> = plan.existing.iter().collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(node.pods.len()));
    let shown = nodes.len().min(if nodes.len() == SHOWN + 1 { SHOWN + 1 } else { SHOWN });
    let row = |name: String, pods: &[u32]| {
        let empty = || String::new();
        let owners = format!("({})", owners(snapshot, pods));
        vec![name, empty(), empty(), empty(), empty(), count(pods.len(), "pod"), owners]
    };
    let mut rows: Vec<_> = nodes[..shown]
        .iter()
        .map(|node| row(format!("= {}", snapshot.nodes[node.node as usize].name), &node.pods))
        .collect();
    let rest: Vec<u32> = nodes[shown..].iter().flat_map(|node| &node.pods).copied().collect();
    if !rest.is_empty() {
        rows.push(row(format!("= {} more", count(nodes.len() - shown, "node")), &rest));
    }
    rows
}

/// One row for all claims that look the same.
fn claim_rows(snapshot: &Snapshot, claims: &[PlannedClaim]) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<[String; 4], (usize, Price, Vec<u32>, usize)> = BTreeMap::new();
    for claim in claims {
        let launch = claim.launch.as_ref();
        let key = [
            claim.pool.to_string(),
            launch.map_or_else(|| "nothing".to_owned(), |launch| launch.instance_type.to_string()),
            zones(&claim.zones),
            launch.map_or_else(String::new, |launch| launch.capacity_type.to_string()),
        ];
        let group = groups.entry(key).or_insert((0, Price::ZERO, Vec::new(), usize::MAX));
        group.0 += 1;
        group.1 += launch.map_or(Price::ZERO, |launch| launch.price);
        group.2.extend(&claim.pods);
        group.3 = group.3.min(claim.instance_types.len());
    }
    let mut rows: Vec<_> = groups.into_iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.1.1));
    rows.into_iter()
        .map(|([pool, instance_type, zones, capacity_type], (number, price, pods, types))| {
            vec![
                format!("+ {number} × {instance_type}"),
                pool,
                zones,
                capacity_type,
                dollars(price),
                count(pods.len(), "pod"),
                format!("({})", owners(snapshot, &pods)),
                if types > 1 { format!("{types} types could serve") } else { String::new() },
            ]
        })
        .collect()
}

/// Zones, with what they all start with said once.
fn zones(all: &[Arc<str>]) -> String {
    let Some((first, rest)) = all.split_first() else { return String::new() };
    let shared = first
        .char_indices()
        .map(|(at, _)| at)
        .rev()
        .find(|at| rest.iter().all(|zone| zone.starts_with(&first[..*at])));
    let shared = shared.unwrap_or(0);
    rest.iter().fold(first.to_string(), |text, zone| format!("{text},{}", &zone[shared..]))
}

/// The most numerous kinds of pods, by name without the last part.
fn owners(snapshot: &Snapshot, pods: &[u32]) -> String {
    const SHOWN: usize = 3;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        let name = &snapshot.pods[*pod as usize].name;
        *counts.entry(name.rsplit_once('-').map_or(name, |(owner, _)| owner)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let rest: usize = counts.iter().skip(SHOWN).map(|(_, count)| count).sum();
    let mut shown: Vec<_> =
        counts.iter().take(SHOWN).map(|(owner, count)| format!("{owner} {count}")).collect();
    if rest > 0 {
        shown.push(format!("others {rest}"));
    }
    shown.join(", ")
}

pub(crate) fn dollars(price: Price) -> String {
    format!("${:.3}/h", price.dollars())
}

/// Rows with their cells below each other.
pub(crate) fn columns(rows: &[Vec<String>], paint: Paint, out: &mut impl Write) -> anyhow::Result<()> {
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..most).map(width).collect();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let line = format!("  {}", cells.join("  ").trim_end());
        let is_new = row.first().is_some_and(|cell| cell.starts_with('+'));
        writeln!(out, "{}", if is_new { paint.green(line) } else { line })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_say_once_what_they_share() {
        let list = |zones: &[&str]| zones.iter().map(|zone| Arc::from(*zone)).collect::<Vec<Arc<str>>>();
        assert_eq!(zones(&list(&["us-east-1a", "us-east-1b"])), "us-east-1a,b");
        assert_eq!(zones(&list(&["a"])), "a");
        assert_eq!(zones(&list(&["a", "b"])), "a,b");
        assert_eq!(zones(&[]), "");
    }
}
