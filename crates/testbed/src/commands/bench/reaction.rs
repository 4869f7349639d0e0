//! `headstart-testbed bench reaction`: how operators react to load, side by side on the testbed.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use headstart_testbed::peers::Peer;
use headstart_testbed::reaction::{Reaction, measure, percentile};

use super::{keep, load_average, name};

/// Measure how operators react when a Deployment of one-CPU pods appears on an empty cluster.
///
/// Each measurement has a new control plane. The rate is that of kube-controller-manager's requests, which decides how
/// fast pods come: 20 a second is its default, and what self-managed clusters run with.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The operators to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "karpenter,headstart")]
    peers: Vec<Peer>,
    /// How many pods.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    pods: Vec<usize>,
    /// How many requests a second kube-controller-manager may make (half as many more at once).
    #[arg(long, value_delimiter = ',', default_value = "20,1000")]
    rates: Vec<u32>,
    /// How often each measurement is repeated; medians are printed.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// One operator with so many pods at that rate, some times over.
struct Row {
    peer: Peer,
    n_pods: usize,
    rate: u32,
    reactions: Vec<Reaction>,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let runs = arguments.runs.max(1);
    let mut rows: Vec<Row> = Vec::new();
    let mut loads = Vec::new();
    for &rate in &arguments.rates {
        for &n_pods in &arguments.pods {
            for &peer in &arguments.peers {
                let mut row = Row { peer, n_pods, rate, reactions: Vec::new() };
                for run in 1..=runs {
                    eprintln!("{}: {n_pods} pods at {rate} a second, run {run} of {runs}", peer.name());
                    loads.push(load_average()?);
                    let reaction = measure(peer, &[], n_pods, super::rate(rate)).await?;
                    eprintln!("  {} nodes, {:.2} $/h", reaction.n_nodes, reaction.dollars_per_hour);
                    eprintln!("  API calls: {}", reaction.calls);
                    row.reactions.push(reaction);
                }
                rows.push(row);
                eprint!("{}", table(&rows[rows.len() - 1..]));
                // What has been measured is kept even if somebody loses patience.
                keep(&report(&rows, runs, &loads), arguments.write.as_deref())?;
            }
        }
    }
    print!("{}", table(&rows));
    Ok(ExitCode::SUCCESS)
}

impl Row {
    fn median(&self, pick: impl Fn(&Reaction) -> f64) -> f64 {
        let mut values: Vec<f64> = self.reactions.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// Percentiles are of the pods of all runs.
    fn wait(&self, percent: usize) -> f64 {
        let waits: Vec<Duration> = self.reactions.iter().flat_map(|r| r.waits.iter().copied()).collect();
        percentile(&waits, percent).unwrap_or_default().as_secs_f64()
    }

    fn n_nodes(&self) -> f64 {
        self.median(|r| r.n_nodes as f64)
    }

    fn dollars(&self) -> f64 {
        self.median(|r| r.dollars_per_hour)
    }

    fn cpu(&self) -> f64 {
        self.median(|r| r.cpu.as_secs_f64())
    }

    fn peak(&self) -> f64 {
        self.median(|r| r.peak_mib as f64)
    }

    fn calls(&self) -> f64 {
        self.median(|r| r.calls.total() as f64)
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| operator | pods | rate | pod → claim p50 | p99 | first claim | last claim | last pod Running | nodes | $/h | CPU s | peak MiB | API calls | of them writes |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let seconds = |pick: fn(&Reaction) -> Duration| row.median(|r| pick(r).as_secs_f64());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.2} s | {:.2} s | {:.2} s | {:.2} s | {:.2} s | {} | {:.2} | {:.2} | {} | {} | {} |",
            name(row.peer),
            row.n_pods,
            row.rate,
            row.wait(50),
            row.wait(99),
            seconds(|r| r.first_claim),
            seconds(|r| r.last_claim),
            seconds(|r| r.last_running),
            row.n_nodes(),
            row.dollars(),
            row.cpu(),
            row.peak(),
            row.calls(),
            row.median(|r| r.calls.writes() as f64),
        );
    }
    text
}

