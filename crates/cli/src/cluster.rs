//! A cluster as its API server describes it: what `plan` and `explain` work on when no files are given.

use std::{
    cell::RefCell,
    error::Error,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use headstart_intake::Document;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde::Deserialize;
use serde_json::Value;

/// How to get at a cluster.
#[derive(clap::Args)]
pub(crate) struct Access {
    /// The kubeconfig to use; otherwise $KUBECONFIG, ~/.kube/config, or what a pod finds in its cluster
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of the current one
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    context: Option<String>,
}

/// A kind of object that decides where pods go.
struct Kind {
    name: &'static str,
    path: &'static str,
    /// What it means that there are objects that may not be read, or `None` where nothing can be said without them.
    unread: Option<&'static str>,
}

const fn kind(name: &'static str, path: &'static str, unread: &'static str) -> Kind {
    Kind { name, path, unread: Some(unread) }
}

const NOT_MADE: &str = "pods that they have not made yet are not counted";

const KINDS: [Kind; 20] = [
    Kind { name: "Pod", path: "/api/v1/pods", unread: None },
    Kind { name: "Node", path: "/api/v1/nodes", unread: None },
    kind("NodePool", "/apis/karpenter.sh/v1/nodepools", "no node can be bought"),
    kind("NodeClaim", "/apis/karpenter.sh/v1/nodeclaims", "nodes that are on their way are not counted"),
    kind("NodeOverlay", "/apis/karpenter.sh/v1alpha1/nodeoverlays", "prices and capacity are the catalog's"),
    kind("Deployment", "/apis/apps/v1/deployments", NOT_MADE),
    kind("ReplicaSet", "/apis/apps/v1/replicasets", NOT_MADE),
    kind("ReplicationController", "/api/v1/replicationcontrollers", NOT_MADE),
    kind("Service", "/api/v1/services", "default spread constraints do not count by service"),
    kind("StatefulSet", "/apis/apps/v1/statefulsets", NOT_MADE),
    kind("Job", "/apis/batch/v1/jobs", NOT_MADE),
    kind("DaemonSet", "/apis/apps/v1/daemonsets", "new nodes are taken to run no daemons"),
    kind("Namespace", "/api/v1/namespaces", "terms that select namespaces by label match none"),
    kind("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims", "pods that have some cannot be placed"),
    kind("PersistentVolume", "/api/v1/persistentvolumes", "where volumes can be attached is not known"),
    kind("StorageClass", "/apis/storage.k8s.io/v1/storageclasses", "where volumes can be made is not known"),
    kind("CSINode", "/apis/storage.k8s.io/v1/csinodes", "limits of attached volumes are not known"),
    kind("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses", "pods to be made have no priority"),
    kind("LimitRange", "/api/v1/limitranges", "pods to be made ask for nothing by default"),
    kind("RuntimeClass", "/apis/node.k8s.io/v1/runtimeclasses", "pods to be made have no overhead"),
];

/// What matters only to those who take nodes away.
const OF_NODES: [Kind; 1] = [kind(
    "PodDisruptionBudget",
    "/apis/policy/v1/poddisruptionbudgets",
    "pods that they protect are taken to be free to move",
)];

/// What is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// Where pods go.
    Pods,
    /// Which nodes may go as well.
    Nodes,
}

/// Objects asked for at once: few enough that a page is small beside what is kept of all of them.
const PAGE: usize = 500;
/// Kinds read at once.
const AT_ONCE: usize = 4;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// One answer to a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// What becomes of objects, and what is known of the reading so far.
struct Intake<F> {
    take: F,
    objects: usize,
    decoding: Duration,
    warnings: Vec<String>,
}

/// Reads all objects that decide about something; says how long taking them took.
///
/// Whatever cannot be read but can be done without becomes a warning on standard error.
pub(crate) fn read(access: &Access, about: About, take: impl FnMut(Document)) -> anyhow::Result<Duration> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let intake = runtime.block_on(async {
        let server = Server::connect(access).await?;
        server.read_all(about, take).await
    })?;
    for warning in &intake.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(intake.decoding)
}

