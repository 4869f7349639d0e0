//! `headstart-testbed up`: a control plane until Ctrl-C.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use headstart_testbed::binaries::{Binary, ensure};
use headstart_testbed::peers::{self, Peer};
use headstart_testbed::{ControlPlane, Options, Rate, Stages};

use super::interrupted;

/// Start a control plane and keep it until Ctrl-C.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The API server's port on 127.0.0.1; any free one by default.
    #[arg(long)]
    port: Option<u16>,
    /// Requests per second that kube-controller-manager may send; its own default is what limits pod creation.
    #[arg(long, default_value_t = 20)]
    controller_manager_qps: u32,
    /// Requests that kube-controller-manager may send at once.
    #[arg(long, default_value_t = 30)]
    controller_manager_burst: u32,
    /// Milliseconds until a new node is Ready.
    #[arg(long, default_value_t = 0)]
    node_ready_ms: u64,
    /// Milliseconds until a bound pod runs.
    #[arg(long, default_value_t = 0)]
    pod_ready_ms: u64,
    /// Install Karpenter's CustomResourceDefinitions and run this operator on the control plane.
    #[arg(long, value_enum)]
    peer: Option<Peer>,
    /// Use the kwok stages of Karpenter's suites: unhealthy nodes, slow pod deletion, reboots.
    #[arg(long)]
    karpenter_stages: bool,
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let kubectl = tokio::task::spawn_blocking(|| ensure(Binary::Kubectl)).await??;
    let start = Instant::now();
    let options = Options {
        port: arguments.port,
        controller_manager_rate: Rate {
            qps: arguments.controller_manager_qps,
            burst: arguments.controller_manager_burst,
        },
        stages: Stages {
            karpenter: arguments.karpenter_stages,
            node_ready_after: Duration::from_millis(arguments.node_ready_ms),
            pod_ready_after: Duration::from_millis(arguments.pod_ready_ms),
            ..Stages::default()
        },
        ..Options::default()
    };
    let plane = tokio::select! {
        plane = ControlPlane::start(options) => plane?,
        result = interrupted() => return result.map(|()| ExitCode::FAILURE),
    };
    // A link gives kubectl its own name, whatever the cache calls it.
    let link = plane.dir().join("kubectl");
    std::os::unix::fs::symlink(kubectl, &link)?;
    println!(
        "Kubernetes 1.36 is up at {} after {:.1} s: etcd, API server, scheduler, controller manager, kwok.\n\n  \
           export KUBECONFIG={}\n  \
           alias kubectl={}\n  \
           kubectl get namespaces\n\n\
         Nodes annotated kwok.x-k8s.io/node=fake become Ready, and pods bound to them run.\n\
         Logs are in {}. Ctrl-C ends it and removes everything.",
        plane.server(),
        start.elapsed().as_secs_f32(),
        plane.kubeconfig().display(),
        link.display(),
        plane.dir().join("logs").display(),
    );
    let _running = match arguments.peer {
        Some(peer) => Some(run_peer(&plane, peer).await?),
        None => None,
    };
    interrupted().await?;
    eprintln!("ending the control plane");
    drop(plane);
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
async fn run_peer(plane: &ControlPlane, peer: Peer) -> Result<peers::Running> {
    peers::install_crds(plane).await?;
    // To play with what the operator has beyond its defaults.
    let gates = match peer {
        Peer::Karpenter => "CapacityBuffer=true",
        Peer::Headstart => "NodeOverlay=true",
    };
    let running = peers::run(plane, peer, &[("FEATURE_GATES", gates)]).await?;
    println!(
        "\n{} runs on it (log {}, metrics http://127.0.0.1:{}/metrics). Give it pods and a NodePool:\n\n  \
           kubectl apply -f examples/quickstart.yaml\n  \
           kubectl get nodepools,nodeclaims,nodes,pods --watch",
        peer.name(),
        plane.log(peer.name()).display(),
        running.metrics_port(),
    );
    Ok(running)
}
