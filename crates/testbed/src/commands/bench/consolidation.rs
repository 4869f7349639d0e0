//! `headstart-testbed bench consolidation`: two ways to make a churned fleet smaller.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use headstart_cloud::catalog::{Catalog, Source};
use headstart_core::disrupt::Search;
use headstart_testbed::churned::{Churned, Outcome};

use super::{keep, up_to_32};

/// Measure both ways to look for nodes that are not worth their price, on fleets that lost many of their pods.
///
/// Fleets are bought on demand for 100 classes of pods from AWS's c, m and r types up to 32 CPUs; then pods go at random, and
/// nodes are removed and replaced pass by pass, a tenth of them at once, until nothing is left to gain.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many pods fleets are bought for.
    #[arg(long, value_delimiter = ',', default_value = "10000,20000")]
    pods: Vec<usize>,
    /// Which share of them stays, in percent.
    #[arg(long, value_delimiter = ',', default_value = "60,85,95")]
    keep: Vec<usize>,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

struct Row {
    n_nodes: usize,
    keep: usize,
    dollars: f64,
    bound: f64,
    compat: Outcome,
    search: Outcome,
    /// What any plan with as many evictions as `compat` needs leaves at least, in dollars per hour.
    least: f64,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build; use `make bench-consolidation` for numbers worth keeping");
    }
    let catalog = Arc::new(up_to_32(&Catalog::load(&Source::Aws)?));
    let mut rows: Vec<Row> = Vec::new();
    for n_pods in &arguments.pods {
        for keep in &arguments.keep {
            let fleet = Churned::new(&catalog, *n_pods, *keep, arguments.seed)?;
            eprintln!("{} nodes of which {keep} % of the pods are left", fleet.n_nodes());
            let compat = fleet.clone().consolidate(Search::Compat)?;
            let bound = fleet.bound();
            rows.push(Row {
                n_nodes: fleet.n_nodes(),
                keep: *keep,
                dollars: fleet.dollars(),
                bound,
                least: fleet.least_after(compat.evictions).max(bound),
                compat,
                search: fleet.consolidate(Search::Wide)?,
            });
            eprint!("{}", table(&rows[rows.len() - 1..]));
        }
    }
    let report = report(&rows, arguments.seed);
    print!("{report}");
    keep(&report, arguments.write.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn report(rows: &[Row], seed: u64) -> String {
    format!(
        "# Benchmark of consolidation

`make bench-consolidation` wrote this file. A fleet is bought on demand for pods of 100 classes from AWS's c, m and r types of generation 3 and later, up to 32 CPUs (seed
{seed}); then pods go at random until only a share of them is left, and nodes are removed and replaced pass by pass, a tenth of them at once, until
nothing is left to gain. `compat` looks as Karpenter 1.15.0 does, `search` in our own way (`--consolidation`); both decide with the
same solver, and the bound is what any fleet for the pods that are left costs at least. `after as many evictions` is how far above it the
fleet was when there had been as many evictions as `compat` needs in all, where that many were made; `any` is what no plan with that many
evictions can beat, even one that removes nodes and buys machines in part, and `of compat's` is that as a share of `compat`'s. `CPU s` and `longest s` are
processor time of one core, for all decisions and for the longest, those included in which nothing was found.

{}",
        table(rows)
    )
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| nodes | pods left | $/h before | bound | who | $/h after | over the bound | after as many evictions | of compat's | nodes after | evictions | passes | CPU s | longest s |\n\
         |--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for Row { n_nodes, keep, dollars, bound, compat, search, least } in rows {
        let over = |dollars: f64| format!("{:+.1} %", (dollars / bound - 1.0) * 100.0);
        let share = |dollars: f64| format!("{:.2}", (dollars - bound) / (compat.dollars - bound));
        let fleet = format!("| {n_nodes} | {keep} % | {dollars:.2} | {bound:.2} |");
        for (who, of) in [("compat", compat), ("search", search)] {
            let then = of.dollars_after(compat.evictions);
            let _ = writeln!(
                text,
                "{fleet} {who} | {:.2} | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} |",
                of.dollars,
                over(of.dollars),
                over(then),
                share(then),
                of.n_nodes,
                of.evictions,
                of.passes,
                of.cpu.as_secs_f64(),
                of.longest.as_secs_f64(),
            );
        }
        let _ = writeln!(text, "{fleet} any | | | {} | {} | | | | | |", over(*least), share(*least));
    }
    text
}
