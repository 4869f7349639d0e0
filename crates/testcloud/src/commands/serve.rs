//! `testcloud serve`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use headstart_cloud::catalog::{Catalog, Source};
use headstart_cloud::testcloud::Admin;
use headstart_testcloud::delay::Delay;
use headstart_testcloud::fault::Order;
use headstart_testcloud::{Options, Server, Time};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, env = "TESTCLOUD_LISTEN", default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// The books: a file that is created, or read and continued
    #[arg(long, env = "TESTCLOUD_LEDGER", value_name = "FILE")]
    ledger: PathBuf,
    /// What is sold: kwok, aws, azure, or a file in the instance-types format of Karpenter's KWOK provider
    #[arg(long, env = "TESTCLOUD_CATALOG", default_value = "kwok")]
    catalog: Source,
    /// The cluster in which instances register their Nodes; without one, nothing registers anywhere
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Also writes the address to this file, once it can be reached
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// How long instances take to register, as `fault join-delay` sets it
    #[arg(long, value_name = "DELAY")]
    join_delay: Option<Delay>,
    /// How many times as fast as real the cloud's time goes
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    time_scale: f64,
    /// Whether time goes by itself or is moved by `fault advance`
    #[arg(long, default_value = "running")]
    clock: ClockKind,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ClockKind {
    Running,
    Manual,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { listen, ledger, catalog, kubeconfig, address_file, join_delay, time_scale, clock } = args;
    // Listened for from the beginning, so that a signal during start-up is not lost.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let catalog = Catalog::load(&catalog)?;
    let cluster = match &kubeconfig {
        Some(path) => Some(super::connect(path).await?),
        None => None,
    };
    let time = match clock {
        ClockKind::Running => Time::Running(time_scale),
        ClockKind::Manual => Time::ByHand,
    };
    let (n_types, source) = (catalog.types().len(), catalog.source.clone());
    catalog.modelled.iter().for_each(|note| eprintln!("testcloud: note: {note}"));
    let server = Server::start(Options { listen, ledger: ledger.clone(), catalog, cluster, time }).await?;
    if server.torn_bytes() > 0 {
        eprintln!(
            "testcloud: the ledger's last line was cut off by a crash; {} bytes dropped",
            server.torn_bytes()
        );
    }
    if let Some(delay) = join_delay {
        Admin::new(&server.endpoint())?.order(&Order::JoinDelay { delay }).await?;
    }
    if let Some(path) = address_file {
        let what = || format!("cannot write the address to {}", path.display());
        // Renamed into place, so that whoever waits for the file never reads half of it.
        let draft = path.with_extension("draft");
        std::fs::write(&draft, server.endpoint()).with_context(what)?;
        std::fs::rename(&draft, &path).with_context(what)?;
    }
    let hello = json!({
        "endpoint": server.endpoint(),
        "address": server.address(),
        "ledger": ledger,
        "records": server.n_records(),
        "catalog": source,
        "types": n_types,
    });
    writeln!(std::io::stdout(), "{hello}").context("cannot print the address")?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        error = server.failed() => return Err(error.into()),
    }
    server.stop().await;
    Ok(ExitCode::SUCCESS)
}

fn factor(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor| (0.001..=100_000.0).contains(factor))
        .ok_or_else(|| format!("{text:?} is no factor between 0.001 and 100000"))
}
