//! What is done for pods that are only expected.
//!
//! COMPAT: the first two are Cluster Autoscaler's, with its meaning and defaults.

use clap::{ArgAction, Args, ValueEnum};
use headstart_engine::settings::Proactive;

use crate::error::OperatorError;
use crate::options::{Gates, ModeChoice};

/// What is done for pods that are only expected.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Nodes before pods")]
pub(crate) struct Ahead {
    /// Starts nodes for pods that can be seen coming: those that a workload is about to make, the next runs of CronJobs,
    /// NodePools that are nearly full, and CapacityBuffers; off for a provisioner, on otherwise, if not said
    #[arg(long, env, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = ArgAction::Set)]
    pub(crate) enable_proactive_scaleup: Option<bool>,
    /// How many pods may need a new node before those that are only expected are left out; pods that exist never are
    #[arg(long, env, value_name = "NUMBER", default_value_t = 5_000)]
    pub(crate) pod_injection_limit: usize,
    /// From how many nodes on nothing is started ahead
    #[arg(long, env, value_name = "NUMBER", default_value_t = 15_000)]
    pub(crate) node_limit: usize,
    /// The share of a NodePool that may be requested before room for more of its pods is made; 1 switches that off
    #[arg(long, env, value_name = "SHARE", default_value_t = 0.8)]
    pub(crate) proactive_scaleup_threshold: f64,
    /// The most that nodes which no pod uses yet may cost together, in dollars an hour
    #[arg(long, env, value_name = "DOLLARS")]
    pub(crate) proactive_scaleup_max_hourly_cost: Option<f64>,
    /// Labels of the NodePools that nodes are started from ahead, as key=value,key!=value,key,!key; all if empty
    #[arg(long, env, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub(crate) proactive_scaleup_nodepool_selector: String,
    /// Which workloads are foreseen; one with the annotation headstart.dev/proactive-scaleup=false never is
    #[arg(long, env, value_enum, value_name = "WORKLOADS", default_value = "all")]
    pub(crate) proactive_scaleup_workloads: Workloads,
}

/// Which workloads are foreseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workloads {
    /// All that do not object
    All,
    /// Those with the annotation headstart.dev/proactive-scaleup=true
    Annotated,
}

impl Ahead {
    pub(crate) fn settings(&self, mode: ModeChoice, gates: &Gates) -> Result<Proactive, OperatorError> {
        let Self {
            enable_proactive_scaleup,
            pod_injection_limit,
            node_limit,
            proactive_scaleup_threshold,
            proactive_scaleup_max_hourly_cost,
            proactive_scaleup_nodepool_selector,
            proactive_scaleup_workloads,
        } = self;
        let threshold = *proactive_scaleup_threshold;
        if !(threshold > 0.0 && threshold <= 1.0) {
            return Err(OperatorError::Option(format!(
                "PROACTIVE_SCALEUP_THRESHOLD (--proactive-scaleup-threshold) must be above 0 and at most 1: {threshold}"
            )));
        }
        if let Some(dollars) =
            proactive_scaleup_max_hourly_cost.filter(|dollars| dollars.is_nan() || *dollars < 0.0)
        {
            return Err(OperatorError::Option(format!(
                "PROACTIVE_SCALEUP_MAX_HOURLY_COST (--proactive-scaleup-max-hourly-cost) must not be negative: {dollars}"
            )));
        }
        let proactive = Proactive {
            enabled: enable_proactive_scaleup.unwrap_or(mode != ModeChoice::Provisioner),
            buffers: gates.capacity_buffer,
            pod_injection_limit: *pod_injection_limit,
            node_limit: *node_limit,
            threshold,
            most_dollars: *proactive_scaleup_max_hourly_cost,
            pool_selector: proactive_scaleup_nodepool_selector.clone(),
            only_chosen: *proactive_scaleup_workloads == Workloads::Annotated,
            others_buy: mode == ModeChoice::Companion,
        };
        proactive.pools().map_err(|part| {
            OperatorError::Option(format!(
                "PROACTIVE_SCALEUP_NODEPOOL_SELECTOR (--proactive-scaleup-nodepool-selector) is not understood at {part:?}"
            ))
        })?;
        Ok(proactive)
    }
}
