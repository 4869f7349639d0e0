//! `headstart-testbed bench shrink`: how far operators make the same fleets smaller.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use headstart_testbed::shrink::{Fleet, Operator, Outcome, SHAPES, shrink};

use super::keep;

/// Let operators consolidate the same fleets, and compare what is left.
///
/// Karpenter buys each fleet, then many of its pods go. Each operator gets a cluster of its own with a copy of what is
/// left, and consolidates until nothing changes any more. The command fails if Headstart's `compat` ends up dearer than
/// Karpenter.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The operators to compare.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "karpenter,compat,search")]
    operators: Vec<Operator>,
    /// Only fleets whose name contains this.
    #[arg(long, default_value = "")]
    fleet: String,
    /// How many operators work at once, each on its own cluster; more than a machine bears changes what is measured.
    #[arg(long, default_value_t = 3)]
    at_once: usize,
    /// Keep the operators' logs in this directory.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// The fleets must be large enough for a search to matter.
const LEAST_NODES: usize = 50;
/// How much dearer, in percent, `compat` may end up: kube-scheduler puts evicted pods where it likes, so that runs
/// may differ by chance, by how much was not measured.
const TOLERANCE: f64 = 2.0;

/// A fleet and what became of it under each operator.
struct Block {
    fleet: Arc<Fleet>,
    bound: f64,
    outcomes: BTreeMap<Operator, Outcome>,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(logs) = &arguments.logs {
        std::fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
    }
    let mut blocks: Vec<Block> = Vec::new();
    for shape in SHAPES.into_iter().filter(|shape| shape.name.contains(&arguments.fleet)) {
        eprintln!("{}: Karpenter buys ({})", shape.name, shape.about);
        let fleet = Fleet::buy(shape).await.with_context(|| format!("no fleet for {}", shape.name))?;
        let (bought, left) = (fleet.n_pods_once(), fleet.n_pods());
        eprintln!("  {} nodes for {bought} pods, of which {left} stay", fleet.n_nodes());
        ensure!(fleet.n_nodes() >= LEAST_NODES, "less than {LEAST_NODES} nodes show nothing");
        blocks.push(Block { bound: fleet.bound()?, fleet: Arc::new(fleet), outcomes: BTreeMap::new() });
    }
    compare(&arguments, &mut blocks).await?;
    print!("{}", table(&blocks));
    let verdicts: Vec<Verdict> = blocks.iter().filter_map(Block::verdict).collect();
    for verdict in &verdicts {
        println!("\n{}", verdict.text);
    }
    Ok(if verdicts.iter().all(|verdict| verdict.is_reached) { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Lets all operators work on all fleets, some at once.
async fn compare(arguments: &Arguments, blocks: &mut [Block]) -> Result<()> {
    let fleets: Vec<Arc<Fleet>> = blocks.iter().map(|block| Arc::clone(&block.fleet)).collect();
    let work = fleets.iter().enumerate().flat_map(|(index, fleet)| {
        arguments.operators.iter().map(move |operator| (index, Arc::clone(fleet), *operator))
    });
    let measure = async |(index, fleet, operator): (usize, Arc<Fleet>, Operator)| {
        let name = format!("{}, {}", fleet.shape().name, operator.name());
        eprintln!("{name}: begins (minutes)");
        let file = format!("{}.log", name.replace(", ", "-").replace(' ', "-"));
        let log = arguments.logs.as_ref().map(|dir| dir.join(file));
        let outcome = shrink(&fleet, operator, log.as_deref()).await?;
        eprintln!(
            "{name}: {} nodes for {:.2} $/h after {:.0} s and {} evictions",
            outcome.n_nodes,
            outcome.dollars_per_hour,
            outcome.last_change.as_secs_f64(),
            outcome.evictions,
        );
        Ok::<_, anyhow::Error>((index, operator, outcome))
    };
    let mut results =
        std::pin::pin!(futures::stream::iter(work).map(measure).buffer_unordered(arguments.at_once.max(1)));
    while let Some((index, operator, outcome)) = results.try_next().await? {
        blocks[index].outcomes.insert(operator, outcome);
        // What has been measured is kept even if somebody loses patience.
        keep(&report(blocks), arguments.write.as_deref())?;
    }
    Ok(())
}

struct Verdict {
    is_reached: bool,
    text: String,
}

impl Block {
    fn dollars(&self, operator: Operator) -> Option<f64> {
        self.outcomes.get(&operator).map(|outcome| outcome.dollars_per_hour)
    }

    /// Nothing can be said unless both were measured.
    fn verdict(&self) -> Option<Verdict> {
        let (theirs, ours) = (self.dollars(Operator::Karpenter)?, self.dollars(Operator::Compat)?);
        let more = percent(ours, theirs);
        let is_reached = more <= TOLERANCE;
        let says = if is_reached { "reached" } else { "NOT reached" };
        let name = self.fleet.shape().name;
        let text = format!(
            "{name}: {says}: Headstart's `compat` ends at {ours:.2} $/h, Karpenter at {theirs:.2} ({more:+.1} %, at most {TOLERANCE:+.1} % are allowed)."
        );
        Some(Verdict { is_reached, text })
    }
}

fn table(blocks: &[Block]) -> String {
    let mut text = String::from(
        "| fleet | pods | left | nodes before | $/h before | bound | operator | nodes after | $/h after | over the bound | over Karpenter | evictions | last change |\n\
         |---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for block in blocks {
        let Block { fleet, bound, outcomes } = block;
        let karpenter = block.dollars(Operator::Karpenter);
        for (operator, outcome) in outcomes {
            let dollars = outcome.dollars_per_hour;
            let over =
                karpenter.map_or("–".to_owned(), |theirs| format!("{:+.1} %", percent(dollars, theirs)));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:.2} | {bound:.2} | {} | {} | {dollars:.2} | {:+.1} % | {over} | {} | {:.0} s{} |",
                fleet.shape().name,
                fleet.n_pods_once(),
                fleet.n_pods(),
                fleet.n_nodes(),
                fleet.dollars_per_hour(),
                operator.name(),
                outcome.n_nodes,
                percent(dollars, *bound),
                outcome.evictions,
                outcome.last_change.as_secs_f64(),
                if outcome.is_at_rest { "" } else { ", not at rest" },
            );
        }
    }
    text
}

/// How much more one is than the other.
fn percent(one: f64, other: f64) -> f64 {
    (one / other - 1.0) * 100.0
}

fn report(blocks: &[Block]) -> String {
    let mut shapes = String::new();
    for shape in SHAPES {
        let _ = writeln!(shapes, "- `{}`: {}; {} % of the pods stay.", shape.name, shape.about, shape.keep);
    }
    let verdicts: Vec<String> =
        blocks.iter().filter_map(Block::verdict).map(|it| format!("- {}", it.text)).collect();
    format!(
        "# Fleets made smaller beside Karpenter

`make bench-shrink` measures all of this and writes this file anew. The unmodified Karpenter 1.15.0 with its KWOK provider buys nodes on demand
for many Deployments; then it is stopped, and pods go at random until only a share of them is left. Each operator gets a cluster of its own
with exact copies of these NodeClaims, Nodes and pods, and ReplicaSets that look after the pods. So all rows of a fleet begin with the same
nodes and the same pods on them. The clusters are real (etcd, kube-apiserver, kube-scheduler and kube-controller-manager 1.36) but for their
nodes, which kwok plays.

{shapes}
Once the operator leads, `consolidateAfter` goes from `Never` to `0s`, with the default budget of a tenth of the nodes. A run ends when no
NodeClaim has come, been told to go or gone for 90 seconds and all pods run, or after twenty minutes as soon as nothing is half done (`not at rest`).

- `compat` and `search` are Headstart's two ways to look for savings (`--consolidation`); `compat` looks as Karpenter does.
- `bound` is what any fleet for the pods that are left costs at least.
- `evictions` are pods that went and were made anew elsewhere. kube-scheduler decides where, so that runs may differ by chance; by how much was not measured.
- `last change` counts from when consolidation was allowed. Several operators work side by side, each on its own cluster, so it says
  little about speed.
- 90 seconds are not the end for everybody: `search` lets a node that has just replaced another rest for ten minutes, and Karpenter goes on trying sets of
  nodes in other orders. What either would find later is left out for all.

{}
{}
",
        table(blocks),
        verdicts.join("\n"),
    )
}
