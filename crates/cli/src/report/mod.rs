//! `headstart report`: what was decided, what became of it, and what it cost.

mod figures;
mod page;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;

use crate::output::{self, Paint};
use figures::Figures;

/// Tell what was decided, how long pods waited for nodes and what that cost, as a table or a page
///
/// Asks an operator that runs. One with --mode observe compares the cluster's autoscaler with what Headstart would have done;
/// others tell of their own decisions.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubectl port-forward -n kube-system deploy/headstart 8080 &
  headstart report                          the table
  headstart report --html report.html       a page with plots, to look at or to pass on
  headstart report -o json > tuesday.json   all figures; a report can be made of the file later
  headstart report tuesday.json")]
pub(crate) struct Args {
    /// Where to ask: the address of an operator's metrics, or a file that -o json or --observations wrote
    #[arg(value_name = "URL|FILE", default_value = "http://127.0.0.1:8080")]
    from: String,
    /// Write a page that needs nothing else to be looked at, and print nothing but where it is
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// What is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let history = source::read(&args.from)?;
    if let Some(path) = &args.html {
        let page = page::render(&history, &Figures::of(&history));
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(out, "{}", path.display())?;
    } else if args.output == Output::Json {
        write!(out, "{}", output::json(&history)?)?;
    } else {
        table::print(&history, &Figures::of(&history), Paint::of(&std::io::stdout()), out)?;
    }
    Ok(ExitCode::SUCCESS)
}
