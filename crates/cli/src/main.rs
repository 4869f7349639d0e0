//! The `headstart` command: what is common to all subcommands, and nothing else.

mod cluster;
#[cfg(test)]
mod corpus;
mod crds;
mod demo;
mod explain;
mod explain_node;
mod manifests;
mod output;
mod plan;
mod replay;
mod report;
mod run;
mod screen;
mod top;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A proactive node autoscaler for Kubernetes that speaks Karpenter's API.
#[derive(Parser)]
#[command(name = "headstart", version, arg_required_else_help = true)]
#[command(after_help = "\
Exit status: 0 if nothing is wrong, 1 after an error, 2 if a pod fits nowhere, 3 if an object has a mistake.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Crds(crds::Args),
    Demo(demo::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Replay(replay::Args),
    Report(report::Args),
    Run(Box<run::Args>),
    Top(top::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing can be done if help cannot be printed.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let mut stdout = io::stdout().lock();
    let result = match cli.command {
        Command::Crds(args) => crds::run(&args, &mut stdout).map(|()| ExitCode::SUCCESS),
        Command::Explain(args) => explain::run(&args, &mut stdout),
        Command::Plan(args) => plan::run(&args, &mut stdout),
        Command::Replay(args) => replay::run(&args, &mut stdout),
        Command::Report(args) => report::run(&args, &mut stdout),
        Command::Demo(args) => demo::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Run(args) => {
            // The operator logs to standard output from other threads.
            drop(stdout);
            run::run(*args).map(|()| ExitCode::SUCCESS)
        }
    };
    match result {
        Ok(status) => status,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of our output has gone, as `head` does when it has seen enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_a_closed_pipe_is_no_error() {
        let error = |kind| anyhow::Error::new(io::Error::from(kind)).context("cannot write");
        assert!(is_closed_pipe(&error(io::ErrorKind::BrokenPipe)));
        assert!(!is_closed_pipe(&error(io::ErrorKind::StorageFull)));
    }
}
