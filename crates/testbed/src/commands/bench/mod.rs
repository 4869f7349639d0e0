//! `headstart-testbed bench`: numbers that anyone can measure again.

mod reaction;
mod solver;

use std::process::ExitCode;

use anyhow::Result;

/// Measure, and print what was measured as a table.
#[derive(clap::Subcommand)]
pub(crate) enum Measure {
    Solver(solver::Arguments),
    Reaction(reaction::Arguments),
}

pub(crate) async fn run(measure: Measure) -> Result<ExitCode> {
    match measure {
        Measure::Solver(arguments) => solver::run(&arguments),
        Measure::Reaction(arguments) => reaction::run(arguments).await,
    }
}
