//! `testcloud fault` and `testcloud status`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use headstart_cloud::testcloud::Admin;
use headstart_testcloud::fault::Order;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cloud: StatusArgs,
    #[command(subcommand)]
    order: Order,
}

#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    /// The cloud's address, as `serve` printed it
    #[arg(long, env = "TESTCLOUD_ENDPOINT", default_value = "http://127.0.0.1:8700")]
    endpoint: String,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { cloud: StatusArgs { endpoint }, order } = args;
    let told = Admin::new(&endpoint)?.order(&order).await;
    told.with_context(|| format!("the test cloud at {endpoint} did not obey"))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn status(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let StatusArgs { endpoint } = args;
    let status = Admin::new(&endpoint)?.status().await;
    let status = status.with_context(|| format!("the test cloud at {endpoint} did not answer"))?;
    let text = serde_json::to_string_pretty(&status)? + "\n";
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
