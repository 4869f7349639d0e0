//! The `testcloud` command.

mod commands;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::{Command, audit, fault, serve};

/// A cloud for tests: it launches, bills and ends instances over HTTP, misbehaves on demand, and keeps its own books.
///
///   testcloud serve --ledger cloud.ledger --catalog aws --kubeconfig ~/.kube/config
///   testcloud fault dry --type m7i.large --for 5m
///   testcloud audit --ledger cloud.ledger --kubeconfig ~/.kube/config
///
/// Exit codes: 0 nothing wrong, 1 an error, 2 the audit found something.
#[derive(Parser)]
#[command(name = "testcloud", version, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Clap's own exit code for misuse would read as a finding.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::Serve(args) => serve::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Fault(args) => fault::run(args).await,
        Command::Status(args) => fault::status(args).await,
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
