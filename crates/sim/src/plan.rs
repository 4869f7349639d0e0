//! A run as data: what there is, who does what when, and what goes wrong how often. Drawn first, then played.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Odds};

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Where all remaining chance comes from.
    pub seed: u64,
    /// What kind of run it is.
    pub profile: Profile,
    /// How many processes with an engine there are.
    pub processes: usize,
    /// How many instance types the cloud sells, from the smallest.
    pub types: usize,
    /// What operators chose.
    pub knobs: Knobs,
    /// How long things take when nothing is wrong.
    pub pace: Pace,
    /// Where nodes come from.
    pub pools: Vec<PoolPlan>,
    /// Who makes pods.
    pub workloads: Vec<WorkloadPlan>,
    /// What people and the weather do.
    pub steps: Vec<Step>,
    /// What goes wrong by itself.
    pub faults: BTreeMap<Fault, Odds>,
    /// For how long faults strike.
    pub storm_ms: u64,
    /// Whether droughts in force when the storm ends last for ever.
    pub drought_stays: bool,
}

/// A kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Anything.
    Any,
    /// Nothing goes wrong, and nobody takes anything away.
    Calm,
    /// The cloud does all it can to confuse.
    CloudLies,
    /// Two processes, and a lease that changes hands.
    Twins,
}

/// What operators chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Knobs {
    /// The longest that a batch of pods stays open.
    pub batch_max_ms: u64,
    /// Whether pods are nominated to the nodes planned for them.
    pub nominate: bool,
    /// Whether nodes that are not worth their price are looked for in our own way.
    #[serde(default)]
    pub search: bool,
    /// Whether sick nodes are repaired.
    #[serde(default)]
    pub repair: bool,
    /// Whether nodes are started for pods that are expected, and from which share on pools count as full.
    #[serde(default)]
    pub ahead: Option<Ahead>,
}

/// What is done for pods that are expected, in hundredths: numbers that compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    /// The share of a pool that may be requested before more is expected, in percent.
    pub threshold: u32,
    /// Most cents an hour for nodes that only expected pods need.
    pub cents: Option<u32>,
}

/// How long things take when nothing is wrong, from and to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// From launch until the Node is there.
    pub join_ms: (u64, u64),
    /// From then until it is ready.
    pub ready_ms: (u64, u64),
    /// From the order to end until an instance is gone.
    pub end_ms: (u64, u64),
    /// From a change until a watch tells of it.
    pub watch_ms: (u64, u64),
    /// How long a request takes to arrive, and its answer to come back.
    pub wire_ms: (u64, u64),
}

/// A NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolPlan {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// The zones it may use; all if empty.
    pub zones: Vec<String>,
    /// The capacity types it may use; all if empty.
    pub capacity_types: Vec<String>,
    /// The most processors it may have.
    pub limit_cpu: Option<u64>,
    /// Whether its nodes have a taint that only some workloads tolerate.
    pub tainted: bool,
    /// Whether its nodes start with a taint that somebody lifts later.
    pub startup_taint: bool,
    /// After how many seconds its nodes are replaced.
    pub expire_after_s: Option<u64>,
    /// How many seconds a drain may take.
    pub grace_s: Option<u64>,
    /// After how many seconds of peace its nodes may be consolidated; never if left out.
    pub consolidate_after_s: Option<u64>,
    /// Whether only empty nodes may be.
    pub when_empty: bool,
    /// How many of its nodes may be going at once; a tenth if left out.
    pub budget: Option<u32>,
    /// How many nodes it keeps whatever pods there are.
    pub replicas: Option<u32>,
}

/// Something that makes pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadPlan {
    /// Its name.
    pub name: String,
    /// What kind it is.
    pub kind: WorkloadKind,
    /// Millicores of each pod.
    pub cpu_m: u64,
    /// Mebibytes of each pod.
    pub memory_mi: u64,
    /// The zone its pods insist on.
    pub zone: Option<String>,
    /// Whether its pods tolerate the taint that some pools have.
    pub tolerates: bool,
    /// How many seconds its pods have to end.
    pub grace_s: u64,
    /// Whether its pods wait behind a gate, so that nothing is to be bought for them.
    pub gated: bool,
    /// Whether its pods are another scheduler's.
    pub foreign: bool,
}

