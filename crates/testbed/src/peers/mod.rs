//! Operators that run on a control plane: the real Karpenter, for comparison and side by side, and Headstart itself.

mod deployment;
mod follower;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use serde_json::Value;

use crate::binaries::{self, Asset, Binary};
use crate::control_plane::ControlPlane;
use crate::ports::Port;
use crate::process::Program;

pub use deployment::{Settings, install};
pub use follower::follow;

/// Names the Headstart binary to test; by default the one that was built beside the testbed.
pub const HEADSTART_VARIABLE: &str = "HEADSTART_BIN";

/// An operator that can be put on the testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    Karpenter,
    Headstart,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Karpenter => "karpenter",
            Self::Headstart => "headstart",
        }
    }

    /// The command that runs the operator, built now if it has to be. Blocks.
    pub fn command(self) -> Result<Vec<PathBuf>> {
        match self {
            Self::Karpenter => Ok(vec![binaries::ensure(Binary::Karpenter)?]),
            Self::Headstart => Ok(vec![headstart()?, "run".into()]),
        }
    }
}

fn headstart() -> Result<PathBuf> {
    let path = match std::env::var_os(HEADSTART_VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("headstart"),
    };
    if !path.exists() {
        bail!(
            "there is no {}; build it with `cargo build`, or name it in {HEADSTART_VARIABLE}",
            path.display()
        );
    }
    Ok(path)
}

/// Builds the Headstart binary from what is here, and tells where it is. Blocks.
pub fn build() -> Result<PathBuf> {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "headstart-cli", "--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(built.status.success(), "headstart cannot be built");
    let messages = String::from_utf8(built.stdout)?;
    let executable = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    executable.context("cargo names no executable")
}

/// Runs `peer` as a plain process beside the control plane, with Karpenter's usual environment and `env` on top.
pub async fn run(plane: &ControlPlane, peer: Peer, env: &[(&str, &str)]) -> Result<Running> {
    let command = tokio::task::spawn_blocking(move || peer.command()).await??;
    let (program, ports) = program(plane, peer.name(), &command, env.iter().copied())?;
    plane.spawn(program)?;
    Ok(Running { ports })
}

/// Runs Headstart as a companion of the operator that is there, and waits until it leads.
pub async fn accompany(plane: &ControlPlane, env: &[(&str, &str)]) -> Result<Running> {
    let command = tokio::task::spawn_blocking(|| Peer::Headstart.command()).await??;
    let env = [("HEADSTART_MODE", "companion")].into_iter().chain(env.iter().copied());
    let (program, ports) = program(plane, "companion", &command, env)?;
    plane.spawn(program)?;
    let running = Running { ports };
    wait_for_holder(plane, "headstart-companion").await?;
    Ok(running)
}

/// The ports of an operator that runs.
#[derive(Debug)]
pub struct Running {
    ports: [Port; 2],
}

impl Running {
    pub fn metrics_port(&self) -> u16 {
        self.ports[0].number()
    }

    pub fn health_port(&self) -> u16 {
        self.ports[1].number()
    }
}

/// Installs Karpenter's own CustomResourceDefinitions and waits until they are served.
pub async fn install_crds(plane: &ControlPlane) -> Result<()> {
    let files = tokio::task::spawn_blocking(|| binaries::asset(Asset::KarpenterCrds)).await??;
    let crds: Api<CustomResourceDefinition> = Api::all(plane.client());
    for file in files {
        let crd: CustomResourceDefinition = serde_saphyr::from_str(&std::fs::read_to_string(&file)?)
            .with_context(|| format!("{} is no CustomResourceDefinition", file.display()))?;
        let name = crd.metadata.name.clone().context("a CustomResourceDefinition has no name")?;
        crds.patch(&name, &PatchParams::apply("testbed").force(), &Patch::Apply(&crd)).await?;
        await_condition(crds.clone(), &name, is_crd_established()).await?;
    }
    Ok(())
}

/// Waits until an operator holds Karpenter's lease.
pub async fn wait_for_leader(plane: &ControlPlane) -> Result<()> {
    wait_for_holder(plane, "karpenter-leader-election").await
}

async fn wait_for_holder(plane: &ControlPlane, lease: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(plane.client(), "kube-system");
    let held = async {
        loop {
            if let Ok(Some(lease)) = leases.get_opt(lease).await
                && lease.spec.and_then(|spec| spec.holder_identity).is_some_and(|holder| !holder.is_empty())
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let limit = Duration::from_mins(3);
    let held = tokio::time::timeout(limit, held).await;
    held.with_context(|| {
        format!("no operator took its lease within {} s; its log tells why", limit.as_secs())
    })
}

/// A program with the environment that Karpenter's chart gives it, on ports of its own.
fn program<'a>(
    plane: &ControlPlane,
    name: &str,
    command: &[PathBuf],
    env: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(Program, [Port; 2])> {
    let ports = [Port::any()?, Port::any()?];
    let (path, args) = command.split_first().context("an operator needs a command")?;
    let mut program = Program::new(name, path).args(args);
    for (key, value) in deployment::ENVIRONMENT.into_iter().chain(env) {
        program = program.env(key, value);
    }
    let program = program
        .env("KUBECONFIG", plane.kubeconfig())
        .env("METRICS_PORT", ports[0].number().to_string())
        .env("HEALTH_PROBE_PORT", ports[1].number().to_string());
    Ok((program, ports))
}
