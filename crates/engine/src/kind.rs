//! The kinds of objects that the engine watches or writes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Where nodes come from.
    NodePool,
    /// A node to be bought, or bought.
    NodeClaim,
    /// What the cloud must know about a pool's nodes; its group and kind are the cloud's.
    NodeClass,
    /// Changes to what a cloud says about instance types.
    NodeOverlay,
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// Pods for every node.
    DaemonSet,
    /// The owner of most pods.
    ReplicaSet,
    /// The owner of pods with names.
    StatefulSet,
    /// The owner of pods that end.
    Job,
    /// For terms that select namespaces.
    Namespace,
    /// A volume.
    PersistentVolume,
    /// A wish for a volume.
    PersistentVolumeClaim,
    /// How volumes are made.
    StorageClass,
    /// How many volumes a node can attach.
    CsiNode,
    /// A volume at a node.
    VolumeAttachment,
    /// Which pods come first.
    PriorityClass,
    /// What a runtime costs.
    RuntimeClass,
    /// What containers ask for if they do not say.
    LimitRange,
    /// For default spreading.
    Service,
    /// The owner of ReplicaSets, whose pods buffers may be for.
    Deployment,
    /// The owner of Jobs that begin at set times.
    CronJob,
    /// What pods of a buffer look like.
    PodTemplate,
    /// What a namespace may ask for.
    ResourceQuota,
    /// Room that is to be kept.
    CapacityBuffer,
    /// How many pods may be missing at once.
    PodDisruptionBudget,
    /// What other objects of ours belong to; it is written and never watched.
    ConfigMap,
}

/// Where the API server keeps a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind as objects write it.
    pub kind: &'static str,
    /// The name in URLs.
    pub plural: &'static str,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// All that are watched.
    pub const ALL: [Self; 26] = [
        Self::NodePool,
        Self::NodeClaim,
        Self::NodeClass,
        Self::NodeOverlay,
        Self::Node,
        Self::Pod,
        Self::DaemonSet,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::Job,
        Self::Namespace,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::StorageClass,
        Self::CsiNode,
        Self::VolumeAttachment,
        Self::PriorityClass,
        Self::RuntimeClass,
        Self::LimitRange,
        Self::Service,
        Self::Deployment,
        Self::CronJob,
        Self::PodTemplate,
        Self::ResourceQuota,
        Self::CapacityBuffer,
        Self::PodDisruptionBudget,
    ];

    /// Whether nothing can be decided without it; others are done without, with a warning.
    pub fn is_vital(self) -> bool {
        matches!(self, Self::NodePool | Self::NodeClaim | Self::NodeClass | Self::Node | Self::Pod)
    }

    /// Where the API server keeps it; the class's own resource is the cloud's.
    pub const fn resource(self, class: Resource) -> Resource {
        let (group, version, kind, plural, namespaced) = match self {
            Self::NodePool => ("karpenter.sh", "v1", "NodePool", "nodepools", false),
            Self::NodeClaim => ("karpenter.sh", "v1", "NodeClaim", "nodeclaims", false),
            Self::NodeClass => return class,
            Self::NodeOverlay => ("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays", false),
            Self::Node => ("", "v1", "Node", "nodes", false),
            Self::Pod => ("", "v1", "Pod", "pods", true),
            Self::DaemonSet => ("apps", "v1", "DaemonSet", "daemonsets", true),
            Self::ReplicaSet => ("apps", "v1", "ReplicaSet", "replicasets", true),
            Self::StatefulSet => ("apps", "v1", "StatefulSet", "statefulsets", true),
            Self::Job => ("batch", "v1", "Job", "jobs", true),
            Self::Namespace => ("", "v1", "Namespace", "namespaces", false),
            Self::PersistentVolume => ("", "v1", "PersistentVolume", "persistentvolumes", false),
            Self::PersistentVolumeClaim => {
                ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true)
            }
            Self::StorageClass => ("storage.k8s.io", "v1", "StorageClass", "storageclasses", false),
            Self::CsiNode => ("storage.k8s.io", "v1", "CSINode", "csinodes", false),
            Self::VolumeAttachment => {
                ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false)
            }
            Self::PriorityClass => ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false),
            Self::RuntimeClass => ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false),
            Self::LimitRange => ("", "v1", "LimitRange", "limitranges", true),
            Self::Service => ("", "v1", "Service", "services", true),
            Self::Deployment => ("apps", "v1", "Deployment", "deployments", true),
            Self::CronJob => ("batch", "v1", "CronJob", "cronjobs", true),
            Self::PodTemplate => ("", "v1", "PodTemplate", "podtemplates", true),
            Self::ResourceQuota => ("", "v1", "ResourceQuota", "resourcequotas", true),
            Self::CapacityBuffer => {
                ("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", "capacitybuffers", true)
            }
            Self::PodDisruptionBudget => {
                ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true)
            }
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps", true),
        };
        Resource { group, version, kind, plural, namespaced }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CsiNode => f.write_str("CSINode"),
            other => fmt::Debug::fmt(other, f),
        }
    }
}
