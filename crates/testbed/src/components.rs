//! The command line of each component, in the order in which they start.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::binaries::{self, Binary};
use crate::certs::Certs;
use crate::keeper::Keeper;
use crate::options::{Component, Options};
use crate::ports::Port;
use crate::process::Program;
use crate::{kubeconfig, stages};

/// Everything a control plane needs before its first process starts.
pub(crate) struct Layout {
    pub(crate) keeper: Keeper,
    pub(crate) certs: Certs,
    pub(crate) ports: Vec<Port>,
    pub(crate) server: String,
    pub(crate) programs: Vec<(Component, Program)>,
}

/// Finds the programs, and lays out a directory with certificates and configuration. Blocks.
pub(crate) fn prepare(options: &Options) -> Result<Layout> {
    let components = options.components();
    let paths =
        binaries::ensure_all(&components.iter().map(|component| binary(*component)).collect::<Vec<_>>())?;
    let api_port = options.port.map_or_else(Port::any, Port::exactly)?;
    let (etcd_port, peer_port) = (Port::any()?, Port::any()?);

    let dir = tempfile::Builder::new()
        .prefix("headstart-testbed-")
        .tempdir()
        .context("cannot create a directory")?;
    let keeper = Keeper::new(dir.keep())?;
    let dir = keeper.dir();
    fs::create_dir_all(dir.join("logs"))?;
    let certs = Certs::create(&dir.join("pki"))?;
    let server = format!("https://127.0.0.1:{}", api_port.number());
    kubeconfig::write(&dir.join("admin.kubeconfig"), &server, &certs, "admin", &["system:masters"])?;

    let files = Files { options, dir, certs: &certs, server: &server };
    let mut programs = Vec::new();
    for (component, path) in components.iter().copied().zip(paths) {
        let args = match component {
            Component::Etcd => etcd(dir, etcd_port.number(), peer_port.number()),
            Component::ApiServer => files.api_server(api_port.number(), etcd_port.number()),
            Component::Scheduler => files.scheduler()?,
            Component::ControllerManager => files.controller_manager()?,
            Component::Kwok => files.kwok()?,
        };
        let extra = options.extra_args.get(&component).cloned().unwrap_or_default();
        programs.push((component, Program::new(component.name(), path).args(args).args(extra)));
    }
    Ok(Layout { server, programs, certs, ports: vec![api_port, etcd_port, peer_port], keeper })
}

fn binary(component: Component) -> Binary {
    match component {
        Component::Etcd => Binary::Etcd,
        Component::ApiServer => Binary::KubeApiserver,
        Component::Scheduler => Binary::KubeScheduler,
        Component::ControllerManager => Binary::KubeControllerManager,
        Component::Kwok => Binary::Kwok,
    }
}

fn etcd(dir: &Path, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    vec![
        "--name=testbed".to_owned(),
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=testbed={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--quota-backend-bytes=4294967296".to_owned(),
        "--auto-compaction-retention=5m".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

struct Files<'a> {
    options: &'a Options,
    dir: &'a Path,
    certs: &'a Certs,
    server: &'a str,
}

impl Files<'_> {
    fn api_server(&self, port: u16, etcd: u16) -> Vec<String> {
        let pki = |file| self.certs.path(file);
        vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--profiling=false".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", pki("sa.pub")),
            format!("--service-account-signing-key-file={}", pki("sa.key")),
            format!("--client-ca-file={}", pki("ca.crt")),
            format!("--tls-cert-file={}", pki("apiserver.crt")),
            format!("--tls-private-key-file={}", pki("apiserver.key")),
        ]
    }

    fn scheduler(&self) -> Result<Vec<String>> {
        let mut config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            // The default of 50/100 would throttle what is being measured.
            "clientConnection": {"kubeconfig": self.kubeconfig("system:kube-scheduler")?, "qps": 500, "burst": 1000},
        });
        if let Some(profiles) = &self.options.scheduler_profiles {
            config["profiles"] = profiles.clone();
        }
        let path = self.dir.join("scheduler.json");
        fs::write(&path, config.to_string())?;
        Ok(vec![format!("--config={}", path.display()), "--secure-port=0".to_owned()])
    }

    fn controller_manager(&self) -> Result<Vec<String>> {
        let rate = self.options.controller_manager_rate;
        Ok(vec![
            format!("--kubeconfig={}", self.kubeconfig("system:kube-controller-manager")?),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-account-private-key-file={}", self.certs.path("sa.key")),
            format!("--root-ca-file={}", self.certs.path("ca.crt")),
            format!("--kube-api-qps={}", rate.qps),
            format!("--kube-api-burst={}", rate.burst),
        ])
    }

    fn kwok(&self) -> Result<Vec<String>> {
        let config = self.dir.join("kwok.yaml");
        stages::write(&config, &self.options.stages)?;
        // Somebody of its own, so that the API server's books can tell it from an operator.
        let kubeconfig = self.dir.join("kwok.kubeconfig");
        kubeconfig::write(&kubeconfig, self.server, self.certs, "kwok", &["system:masters"])?;
        Ok(vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={}", config.display()),
            "--manage-all-nodes=false".to_owned(),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            "--node-ip=10.0.0.1".to_owned(),
            "--cidr=10.0.0.1/24".to_owned(),
        ])
    }

    fn kubeconfig(&self, user: &str) -> Result<String> {
        let path = self.dir.join(format!("{}.kubeconfig", user.replace(':', "-")));
        kubeconfig::write(&path, self.server, self.certs, user, &[])?;
        Ok(path.display().to_string())
    }
}
