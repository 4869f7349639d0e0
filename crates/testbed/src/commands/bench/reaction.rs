//! `headstart-testbed bench reaction`: how an operator reacts to load, on the testbed.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use headstart_testbed::Rate;
use headstart_testbed::peers::Peer;
use headstart_testbed::reaction::{Reaction, measure};

/// Measure how an operator reacts when a Deployment of one-CPU pods appears on an empty cluster.
///
/// Times count from the Deployment's creation. The controller manager creates pods at its default rate (20 requests a
/// second, 30 at once), as self-managed clusters do.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The operators to measure, each on a new cluster.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "karpenter")]
    peers: Vec<Peer>,
    /// How many pods.
    #[arg(long, value_delimiter = ',', default_value = "1,100")]
    pods: Vec<usize>,
    /// How often each measurement is repeated; the median is printed.
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    println!(
        "| operator | pods | first claim | last claim | last pod Running | nodes | $/h | CPU s | peak MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for &n_pods in &arguments.pods {
        for &peer in &arguments.peers {
            let mut reactions = Vec::new();
            for run in 1..=arguments.runs.max(1) {
                eprintln!("{}: {n_pods} pods, run {run} of {}", peer.name(), arguments.runs.max(1));
                reactions.push(measure(peer, n_pods, Rate { qps: 20, burst: 30 }).await?);
            }
            let seconds = |pick: fn(&Reaction) -> Duration| {
                format!("{:.2} s", median(&reactions, |r| pick(r).as_secs_f64()))
            };
            println!(
                "| {} | {n_pods} | {} | {} | {} | {} | {:.2} | {:.1} | {} |",
                peer.name(),
                seconds(|r| r.first_claim),
                seconds(|r| r.last_claim),
                seconds(|r| r.last_running),
                median(&reactions, |r| r.n_nodes as f64),
                median(&reactions, |r| r.dollars_per_hour),
                median(&reactions, |r| r.cpu.as_secs_f64()),
                median(&reactions, |r| r.peak_mib as f64),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn median(reactions: &[Reaction], pick: impl Fn(&Reaction) -> f64) -> f64 {
    let mut values: Vec<f64> = reactions.iter().map(pick).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
