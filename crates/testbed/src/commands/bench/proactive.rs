//! `headstart-testbed bench proactive`: what it is worth to expect the pods that a controller has still to create.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use headstart_testbed::peers::Peer;
use headstart_testbed::reaction::{Reaction, measure, percentile};

use super::keep;

/// Measure how a Deployment that is scaled from nothing gets its nodes if pods come slowly.
///
/// Each measurement has a new control plane, whose kube-controller-manager may make so many requests a second.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many pods.
    #[arg(long, default_value_t = 1000)]
    pods: usize,
    /// How many requests a second kube-controller-manager may make (half as many more at once).
    #[arg(long, value_delimiter = ',', default_value = "20,1000")]
    rates: Vec<u32>,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

type Environment = &'static [(&'static str, &'static str)];

/// Pools that run full are a matter of their own.
const AHEAD: Environment = &[("ENABLE_PROACTIVE_SCALEUP", "true"), ("PROACTIVE_SCALEUP_THRESHOLD", "1")];

const WHO: [(&str, Peer, Environment); 3] = [
    ("Karpenter", Peer::Karpenter, &[]),
    ("Headstart", Peer::Headstart, &[]),
    ("Headstart, proactive", Peer::Headstart, AHEAD),
];

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let n_pods = arguments.pods;
    let mut rows = String::new();
    for rate in arguments.rates {
        for (who, peer, env) in WHO {
            eprintln!("{who}: {n_pods} pods at {rate} a second");
            let reaction = measure(peer, env, n_pods, super::rate(rate)).await?;
            let row = row(who, rate, &reaction);
            eprint!("{row}");
            rows += &row;
        }
    }
    let report = report(n_pods, &rows);
    print!("{report}");
    keep(&report, arguments.write.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn row(who: &str, rate: u32, of: &Reaction) -> String {
    let mut text = format!("| {who} | {rate} |");
    let wait = |percent| percentile(&of.starts, percent).unwrap_or_default();
    let times = [of.first_claim, of.last_claim, of.last_running, wait(50), wait(95)];
    for time in times.map(|time: Duration| time.as_secs_f64()) {
        let _ = write!(text, " {time:.2} s |");
    }
    text + &format!(" {} | {} | {:.2} |\n", of.batches, of.n_nodes, of.dollars_per_hour)
}

fn report(n_pods: usize, rows: &str) -> String {
    format!(
        "# Benchmark of expected pods

`make bench-proactive` wrote this file. A Deployment of {n_pods} pods that ask for 1 CPU and 2 GiB each appears on an empty cluster where one
operator runs: the unmodified Karpenter 1.15.0 with its KWOK provider, Headstart as it is by default, and Headstart with
`--enable-proactive-scaleup` (and `--proactive-scaleup-threshold 1`, so that it buys for the Deployment and nothing beyond). The cluster is real but
for its nodes, which kwok plays and which are ready at once, and new for each row. `rate` is how many requests a second kube-controller-manager may make: at 20, its
default, it creates 20 pods a second. Times of claims and of the last pod count from the Deployment's creation; `wait` is a pod's, from its creation until
it runs; claims that come less than a second apart are one batch.

| operator | rate | first claim | last claim | last pod Running | wait p50 | wait p95 | batches | nodes | $/h |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
{rows}"
    )
}
