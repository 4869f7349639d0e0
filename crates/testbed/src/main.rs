//! The testbed's command: a control plane on loopback to play with, and upstream's programs to compare with.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

/// The same as in `headstart`, for what is measured here should be what users get.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs a real Kubernetes control plane on loopback, without containers, and real peers on top of it.
///
/// The programs are built once from Go modules (about 10 minutes on two cores; Go 1.26 and 7 GB of disk are needed) and
/// kept in a cache. Set HEADSTART_CACHE_DIR to move the cache, or HEADSTART_TESTBED_BIN to a directory with ready
/// binaries to build nothing.
#[derive(Parser)]
#[command(name = "headstart-testbed", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tour(commands::tour::Arguments),
    Up(commands::up::Arguments),
    Binaries(commands::binaries::Arguments),
    Suites(commands::suites::Arguments),
    #[command(subcommand)]
    Bench(commands::bench::Measure),
    #[command(hide = true)]
    Solve(commands::solve::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Tour(arguments) => commands::tour::run(arguments).await,
        Command::Up(arguments) => commands::up::run(arguments).await,
        Command::Binaries(arguments) => commands::binaries::run(&arguments),
        Command::Suites(arguments) => commands::suites::run(arguments).await,
        Command::Bench(measure) => commands::bench::run(measure).await,
        Command::Solve(arguments) => commands::solve::run(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, without those that an outer message has said already.
fn chain(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}
