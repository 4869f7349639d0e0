//! A control plane with an operator on it, the things to put there, and the ways to look at them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use futures::{StreamExt, TryStreamExt};
use headstart_api::crds;
use headstart_cloud::catalog::{Catalog, Source};
use headstart_cloud::testcloud::Admin;
use headstart_testbed::{ControlPlane, Options, Process, Program, http, peers, usage};
use headstart_testcloud::audit::{Audit, Evidence, Finding, audit};
use headstart_testcloud::fault::Order;
use headstart_testcloud::{Server, Time, ledger};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt, conditions, wait, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const MANIFEST: &str = include_str!("../../../../deploy/headstart.yaml");
pub(crate) const LEASE: &str = "karpenter-leader-election";
/// Longer than anything here takes, so that only something broken runs into it.
const LIMIT: Duration = Duration::from_mins(3);

/// A control plane and the operator's rights on it.
pub(crate) struct Cluster {
    pub(crate) plane: ControlPlane,
    pub(crate) headstart: PathBuf,
    kubeconfig: PathBuf,
}

/// An operator that was started.
pub(crate) struct Operator<'a> {
    cluster: &'a Cluster,
    name: &'static str,
}

impl Cluster {
    /// A control plane on which the operator may do what the manifest lets it do.
    pub(crate) async fn start(options: Options) -> Result<Self> {
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

    /// A whole control plane that knows our kinds.
    pub(crate) async fn whole() -> Result<Self> {
        let cluster = Self::start(Options::default()).await?;
        cluster.install_crds().await?;
        Ok(cluster)
    }

    pub(crate) async fn apply(&self, object: Value) -> Result<()> {
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

    pub(crate) async fn apply_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        for object in objects {
            self.apply(object).await?;
        }
        Ok(())
    }

    pub(crate) async fn install_crds(&self) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.plane.client());
        for crd in crds::all() {
            let created = api.create(&PostParams::default(), &crd).await?;
            wait::await_condition(api.clone(), &created.name_any(), conditions::is_crd_established()).await?;
        }
        Ok(())
    }

    /// Starts an operator. A name can be used again once its process has ended.
    pub(crate) fn run(&self, name: &'static str, args: &[&str]) -> Result<Operator<'_>> {
        self.run_as(&self.kubeconfig, name, args)
    }

    /// Starts an operator with the rights of somebody else.
    pub(crate) fn run_as(
        &self,
        kubeconfig: &Path,
        name: &'static str,
        args: &[&str],
    ) -> Result<Operator<'_>> {
        let program = Program::new(name, &self.headstart)
            .args(["run", "--metrics-port=0", "--health-probe-port=0", "--kubeconfig"])
            .args([kubeconfig])
            .args(args.iter().copied());
        self.plane.spawn(program)?;
        Ok(Operator { cluster: self, name })
    }

    pub(crate) fn leases(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.plane.client(), namespace)
    }

    pub(crate) async fn holder(&self, namespace: &str) -> Result<String> {
        let lease = self.leases(namespace).get_opt(LEASE).await?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
    }

    pub(crate) fn claims(&self) -> Api<DynamicObject> {
        karpenter(self, "NodeClaim")
    }

    pub(crate) fn pools(&self) -> Api<DynamicObject> {
        karpenter(self, "NodePool")
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.plane.client())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.plane.client())
    }

    /// How many pods of the default namespace run.
    pub(crate) async fn n_running(&self) -> Result<usize> {
        let pods = self.pods().list(&ListParams::default()).await?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        Ok(pods.iter().filter(|pod| phase(pod).as_deref() == Some("Running")).count())
    }

    /// Waits until exactly so many pods run.
    pub(crate) async fn running(&self, n: usize) -> Result<()> {
        let mut last = 0;
        let what = format!("{n} running pods");
        let all = eventually(&what, async || {
            last = self.n_running().await?;
            Ok(last == n)
        });
        if let Err(error) = all.await {
            let why = self.why_pods_wait().await?;
            return Err(error.context(format!("{last} run; {why}")));
        }
        Ok(())
    }

    /// What is known about some pods that do not run, and about claims that have no node.
    async fn why_pods_wait(&self) -> Result<String> {
        let mut known = Vec::new();
        let pods = self.pods().list(&ListParams::default().fields("status.phase!=Running")).await?;
        for pod in pods.iter().take(3) {
            let events = self.told(&pod.name_any(), "FailedScheduling").await?;
            known.push(format!("{} on {:?}, {:?}: {events:?}", pod.name_any(), pod.spec, pod.status));
        }
        for claim in self.claims().list(&ListParams::default()).await? {
            if claim.data["status"]["nodeName"].is_null() {
                known.push(format!("{}: {}", claim.name_any(), claim.data["status"]));
            }
        }
        Ok(known.join("; "))
    }

    /// Waits until a NodePool says something about itself, and returns the condition.
    pub(crate) async fn pool_says(&self, pool: &str, kind: &str, status: &str) -> Result<Value> {
        let mut found = Value::Null;
        let what = format!("{kind} {status} of {pool}");
        let told = eventually(&what, async || {
            found = condition(&self.pools().get(pool).await?.data, kind);
            Ok(found["status"] == status)
        });
        told.await.with_context(|| format!("it says {found}"))?;
        Ok(found)
    }

    /// What events with this reason say about an object.
    pub(crate) async fn told(&self, about: &str, reason: &str) -> Result<Vec<String>> {
        let events = Api::<Event>::all(self.plane.client()).list(&ListParams::default()).await?;
        let matching = events.into_iter().filter(|event| {
            event.involved_object.name.as_deref() == Some(about) && event.reason.as_deref() == Some(reason)
        });
        Ok(matching.filter_map(|event| event.message).collect())
    }

    /// Begins to note every NodeClaim that ever is, whoever makes it.
    pub(crate) fn tally(&self) -> Tally {
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let (claims, noted) = (self.claims(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let mut claims =
                watcher(claims, watcher::Config::default()).default_backoff().applied_objects().boxed();
            loop {
                if let Ok(Some(claim)) = claims.try_next().await {
                    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    noted.insert(claim.uid().unwrap_or_default(), claim.data["spec"].clone());
                }
            }
        });
        Tally { seen, task }
    }
}

