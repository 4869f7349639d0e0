//! Label keys, what is known about them, and which of them users may set.

pub use headstart_core::labels::{
    ARCH, CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODE_POOL, ON_DEMAND, OS, REGION, REGISTERED,
    RESERVED, SPOT, WINDOWS_BUILD, ZONE, normalize,
};

/// The API group of NodePools and NodeClaims, and the domain of their labels and annotations.
pub const GROUP: &str = "karpenter.sh";
/// The API group of simulated node classes, and the domain of their labels.
pub const KWOK_GROUP: &str = "karpenter.kwok.sh";

/// Keeps the claim's taints from being put on the node.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// Keeps load balancers from sending traffic to the node; set with [`EXCLUDE_BALANCERS_VALUE`] while it drains.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The value of [`EXCLUDE_BALANCERS`] on a draining node.
pub const EXCLUDE_BALANCERS_VALUE: &str = "karpenter";

/// Size of a simulated instance type, such as `2x`.
pub const KWOK_INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
/// Family of a simulated instance type, such as `c`.
pub const KWOK_INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
/// Memory of a simulated instance type in MiB.
pub const KWOK_INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";
/// CPUs of a simulated instance type.
pub const KWOK_INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
/// Tells kwok that the node is its to simulate; set with [`KWOK_NODE_VALUE`].
pub const KWOK_NODE: &str = "kwok.x-k8s.io/node";
/// The value of [`KWOK_NODE`] on simulated nodes.
pub const KWOK_NODE_VALUE: &str = "fake";
/// Group of simulated nodes a node belongs to.
pub const KWOK_PARTITION: &str = "kwok-partition";
/// Price of a simulated node for eks-node-viewer.
pub const NODE_VIEWER_PRICE: &str = "eks-node-viewer/instance-price";

/// Marks a pod that only keeps room for pods that are expected: `true`.
pub const PLACEHOLDER: &str = "headstart.dev/placeholder";
/// Which belief such a pod stands for.
pub const PLACEHOLDER_FOR: &str = "headstart.dev/placeholder-for";
/// The same mark for tools that were written for the Azure provider's guide: `true`.
pub const AZURE_FAKE_POD: &str = "karpenter.azure.com/fake-pod";
/// What such a pod is for, likewise; set with [`AZURE_PLACEHOLDER`].
pub const AZURE_PROACTIVE: &str = "karpenter.azure.com/proactive-scaleup";
/// The value of [`AZURE_PROACTIVE`] on pods that keep room.
pub const AZURE_PLACEHOLDER: &str = "placeholder";

/// The `kubernetes.io/arch` value of 64-bit x86.
pub const ARCH_AMD64: &str = "amd64";
/// The `kubernetes.io/arch` value of 64-bit Arm.
pub const ARCH_ARM64: &str = "arm64";

/// Labels every provider knows, sorted: pods and NodePools may ask for them without a template defining them.
pub const WELL_KNOWN: [&str; 8] =
    [CAPACITY_TYPE, NODE_POOL, ARCH, OS, INSTANCE_TYPE, WINDOWS_BUILD, REGION, ZONE];

/// Labels the simulated provider knows besides [`WELL_KNOWN`], sorted.
pub const KWOK_WELL_KNOWN: [&str; 4] =
    [KWOK_INSTANCE_CPU, KWOK_INSTANCE_FAMILY, KWOK_INSTANCE_MEMORY, KWOK_INSTANCE_SIZE];

/// How a machine is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// Paid for in advance.
    Reserved,
    /// Cheap, and may be taken away.
    Spot,
    /// At the full price, for as long as needed.
    OnDemand,
}

impl CapacityType {
    /// All capacity types.
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Spot, Self::OnDemand];

    /// The value of the label [`CAPACITY_TYPE`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => RESERVED,
            Self::Spot => SPOT,
            Self::OnDemand => ON_DEMAND,
        }
    }

    /// The capacity type a label value stands for.
    pub fn from_label(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capacity_type| capacity_type.as_str() == value)
    }
}

/// What is before the slash of a label key, or nothing.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// The label that names the node class on NodeClaims and nodes: its group and lower-case kind.
pub fn node_class(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// Whether a label belongs to the provisioner, so that users must not choose its value.
///
/// A provider adds its own well-known labels and its own domains to Karpenter's.
pub fn is_restricted(key: &str, provider_well_known: &[&str], provider_domains: &[&str]) -> bool {
    if WELL_KNOWN.contains(&key) || provider_well_known.contains(&key) {
        return false;
    }
    let domain = domain(key);
    let within =
        |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    key == HOSTNAME || within(GROUP) || provider_domains.iter().any(|parent| within(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_names_are_translated() {
        assert_eq!(normalize("beta.kubernetes.io/arch"), "kubernetes.io/arch");
        assert_eq!(normalize("beta.kubernetes.io/os"), "kubernetes.io/os");
        assert_eq!(normalize("beta.kubernetes.io/instance-type"), "node.kubernetes.io/instance-type");
        assert_eq!(normalize("failure-domain.beta.kubernetes.io/zone"), "topology.kubernetes.io/zone");
        assert_eq!(normalize("failure-domain.beta.kubernetes.io/region"), "topology.kubernetes.io/region");
        assert_eq!(normalize("example.com/team"), "example.com/team");
    }

    #[test]
    fn the_provisioners_labels_are_restricted() {
        let restricted = |key| is_restricted(key, &KWOK_WELL_KNOWN, &[KWOK_GROUP]);
        for key in [
            HOSTNAME,
            REGISTERED,
            "karpenter.sh/custom",
            "sub.karpenter.sh/custom",
            "karpenter.kwok.sh/custom",
        ] {
            assert!(restricted(key), "{key}");
        }
        for key in [
            CAPACITY_TYPE,
            NODE_POOL,
            ZONE,
            KWOK_INSTANCE_CPU,
            "notkarpenter.sh/custom",
            "team",
            "example.com/a",
        ] {
            assert!(!restricted(key), "{key}");
        }
    }

    #[test]
    fn lists_are_sorted_and_names_derived() {
        assert!(WELL_KNOWN.is_sorted() && KWOK_WELL_KNOWN.is_sorted());
        assert_eq!(node_class("karpenter.kwok.sh", "KWOKNodeClass"), "karpenter.kwok.sh/kwoknodeclass");
        assert_eq!(CapacityType::from_label(ON_DEMAND), Some(CapacityType::OnDemand));
        assert_eq!(CapacityType::from_label("free"), None);
    }
}
