//! The subcommands.

pub(crate) mod audit;
pub(crate) mod fault;
pub(crate) mod serve;

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Runs a cloud until Ctrl-C
    Serve(serve::Args),
    /// Reads the books of a cloud: leaks, double launches, zombies, running time and cost
    Audit(audit::Args),
    /// Makes a running cloud misbehave
    Fault(fault::Args),
    /// Prints how a running cloud is doing: its time, instances and faults, as JSON
    Status(fault::StatusArgs),
}

/// A client for the cluster a kubeconfig names.
async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let what = || format!("cannot use kubeconfig {}", kubeconfig.display());
    let read = Kubeconfig::read_from(kubeconfig).with_context(what)?;
    let config =
        Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.with_context(what)?;
    let server = config.cluster_url.clone();
    let client = Client::try_from(config).with_context(what)?;
    client
        .apiserver_version()
        .await
        .with_context(|| format!("cannot reach the Kubernetes API at {server}"))?;
    Ok(client)
}