/// What kind of workload it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkloadKind {
    /// A ReplicaSet.
    #[default]
    Replicas,
    /// A Job, whose pods end by themselves.
    Job,
    /// A DaemonSet.
    Daemon,
    /// A CronJob, whose runs begin every so many minutes, if none is under way.
    Cron {
        /// How many.
        minutes: u32,
    },
}

/// Something that is done at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// When, in milliseconds since the world began.
    pub at: u64,
    /// What.
    pub deed: Deed,
}

/// Something that people or the weather do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Deed {
    /// A workload is to have so many pods.
    Scale {
        /// Which one, by its place in the plan.
        workload: usize,
        /// How many.
        to: u32,
    },
    /// A pod is deleted.
    DeletePod {
        /// Decides which.
        nth: usize,
    },
    /// A NodeClaim is deleted.
    DeleteClaim {
        /// Decides which.
        nth: usize,
    },
    /// A Node is deleted.
    DeleteNode {
        /// Decides which.
        nth: usize,
    },
    /// A NodePool is deleted, and made again a while later.
    DeletePool {
        /// Which one, by its place in the plan.
        pool: usize,
        /// How much later.
        back_ms: u64,
    },
    /// A NodePool's limit changes.
    LimitPool {
        /// Which one, by its place in the plan.
        pool: usize,
        /// The most processors it may have.
        cpu: Option<u64>,
    },
    /// Somebody's controller puts a taint on every new node for a while.
    TaintNewNodes {
        /// For how long.
        for_ms: u64,
    },
    /// Somebody makes a NodePool that makes no sense.
    BadPool,
    /// Somebody makes a pod that fits nowhere.
    BadPod,
    /// A disruption budget forbids evictions of a workload's pods, for the rest of the storm.
    Protect {
        /// Which one, by its place in the plan.
        workload: usize,
        /// How many must stay.
        min: usize,
    },
    /// Somebody changes what a pool's nodes are like, so that those it has must be replaced.
    Redesign {
        /// Which one, by its place in the plan.
        pool: usize,
    },
    /// Pools that keep a number of nodes are to keep another.
    Resize {
        /// How many.
        to: u32,
    },
    /// Somebody wants room for more pods like those of a workload, for a while.
    Buffer {
        /// Which one, by its place in the plan.
        workload: usize,
        /// For how many.
        pods: u32,
        /// For how long.
        for_ms: u64,
    },
    /// The node class is not ready for a while.
    Unready {
        /// For how long.
        for_ms: u64,
    },
    /// Some offerings have no capacity for a while; what is left out is any.
    Dry {
        /// The zone.
        zone: Option<String>,
        /// The capacity type.
        capacity_type: Option<String>,
        /// For how long.
        for_ms: u64,
    },
    /// A workload cannot make pods for a while: a quota, or a webhook that fails.
    Wall {
        /// Which one, by its place in the plan.
        workload: usize,
        /// For how long.
        for_ms: u64,
        /// Whether it says so.
        says: bool,
    },
}

impl Deed {
    /// All names, in the order of the variants.
    pub const NAMES: &[&str] = &[
        "scale",
        "delete-pod",
        "delete-claim",
        "delete-node",
        "delete-pool",
        "limit-pool",
        "taint-new-nodes",
        "bad-pool",
        "bad-pod",
        "protect",
        "unready",
        "dry",
        "wall",
        "redesign",
        "resize",
        "buffer",
    ];

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Scale { .. } => "scale",
            Self::DeletePod { .. } => "delete-pod",
            Self::DeleteClaim { .. } => "delete-claim",
            Self::DeleteNode { .. } => "delete-node",
            Self::DeletePool { .. } => "delete-pool",
            Self::LimitPool { .. } => "limit-pool",
            Self::TaintNewNodes { .. } => "taint-new-nodes",
            Self::BadPool => "bad-pool",
            Self::BadPod => "bad-pod",
            Self::Protect { .. } => "protect",
            Self::Unready { .. } => "unready",
            Self::Dry { .. } => "dry",
            Self::Wall { .. } => "wall",
            Self::Redesign { .. } => "redesign",
            Self::Resize { .. } => "resize",
            Self::Buffer { .. } => "buffer",
        }
    }
}
