//! What a pod needs from a node: everything that decides where it can run, and nothing else.

use std::net::IpAddr;
use std::sync::Arc;

use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::snapshot::taint::Toleration;
use crate::snapshot::{Labels, Selector};

/// The scheduling needs of a pod; pods made from one template share one shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What the pod asks for, `pods: 1` included.
    pub requests: Resources,
    /// The pod's labels, which selectors look at.
    pub labels: Labels,
    /// The node selector.
    pub node_selector: Requirements,
    /// Required node affinity: alternatives, in order.
    pub required: Vec<Requirements>,
    /// Preferred node affinity.
    pub preferred: Vec<Weighted<Requirements>>,
    /// Taints the pod puts up with.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints.
    pub spread: Vec<Spread>,
    /// Pods to be near.
    pub affinity: PodTerms,
    /// Pods to stay away from.
    pub anti_affinity: PodTerms,
    /// Ports of the node that the pod occupies.
    pub host_ports: Vec<HostPort>,
    /// Where the pod's volumes can be: alternatives, in order; none means anywhere.
    pub volume_topology: Vec<Requirements>,
    /// The pod's priority.
    pub priority: i32,
}

/// A preference and how much it counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Weighted<T> {
    /// How much it counts, 1 to 100.
    pub weight: i32,
    /// What is preferred.
    pub term: T,
}

/// Required and preferred terms about other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerms {
    /// Terms that must hold.
    pub required: Vec<PodTerm>,
    /// Terms that should hold.
    pub preferred: Vec<Weighted<PodTerm>>,
}

/// A term about other pods in the same domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The node label that makes domains.
    pub topology_key: Arc<str>,
    /// Which pods; `None` means none at all.
    pub selector: Option<Selector>,
    /// In which namespaces.
    pub namespaces: Namespaces,
}

/// The namespaces a term looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespaces {
    /// Namespaces by name.
    pub names: Vec<Arc<str>>,
    /// Namespaces by label; with neither names nor labels the pod's own namespace is meant.
    pub selector: Option<Selector>,
}

/// A topology spread constraint, `matchLabelKeys` already merged into the selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The node label that makes domains.
    pub topology_key: Arc<str>,
    /// How uneven the spread may be.
    pub max_skew: u32,
    /// How many domains there must be before the emptiest one counts.
    pub min_domains: Option<u32>,
    /// Which pods are spread; `None` means none at all.
    pub selector: Option<Selector>,
    /// Whether the pod waits when the constraint cannot hold.
    pub required: bool,
    /// Whether only nodes that match the pod's node selector and affinity count.
    pub honor_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}

/// A port of the node itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The address; unspecified means all of them.
    pub ip: IpAddr,
    /// The port number.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
}

impl HostPort {
    /// Whether both cannot be on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip.is_unspecified() || other.ip.is_unspecified())
    }
}

/// A volume that counts against what a CSI driver can attach to one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volume {
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The claim, as `namespace/name`; pods that share it count once.
    pub id: Arc<str>,
}
