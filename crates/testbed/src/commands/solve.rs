//! `headstart-testbed solve`: answers cases with our solver, in the words of the program that asks Karpenter's.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testbed::judge::{Case, Ours};

/// Read a case per line on standard input and write a plan per line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Instance types, in the format of Karpenter's KWOK provider.
    #[arg(long)]
    instance_types: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let ours = Ours::new(Catalog::load(&Source::File(arguments.instance_types.clone()))?);
    for line in stdin().lock().lines() {
        let case: Case = serde_json::from_str(&line?).context("cannot read a case")?;
        let mut answer = serde_json::to_vec(&ours.ask(&case))?;
        answer.push(b'\n');
        stdout().lock().write_all(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}
