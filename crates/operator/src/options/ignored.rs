//! Upstream's options that mean nothing here. Charts set them, so they must not stop the start; but nobody should wonder.

use clap::Args;

/// Upstream's options that mean nothing here.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Ignored {
    /// Accepted, unused: a batch closes as soon as it can
    #[arg(long, env, hide = true)]
    pub(crate) batch_idle_duration: Option<String>,
    /// Accepted, unused: nothing here collects garbage
    #[arg(long, env, hide = true)]
    pub(crate) memory_limit: Option<String>,
    /// Accepted, unused: decisions do not depend on it
    #[arg(long, env, hide = true)]
    pub(crate) cpu_requests: Option<String>,
    /// Accepted, unused: there is no profiler
    #[arg(long, env, hide = true)]
    pub(crate) enable_profiling: Option<String>,
    /// Accepted, unused: watches always start before the lease is held
    #[arg(long, env, hide = true)]
    pub(crate) disable_controller_warmup: Option<String>,
    /// Accepted, unused: metrics are cheap
    #[arg(long, env, hide = true)]
    pub(crate) disable_cluster_state_observability: Option<String>,
    /// Accepted, unused: there is no webhook
    #[arg(long, env, hide = true)]
    pub(crate) karpenter_service: Option<String>,
    /// Accepted, unused: the log goes to standard output
    #[arg(long, env, hide = true)]
    pub(crate) log_output_paths: Option<String>,
    /// Accepted, unused: the log goes to standard output
    #[arg(long, env, hide = true)]
    pub(crate) log_error_output_paths: Option<String>,
    /// Accepted, unused: pods with resource claims are never provisioned for
    #[arg(long, env, hide = true)]
    pub(crate) ignore_dra_requests: Option<String>,
    /// Accepted, unused: repair without budgets is not supported
    #[arg(long, env, hide = true)]
    pub(crate) legacy_node_repair: Option<String>,
}

impl Ignored {
    /// Those that were set, by the names of their variables.
    pub(crate) fn set(&self) -> Vec<&'static str> {
        let all = [
            ("BATCH_IDLE_DURATION", &self.batch_idle_duration),
            ("MEMORY_LIMIT", &self.memory_limit),
            ("CPU_REQUESTS", &self.cpu_requests),
            ("ENABLE_PROFILING", &self.enable_profiling),
            ("DISABLE_CONTROLLER_WARMUP", &self.disable_controller_warmup),
            ("DISABLE_CLUSTER_STATE_OBSERVABILITY", &self.disable_cluster_state_observability),
            ("KARPENTER_SERVICE", &self.karpenter_service),
            ("LOG_OUTPUT_PATHS", &self.log_output_paths),
            ("LOG_ERROR_OUTPUT_PATHS", &self.log_error_output_paths),
            ("IGNORE_DRA_REQUESTS", &self.ignore_dra_requests),
            ("LEGACY_NODE_REPAIR", &self.legacy_node_repair),
        ];
        all.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_set_is_named() {
        let ignored = Ignored {
            memory_limit: Some("2147483648".into()),
            batch_idle_duration: Some("1s".into()),
            ..Ignored::default()
        };
        assert_eq!(ignored.set(), ["BATCH_IDLE_DURATION", "MEMORY_LIMIT"]);
    }
}
