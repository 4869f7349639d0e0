//! `headstart-testbed bench solver`: our solver and Karpenter's scheduler on the same input.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testbed::instance_types::kwok_file;
use headstart_testbed::judge::{Answer, Case, Program};
use headstart_testbed::workload;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::{keep, up_to_32};

/// Measure our solver side by side with Karpenter's unmodified scheduler.
///
/// Both read the same objects and the same instance types, each in a process of its own. Time counts from decoded objects to
/// the plan. Karpenter needs most of an hour for all of them.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out workloads with more pods than this for Karpenter.
    #[arg(long, default_value_t = 10_000)]
    most: usize,
    /// Leave out all others than workloads whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Measure only ourselves.
    #[arg(long)]
    alone: bool,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// How often our side is measured; the median is reported, while Karpenter runs once.
const RUNS: usize = 5;

struct Workload {
    name: &'static str,
    pods: usize,
    sizes: Sizes,
    /// Whether Karpenter is asked, too.
    compared: bool,
    objects: fn(usize, u64) -> Vec<Value>,
}

/// Which instance types may be bought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sizes {
    /// All of them, up to machines with hundreds of processors: few nodes.
    All,
    /// What most people allow: up to 32 processors, so many nodes.
    UpTo32,
}

const WORKLOADS: [Workload; 16] = {
    type Objects = fn(usize, u64) -> Vec<Value>;
    const fn of(name: &'static str, pods: usize, sizes: Sizes, objects: Objects) -> Workload {
        Workload { name, pods, sizes, compared: true, objects }
    }
    const fn alone(name: &'static str, pods: usize, sizes: Sizes, objects: Objects) -> Workload {
        Workload { name, pods, sizes, compared: false, objects }
    }
    [
        of("100 classes", 1_000, Sizes::All, |n, seed| workload::classes(n, 100, seed)),
        of("100 classes", 3_000, Sizes::All, |n, seed| workload::classes(n, 100, seed)),
        of("100 classes", 10_000, Sizes::All, |n, seed| workload::classes(n, 100, seed)),
        of("100 classes, ≤ 32 CPUs", 1_000, Sizes::UpTo32, |n, seed| workload::classes(n, 100, seed)),
        of("100 classes, ≤ 32 CPUs", 3_000, Sizes::UpTo32, |n, seed| workload::classes(n, 100, seed)),
        of("100 classes, ≤ 32 CPUs", 10_000, Sizes::UpTo32, |n, seed| workload::classes(n, 100, seed)),
        of("100 classes, constrained", 10_000, Sizes::All, |n, seed| workload::mixed(n, 100, seed)),
        of("all distinct", 10_000, Sizes::All, workload::distinct),
        of("all distinct, ≤ 32 CPUs", 10_000, Sizes::UpTo32, workload::distinct),
        of("90 % infeasible", 1_000, Sizes::All, |n, seed| workload::infeasible(n, 100, seed)),
        of("diverse", 1_000, Sizes::All, workload::diverse),
        of("diverse", 3_000, Sizes::All, workload::diverse),
        of("90 % infeasible", 10_000, Sizes::All, |n, seed| workload::infeasible(n, 100, seed)),
        alone("diverse, ours alone", 10_000, Sizes::All, workload::diverse),
        alone("500 classes", 100_000, Sizes::All, |n, seed| workload::classes(n, 500, seed)),
        alone("100 classes on 15,000 nodes", 10_000, Sizes::All, |n, seed| {
            let mut objects = workload::classes(n, 100, seed);
            objects.extend(workload::existing_nodes(15_000, seed));
            objects
        }),
    ]
};

