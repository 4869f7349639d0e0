//! `headstart-testbed suites`: upstream's end-to-end suites against an operator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::StreamExt;
use headstart_testbed::peers::Peer;
use headstart_testbed::suites::{Group, Spec, Verdict, compare, groups, known_failure, run_group, table};

use super::interrupted;

/// Run Karpenter's own end-to-end suites against an operator.
///
/// Groups of specs run side by side, each on a control plane of its own. Ends with 0 if every spec passed or fails
/// upstream too, with 2 if another one failed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The operator under test.
    #[arg(long, value_enum, default_value = "karpenter")]
    peer: Peer,
    /// Only specs whose text contains this.
    #[arg(long, default_value = "")]
    focus: String,
    /// How many groups run at once; each needs about 0.8 GB of memory and a tenth of a core.
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// Where to keep the logs of every process and the reports, by operator and group.
    #[arg(long, default_value = "target/suites")]
    logs: PathBuf,
    /// Only list the specs.
    #[arg(long)]
    list: bool,
    /// Run nothing, and write a page that compares what the last runs against both operators said.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "focus"])]
    compare: Option<PathBuf>,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(file) = &arguments.compare {
        let of = |peer: Peer| arguments.logs.join(peer.name());
        std::fs::write(file, compare(&of(Peer::Karpenter), &of(Peer::Headstart))?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let focus = arguments.focus.clone();
    let groups = tokio::task::spawn_blocking(move || groups(&focus)).await??;
    if arguments.list {
        for (group, spec) in groups.iter().flat_map(|group| group.specs.iter().map(move |spec| (group, spec)))
        {
            println!("{} {spec}", group.suite.description());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let n_specs: usize = groups.iter().map(|group| group.specs.len()).sum();
    eprintln!(
        "{n_specs} specs in {} groups against {}, {} at once; logs go to {}",
        groups.len(),
        arguments.peer.name(),
        arguments.jobs,
        arguments.logs.join(arguments.peer.name()).display()
    );
    let start = Instant::now();
    let results = tokio::select! {
        results = run_all(&groups, &arguments) => results,
        result = interrupted() => {
            result?;
            eprintln!("interrupted; ending the clusters");
            return Ok(ExitCode::FAILURE);
        }
    };
    print!("{}", table(&results));
    println!("wall clock {} s", start.elapsed().as_secs());
    let all = || results.iter().flat_map(|(_, specs)| specs);
    let unexpected = all().any(|spec| spec.verdict == Verdict::Fail && known_failure(&spec.text()).is_none());
    let complete = all().count() == n_specs;
    if !complete {
        println!("{} specs have no verdict: their group could not run", n_specs - all().count());
    }
    Ok(ExitCode::from(if unexpected || !complete { 2 } else { 0 }))
}

/// Runs the groups that can side by side, then the others one after the other.
async fn run_all(groups: &[Group], arguments: &Arguments) -> Vec<(String, Vec<Spec>)> {
    let (loners, others): (Vec<&Group>, Vec<&Group>) = groups.iter().partition(|group| group.is_loner());
    let mut results = run_at_once(&others, arguments.jobs.max(1), arguments).await;
    results.extend(run_at_once(&loners, 1, arguments).await);
    results.sort_by(|(a, _), (b, _)| a.cmp(b));
    results
}

async fn run_at_once(groups: &[&Group], jobs: usize, arguments: &Arguments) -> Vec<(String, Vec<Spec>)> {
    let run = |group: &Group| {
        let (group, logs) = (group.clone(), arguments.logs.join(arguments.peer.name()).join(&group.name));
        async move {
            eprintln!("{}: started, {} specs", group.name, group.specs.len());
            let result = run_group(&group, arguments.peer, &logs).await;
            (group, result)
        }
    };
    let mut running = futures::stream::iter(groups.iter().map(|group| run(group))).buffer_unordered(jobs);
    let mut results = Vec::new();
    while let Some((group, result)) = running.next().await {
        match &result {
            Ok(specs) => {
                let failed = specs.iter().filter(|spec| spec.verdict == Verdict::Fail).count();
                eprintln!("{}: ended, {failed} of {} failed", group.name, specs.len());
            }
            Err(error) => eprintln!("{}: could not run: {error:#}", group.name),
        }
        results.push((group.name, result.unwrap_or_default()));
    }
    results
}
