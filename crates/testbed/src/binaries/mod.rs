//! The programs the testbed runs: taken from a directory, or built once from Go modules into a cache.
//!
//! A finished program appears in the cache by a rename, under a name that contains a fingerprint of everything it was
//! built from; so a build that was interrupted, or made from other versions, is never used.

mod build;
mod cache;

use std::path::PathBuf;

use anyhow::{Result, bail};

pub use cache::CACHE_VARIABLE;

/// Names a directory with ready binaries; nothing is built when it is set.
pub const BINARIES_VARIABLE: &str = "HEADSTART_TESTBED_BIN";

/// A Go module in this crate's `go` directory that pins the versions of what is built from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    Etcd,
    Kubernetes,
    Kwok,
    Karpenter,
    Helm,
}

impl Module {
    fn dir(self) -> PathBuf {
        let name = match self {
            Self::Etcd => "etcd",
            Self::Kubernetes => "kubernetes",
            Self::Kwok => "kwok",
            Self::Karpenter => "karpenter",
            Self::Helm => "helm",
        };
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("go").join(name)
    }

    /// The Go release that the module asks for, if the one installed may be too old for it.
    fn toolchain(self) -> Option<&'static str> {
        (self == Self::Karpenter).then_some("go1.26.9")
    }
}

/// A program that the testbed knows how to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    Etcd,
    KubeApiserver,
    KubeScheduler,
    KubeControllerManager,
    Kubectl,
    Kwok,
    /// Karpenter 1.15.0 with its KWOK provider.
    Karpenter,
    /// Prints the hash that Karpenter's own code gives to each NodePool on its input.
    KarpenterHash,
    /// Asks Karpenter's own scheduler where the pods of a case on its input go.
    KarpenterSolve,
    /// Karpenter's end-to-end suite `test/suites/regression`.
    RegressionSuite,
    /// Karpenter's end-to-end suite `test/suites/disruption`.
    DisruptionSuite,
    Helm,
}

/// How a program is built.
struct Recipe {
    module: Module,
    package: &'static str,
    test: bool,
    ldflags: &'static str,
    /// What a first build took on two idle cores, to tell people what to expect.
    rough_seconds: u32,
}

const STRIPPED: &str = "-s -w";
/// Without its version kubectl cannot parse itself, and clients see an API server of version v0.0.0.
const KUBERNETES_STAMP: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
     -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36 \
     -X k8s.io/component-base/version.gitTreeState=clean";

impl Binary {
    pub const ALL: [Self; 12] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeScheduler,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::Kwok,
        Self::Karpenter,
        Self::KarpenterHash,
        Self::KarpenterSolve,
        Self::RegressionSuite,
        Self::DisruptionSuite,
        Self::Helm,
    ];
    /// What a control plane consists of, and `kubectl`.
    pub const CONTROL_PLANE: &[Self] = Self::ALL.split_at(6).0;

    /// The file name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeScheduler => "kube-scheduler",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
            Self::Karpenter => "karpenter",
            Self::KarpenterHash => "karpenter-hash",
            Self::KarpenterSolve => "karpenter-solve",
            Self::RegressionSuite => "karpenter-regression.test",
            Self::DisruptionSuite => "karpenter-disruption.test",
            Self::Helm => "helm",
        }
    }

    fn recipe(self) -> Recipe {
        let program = |module, package, ldflags, rough_seconds| Recipe {
            module,
            package,
            test: false,
            ldflags,
            rough_seconds,
        };
        let kubernetes = |package, seconds| program(Module::Kubernetes, package, KUBERNETES_STAMP, seconds);
        let suite = |package| Recipe { test: true, ..program(Module::Karpenter, package, STRIPPED, 60) };
        match self {
            Self::Etcd => program(Module::Etcd, ".", STRIPPED, 80),
            Self::KubeApiserver => kubernetes("k8s.io/kubernetes/cmd/kube-apiserver", 330),
            Self::KubeScheduler => kubernetes("k8s.io/kubernetes/cmd/kube-scheduler", 30),
            Self::KubeControllerManager => kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager", 60),
            Self::Kubectl => kubernetes("k8s.io/kubernetes/cmd/kubectl", 40),
            Self::Kwok => program(Module::Kwok, "sigs.k8s.io/kwok/cmd/kwok", STRIPPED, 70),
            Self::Karpenter => program(Module::Karpenter, "sigs.k8s.io/karpenter/kwok", STRIPPED, 120),
            Self::KarpenterHash => program(Module::Karpenter, "./hash", STRIPPED, 20),
            Self::KarpenterSolve => program(Module::Karpenter, "./solve", STRIPPED, 20),
            Self::RegressionSuite => suite("sigs.k8s.io/karpenter/test/suites/regression"),
            Self::DisruptionSuite => suite("sigs.k8s.io/karpenter/test/suites/disruption"),
            Self::Helm => program(Module::Helm, "helm.sh/helm/v3/cmd/helm", STRIPPED, 60),
        }
    }
}

