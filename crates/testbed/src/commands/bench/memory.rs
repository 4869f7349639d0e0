//! `headstart-testbed bench memory`: what operators need to keep a big cluster in mind.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use headstart_testbed::crowd::{Size, Weight, measure};
use headstart_testbed::peers::Peer;

use super::{keep, name};

/// Measure what operators need in a big cluster in which nothing happens.
///
/// The cluster is objects only: nothing schedules, and nothing plays the nodes. Filling it takes minutes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The operators to measure, each on a new cluster.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "headstart,karpenter")]
    peers: Vec<Peer>,
    /// How many Nodes, each with its NodeClaim.
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// How many pods, all bound.
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// How many ReplicaSets own the pods.
    #[arg(long, default_value_t = 400)]
    owners: usize,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let size = Size { n_nodes: arguments.nodes, n_pods: arguments.pods, n_owners: arguments.owners };
    let mut rows = String::from(
        "| operator | nodes | pods | ready after | CPU s until at rest | cores at rest | MiB at rest | one more pod → claim | MiB at last | peak MiB | API calls | of them writes |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for &peer in &arguments.peers {
        eprintln!("{}: {} nodes and {} pods (minutes)", peer.name(), size.n_nodes, size.n_pods);
        let weight = measure(peer, size).await?;
        eprintln!("  API calls: {}", weight.calls);
        rows.push_str(&row(peer, size, &weight));
        // What has been measured is kept even if somebody loses patience.
        keep(&report(&rows, size), arguments.write.as_deref())?;
    }
    print!("{rows}");
    Ok(ExitCode::SUCCESS)
}

fn report(rows: &str, size: Size) -> String {
    format!(
        "# Memory in a big cluster

`make bench-memory` measures all of this and writes this file anew. A real API server holds {} Nodes with their NodeClaims and {} bound
pods of {} ReplicaSets as objects: kwok, kube-scheduler and kube-controller-manager are off, so nothing changes. Nodes and claims are
copies of those that the operator itself made for twelve pods (four instance types, three zones); pods have the labels, environment,
probes, volumes and status of an ordinary service, about as large as real ones. Then the operator is started: Headstart, or the
unmodified Karpenter 1.15.0 with its KWOK provider. That it makes and deletes no claim and no node of its own accord is checked.

- `ready after` counts from the operator's start until it is ready and says that it has seen all nodes.
- `at rest` is when it has used less than a hundredth of a core for ten seconds, or three minutes later; API calls count until then,
  by the API server's audit log, leases left out.
- `one more pod → claim` counts from when a pod is said to fit nowhere until its NodeClaim is there. `MiB at last` is ten seconds later.
- MiB are resident memory as the kernel counts it, of the whole process.

{rows}",
        size.n_nodes, size.n_pods, size.n_owners,
    )
}

fn row(peer: Peer, size: Size, weight: &Weight) -> String {
    format!(
        "| {} | {} | {} | {:.1} s | {:.1} | {:.3} | {} | {:.2} s | {} | {} | {} | {} |\n",
        name(peer),
        size.n_nodes,
        size.n_pods,
        weight.ready.as_secs_f64(),
        weight.cpu.as_secs_f64(),
        weight.cores,
        weight.resting.now,
        weight.claim.as_secs_f64(),
        weight.at_last.now,
        weight.at_last.peak,
        weight.calls.total(),
        weight.calls.writes(),
    )
}
