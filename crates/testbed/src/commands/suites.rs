//! `headstart-testbed suites`: upstream's end-to-end suites against an operator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use futures::stream::{FuturesUnordered, StreamExt};
use headstart_testbed::peers::Peer;
use headstart_testbed::suites::{Group, Spec, Verdict, groups, known_failure, run_group, table};
use tokio::sync::Semaphore;

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
    #[arg(long, default_value_t = 11)]
    jobs: usize,
    /// Where to keep the logs of every process.
    #[arg(long, default_value = "target/suites")]
    logs: PathBuf,
    /// Only list the specs.
    #[arg(long)]
    list: bool,
}

#[expect(clippy::print_stdout, reason = "the table is the answer")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
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
        arguments.logs.display()
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

async fn run_all(groups: &[Group], arguments: &Arguments) -> Vec<(String, Vec<Spec>)> {
    let places = Arc::new(Semaphore::new(arguments.jobs.max(1)));
    let mut running: FuturesUnordered<_> = groups
        .iter()
        .map(|group| {
            let places = places.clone();
            let logs = arguments.logs.join(&group.name);
            async move {
                let _place = places.acquire().await;
                eprintln!("{}: started, {} specs", group.name, group.specs.len());
                (group, run_group(group, arguments.peer, &logs).await)
            }
        })
        .collect();
    let mut results = Vec::new();
    while let Some((group, result)) = running.next().await {
        match result {
            Ok(specs) => {
                let failed = specs.iter().filter(|spec| spec.verdict == Verdict::Fail).count();
                eprintln!(
                    "{}: ended, {failed} of {} failed ({} groups left)",
                    group.name,
                    specs.len(),
                    running.len()
                );
                results.push((group.name.clone(), specs));
            }
            Err(error) => {
                eprintln!("{}: could not run: {error:#}", group.name);
                results.push((group.name.clone(), Vec::new()));
            }
        }
    }
    results.sort_by(|(a, _), (b, _)| a.cmp(b));
    results
}
