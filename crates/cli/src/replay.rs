//! `headstart replay`: decides again what a journal says was decided.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use headstart_cloud::Catalog;
use headstart_cloud::catalog::Source;
use headstart_engine::Engine;
use headstart_engine::journal::{self, Entry, Header, ReplayError};

/// Decide again what a journal of `headstart run --journal` says was decided, and show the first difference
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: 0 if every decision is the same, 1 after an error, 2 if one differs.")]
pub(crate) struct Args {
    /// The journal
    #[arg(value_name = "FILE")]
    journal: PathBuf,
    /// The instance types, if they are not where the journal says: kwok, aws, azure, or a file
    #[arg(long, value_name = "CATALOG")]
    catalog: Option<Source>,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let path = args.journal.display();
    let text = fs::read_to_string(&args.journal).with_context(|| format!("cannot read {path}"))?;
    // A process that was killed may have left half a line.
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        eprintln!("warning: {path} breaks off in its last line, which is left out");
    }
    let mut lines = text[..whole].lines();
    let first = lines.next().and_then(|line| serde_json::from_str(line).ok());
    let Some(Entry::Began(Header { version, catalog, settings })) = first else {
        bail!("{path} is no journal\n  record one with: headstart run --journal FILE");
    };
    let Ok(recorded) = catalog.parse::<Source>();
    let source = args.catalog.clone().unwrap_or(recorded);
    let catalog = Catalog::load(&source).with_context(|| {
        format!("the journal was recorded with the catalog {catalog:?}\n  name one with --catalog")
    })?;
    if version != env!("CARGO_PKG_VERSION") {
        eprintln!(
            "warning: the journal was recorded by version {version}; this is {}",
            env!("CARGO_PKG_VERSION")
        );
    }
    let engine = Engine::new(settings, Arc::clone(catalog.types()), catalog.well_known.clone());
    match journal::replay(lines, 2, engine) {
        Ok(journal::Summary { events, decisions, actions }) => {
            writeln!(out, "The same: {decisions} decisions on {events} events, {actions} actions in all.")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(ReplayError::Divergence(divergence)) => {
            write!(out, "Decided otherwise.\n{path}, {divergence}")?;
            Ok(ExitCode::from(2))
        }
        Err(error) => Err(error).with_context(|| format!("cannot replay {path}")),
    }
}
