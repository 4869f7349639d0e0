//! Empty, drifted and broken nodes, and the budgets that hold them.

use crate::disruption::check;

#[test]
fn empty_nodes_go_as_far_as_budgets_allow() {
    let fleet = "
        pool default
        member a
        member b
        member c
        resident p on=c cpu=1 cost=-5
    ";
    check(
        &format!("{fleet}\npolicy default"),
        "
        Empty: a, 0 pods, saves 0.83
        Empty: b, 0 pods, saves 0.83
        Empty: c, 1 pods, saves 0.83
    ",
    );
    check(
        &format!("{fleet}\npolicy default budget=2"),
        "
        Empty: a, 0 pods, saves 0.83
        Empty: b, 0 pods, saves 0.83
        c stays: No allowed disruptions due to blocking budget
    ",
    );
    check(
        &format!("{fleet}\npolicy default budget=2 going=1 unready=1"),
        "
        a stays: No allowed disruptions due to blocking budget
        b stays: No allowed disruptions due to blocking budget
        c stays: No allowed disruptions due to blocking budget
    ",
    );
    check(
        &format!("{fleet}\npolicy default never"),
        "
        a stays: NodePool has consolidation disabled
        b stays: NodePool has consolidation disabled
        c stays: NodePool has consolidation disabled
    ",
    );
}

#[test]
fn room_in_a_pools_limits_is_for_what_replaces_the_node_that_gives_it_back() {
    check(
        "
        pool one weight=9 limit=cpu:0 req=capacity:In:spot
        pool two req=capacity:In:on-demand
        policy one never
        policy two
        member a of=one drifted=20
        member b of=two drifted=10
        resident p on=b cpu=3
    ",
        "
        Drifted: a, 0 pods, saves 0.83
        Drifted: b -> default of 5 on-demand, 1 pods, saves 0.00
    ",
    );
}

#[test]
fn a_budget_that_cannot_be_read_stops_its_pool_only() {
    check(
        "
        pool one
        pool two
        policy one budget=5@nonsense@60
        policy two budget=5
        member a of=one
        member b of=two
    ",
        "
        Empty: b, 0 pods, saves 0.83
        a stays: No allowed disruptions due to blocking budget
    ",
    );
}

#[test]
fn a_window_holds_nodes_only_while_it_is_open() {
    let fleet = "
        pool default
        policy default budget=0@0_9_*_*_*@3600
        member a
    ";
    check(&format!("{fleet}\nnow 32460"), "a stays: No allowed disruptions due to blocking budget");
    check(&format!("{fleet}\nnow 36000"), "Empty: a, 0 pods, saves 0.83");
}

#[test]
fn nodes_that_are_needed_or_protected_stay() {
    check(
        "
        pool default
        policy default
        member a nominated
        member b do-not-disrupt
        member c starting
        member d fresh
        member e
        pod waiting cpu=3500m
        resident p on=d daemon cpu=1
        resident q on=e daemon cpu=1 do-not-disrupt
        member f
    ",
        "
        Empty: f, 0 pods, saves 0.83
        a stays: Node is nominated for a pending pod
        b stays: Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation
        c stays: Node isn't initialized
        d stays: Node isn't consolidatable yet
        e stays: Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/q)
    ",
    );
}

#[test]
fn a_pod_that_waits_keeps_the_node_it_fits_on() {
    check(
        "
        pool default
        policy default
        pod waiting cpu=2500m
        pod foreseen cpu=2500m expected
        member a
        member b
    ",
        "
        a stays: Node is nominated for a pending pod
        b stays: Can't replace with a cheaper node
    ",
    );
}

#[test]
fn drifted_nodes_are_replaced_in_batches() {
    let fleet = "
        pool default
        policy default budget=2 never
        member a drifted=30
        member b drifted=10
        member c drifted=20
        member d drifted=40
        resident p on=a cpu=3
        resident q on=b cpu=3
        resident r on=c cpu=3
    ";
    let both = "
        Drifted: d, 0 pods, saves 0.83
        Drifted: b -> default of 5 on-demand/spot, 1 pods, saves 0.00
        a stays: No allowed disruptions due to blocking budget
        c stays: No allowed disruptions due to blocking budget";
    check(&format!("{fleet}\nsearch compat"), both);
    let wide = both.replace(
        "budget\n        c",
        "budget\n        a stays: NodePool has consolidation disabled\n        c",
    );
    check(fleet, &format!("{wide}\n        c stays: NodePool has consolidation disabled"));
}

#[test]
fn a_grace_period_lets_drift_pass_what_protects_pods() {
    let fleet = |words: &str| {
        format!(
            "
        pool default
        policy default
        member a drifted=1 {words}
        resident p on=a cpu=1 budget=default/pdb
        resident q on=a cpu=1
    "
        )
    };
    check(&fleet(""), "a stays: Pdb prevents pod evictions (PodDisruptionBudget=[default/pdb])");
    check(&fleet("grace"), "Drifted: a -> small of 6 on-demand/spot, 2 pods, saves 0.41");
}

#[test]
fn broken_nodes_are_replaced_worst_first_unless_too_many_are() {
    let fleet = |sick: u32| {
        format!(
            "
        pool default
        policy default budget=1 nodes=10 sick={sick} unready=2 never
        member a sick=1.5
        member b sick=2.5 do-not-disrupt
        member c sick=9 do-not-repair
        resident p on=a cpu=1
        resident q on=b cpu=1
    "
        )
    };
    check(
        &fleet(2),
        "
        Unhealthy: b -> small of 6 on-demand/spot, 1 pods, saves 0.41
        a stays: No allowed disruptions due to blocking budget
        a stays: NodePool has consolidation disabled
        c stays: Repair is blocked through the \"karpenter.sh/do-not-repair\" annotation
        c stays: NodePool has consolidation disabled
    ",
    );
    check(
        &fleet(3),
        "
        a stays: More than 20% of the NodePool's nodes are unhealthy
        a stays: NodePool has consolidation disabled
        b stays: More than 20% of the NodePool's nodes are unhealthy
        b stays: Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation
        c stays: Repair is blocked through the \"karpenter.sh/do-not-repair\" annotation
        c stays: NodePool has consolidation disabled
    ",
    );
}

#[test]
fn restarts_are_paced_like_replacements_and_move_nobody() {
    let fleet = |budget: u32| {
        format!(
            "
        pool default
        policy default budget={budget} nodes=10 sick=2 never
        member a sick=2 reboots bounded
        member b sick=1
        resident p on=a cpu=1 do-not-disrupt
        resident q on=b cpu=1
    "
        )
    };
    check(
        &fleet(1),
        "
        restart: a
        b stays: No allowed disruptions due to blocking budget
        b stays: NodePool has consolidation disabled
    ",
    );
    let both = "
        Unhealthy: b -> small of 6 on-demand/spot, 1 pods, saves 0.41
        restart: a
    ";
    check(&fleet(2), both);
    check(&format!("{}search compat", fleet(2)), both);
}
