//! What sources may look at.

use std::sync::Arc;

use crate::demand::Owner;
use crate::demand::buffer::Buffer;
use crate::demand::cronjob::Schedule;
use crate::demand::quota::Quota;
use crate::resources::Resources;
use crate::snapshot::{Shape, Volume};

/// What sources may look at; whoever asks leaves out what is switched off.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The time, in milliseconds since 1970.
    pub now: i64,
    /// How long a node takes from being asked for to being ready, in milliseconds.
    pub lead: i64,
    /// What makes pods and lacks some.
    pub makers: Vec<Maker>,
    /// What makes pods at set times.
    pub schedules: Vec<Schedule>,
    /// Room that is to be kept.
    pub buffers: Vec<Buffer>,
    /// How full pools are.
    pub pools: Vec<PoolUse>,
    /// The share of a pool that may be requested before more is expected; one or more switches that off.
    pub threshold: f64,
    /// What namespaces may still ask for.
    pub quotas: Vec<Quota>,
}

/// What a pod will need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The pods' namespace.
    pub namespace: Arc<str>,
    /// What each needs.
    pub shape: Arc<Shape>,
    /// Volumes that all of them share.
    pub shared: Box<[Volume]>,
    /// The drivers of volumes that each has for itself.
    pub own: Box<[Arc<str>]>,
}

/// A ReplicaSet, StatefulSet or Job.
#[derive(Clone, Debug)]
pub struct Maker {
    /// What it is.
    pub owner: Owner,
    /// How many pods it wants.
    pub wish: Wish,
    /// How many of its pods exist: with a node, without one, and those behind a gate.
    pub has: u32,
    /// What its pods need, or why that cannot be told.
    pub template: Result<Template, String>,
    /// Why it cannot make pods, in its own words.
    pub trouble: Option<String>,
    /// For how long it has made none though it lacks some, in milliseconds.
    pub stalled: i64,
}

/// How many pods a workload wants to have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// So many, made as fast as possible.
    Replicas(i64),
    /// Some, made one after the other, so that there is nothing to foresee.
    OneByOne,
    /// The pods of a job.
    Job {
        /// How many may run at once, one if not said.
        parallelism: Option<i64>,
        /// How many must succeed; if not said, one success ends it.
        completions: Option<i64>,
        /// How many have succeeded.
        succeeded: i64,
        /// Whether it is suspended or has ended.
        is_idle: bool,
    },
}

impl Wish {
    /// How many pods it wants to have now.
    ///
    /// COMPAT: Cluster Autoscaler's counts (`podinjection`), except that suspended and ended jobs want none.
    pub fn pods(self) -> u32 {
        let wanted = match self {
            Self::Replicas(replicas) => replicas,
            Self::OneByOne | Self::Job { is_idle: true, .. } => 0,
            // The first success of a work queue means that no more pods are started.
            Self::Job { parallelism: Some(parallelism), completions: None, succeeded: 0, .. } => parallelism,
            Self::Job { parallelism, completions, succeeded, .. } => {
                completions.unwrap_or(1).saturating_sub(succeeded).min(parallelism.unwrap_or(1))
            }
        };
        u32::try_from(wanted.max(0)).unwrap_or(u32::MAX)
    }
}

/// How full a pool is.
#[derive(Clone, Debug, Default)]
pub struct PoolUse {
    /// The pool.
    pub pool: Owner,
    /// What pods ask for on nodes that have some, daemons included.
    pub requested: Resources,
    /// What those nodes can give.
    pub allocatable: Resources,
    /// What its youngest pods need, the youngest first.
    pub mix: Vec<Template>,
}
