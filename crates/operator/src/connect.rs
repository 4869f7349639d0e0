//! The way to the API server.

use std::io;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::error::{OperatorError, root};
use crate::options::Access;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an API server that is just starting is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster that answers.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Our own namespace.
    pub(crate) namespace: String,
}

/// A way to a cluster, which may not answer.
pub(crate) struct Way {
    pub(crate) client: Client,
    /// Our own namespace.
    namespace: String,
    url: String,
    /// Where the address and the credentials come from.
    via: String,
}

/// Finds the way to a cluster.
pub(crate) async fn find(access: &Access) -> Result<Way, OperatorError> {
    let (mut config, via, in_cluster) = configuration(access).await?;
    config.connect_timeout = Some(CONNECT);
    // INVARIANT: the client does not retry; see `perform`.
    config.default_retry = false;
    let namespace = match access.system_namespace.as_str() {
        // A pod knows where it is; a kubeconfig's namespace is where its user works.
        "" if in_cluster => config.default_namespace.clone(),
        "" => "kube-system".to_owned(),
        chosen => chosen.to_owned(),
    };
    let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = Client::try_from(config)
        .map_err(|error| OperatorError::Kubeconfig { via: via.clone(), message: root(&error) })?;
    Ok(Way { client, namespace, url, via })
}

impl Way {
    /// Asks whether anybody is there, once.
    pub(crate) async fn ask(&self) -> Result<(), OperatorError> {
        match tokio::time::timeout(CONNECT, self.client.apiserver_version()).await {
            // It answers; that this is not for us to know changes nothing.
            Ok(Ok(_) | Err(kube::Error::Api(_))) => Ok(()),
            Ok(Err(error)) => Err(self.unreachable(root(&error))),
            Err(_) => Err(self.unreachable(format!("no answer within {} s", CONNECT.as_secs()))),
        }
    }

    /// Nobody answers, for this reason.
    pub(crate) fn unreachable(&self, message: String) -> OperatorError {
        OperatorError::Unreachable { url: self.url.clone(), message, via: self.via.clone() }
    }

    /// Where it leads to.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// Connects, and waits a while for an answer.
pub(crate) async fn connect(access: &Access) -> Result<Cluster, OperatorError> {
    let way = find(access).await?;
    let Way { client, url, via, .. } = &way;
    let mut told = false;
    let answered = async {
        loop {
            match client.apiserver_version().await {
                Ok(version) => break Ok(version.git_version),
                // It answers; that this is not for us to know changes nothing.
                Err(kube::Error::Api(_)) => break Ok("unknown".to_owned()),
                Err(error) if is_passing(&error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(
                            url,
                            why = root(&error),
                            "the Kubernetes API does not answer; waiting for it"
                        );
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => break Err(error),
            }
        }
    };
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(version)) => tracing::info!(url, version, via, "connected to the Kubernetes API"),
        Ok(Err(error)) => return Err(way.unreachable(root(&error))),
        Err(_) => return Err(way.unreachable(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
    Ok(Cluster { client: way.client, namespace: way.namespace })
}

/// Whether it makes sense to wait. A wrong certificate does not get better.
fn is_passing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_))
        && !root(error).contains("certificate")
}

/// The configuration, where it comes from, and whether that is a pod of the cluster.
async fn configuration(access: &Access) -> Result<(Config, String, bool), OperatorError> {
    let unusable = |via: &str, error: &dyn std::error::Error| OperatorError::Kubeconfig {
        via: via.to_owned(),
        message: root(error),
    };
    let found = match &access.kubeconfig {
        Some(path) => {
            let via = format!("the kubeconfig {}", path.display());
            Some(Kubeconfig::read_from(path).map_err(|error| unusable(&via, &error))?)
        }
        None => match Kubeconfig::read() {
            Ok(kubeconfig) => Some(kubeconfig),
            Err(KubeconfigError::FindPath) => None,
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unusable("the kubeconfig", &error)),
        },
    };
    let Some(kubeconfig) = found else {
        let inside = Config::incluster().map_err(|_| OperatorError::NoCluster)?;
        return Ok((inside, "the service account of this pod".to_owned(), true));
    };
    let context = access.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    let via = format!("context {context:?} of the kubeconfig");
    let known: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let options = KubeConfigOptions { context: Some(context), ..KubeConfigOptions::default() };
    match Config::from_custom_kubeconfig(kubeconfig, &options).await {
        Ok(config) => Ok((config, via, false)),
        Err(KubeconfigError::LoadContext(_)) => {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("there is no such context\n  choose one with --context: {known}");
            Err(OperatorError::Kubeconfig { via, message })
        }
        Err(error) => Err(unusable(&via, &error)),
    }
}