fn karpenter(cluster: &Cluster, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", kind));
    Api::all_with(cluster.plane.client(), &resource)
}

/// A condition of an object's status by its type.
pub(crate) fn condition(data: &Value, kind: &str) -> Value {
    let conditions = data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|c| c["type"] == kind).cloned().unwrap_or_default()
}

/// Every NodeClaim that was there since the counting began.
pub(crate) struct Tally {
    seen: Arc<Mutex<BTreeMap<String, Value>>>,
    task: JoinHandle<()>,
}

impl Tally {
    /// How many claims there ever were.
    pub(crate) fn n(&self) -> usize {
        self.specs().len()
    }

    /// What they asked for last, by uid.
    pub(crate) fn specs(&self) -> BTreeMap<String, Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Operator<'_> {
    /// Waits until it has read everything and leads.
    pub(crate) async fn ready(&self) -> Result<()> {
        let ready = eventually("readiness", async || {
            Ok(self.get("probes", "/readyz")?.0 == 200 && !self.said("leading").is_empty())
        });
        ready.await.with_context(|| self.log())
    }

    /// The lines of its log whose message contains a text.
    pub(crate) fn said(&self, text: &str) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|line: &Value| line["message"].as_str().is_some_and(|said| said.contains(text)))
            .collect()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.cluster.plane.log(self.name)).unwrap_or_default()
    }

    /// What it answers on the port for probes or metrics: code and text.
    pub(crate) fn get(&self, what: &str, path: &str) -> Result<(u16, String)> {
        let line = self.said(&format!("listening for {what}")).pop().context("it does not listen")?;
        let port: u16 = line["port"].as_str().unwrap_or_default().parse()?;
        http::get(port, path)
    }

    pub(crate) fn memory_kib(&self) -> Result<u64> {
        let pid = self.cluster.plane.with_process(self.name, |process| process.pid())?;
        usage::resident_kib(pid)
    }

    pub(crate) async fn exit_code(&self) -> Result<i32> {
        eventually("its end", async || Ok(self.cluster.plane.exited(self.name)?.is_some())).await?;
        self.cluster.plane.exited(self.name)?.and_then(|status| status.code()).context("it was killed")
    }

    pub(crate) fn signal(&self, act: impl FnOnce(&mut Process) -> Result<()>) -> Result<()> {
        self.cluster.plane.with_process(self.name, act)?
    }

    /// Kills it without warning.
    pub(crate) fn kill(&self) -> Result<()> {
        self.cluster.plane.with_process(self.name, Process::kill)
    }

    /// Asks it to end and waits until it has.
    pub(crate) async fn end(&self) -> Result<()> {
        self.signal(|process| process.terminate())?;
        let code = self.exit_code().await?;
        ensure!(code == 0, "it ended with {code}:\n{}", self.log());
        Ok(())
    }
}

