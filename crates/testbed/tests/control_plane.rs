//! The testbed itself: what it starts works, and what it ends leaves nothing behind.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headstart_testbed::{Component, ControlPlane, Options, Program};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

/// Names the directory file that the child of `a_killed_owner_leaves_nothing` writes.
const CHILD_VARIABLE: &str = "HEADSTART_TESTBED_KILLED_CHILD";

#[tokio::test(flavor = "multi_thread")]
async fn twenty_in_a_row_three_at_once_leave_nothing() -> Result<()> {
    let mut left = 20;
    while left > 0 {
        let batch = left.min(3);
        left -= batch;
        let planes =
            futures::future::try_join_all((0..batch).map(|_| ControlPlane::start(Options::api_only())))
                .await?;
        let traces: Vec<Traces> = planes.iter().map(Traces::of).collect();
        for (plane, traces) in planes.iter().zip(&traces) {
            assert_eq!(
                Api::<Namespace>::all(plane.client()).list(&ListParams::default()).await?.items.len(),
                4
            );
            assert_eq!(traces.processes().len(), 2, "etcd and the API server run");
        }
        drop(planes);
        for traces in &traces {
            traces.assert_gone();
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_on_a_simulated_node_and_the_parts_can_be_disturbed() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let nodes: Api<Node> = Api::all(plane.client());
    let node = json!({
        "metadata": {"name": "one", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    create_pod(&plane, "first").await?;
    wait_running(&plane, "first").await?;

    plane.pause(Component::Scheduler)?;
    create_pod(&plane, "second").await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        pod(&plane, "second").await?.spec.unwrap_or_default().node_name.is_none(),
        "a paused scheduler binds nothing"
    );
    plane.resume(Component::Scheduler)?;
    wait_running(&plane, "second").await?;

    for component in [
        Component::Etcd,
        Component::ApiServer,
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
    ] {
        plane.restart(component).await.with_context(|| format!("restarting {component:?}"))?;
    }
    create_pod(&plane, "third").await?;
    wait_running(&plane, "third").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_what_rbac_gives() -> Result<()> {
    let plane = ControlPlane::start(Options::api_only()).await?;
    let nobody = headstart_testbed::connect(&plane.kubeconfig_for("nobody", &[])?).await?;
    let refused =
        Api::<ConfigMap>::namespaced(nobody, "default").list(&ListParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("forbidden"), "{refused}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_owner_leaves_nothing() -> Result<()> {
    let plane = ControlPlane::start(Options::api_only()).await?;
    let traces = Traces::of(&plane);
    let panicked = tokio::spawn(async move {
        let _owned = plane;
        panic!("as a failing test would");
    })
    .await;
    assert!(panicked.is_err());
    traces.assert_gone();
    Ok(())
}

/// This test runs itself as a child, which starts a control plane and a companion and is then killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_leaves_nothing() -> Result<()> {
    if let Some(report) = std::env::var_os(CHILD_VARIABLE) {
        let plane = ControlPlane::start(Options::api_only()).await?;
        plane.spawn(Program::new("companion", "tail").args(["-f".into(), plane.kubeconfig()]))?;
        let report = PathBuf::from(report);
        fs::write(report.with_extension("partial"), plane.dir().as_os_str().as_encoded_bytes())?;
        fs::rename(report.with_extension("partial"), report)?;
        std::future::pending::<()>().await;
    }
    let dir = tempfile::tempdir()?;
    let report = dir.path().join("report");
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "a_killed_owner_leaves_nothing", "--nocapture"])
        .env(CHILD_VARIABLE, &report)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    wait("the child to start its control plane", || {
        report.exists() || child.try_wait().ok().flatten().is_some()
    })?;
    let traces = Traces { dir: fs::read_to_string(&report).context("the child ended early")?.into() };
    assert_eq!(traces.processes().len(), 3);
    child.kill()?;
    child.wait()?;
    wait("everything of the killed owner to go", || traces.processes().is_empty() && !traces.dir.exists())
}

#[tokio::test]
async fn an_occupied_port_is_refused_before_anything_starts() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let refused = ControlPlane::start(Options { port: Some(port), ..Options::api_only() })
        .await
        .err()
        .context("it started")?;
    assert!(refused.to_string().contains(&format!("port {port} on 127.0.0.1 is in use")), "{refused:#}");
    Ok(())
}

async fn create_pod(plane: &ControlPlane, name: &str) -> Result<()> {
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "none"}]}});
    Api::<Pod>::default_namespaced(plane.client())
        .create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await?;
    Ok(())
}

async fn pod(plane: &ControlPlane, name: &str) -> Result<Pod> {
    Ok(Api::<Pod>::default_namespaced(plane.client()).get(name).await?)
}

async fn wait_running(plane: &ControlPlane, name: &str) -> Result<()> {
    let start = Instant::now();
    while pod(plane, name).await?.status.unwrap_or_default().phase.as_deref() != Some("Running") {
        ensure!(start.elapsed() < Duration::from_mins(1), "pod {name} does not run");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn wait(what: &str, mut done: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !done() {
        ensure!(start.elapsed() < Duration::from_mins(2), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// What a control plane would leave behind: its directory, and processes that name it on their command line.
struct Traces {
    dir: PathBuf,
}

impl Traces {
    fn of(plane: &ControlPlane) -> Self {
        Self { dir: plane.dir().to_owned() }
    }

    fn processes(&self) -> Vec<String> {
        let name = self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let commands = fs::read_dir("/proc").into_iter().flatten().flatten();
        commands
            .filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
            .filter(|command| command.contains(&name) && !command.contains("testbed-keeper"))
            .collect()
    }

    fn assert_gone(&self) {
        assert_eq!(self.processes(), Vec::<String>::new());
        assert!(!self.dir.exists(), "{} is left", self.dir.display());
    }
}
