//! `headstart-testbed bench companion`: what a companion is worth to Karpenter.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use headstart_testbed::beside::{Load, Outcome, With, measure};
use headstart_testbed::reaction::percentile;

use super::{keep, load_average};

/// Measure how long pods wait for nodes of Karpenter's, without and with a companion.
///
/// Each measurement has a new control plane, whose kube-controller-manager makes 20 requests a second.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many pods a Deployment has.
    #[arg(long, value_delimiter = ',', default_value = "300,1000")]
    pods: Vec<usize>,
    /// How many pods the run of a CronJob has.
    #[arg(long, value_delimiter = ',', default_value = "100")]
    cron_job: Vec<usize>,
    /// How many seconds a node takes to be ready.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    node_ready: u64,
    /// How often each measurement is repeated.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

const WHO: [(&str, With); 3] =
    [("Karpenter", With::Nobody), ("with placeholders", With::Placeholders), ("with buffers", With::Buffers)];

/// One load under one of them, some times over.
struct Row {
    who: &'static str,
    load: Load,
    outcomes: Vec<Outcome>,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let node_ready = Duration::from_secs(arguments.node_ready);
    let deployments = arguments.pods.iter().map(|n| Load::Deployment(*n));
    let loads: Vec<Load> = deployments.chain(arguments.cron_job.iter().map(|n| Load::CronJob(*n))).collect();
    let runs = arguments.runs.max(1);
    let mut rows: Vec<Row> = Vec::new();
    let mut busy = Vec::new();
    for load in loads {
        let first = rows.len();
        rows.extend(WHO.map(|(who, _)| Row { who, load, outcomes: Vec::new() }));
        // In turns, so that what else the machine does is shared fairly.
        for run in 1..=runs {
            for (at, (who, with)) in WHO.into_iter().enumerate() {
                busy.push(load_average()?);
                let outcome = measure(with, load, node_ready).await?;
                rows[first + at].outcomes.push(outcome.clone());
                let one = Row { who, load, outcomes: vec![outcome] };
                eprint!("run {run} of {runs}, load {:.1}: {}", busy[busy.len() - 1], one.line());
            }
            // What has been measured is kept even if somebody loses patience.
            keep(&report(&rows, run, arguments.node_ready, &busy), arguments.write.as_deref())?;
        }
    }
    print!("{}", table(&rows));
    Ok(ExitCode::SUCCESS)
}

impl Row {
    /// The median of runs, and in brackets the least and the most.
    fn of(&self, pick: impl Fn(&Outcome) -> f64) -> String {
        let mut values: Vec<f64> = self.outcomes.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.get(values.len() / 2).copied().unwrap_or_default();
        match (values.first(), values.last()) {
            (Some(least), Some(most)) if values.len() > 1 => format!("{middle:.1} ({least:.1}–{most:.1})"),
            _ => format!("{middle:.1}"),
        }
    }

    fn line(&self) -> String {
        let what = match self.load {
            Load::Deployment(n) => format!("Deployment of {n}"),
            Load::CronJob(n) => format!("CronJob of {n}"),
        };
        let wait =
            |percent| self.of(move |of| percentile(&of.waits, percent).unwrap_or_default().as_secs_f64());
        let mean =
            self.of(|of| of.waits.iter().sum::<Duration>().as_secs_f64() / of.waits.len().max(1) as f64);
        let columns = [
            what,
            self.who.to_owned(),
            mean,
            wait(50),
            wait(95),
            self.of(|of| of.last_running),
            self.of(|of| of.n_ahead as f64),
            self.of(|of| of.first_claim),
            self.of(|of| of.last_claim),
            self.of(|of| of.n_claims as f64),
            self.of(|of| of.dollars_per_hour),
        ];
        format!("| {} |\n", columns.join(" | "))
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| load | who | mean wait | wait p50 | wait p95 | all run after | ahead | first claim | last claim | claims | $/h |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let _ = write!(text, "{}", row.line());
    }
    text
}

fn report(rows: &[Row], runs: usize, node_ready: u64, busy: &[f64]) -> String {
    let (least, most) = busy.iter().fold((f64::MAX, f64::MIN), |(a, b), load| (a.min(*load), b.max(*load)));
    format!(
        "# Benchmark of companions

`make bench-companion` wrote this file. Pods that ask for 1 CPU and 2 GiB each appear on an empty cluster where the unmodified Karpenter 1.15.0
buys nodes: alone, with a companion that shows expected pods by placeholder pods, and with one that shows them by CapacityBuffers
(Karpenter's gate for them is on then). kube-controller-manager makes 20 requests a second, its default, so that pods come
at 20 a second. Nodes take {node_ready} s to be ready. The cluster is real but for its nodes, which kwok plays, and new for each measurement;
everything runs on the same {} cores, where the load average was {least:.1} to {most:.1} before each of them.

All times are seconds; each figure is the median of {runs} runs, and in brackets the least and the most. A pod's wait is from its creation until it
runs. Claims, and when all run, count from the first pod: what is less than 0 was there before it. `ahead` is for how many more pods there were claims than
there were pods, at most.

{}",
        std::thread::available_parallelism().map_or(1, usize::from),
        table(rows),
    )
}
