//! The metrics there are: name, type, meaning.
//!
//! COMPAT: names are v1.15.0's, so that dashboards and alerts keep working. Two of its summaries
//! (`nodes_termination_duration_seconds`, `pods_startup_duration_seconds`) are histograms here: those can be added up.

/// A metric and what it means.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name without the prefix `karpenter_`; counters keep their `_total`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down; all values of such a metric are replaced at once.
    Gauge,
    /// How long things take, from milliseconds to minutes.
    Durations,
    /// How long things live, from minutes to months.
    Lifetimes,
    /// Ratios around one.
    Scores,
}

const fn row(name: &'static str, kind: Kind, help: &'static str) -> Row {
    Row { name, kind, help }
}

use Kind::{Counter, Durations, Gauge, Lifetimes, Scores};

/// All metrics with upstream's prefix.
pub(crate) const ROWS: &[Row] = &[
    row("build_info", Gauge, "Always 1; the labels say which build this is"),
    row("cloudprovider_duration_seconds", Durations, "How long calls to the cloud take"),
    row("cloudprovider_errors_total", Counter, "Calls to the cloud that failed"),
    row("cluster_state_node_count", Gauge, "Nodes and nodes to be that are known"),
    row("cluster_state_synced", Gauge, "1 once everything that decisions depend on has been read"),
    row("cluster_state_unsynced_time_seconds", Gauge, "How long something has been unread"),
    row("cluster_utilization_percent", Gauge, "How much of what nodes can give is requested"),
    row("consolidation_moves_total", Counter, "Moves that the balanced policy weighed"),
    row(
        "consolidation_score",
        Scores,
        "What moves that the balanced policy weighed save for what they disturb",
    ),
    row("nodeclaims_created_total", Counter, "NodeClaims created"),
    row("nodeclaims_disrupted_total", Counter, "NodeClaims given up on purpose"),
    row(
        "nodeclaims_instance_termination_duration_seconds",
        Durations,
        "How long instances take to end once that was asked for",
    ),
    row("nodeclaims_terminated_total", Counter, "NodeClaims that are gone"),
    row(
        "nodeclaims_termination_duration_seconds",
        Durations,
        "How long NodeClaims take from deletion to their end",
    ),
    row("nodeclaims_unhealthy_disrupted_total", Counter, "NodeClaims given up because their node was ill"),
    row("nodepools_allowed_disruptions", Gauge, "How many nodes of a pool may be disturbed at once now"),
    row("nodepools_cost_total", Gauge, "What the nodes of a pool cost an hour by the catalog"),
    row("nodepools_cost_tracker_errors_total", Counter, "Nodes whose price could not be told"),
    row("nodepools_limit", Gauge, "How much a pool may have of a resource"),
    row("nodepools_nodes_consuming_budgets", Gauge, "How many nodes of a pool count against its budgets now"),
    row("nodepools_usage", Gauge, "How much a pool has of a resource"),
    row("nodes_allocatable", Gauge, "What a node can give to pods"),
    row("nodes_created_total", Counter, "Nodes that registered"),
    row("nodes_current_lifetime_seconds", Gauge, "How old a node is"),
    row("nodes_drained_total", Counter, "Nodes that were emptied"),
    row("nodes_lifetime_duration_seconds", Lifetimes, "How old nodes become"),
    row("nodes_reboot_duration_seconds", Durations, "How long restarts of nodes take"),
    row(
        "nodes_reboot_recovery_duration_seconds",
        Durations,
        "How long nodes take from illness to being well after a restart",
    ),
    row("nodes_reboots_total", Counter, "Nodes that were restarted"),
    row("nodes_system_overhead", Gauge, "What a node keeps for itself"),
    row("nodes_terminated_total", Counter, "Nodes that are gone"),
    row("nodes_termination_duration_seconds", Durations, "How long nodes take from deletion to their end"),
    row("nodes_total_daemon_limits", Gauge, "What daemons of a node are limited to"),
    row("nodes_total_daemon_requests", Gauge, "What daemons of a node ask for"),
    row("nodes_total_pod_limits", Gauge, "What pods of a node are limited to, daemons included"),
    row("nodes_total_pod_requests", Gauge, "What pods of a node ask for, daemons included"),
    row(
        "pod_deletion_cost_nodes_with_pending_annotation_writes",
        Gauge,
        "Nodes whose pods await a deletion cost",
    ),
    row("pod_deletion_cost_pod_annotation_writes_total", Counter, "Deletion costs written to pods"),
    row("pods_bound_duration_seconds", Durations, "How long pods wait from creation to a node"),
    row("pods_disruption_initiated_total", Counter, "Pods on nodes that were given up on purpose"),
    row("pods_drained_total", Counter, "Pods that had to leave their node"),
    row("pods_eviction_requests_total", Counter, "Evictions asked for, by the code of the answer"),
    row(
        "pods_provisioning_bound_duration_seconds",
        Durations,
        "How long pods wait from being planned for to a node",
    ),
    row(
        "pods_provisioning_scheduling_undecided_time_seconds",
        Gauge,
        "How long a pod has waited to be planned for",
    ),
    row(
        "pods_provisioning_startup_duration_seconds",
        Durations,
        "How long pods wait from being planned for to running",
    ),
    row(
        "pods_provisioning_unbound_time_seconds",
        Gauge,
        "How long a pod that was planned for has had no node",
    ),
    row("pods_provisioning_unstarted_time_seconds", Gauge, "How long a pod that was planned for has not run"),
    row(
        "pods_scheduling_decision_duration_seconds",
        Durations,
        "How long pods wait from being seen to being planned for",
    ),
    row("pods_startup_duration_seconds", Durations, "How long pods wait from creation to running"),
    row("pods_state", Gauge, "Always 1; the labels say how a pod is"),
    row("pods_unbound_time_seconds", Gauge, "How long a pod has had no node"),
    row("pods_unstarted_time_seconds", Gauge, "How long a pod has not run"),
    row("scheduler_ignored_pods_count", Gauge, "Pods that cannot be planned for, whatever is bought"),
    row(
        "scheduler_pending_pods_by_effective_zone_count",
        Gauge,
        "Pods that wait, by the zones that they can go to",
    ),
    row("scheduler_queue_depth", Gauge, "Pods that wait to be planned for"),
    row("scheduler_scheduling_duration_seconds", Durations, "How long planning takes"),
    row("scheduler_unfinished_work_seconds", Gauge, "How long planning has been going on"),
    row("scheduler_unschedulable_pods_count", Gauge, "Pods that fit nowhere"),
    row(
        "voluntary_disruption_consolidation_timeouts_total",
        Counter,
        "Searches for savings that were cut short",
    ),
    row(
        "voluntary_disruption_decision_evaluation_duration_seconds",
        Durations,
        "How long looking for nodes to give up takes",
    ),
    row("voluntary_disruption_decisions_by_nodepool_total", Counter, "Decisions to give nodes up, by pool"),
    row("voluntary_disruption_decisions_total", Counter, "Decisions to give nodes up"),
    row("voluntary_disruption_eligible_nodes", Gauge, "Nodes that could be given up"),
    row(
        "voluntary_disruption_failed_validations_total",
        Counter,
        "Nodes that could not be given up after all",
    ),
    row(
        "voluntary_disruption_queue_failures_total",
        Counter,
        "Decisions to give nodes up that could not be carried out",
    ),
    row(
        "voluntary_disruption_terminate_first_decisions_total",
        Counter,
        "Nodes given up before their replacement",
    ),
];

