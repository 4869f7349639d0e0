//! The custom resources Headstart serves and consumes, as types.
//!
//! They are Karpenter 1.15's NodePool, NodeClaim, NodeOverlay and KWOKNodeClass, and the Cluster Autoscaler's
//! CapacityBuffer. [`crds::all`] gives their definitions, which accept, refuse and default what upstream's do; only
//! the descriptions are our own. Beside the types stand the names users meet: labels, annotations, taints, conditions.
//!
//! Never here: decisions, requests to a cluster, clocks.
//!
//! The version of Kubernetes is a feature of `k8s-openapi` that the binary chooses, or a test.
#![expect(unreachable_pub, reason = "KubeSchema copies structs, with their visibility, into function bodies")]
#![expect(clippy::doc_markdown, reason = "docs are the CRDs' descriptions, where kinds are plain words")]
#![expect(clippy::duplicated_attributes, reason = "printer columns of one kind share types")]

pub mod annotations;
mod budget;
pub mod capacitybuffer;
pub mod conditions;
pub mod crds;
mod duration;
mod hash;
pub mod kwoknodeclass;
pub mod labels;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
mod requirement;
mod schema;
pub mod taints;

pub use self::{
    budget::{Budget, BudgetLimit, DisruptionReason, ParseBudgetError},
    capacitybuffer::CapacityBuffer,
    duration::{GoDuration, NEVER, NillableDuration, ParseDurationError},
    hash::NODEPOOL_HASH_VERSION,
    kwoknodeclass::KwokNodeClass,
    nodeclaim::NodeClaim,
    nodeoverlay::NodeOverlay,
    nodepool::NodePool,
    requirement::{Operator, Requirement},
};
