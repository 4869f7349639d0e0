//! `headstart run` on a real control plane, with exactly the rights that the install manifest gives.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headstart_api::crds;
use headstart_testbed::{ControlPlane, Options, Process, Program, workload};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("../../../deploy/headstart.yaml");
const LEASE: &str = "karpenter-leader-election";
/// Longer than anything here takes, so that only something broken runs into it.
const LIMIT: Duration = Duration::from_mins(2);

/// A control plane and the operator's rights on it.
struct Cluster {
    plane: ControlPlane,
    headstart: PathBuf,
    kubeconfig: PathBuf,
}

/// An operator that was started.
struct Operator<'a> {
    cluster: &'a Cluster,
    name: &'static str,
}

impl Cluster {
    async fn start(options: Options) -> Result<Self> {
        let plane = ControlPlane::start(options).await?;
        let headstart = tokio::task::spawn_blocking(headstart).await??;
        let user = "system:serviceaccount:kube-system:headstart";
        let kubeconfig = plane.kubeconfig_for(user, &["system:serviceaccounts", "system:authenticated"])?;
        let cluster = Self { plane, headstart, kubeconfig };
        for object in serde_saphyr::from_multiple::<Value>(MANIFEST)? {
            if object["apiVersion"] == "rbac.authorization.k8s.io/v1" {
                cluster.apply(object).await?;
            }
        }
        Ok(cluster)
    }

    async fn apply(&self, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("an object has no type")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.plane.client(), &namespace, &resource),
            None => Api::all_with(self.plane.client(), &resource),
        };
        api.patch(&object.name_any(), &PatchParams::apply("test").force(), &Patch::Apply(&object)).await?;
        Ok(())
    }

    async fn install_crds(&self) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.plane.client());
        for crd in crds::all() {
            api.create(&PostParams::default(), &crd).await?;
        }
        Ok(())
    }

    fn run(&self, name: &'static str, args: &[&str]) -> Result<Operator<'_>> {
        let program = Program::new(name, &self.headstart)
            .args(["run", "--metrics-port=0", "--health-probe-port=0", "--kubeconfig"])
            .args([&self.kubeconfig])
            .args(args.iter().copied());
        self.plane.spawn(program)?;
        Ok(Operator { cluster: self, name })
    }

    fn leases(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.plane.client(), namespace)
    }

    async fn holder(&self, namespace: &str) -> Result<String> {
        let lease = self.leases(namespace).get_opt(LEASE).await?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
    }
}

