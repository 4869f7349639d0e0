//! `testcloud audit`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use headstart_testcloud::audit::{Evidence, audit, table};
use headstart_testcloud::ledger;
use jiff::Timestamp;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The books to read; they are not changed, and the cloud may be running
    #[arg(long, env = "TESTCLOUD_LEDGER", value_name = "FILE")]
    ledger: PathBuf,
    /// The cluster whose NodeClaims own the instances
    #[arg(long, value_name = "FILE", conflicts_with = "claims")]
    kubeconfig: Option<PathBuf>,
    /// What `kubectl get nodeclaims,nodes -o json` printed, in place of a cluster; may be repeated
    #[arg(long, value_name = "FILE")]
    claims: Vec<PathBuf>,
    /// Until when running instances are billed: now, last (the last entry of the books), or a time
    #[arg(long, value_name = "TIME", default_value = "now", value_parser = as_of)]
    as_of: AsOf,
    /// How to print it
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy)]
enum AsOf {
    Now,
    Last,
    At(Timestamp),
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { ledger, kubeconfig, claims, as_of, output } = args;
    let contents = ledger::read(&ledger)?;
    let evidence = match &kubeconfig {
        Some(path) => Some(Evidence::from_cluster(&super::connect(path).await?).await?),
        None if claims.is_empty() => None,
        None => Some(Evidence::from_files(&claims)?),
    };
    let last = contents.records.last().map(|record| record.at).unwrap_or_default();
    let as_of = match as_of {
        // A cloud whose clock runs fast is ahead of us.
        AsOf::Now => last.max(Timestamp::now()),
        AsOf::Last => last,
        AsOf::At(time) => time,
    };
    let audit = audit(&contents, evidence.as_ref(), as_of);
    let text = match output {
        Output::Table => table(&audit),
        Output::Json => serde_json::to_string_pretty(&audit)? + "\n",
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if audit.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn as_of(text: &str) -> Result<AsOf, String> {
    match text {
        "now" => Ok(AsOf::Now),
        "last" => Ok(AsOf::Last),
        time => {
            time.parse().map(AsOf::At).map_err(|_| format!("{time:?} is not now, last or a time in RFC 3339"))
        }
    }
}