/// All metrics with our own prefix that the engine reports.
pub(crate) const OURS: &[Row] = &[
    row(
        "observed_apart_seconds",
        Durations,
        "How much later the second of the cluster's autoscaler and an observer asked for a first node, by who was first",
    ),
    row(
        "observed_decisions_total",
        Counter,
        "Decisions that were followed to their end, by what became of them",
    ),
    row("observed_dollars_per_hour", Gauge, "What all nodes cost an hour, and would cost with Headstart"),
    row(
        "observed_pod_wait_seconds",
        Durations,
        "How long pods waited for a node, and would have with Headstart",
    ),
    row(
        "proactive_arrived_pods_total",
        Counter,
        "Pods that came to a node that was started before they were there",
    ),
    row("proactive_bought_pods_total", Counter, "Expected pods for which a node was started"),
    row(
        "proactive_disbelief_total",
        Counter,
        "Times that an owner was believed in vain and is not for a while",
    ),
    row("proactive_expected_pods", Gauge, "Pods that are expected now"),
    row(
        "proactive_hit_rate",
        Gauge,
        "How many of the expected pods for which a node was started have come, from 0 to 1",
    ),
    row(
        "proactive_idle_dollars_total",
        Counter,
        "What nodes that were started ahead cost while they had no pod",
    ),
    row("proactive_idle_node_seconds_total", Counter, "How long nodes that were started ahead had no pod"),
    row(
        "proactive_placeholders_total",
        Counter,
        "Placeholder pods made to show another autoscaler what is expected",
    ),
    row(
        "proactive_saved_seconds_total",
        Counter,
        "How much less pods waited for nodes because those were started ahead",
    ),
];

impl Kind {
    /// The upper bounds of a histogram's buckets; none for what is no histogram.
    pub(crate) fn buckets(self) -> &'static [f64] {
        match self {
            Counter | Gauge => &[],
            Durations => &[
                0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
                0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0,
                20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
            ],
            Lifetimes => &[
                900.0,
                1_800.0,
                3_600.0,
                7_200.0,
                14_400.0,
                28_800.0,
                43_200.0,
                86_400.0,
                172_800.0,
                432_000.0,
                864_000.0,
                1_296_000.0,
                2_592_000.0,
                7_776_000.0,
            ],
            Scores => &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_say_their_type() {
        assert!(ROWS.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, each once");
        for Row { name, kind, help } in ROWS {
            assert!(!help.is_empty() && !help.ends_with('.'), "{name}");
            match kind {
                Counter => assert!(name.ends_with("_total"), "{name}"),
                Durations | Lifetimes => assert!(name.ends_with("_seconds"), "{name}"),
                Gauge | Scores => {}
            }
            assert!(kind.buckets().is_sorted());
        }
    }
}
