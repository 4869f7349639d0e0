//! A Kubernetes control plane of its own for whoever asks: started in seconds, gone without a trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;

use crate::certs::Certs;
use crate::components::{self, Layout};
use crate::keeper::Keeper;
use crate::kubeconfig;
use crate::options::{Component, Options};
use crate::ports::Port;
use crate::process::{Process, Program};
use crate::stages;

/// Longer than any machine we know needs, so that only something broken runs into it.
const START_LIMIT: Duration = Duration::from_mins(2);

/// A running control plane; dropping it ends its processes and removes its directory.
pub struct ControlPlane {
    processes: Mutex<BTreeMap<String, Process>>,
    keeper: Keeper,
    certs: Certs,
    client: Client,
    server: String,
    _ports: Vec<Port>,
}

impl ControlPlane {
    /// Starts a control plane and returns once it can be used.
    pub async fn start(options: Options) -> Result<Self> {
        let is_slow = !options.stages.node_ready_after.is_zero();
        let layout = tokio::task::spawn_blocking(move || components::prepare(&options)).await??;
        let Layout { keeper, certs, ports, server, programs } = layout;
        let client = connect(&keeper.dir().join("admin.kubeconfig")).await?;
        let plane = Self { processes: Mutex::default(), keeper, certs, client, server, _ports: ports };
        for (component, program) in programs {
            plane.spawn(program)?;
            match component {
                Component::ApiServer => {
                    plane.wait_ready().await?;
                    for object in is_slow.then(stages::unready_at_first).into_iter().flatten() {
                        create(&plane.client, object).await?;
                    }
                }
                Component::ControllerManager => plane.wait_for_service_accounts().await?,
                Component::Etcd | Component::Scheduler | Component::Kwok => {}
            }
        }
        Ok(plane)
    }

    /// A client with every right.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A kubeconfig with every right.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir().join("admin.kubeconfig")
    }

    /// Writes a kubeconfig for another user, who has the rights that RBAC gives to it.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let path = self.dir().join(format!("{}.kubeconfig", user.replace([':', '/'], "-")));
        kubeconfig::write(&path, &self.server, &self.certs, user, groups)?;
        Ok(path)
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The directory of this control plane; it goes when the control plane goes.
    pub fn dir(&self) -> &Path {
        self.keeper.dir()
    }

    /// Where the process `name` writes its output.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir().join("logs").join(format!("{name}.log"))
    }

    /// Runs a program that ends with this control plane. A name can be used again once its process has ended.
    pub fn spawn(&self, program: Program) -> Result<()> {
        let mut processes = self.processes();
        if processes.get_mut(&program.name).is_some_and(|process| process.exited().is_none()) {
            bail!("a process named {} runs already", program.name);
        }
        let log = self.log(&program.name);
        processes.insert(program.name.clone(), Process::start(program, &log, &self.keeper)?);
        Ok(())
    }

    /// Lets `act` pause, resume, terminate or kill the process `name`.
    pub fn with_process<T>(&self, name: &str, act: impl FnOnce(&mut Process) -> T) -> Result<T> {
        let mut processes = self.processes();
        let process =
            processes.get_mut(name).with_context(|| format!("no process named {name} was started"))?;
        Ok(act(process))
    }

    /// The exit status of the process `name`, if it has ended.
    pub fn exited(&self, name: &str) -> Result<Option<ExitStatus>> {
        self.with_process(name, Process::exited)
    }

    /// Stops a component from running, as a machine that hangs would.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.with_process(component.name(), |process| process.pause())?
    }

    pub fn resume(&self, component: Component) -> Result<()> {
        self.with_process(component.name(), |process| process.resume())?
    }

    /// Kills a component and starts it again; waits until the API server answers if it is the one.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.with_process(component.name(), |process| process.restart(&self.keeper))??;
        match component {
            Component::Etcd | Component::ApiServer => self.wait_ready().await,
            Component::Scheduler | Component::ControllerManager | Component::Kwok => Ok(()),
        }
    }

    /// Waits until the API server says that it is ready.
    pub async fn wait_ready(&self) -> Result<()> {
        let ready = async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(self.client.request_text(request).await? == "ok")
        };
        self.wait_for("the API server to be ready", ready).await
    }

    /// Pods are refused until the controller manager has made their namespace's service account.
    async fn wait_for_service_accounts(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), "default");
        let there = async || Ok(accounts.get_opt("default").await?.is_some());
        self.wait_for("the controller manager to make service accounts", there).await
    }

    async fn wait_for(&self, what: &str, done: impl AsyncFn() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        loop {
            let state = done().await;
            if matches!(state, Ok(true)) {
                return Ok(());
            }
            self.fail_if_one_ended()?;
            if start.elapsed() > START_LIMIT {
                let last = state.err().unwrap_or_else(|| anyhow!("it answered, but not yet"));
                return Err(last.context(format!("waited {} s for {what}", START_LIMIT.as_secs())));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn fail_if_one_ended(&self) -> Result<()> {
        for process in self.processes().values_mut() {
            if let Some(status) = process.exited() {
                bail!("{} ended ({status}); it last said:\n{}", process.name(), process.log_tail());
            }
        }
        Ok(())
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        // A panic while the lock was held leaves the map as whole as it was.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let processes = self.processes.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.keeper.end(|| {
            for process in processes.values_mut() {
                process.reap();
            }
        });
    }
}

/// Creates an object of any kind.
pub(crate) async fn create(client: &Client, object: Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.as_ref().context("an object does not say its kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api = match &object.metadata.namespace {
        Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// A client for the kubeconfig at `path`.
pub async fn connect(path: &Path) -> Result<Client> {
    let kubeconfig =
        Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