/// Files of upstream projects that the testbed needs beside the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asset {
    /// kwok's own stages: nodes become ready, stay alive; pods run, complete and go.
    KwokStages,
    /// The stages that Karpenter's suites expect on top of kwok's.
    KarpenterStages,
    /// Karpenter's CustomResourceDefinitions, those of its KWOK provider included.
    KarpenterCrds,
    /// The scheduler configuration that the suites on default spread constraints expect.
    SuiteSchedulerConfig,
}

impl Asset {
    fn name(self) -> &'static str {
        match self {
            Self::KwokStages => "kwok-stages",
            Self::KarpenterStages => "karpenter-stages",
            Self::KarpenterCrds => "karpenter-crds",
            Self::SuiteSchedulerConfig => "suite-scheduler-config",
        }
    }

    /// The Go module that holds the files, its import path, and the directories inside it.
    fn source(self) -> (Module, &'static str, &'static [&'static str]) {
        const KARPENTER: &str = "sigs.k8s.io/karpenter";
        match self {
            Self::KwokStages => (
                Module::Kwok,
                "sigs.k8s.io/kwok",
                &[
                    "kustomize/stage/node/fast",
                    "kustomize/stage/node/heartbeat-with-lease",
                    "kustomize/stage/pod/fast",
                ],
            ),
            Self::KarpenterStages => (Module::Karpenter, KARPENTER, &["hack/kwok/stages"]),
            Self::KarpenterCrds => (Module::Karpenter, KARPENTER, &["pkg/apis/crds", "kwok/apis/crds"]),
            Self::SuiteSchedulerConfig => {
                (Module::Karpenter, KARPENTER, &["test/suites/regression/testdata"])
            }
        }
    }
}

/// The path of `binary`, built now if it has to be. Blocks; progress goes to standard error.
pub fn ensure(binary: Binary) -> Result<PathBuf> {
    Ok(ensure_all(&[binary])?.remove(0))
}

/// The paths of `binaries`, in their order.
pub fn ensure_all(binaries: &[Binary]) -> Result<Vec<PathBuf>> {
    match given_directory() {
        Some(dir) => binaries.iter().map(|binary| given(&dir, binary.name())).collect(),
        None => cache::binaries(binaries),
    }
}

/// The YAML files of `asset`, sorted by name.
pub fn asset(asset: Asset) -> Result<Vec<PathBuf>> {
    let dir = match given_directory() {
        Some(dir) => given(&dir.join("share"), asset.name())?,
        None => cache::asset(asset)?,
    };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}

fn given_directory() -> Option<PathBuf> {
    std::env::var_os(BINARIES_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn given(dir: &std::path::Path, name: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    if !path.exists() {
        bail!(
            "{BINARIES_VARIABLE} names a directory without {name} ({} does not exist); put it there, or unset the \
             variable to have it built from source",
            path.display()
        );
    }
    Ok(path)
}