/// A test cloud whose instances register in a cluster.
pub(crate) struct TestCloud {
    server: Server,
    ledger: PathBuf,
    admin: Admin,
}

impl TestCloud {
    pub(crate) async fn start(cluster: &Cluster, catalog: Source) -> Result<Self> {
        let ledger = cluster.plane.dir().join("cloud.ledger");
        let options = headstart_testcloud::Options {
            listen: "127.0.0.1:0".parse()?,
            ledger: ledger.clone(),
            catalog: Catalog::load(&catalog)?,
            cluster: Some(cluster.plane.client()),
            time: Time::Running(1.0),
        };
        let server = Server::start(options).await?;
        let admin = Admin::new(&server.endpoint())?;
        Ok(Self { server, ledger, admin })
    }

    /// The arguments with which an operator buys here.
    pub(crate) fn args(&self) -> [String; 2] {
        ["--cloud=testcloud".to_owned(), format!("--testcloud-url={}", self.server.endpoint())]
    }

    pub(crate) async fn order(&self, order: Order) -> Result<()> {
        Ok(self.admin.order(&order).await?)
    }

    pub(crate) async fn status(&self) -> Result<Value> {
        Ok(self.admin.status().await?)
    }

    /// What the cloud's own books say, held against the cluster's objects.
    pub(crate) async fn audit(&self, cluster: &Cluster) -> Result<Audit> {
        let evidence = Evidence::from_cluster(&cluster.plane.client()).await?;
        let books = ledger::read(&self.ledger)?;
        let last = books.records.last().map(|record| record.at).unwrap_or_default();
        Ok(audit(&books, Some(&evidence), last))
    }

    /// Waits until the books are in order and returns them. Orphans may be there until they are found; what was bought
    /// twice stays bought twice.
    pub(crate) async fn clean(&self, cluster: &Cluster) -> Result<Audit> {
        let mut books = self.audit(cluster).await?;
        let _ = eventually("clean books", async || {
            books = self.audit(cluster).await?;
            let is_lasting = |finding: &Finding| matches!(finding, Finding::DoubleLaunch { .. });
            Ok(books.findings.is_empty() || books.findings.iter().any(is_lasting))
        })
        .await;
        ensure!(books.findings.is_empty(), "the books show {:#?}", books.findings);
        Ok(books)
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        let state = is_so().await;
        if matches!(state, Ok(true)) {
            return Ok(());
        }
        ensure!(start.elapsed() < LIMIT, "waited in vain for {what}; last: {state:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A number that the environment can raise beyond what every run can afford.
pub(crate) fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The command: the one that is named in the environment, or built from what is here.
fn headstart() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(path) = std::env::var_os(peers::HEADSTART_VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(path.into());
    }
    BUILT
        .get_or_init(|| peers::build().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

/// A Deployment `web` of pods that ask for one CPU and two GiB.
pub(crate) fn deployment(replicas: usize) -> Value {
    named_deployment("web", replicas, &json!({}))
}

/// A Deployment of pods that ask for one CPU and two GiB, with more in their spec.
pub(crate) fn named_deployment(name: &str, replicas: usize, spec: &Value) -> Value {
    let mut pod = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}],
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}