impl Operator<'_> {
    /// The lines of its log whose message contains a text.
    fn said(&self, text: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.cluster.plane.log(self.name)).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|line: &Value| line["message"].as_str().is_some_and(|said| said.contains(text)))
            .collect()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.cluster.plane.log(self.name)).unwrap_or_default()
    }

    /// What it answers on the port for probes or metrics: code and text.
    fn get(&self, what: &str, path: &str) -> Result<(u16, String)> {
        let line = self.said(&format!("listening for {what}")).pop().context("it does not listen")?;
        let port: u16 = line["port"].as_str().unwrap_or_default().parse()?;
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let code = answer.split(' ').nth(1).context("no answer")?.parse()?;
        Ok((code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
    }

    async fn exit_code(&self) -> Result<i32> {
        eventually("its end", async || Ok(self.cluster.plane.exited(self.name)?.is_some())).await?;
        self.cluster.plane.exited(self.name)?.and_then(|status| status.code()).context("it was killed")
    }

    fn signal(&self, act: impl FnOnce(&mut Process) -> Result<()>) -> Result<()> {
        self.cluster.plane.with_process(self.name, act)?
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        let state = is_so().await;
        if matches!(state, Ok(true)) {
            return Ok(());
        }
        ensure!(start.elapsed() < LIMIT, "waited in vain for {what}; last: {state:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The command, built from what is here.
fn headstart() -> Result<PathBuf> {
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_absent_is_said_once_and_picked_up_and_the_end_is_graceful() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    let operator = cluster.run("headstart", &[])?;
    eventually("the lease", async || Ok(!cluster.holder("kube-system").await?.is_empty())).await?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let holder = cluster.holder("kube-system").await?;
    assert!(holder.starts_with(&format!("{}_", host.trim())), "{holder}");

    eventually("the first reads", async || {
        let (code, unread) = operator.get("probes", "/readyz")?;
        Ok(code == 503 && unread == "not read yet: NodePool, NodeClaim, NodeClass\n")
    })
    .await?;
    assert_eq!(operator.get("probes", "/healthz")?, (200, "ok\n".to_owned()));
    cluster.install_crds().await?;
    eventually("readiness", async || Ok(operator.get("probes", "/readyz")?.0 == 200)).await?;
    let absent = operator.said("are not served");
    assert_eq!(
        absent.len(),
        3,
        "one warning a kind, and none for overlays, which are off:\n{}",
        operator.log()
    );
    assert_eq!(operator.said("may not be read"), Vec::<Value>::new(), "the manifest's rights are enough");

    let (code, metrics) = operator.get("metrics", "/metrics")?;
    assert_eq!(code, 200);
    for expected in ["karpenter_build_info{version=", "headstart_events_total{kind=\"NodePool\"}", "# EOF"] {
        assert!(metrics.contains(expected), "{expected} is missing in:\n{metrics}");
    }

    operator.signal(|process| process.terminate())?;
    assert_eq!(operator.exit_code().await?, 0, "{}", operator.log());
    assert_eq!(cluster.holder("kube-system").await?, "", "the lease was given up");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_through_its_lease_ends() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    cluster.install_crds().await?;
    let first = cluster.run("first", &[])?;
    eventually("the first leader", async || Ok(!first.said("leading").is_empty())).await?;
    let second = cluster.run("second", &[])?;
    eventually("the second to wait", async || Ok(!second.said("another one leads").is_empty())).await?;
    first.signal(|process| process.pause())?;
    eventually("the second leader", async || Ok(!second.said("leading").is_empty())).await?;
    first.signal(|process| process.resume())?;
    assert_eq!(first.exit_code().await?, 1);
    assert_eq!(first.said("the lease was lost; acting no more").len(), 1, "{}", first.log());
    second.signal(|process| process.terminate())?;
    assert_eq!(second.exit_code().await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_found_wherever_it_is() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    let namespace = json!({"metadata": {"name": "karpenter"}});
    Api::<Namespace>::all(cluster.plane.client())
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;
    let theirs = Lease {
        metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some("karpenter-0_1".to_owned()),
            lease_duration_seconds: Some(3),
            lease_transitions: Some(1),
            ..LeaseSpec::default()
        }),
    };
    cluster.leases("karpenter").create(&PostParams::default(), &theirs).await?;
    let operator = cluster.run("headstart", &[])?;
    eventually("the other to be noticed", async || {
        Ok(operator.said("another one leads").iter().any(|line| line["holder"] == "karpenter-0_1"))
    })
    .await?;
    eventually("the other to be outlived", async || {
        let lease = cluster.leases("karpenter").get(LEASE).await?.spec.unwrap_or_default();
        Ok(lease.lease_transitions == Some(2)
            && lease.holder_identity.is_some_and(|holder| holder != "karpenter-0_1"))
    })
    .await?;
    assert!(cluster.leases("kube-system").get_opt(LEASE).await?.is_none(), "there is only one");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_stops_the_start() -> Result<()> {
    let cluster = Cluster::start(Options::api_only()).await?;
    let gated = cluster.run("gated", &["--feature-gates=NodeRepair=true"])?;
    assert_eq!(gated.exit_code().await?, 1);
    assert!(gated.log().contains("error: feature gate NodeRepair is enabled"), "{}", gated.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_nodes_and_nothing_is_left_of_them_afterwards() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    cluster.install_crds().await?;
    let journal = cluster.plane.dir().join("journal.jsonl");
    let operator = cluster.run("headstart", &["--journal", &journal.display().to_string()])?;
    eventually("readiness", async || Ok(operator.get("probes", "/readyz")?.0 == 200)).await?;
    for object in workload::open_pool() {
        cluster.apply(object).await?;
    }
    cluster.apply(deployment(10)).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.plane.client());
    let phase = |pod: &Pod| pod.status.clone().and_then(|status| status.phase).unwrap_or_default();
    let running = eventually("ten running pods", async || {
        let pods = pods.list(&ListParams::default()).await?;
        Ok(pods.iter().filter(|pod| phase(pod) == "Running").count() == 10)
    })
    .await;
    running.with_context(|| operator.log())?;

    let nodes: Api<Node> = Api::all(cluster.plane.client());
    let claims: Api<DynamicObject> = Api::all_with(
        cluster.plane.client(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim")),
    );
    let bought = claims.list(&ListParams::default()).await?.items.len();
    assert!(bought > 0);
    assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), bought, "a node for each claim");
    eventually("events about what was done", async || {
        let events = Api::<Event>::all(cluster.plane.client()).list(&ListParams::default()).await?;
        let ours = |event: &&Event| event.reporting_component.as_deref() == Some("karpenter");
        Ok(events.iter().filter(ours).count() > 0)
    })
    .await
    .with_context(|| operator.log())?;

    cluster.apply(deployment(0)).await?;
    claims.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    eventually("everything to go", async || {
        let left = claims.list(&ListParams::default()).await?.items.len()
            + nodes.list(&ListParams::default()).await?.items.len();
        Ok(left == 0)
    })
    .await
    .with_context(|| operator.log())?;

    let (_, metrics) = operator.get("metrics", "/metrics")?;
    let bad: Vec<&str> = metrics
        .lines()
        .filter(|line| line.contains("outcome=\"forbidden\"") || line.contains("outcome=\"invalid\""))
        .collect();
    assert_eq!(bad, Vec::<&str>::new(), "the manifest's rights are enough");
    assert_eq!(operator.said("a metric is measured that does not exist"), Vec::<Value>::new());

    operator.signal(|process| process.terminate())?;
    assert_eq!(operator.exit_code().await?, 0);
    let replayed = Command::new(&cluster.headstart).arg("replay").arg(&journal).output()?;
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(replayed.status.success() && said.starts_with("The same: "), "{said}");
    Ok(())
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]},
            },
        },
    })
}