struct Server {
    client: Client,
    url: String,
    /// Where the address and the credentials come from.
    via: String,
}

impl Server {
    async fn connect(access: &Access) -> anyhow::Result<Self> {
        let (mut config, via) = configuration(access).await?;
        config.connect_timeout = Some(CONNECT_LIMIT);
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config)
            .map_err(|error| anyhow::anyhow!("cannot use {via}: {}", root(&error)))?;
        Ok(Self { client, url, via })
    }

    async fn read_all<F: FnMut(Document)>(&self, about: About, take: F) -> anyhow::Result<Intake<F>> {
        let intake = RefCell::new(Intake::new(take));
        let progress = Progress::new(&self.url);
        let more = OF_NODES.iter().filter(|_| about == About::Nodes);
        stream::iter(KINDS.iter().chain(more))
            .map(Ok)
            .try_for_each_concurrent(AT_ONCE, |kind| self.read_kind(kind, &intake, &progress))
            .await?;
        drop(progress);
        let mut intake = intake.into_inner();
        intake.warnings.sort();
        Ok(intake)
    }

    async fn read_kind<F: FnMut(Document)>(
        &self,
        kind: &Kind,
        intake: &RefCell<Intake<F>>,
        progress: &Progress<'_>,
    ) -> anyhow::Result<()> {
        let mut next: Option<String> = None;
        loop {
            let page = match self.page(kind, next.as_deref()).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 410 && next.is_some() => {
                    // The list took so long that its state is no longer known; the rest comes from a newer one.
                    next = status.metadata.and_then(|metadata| metadata.continue_);
                    if next.is_some() {
                        continue;
                    }
                    bail!("cannot list {} of {}: it takes too long; try again", plural(kind), self.url);
                }
                Err(error) => {
                    let warning = self.without(kind, error)?;
                    intake.borrow_mut().warnings.extend(warning);
                    return Ok(());
                }
            };
            let mut intake = intake.borrow_mut();
            intake.take(kind, page.items.unwrap_or_default());
            progress.show(intake.objects);
            drop(intake);
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(());
            }
        }
    }

    async fn page(&self, kind: &Kind, next: Option<&str>) -> kube::Result<Page> {
        let params = kube::api::ListParams {
            limit: u32::try_from(PAGE).ok(),
            continue_token: next.map(str::to_owned),
            ..kube::api::ListParams::default()
        };
        let request = kube::core::Request::new(kind.path).list(&params).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// What it means that a kind cannot be read: a warning, nothing, or the end.
    fn without(&self, kind: &Kind, error: kube::Error) -> anyhow::Result<Option<String>> {
        let Self { url, via, .. } = self;
        let many = plural(kind);
        match (error, kind.unread) {
            (kube::Error::Api(status), Some(unread)) if status.code == 403 => {
                Ok(Some(format!("cannot list {many} (forbidden): {unread}")))
            }
            (kube::Error::Api(status), None) if status.code == 403 => bail!(
                "you may not list {many} at {url}, and nothing can be said without them\n  using {via}; the ClusterRole \
                 view and the right to list nodes are enough"
            ),
            // What the API server does not know does not exist; only without pools that is worth a word.
            (kube::Error::Api(status), Some(unread)) if status.code == 404 => {
                let warning = format!(
                    "the cluster has no NodePools: {unread}; install the API with: headstart crds | kubectl apply --server-side -f -"
                );
                Ok((kind.name == "NodePool").then_some(warning))
            }
            (kube::Error::Api(status), _) if status.code == 401 => bail!(
                "the Kubernetes API at {url} does not accept your credentials\n  using {via}; log in again, or choose \
                 another context with --context"
            ),
            (kube::Error::Api(status), _) => bail!("cannot list {many} at {url}: {}", status.message),
            (error @ (kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::Auth(_)), _) => {
                bail!("cannot reach the Kubernetes API at {url} ({})\n  using {via}", root(&error))
            }
            (error, _) => Err(error).with_context(|| format!("cannot list {many} at {url}")),
        }
    }
}

