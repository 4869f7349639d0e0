//! `headstart-testbed bench`: numbers that anyone can measure again.

mod companion;
mod consolidation;
mod memory;
mod proactive;
mod reaction;
mod shrink;
mod solver;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use headstart_cloud::catalog::Catalog;
use headstart_core::catalog::InstanceType;
use headstart_core::quantity::Quantity;
use headstart_core::resources::CPU;
use headstart_testbed::Rate;
use headstart_testbed::peers::Peer;

/// Measure, and print what was measured as a table.
#[derive(clap::Subcommand)]
pub(crate) enum Measure {
    Solver(solver::Arguments),
    Reaction(reaction::Arguments),
    Memory(memory::Arguments),
    Proactive(proactive::Arguments),
    Companion(companion::Arguments),
    Consolidation(consolidation::Arguments),
    Shrink(shrink::Arguments),
}

pub(crate) async fn run(measure: Measure) -> Result<ExitCode> {
    match measure {
        Measure::Solver(arguments) => solver::run(&arguments),
        Measure::Reaction(arguments) => reaction::run(arguments).await,
        Measure::Memory(arguments) => memory::run(arguments).await,
        Measure::Proactive(arguments) => proactive::run(arguments).await,
        Measure::Companion(arguments) => companion::run(arguments).await,
        Measure::Consolidation(arguments) => consolidation::run(&arguments),
        Measure::Shrink(arguments) => shrink::run(arguments).await,
    }
}

/// What most people allow: types of up to 32 CPUs, so that there are many nodes.
fn up_to_32(catalog: &Catalog) -> Catalog {
    let small = |known: &&Arc<InstanceType>| known.capacity.get(CPU) <= Quantity::from_units(32);
    let types = catalog.types().iter().filter(small).map(|known| (**known).clone()).collect();
    Catalog::new(catalog.source.clone(), types, catalog.well_known.clone())
}

/// Writes a report to a file, if there is one to write to.
fn keep(report: &str, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, report).with_context(|| format!("cannot write {}", file.display()))
}

/// How busy the machine is; what others do on it shows in all times.
fn load_average() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").context("the kernel tells no load average")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

/// So many requests a second, and half as many more at once.
fn rate(qps: u32) -> Rate {
    Rate { qps, burst: qps * 3 / 2 }
}

/// What an operator is called in tables.
fn name(peer: Peer) -> &'static str {
    match peer {
        Peer::Karpenter => "Karpenter",
        Peer::Headstart => "Headstart",
    }
}
