//! `headstart-testbed bench`: numbers that anyone can measure again.

mod memory;
mod reaction;
mod solver;

use std::process::ExitCode;

use anyhow::Result;
use headstart_testbed::peers::Peer;

/// Measure, and print what was measured as a table.
#[derive(clap::Subcommand)]
pub(crate) enum Measure {
    Solver(solver::Arguments),
    Reaction(reaction::Arguments),
    Memory(memory::Arguments),
}

pub(crate) async fn run(measure: Measure) -> Result<ExitCode> {
    match measure {
        Measure::Solver(arguments) => solver::run(&arguments),
        Measure::Reaction(arguments) => reaction::run(arguments).await,
        Measure::Memory(arguments) => memory::run(arguments).await,
    }
}

/// What an operator is called in tables.
fn name(peer: Peer) -> &'static str {
    match peer {
        Peer::Karpenter => "Karpenter",
        Peer::Headstart => "Headstart",
    }
}