impl<F: FnMut(Document)> Intake<F> {
    fn new(take: F) -> Self {
        Self { take, objects: 0, decoding: Duration::ZERO, warnings: Vec::new() }
    }

    /// Keeps what matters of some objects of a kind.
    fn take(&mut self, kind: &Kind, items: Vec<Value>) {
        let start = Instant::now();
        for mut value in items {
            self.objects += 1;
            if let Value::Object(fields) = &mut value {
                // Lists do not repeat it for every item.
                fields.entry("kind").or_insert_with(|| kind.name.into());
            }
            (self.take)(Document { origin: kind.path.to_owned(), value });
        }
        self.decoding += start.elapsed();
    }
}

/// The configuration, and where it comes from.
async fn configuration(access: &Access) -> anyhow::Result<(Config, String)> {
    let found = match &access.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)
            .map(Some)
            .with_context(|| format!("cannot use the kubeconfig {}", path.display()))?,
        None => match Kubeconfig::read() {
            Ok(kubeconfig) => Some(kubeconfig),
            Err(KubeconfigError::FindPath) => None,
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).context("cannot use the kubeconfig"),
        },
    };
    let Some(kubeconfig) = found else {
        let inside = Config::incluster().ok().filter(|_| access.context.is_none());
        let inside = inside.map(|config| (config, "the service account of this pod".to_owned()));
        return inside.context(
            "there is no kubeconfig\n  name one with --kubeconfig or in KUBECONFIG, or plan from files with -f",
        );
    };
    let known: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let Some(context) = access.context.clone().or(kubeconfig.current_context.clone()) else {
        bail!("the kubeconfig has no current context\n  choose one with --context: {known}");
    };
    let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
    match Config::from_custom_kubeconfig(kubeconfig, &options).await {
        Ok(config) => Ok((config, format!("context {context:?} of the kubeconfig"))),
        Err(KubeconfigError::LoadContext(_)) => {
            bail!("the kubeconfig has no context {context:?}\n  it has: {known}")
        }
        Err(error) => Err(error).with_context(|| format!("cannot use context {context:?} of the kubeconfig")),
    }
}

/// The last cause, which says what happened; those above it say what was being done.
fn root(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn plural(kind: &Kind) -> String {
    if kind.name.ends_with('s') { format!("{}es", kind.name) } else { format!("{}s", kind.name) }
}

/// A line on the terminal that says how far reading has come, and goes when it is done.
struct Progress<'a> {
    url: &'a str,
    shown: bool,
}

impl<'a> Progress<'a> {
    fn new(url: &'a str) -> Self {
        Self { url, shown: io::stderr().is_terminal() }
    }

    fn show(&self, objects: usize) {
        if self.shown {
            eprint!("\r\x1b[Kreading {}: {objects} objects", self.url);
            // Nothing is lost but a moment's comfort if this fails.
            let _ = io::stderr().flush();
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use headstart_intake::World;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_that_is_read_is_understood() {
        for kind in &KINDS {
            let mut world = World::new();
            Intake::new(|document| world.add(document)).take(kind, vec![json!({"metadata": {"name": "x"}})]);
            let misunderstood =
                world.diagnostics().iter().find(|diagnostic| diagnostic.message.contains("understood"));
            assert!(misunderstood.is_none(), "{misunderstood:?}");
        }
    }

    #[test]
    fn the_last_cause_says_what_happened() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = kube::Error::ReadEvents(io::Error::other(io::Error::other(refused)));
        assert_eq!(root(&error), "connection refused");
    }
}
