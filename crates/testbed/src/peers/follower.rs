//! Runs an operator as a process for as long as its pod exists, as a kubelet would.
//!
//! Upstream's suites edit the environment of the operator's Deployment and wait for the new pod to hold the lease. So
//! each pod gets a process with the pod's environment and the pod's name as host name, and a process that ends by
//! itself is started again and counted as a restart in the pod's status.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::program;
use crate::control_plane::ControlPlane;
use crate::ports::Port;
use crate::process::Process;

const PERIOD: Duration = Duration::from_millis(200);
/// How long a process whose pod is gone may take to end by itself.
const GRACE: Duration = Duration::from_secs(10);
/// How much longer each further restart waits, so that an operator that cannot run does not fill the disk with logs.
const BACK_OFF: Duration = Duration::from_secs(5);
/// Gives the command a host name of its own, without which two operators could not be told apart by their lease.
const WITH_HOST_NAME: &str =
    r#"hostname "$0" 2>/dev/null || echo "$0" >/proc/sys/kernel/hostname; exec "$@""#;

struct Follower {
    /// Counts the starts, because the log and the process are named after the pod and the start.
    name: String,
    restarts: i32,
    started: Instant,
    /// When the pod went, if it went.
    leaving: Option<Instant>,
    _ports: [Port; 2],
}

/// Follows the pods labeled as Karpenter's until the future is dropped.
pub async fn follow(plane: &ControlPlane, command: &[PathBuf]) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(plane.client(), "kube-system");
    let selector = ListParams::default().labels("app.kubernetes.io/instance=karpenter");
    let mut running: BTreeMap<String, Follower> = BTreeMap::new();
    loop {
        // A failed list is repeated: the API server may be restarting, which is the operator's problem and not ours.
        if let Ok(list) = pods.list(&selector).await {
            let live: BTreeMap<String, Pod> = list
                .into_iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_running(pod))
                .map(|pod| (pod.name_any(), pod))
                .collect();
            for (name, pod) in &live {
                if !running.contains_key(name) {
                    running.insert(name.clone(), start(plane, command, pod, 0)?);
                }
            }
            leave(plane, &mut running, &live)?;
            for (name, pod) in &live {
                restart_if_ended(plane, &pods, command, &mut running, name, pod).await?;
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Ends the processes whose pods are gone.
fn leave(
    plane: &ControlPlane,
    running: &mut BTreeMap<String, Follower>,
    live: &BTreeMap<String, Pod>,
) -> Result<()> {
    for (_, follower) in running.iter_mut().filter(|(name, _)| !live.contains_key(*name)) {
        plane.with_process(&follower.name, |process| match follower.leaving {
            None => {
                follower.leaving = Some(Instant::now());
                let _ = process.terminate();
            }
            Some(since) if since.elapsed() > GRACE => process.kill(),
            Some(_) => {}
        })?;
    }
    let mut gone = Vec::new();
    for (name, follower) in running.iter().filter(|(_, follower)| follower.leaving.is_some()) {
        if plane.exited(&follower.name)?.is_some() {
            gone.push(name.clone());
        }
    }
    for name in gone {
        running.remove(&name);
    }
    Ok(())
}

async fn restart_if_ended(
    plane: &ControlPlane,
    pods: &Api<Pod>,
    command: &[PathBuf],
    running: &mut BTreeMap<String, Follower>,
    name: &str,
    pod: &Pod,
) -> Result<()> {
    let Some(follower) = running.get(name) else { return Ok(()) };
    if follower.leaving.is_some() || plane.with_process(&follower.name, Process::exited)?.is_none() {
        return Ok(());
    }
    // The first restart comes at once, as a kubelet's does.
    if follower.started.elapsed() < BACK_OFF * follower.restarts.min(12).unsigned_abs() {
        return Ok(());
    }
    let restarts = follower.restarts + 1;
    running.insert(name.to_owned(), start(plane, command, pod, restarts)?);
    let containers =
        pod.status.as_ref().and_then(|status| status.container_statuses.clone()).unwrap_or_default();
    let counted: Vec<_> = containers
        .into_iter()
        .map(|mut status| {
            status.restart_count = restarts;
            status
        })
        .collect();
    let patch = json!({"status": {"containerStatuses": counted}});
    let _ = pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
    Ok(())
}

fn start(plane: &ControlPlane, command: &[PathBuf], pod: &Pod, restarts: i32) -> Result<Follower> {
    let name = format!("{}.{restarts}", pod.name_any());
    let container = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.containers.first())
        .context("an operator's pod has no container")?;
    let env: Vec<(&str, &str)> = container
        .env
        .iter()
        .flatten()
        .map(|variable| (variable.name.as_str(), variable.value.as_deref().unwrap_or_default()))
        .collect();
    let wrapped: Vec<PathBuf> = ["unshare", "--uts", "--", "sh", "-c", WITH_HOST_NAME, &pod.name_any()]
        .into_iter()
        .map(PathBuf::from)
        .chain(command.iter().cloned())
        .collect();
    let (program, ports) = program(plane, &name, &wrapped, env)?;
    plane.spawn(program)?;
    Ok(Follower { name, restarts, started: Instant::now(), leaving: None, _ports: ports })
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}
