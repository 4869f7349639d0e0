//! Label keys that scheduling knows by name.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The pool a node belongs to.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Set once a node has registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Set once a node can run pods.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// The zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The instance type of a node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The processor architecture of a node.
pub const ARCH: &str = "kubernetes.io/arch";
/// The operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// The Windows build of a node.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// The host name of a node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Capacity that may be taken back at any time.
pub const SPOT: &str = "spot";
/// Capacity paid by use.
pub const ON_DEMAND: &str = "on-demand";
/// Capacity paid for in advance.
pub const RESERVED: &str = "reserved";

/// The current name of a label key that older manifests write differently.
pub fn normalize(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        other => other,
    }
}

/// Label keys that a launch fills in, so that a pool or type that does not mention them may still satisfy a pod
/// that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WellKnown(BTreeSet<Arc<str>>);

impl WellKnown {
    /// No label at all: everything a pod asks for must be defined, as on a node that already exists.
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Whether the key is well known.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|key| &**key)
    }
}

impl Default for WellKnown {
    fn default() -> Self {
        [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD].into_iter().collect()
    }
}

impl<'a> FromIterator<&'a str> for WellKnown {
    fn from_iter<I: IntoIterator<Item = &'a str>>(keys: I) -> Self {
        Self(keys.into_iter().map(Into::into).collect())
    }
}

impl<'a> Extend<&'a str> for WellKnown {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, keys: I) {
        self.0.extend(keys.into_iter().map(Into::<Arc<str>>::into));
    }
}