/// What was measured for one workload.
struct Row {
    workload: &'static Workload,
    ours: Answer,
    karpenter: Option<Answer>,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build; use `make bench` for numbers worth keeping");
    }
    let catalog = Catalog::load(&Source::Aws)?;
    let all = instance_types(&catalog)?;
    let small = instance_types(&up_to_32(&catalog))?;
    let mut rows: Vec<Row> = Vec::new();
    for workload in WORKLOADS.iter().filter(|workload| workload.name.contains(&arguments.only)) {
        let case = Case::of((workload.objects)(workload.pods, arguments.seed));
        let types = if workload.sizes == Sizes::All { all.path() } else { small.path() };
        eprintln!("{}: {} pods, our solver", workload.name, workload.pods);
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(Program::ours(types)?.ask(&case)?);
        }
        runs.sort_by(|a, b| a.cpu_millis.total_cmp(&b.cpu_millis));
        let ours = runs.swap_remove(RUNS / 2);
        let karpenter = if workload.compared && !arguments.alone && workload.pods <= arguments.most {
            eprintln!("{}: {} pods, Karpenter's scheduler (minutes)", workload.name, workload.pods);
            Some(Program::karpenter(Some(types))?.ask(&case)?)
        } else {
            None
        };
        rows.push(Row { workload, ours, karpenter });
        eprint!("{}", table(&rows[rows.len() - 1..]));
        // What has been measured is kept even if somebody loses patience.
        keep(&report(&rows, &catalog, arguments.seed), arguments.write.as_deref())?;
    }
    print!("{}", report(&rows, &catalog, arguments.seed));
    Ok(ExitCode::SUCCESS)
}

/// The catalogue as a file that both read.
fn instance_types(catalog: &Catalog) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::with_suffix(".json")?;
    serde_json::to_writer(&mut file, &kwok_file(catalog))?;
    Ok(file)
}

fn report(rows: &[Row], catalog: &Catalog, seed: u64) -> String {
    let offerings: usize = catalog.types().iter().map(|instance_type| instance_type.offerings.len()).sum();
    format!(
        "# Benchmarks of the solver

See also [the operator's reaction to load](benchmarks-reaction.md) and [its memory in a big cluster](benchmarks-memory.md).

`make bench` wrote this file. Both solvers read the same objects and the same {} instance types of AWS with {offerings} offerings,
each in a process of its own on {} cores: ours, and the unmodified scheduler of Karpenter 1.15.0 with one worker. Times count
from decoded objects to the plan. Ours is the median of {RUNS} runs; Karpenter runs once. Workloads come from seed {seed}
(`crates/testbed/src/workload.rs`). Peak memory is that of the whole process, its JSON input included. `≤ 32 CPUs` leaves out
larger types, as most NodePools do: more and smaller nodes, which is what costs Karpenter time.

{}
CPU time grows with the number of pods like this:

{}
",
        catalog.types().len(),
        std::thread::available_parallelism().map_or(1, usize::from),
        table(rows),
        growth(rows),
    )
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| workload | pods | who | CPU ms | wall ms | ratio of CPU | nodes | $/h | over the bound | not placed | peak MiB |\n\
         |---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let Workload { name, pods, .. } = row.workload;
        let bound = row.ours.lower_bound_per_hour;
        for (who, answer) in [("ours", Some(&row.ours)), ("Karpenter", row.karpenter.as_ref())] {
            let Some(answer) = answer else { continue };
            let _ = writeln!(
                text,
                "| {name} | {pods} | {who} | {:.1} | {:.1} | {} | {} | {:.3} | {} | {} | {} |",
                answer.cpu_millis,
                answer.wall_millis,
                if who == "ours" {
                    "1".to_owned()
                } else {
                    format!("{:.0}", answer.cpu_millis / row.ours.cpu_millis)
                },
                answer.node_claims.len(),
                answer.price_per_hour(),
                if bound > 0.0 {
                    format!("{:+.1} %", (answer.price_per_hour() / bound - 1.0) * 100.0)
                } else {
                    "–".to_owned()
                },
                answer.unschedulable.len(),
                answer.peak_mi_b,
            );
        }
    }
    text
}

/// For workloads measured at several sizes, the exponent of growth between the smallest and the largest.
fn growth(rows: &[Row]) -> String {
    let mut text = String::from("| workload | pods | ours | Karpenter |\n|---|---|--:|--:|\n");
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.workload.name) {
            names.push(row.workload.name);
        }
    }
    for name in names {
        let same: Vec<&Row> = rows.iter().filter(|row| row.workload.name == name).collect();
        let [first, .., last] = same[..] else { continue };
        let order = |millis: fn(&Row) -> Option<f64>| {
            let (Some(small), Some(large)) = (millis(first), millis(last)) else { return "–".to_owned() };
            let times = last.workload.pods as f64 / first.workload.pods as f64;
            format!("n^{:.2}", (large / small).ln() / times.ln())
        };
        let _ = writeln!(
            text,
            "| {name} | {} to {} | {} | {} |",
            first.workload.pods,
            last.workload.pods,
            order(|row| Some(row.ours.cpu_millis)),
            order(|row| row.karpenter.as_ref().map(|answer| answer.cpu_millis)),
        );
    }
    text
}
