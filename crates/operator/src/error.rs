//! Why the operator does not start, or ends.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the operator does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// A feature gate is enabled that does not exist here.
    #[error("feature gate {} {} enabled, which Headstart does not have yet\n  it would be ignored silently otherwise; remove it from FEATURE_GATES (--feature-gates) to start without", list(.0), if .0.len() == 1 { "is" } else { "are" })]
    MissingGates(Vec<String>),
    /// Part of the feature gates cannot be read.
    #[error(
        "{0:?} is no feature gate\n  FEATURE_GATES (--feature-gates) looks like NodeOverlay=true,ReservedCapacity=false"
    )]
    BadGate(String),
    /// The scheduler configuration cannot be used.
    #[error("SCHEDULER_CONFIG (--scheduler-config)")]
    SchedulerConfig(#[from] headstart_intake::SchedulerConfigError),
    /// An option has a value that contradicts another.
    #[error("{0}")]
    Option(String),
    /// Nodes cannot be repaired.
    #[error("feature gate NodeRepair is enabled, but the cloud {cloud} does not say how to repair nodes")]
    Repair {
        /// Its name.
        cloud: &'static str,
        /// What is wrong with its policies.
        #[source]
        source: headstart_core::repair::RuleError,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use {via}: {message}")]
    Kubeconfig {
        /// Which one.
        via: String,
        /// What is wrong.
        message: String,
    },
    /// There is no way to a cluster.
    #[error(
        "there is no kubeconfig, and this is no pod of a cluster\n  name one with --kubeconfig or in KUBECONFIG; start a local cluster with `make testbed`"
    )]
    NoCluster,
    /// The API server does not answer.
    #[error(
        "cannot reach the Kubernetes API at {url} ({message})\n  using {via}; start a local one with `make testbed`"
    )]
    Unreachable {
        /// Its address.
        url: String,
        /// The last cause.
        message: String,
        /// Where the address and the credentials come from.
        via: String,
    },
    /// The catalog cannot be used.
    #[error("cannot use the catalog")]
    Catalog(#[from] headstart_cloud::catalog::CatalogError),
    /// The cloud does not say what it sells.
    #[error("the cloud {cloud} does not say what it sells")]
    Cloud {
        /// Its name.
        cloud: &'static str,
        /// Its answer.
        #[source]
        source: headstart_cloud::CloudError,
    },
    /// The address of the test cloud is none.
    #[error("--testcloud-url")]
    Endpoint(#[from] headstart_cloud::testcloud::BadEndpoint),
    /// A port is taken or not allowed.
    #[error(
        "cannot listen on {address} for {what}\n  choose another port with {option}; 0 takes any that is free"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What for.
        what: &'static str,
        /// The option that names the port.
        option: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The journal cannot be written.
    #[error("cannot write the journal {}", path.display())]
    Journal {
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// What was observed cannot be read or written.
    #[error("cannot use the observations in {}\n  name another file with --observations", path.display())]
    Observations {
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A thread or signal handler cannot be had.
    #[error("cannot start")]
    Start(#[source] std::io::Error),
    /// Another process leads, or nobody can tell; to act on would be dangerous.
    #[error("the lease {namespace}/{name} was lost: {why}; ending, so that two never act at once")]
    LeaseLost {
        /// The lease's namespace.
        namespace: String,
        /// The lease's name.
        name: String,
        /// How it was lost.
        why: String,
    },
    /// A part that must not end has ended.
    #[error("the {0} ended unexpectedly; its last words are in the log")]
    Ended(&'static str),
}

/// `a`, `a and b`, `a, b and c`.
fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The last cause, which says what happened; those above it say what was being done.
pub(crate) fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