fn report(rows: &[Row], runs: usize, loads: &[f64]) -> String {
    let (least, most) = loads.iter().fold((f64::MAX, f64::MIN), |(a, b), load| (a.min(*load), b.max(*load)));
    format!(
        "# Benchmarks of the operator

`make bench-reaction` measures all of this and writes this file anew. A Deployment of pods that ask for 1 CPU and 2 GiB each appears on
an empty cluster, where one operator runs: Headstart, or the unmodified Karpenter 1.15.0 with its KWOK provider. The cluster is real
(etcd, kube-apiserver, kube-scheduler and kube-controller-manager 1.36) but for its nodes, which kwok plays, and new for each
measurement; everything runs on the same {} cores, where the load average was {least:.1} to {most:.1} before each of them. One
NodePool allows all of KWOK's instance types, spot and on-demand, and never consolidates.

- `rate` is how many requests a second kube-controller-manager may make. At 20, its default, it creates 20 pods a second.
- `pod → claim` is the time from when a pod appeared to when the NodeClaim of the node appeared that the pod ran on in the end, both
  as a watch saw them; 0 if the claim was there before the pod. Percentiles are of the pods of all {runs} runs; all else is the median of runs.
- `first claim`, `last claim` and `last pod Running` count from the Deployment's creation.
- CPU time and API calls are the operator's, from the Deployment's creation until the last pod ran. Calls are counted by the API
  server's audit log, by the operator's user; each watch counts once, and requests for leases are left out.
- `peak MiB` is the most memory that the operator has held since its start.

{}
{}",
        std::thread::available_parallelism().map_or(1, usize::from),
        table(rows),
        comparison(rows),
    )
}

/// Both operators' rows for the same load.
fn pairs(rows: &[Row]) -> impl Iterator<Item = (&Row, &Row)> {
    rows.iter().filter(|row| row.peer == Peer::Headstart).filter_map(|ours| {
        let is_same =
            |row: &&Row| row.peer == Peer::Karpenter && (row.n_pods, row.rate) == (ours.n_pods, ours.rate);
        Some((ours, rows.iter().find(is_same)?))
    })
}

fn comparison(rows: &[Row]) -> String {
    if pairs(rows).next().is_none() {
        return String::new();
    }
    let mut text = String::from(
        "How many times as much Karpenter took as Headstart:\n\n\
         | pods | rate | pod → claim p50 | p99 | last pod Running | nodes | $/h | CPU | peak memory | API calls |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (ours, theirs) in pairs(rows) {
        let running = |row: &Row| row.median(|r| r.last_running.as_secs_f64());
        let columns = [
            times(theirs.wait(50), ours.wait(50)),
            times(theirs.wait(99), ours.wait(99)),
            times(running(theirs), running(ours)),
            times(theirs.n_nodes(), ours.n_nodes()),
            times(theirs.dollars(), ours.dollars()),
            times(theirs.cpu(), ours.cpu()),
            times(theirs.peak(), ours.peak()),
            times(theirs.calls(), ours.calls()),
        ];
        let _ = writeln!(text, "| {} | {} | {} |", ours.n_pods, ours.rate, columns.join(" | "));
    }
    let dearer = |what: &str, pick: fn(&Row) -> f64| {
        let more: Vec<String> = pairs(rows)
            // Prices are added up in different orders.
            .filter(|(ours, theirs)| pick(ours) > pick(theirs) + 0.005)
            .map(|(ours, theirs)| {
                let (ours_has, theirs_has) = (pick(ours), pick(theirs));
                format!("{} pods at {} ({ours_has:.2} against {theirs_has:.2})", ours.n_pods, ours.rate)
            })
            .collect();
        if more.is_empty() {
            format!("Headstart's {what} were no more than Karpenter's in any row.")
        } else {
            format!("Headstart's {what} were more than Karpenter's for {}.", more.join(", "))
        }
    };
    let _ = writeln!(text, "\n{}\n{}", dearer("nodes", Row::n_nodes), dearer("$/h", Row::dollars));
    text
}

/// Nothing can be said of what took no time that was measured.
fn times(theirs: f64, ours: f64) -> String {
    if ours < 0.005 {
        return "–".to_owned();
    }
    let ratio = theirs / ours;
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}
