//! What a control plane is made of, and the knobs that tests turn.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// A part of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    Etcd,
    ApiServer,
    Scheduler,
    ControllerManager,
    Kwok,
}

impl Component {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::Scheduler => "kube-scheduler",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kwok => "kwok",
        }
    }
}

/// How fast a client may talk to the API server.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub qps: u32,
    pub burst: u32,
}

/// Which stages kwok plays for nodes and pods.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    /// Adds the stages that Karpenter's suites rely on; they replace kwok's own of the same name.
    pub karpenter: bool,
    /// How long a new node takes to become Ready.
    pub node_ready_after: Duration,
    /// How long a bound pod takes to run.
    pub pod_ready_after: Duration,
    /// How long a deleted pod takes to go.
    pub pod_gone_after: Duration,
}

/// The choice of components and their settings; the default is a whole control plane as real clusters run it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Runs kube-scheduler.
    pub scheduler: bool,
    /// Runs kube-controller-manager.
    pub controller_manager: bool,
    /// Runs kwok, which plays the kubelets of nodes annotated `kwok.x-k8s.io/node=fake`.
    pub kwok: bool,
    /// kube-controller-manager's own default, which self-managed clusters keep; it decides how fast pods are created.
    pub controller_manager_rate: Rate,
    /// The `profiles` of kube-scheduler's configuration, or its default profile.
    pub scheduler_profiles: Option<Value>,
    pub stages: Stages,
    /// More arguments for a component, after the testbed's own.
    pub extra_args: BTreeMap<Component, Vec<String>>,
    /// The API server's port, or any free one.
    pub port: Option<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler: true,
            controller_manager: true,
            kwok: true,
            controller_manager_rate: Rate { qps: 20, burst: 30 },
            scheduler_profiles: None,
            stages: Stages::default(),
            extra_args: BTreeMap::new(),
            port: None,
        }
    }
}

impl Options {
    /// Only etcd and the API server: nothing schedules, nothing creates pods, nothing plays a node.
    pub fn api_only() -> Self {
        Self { scheduler: false, controller_manager: false, kwok: false, ..Self::default() }
    }

    /// Everything, with nodes that take so long to be ready.
    pub fn ready_after(node_ready_after: Duration) -> Self {
        let stages = Stages { node_ready_after, ..Stages::default() };
        // Marks of nodes that are not ready are taken off at the next look at them, by default up to five seconds later.
        let often = vec!["--node-monitor-period=500ms".to_owned()];
        let extra_args = BTreeMap::from([(Component::ControllerManager, often)]);
        Self { stages, extra_args, ..Self::default() }
    }

    pub(crate) fn components(&self) -> Vec<Component> {
        let optional = [
            (self.scheduler, Component::Scheduler),
            (self.controller_manager, Component::ControllerManager),
            (self.kwok, Component::Kwok),
        ];
        let chosen = optional.into_iter().filter(|(wanted, _)| *wanted).map(|(_, component)| component);
        [Component::Etcd, Component::ApiServer].into_iter().chain(chosen).collect()
    }
}
