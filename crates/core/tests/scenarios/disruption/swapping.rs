//! Nodes of pools that keep a number of them, and nodes that go before their replacement comes.

use crate::disruption::check;

/// Four nodes of a pool that keeps a number of them.
fn fleet(policy: &str) -> String {
    format!(
        "
        pool default
        policy default {policy}
        member a drifted=30
        member b drifted=10
        member c drifted=20
        member d
        resident p on=a cpu=3
        resident q on=b cpu=3
        resident r on=d cpu=3
    "
    )
}

#[test]
fn drifted_nodes_are_swapped_together_within_budget_and_limit() {
    let all = "
        Drifted: c -> nothing of 0 , 0 pods, saves 0.83
        Drifted: b -> nothing of 0 , 1 pods, saves 0.83
        Drifted: a -> nothing of 0 , 1 pods, saves 0.83
    ";
    check(&fleet("static=4/4"), all);
    check(&format!("{}\nsearch compat", fleet("static=4/4")), all);
    check(
        &fleet("static=4/4/9 budget=2"),
        "
        Drifted: c -> nothing of 0 , 0 pods, saves 0.83
        Drifted: b -> nothing of 0 , 1 pods, saves 0.83
        a stays: No allowed disruptions due to blocking budget
    ",
    );
    check(
        &fleet("static=4/4/5"),
        "
        Drifted: c -> nothing of 0 , 0 pods, saves 0.83
        a stays: static NodePool is at its node limit, which leaves no room for a replacement
        b stays: static NodePool is at its node limit, which leaves no room for a replacement
    ",
    );
}

#[test]
fn nothing_is_swapped_while_there_are_too_many_or_nobody_keeps_the_number() {
    check(&fleet("static=3/4"), "");
    check(&fleet("static"), "");
}

#[test]
fn at_the_limit_a_node_goes_first_if_that_is_wanted_and_the_pool_is_refilled() {
    let policy = "static=4/4/4 budget=1";
    check(
        &fleet(policy),
        "
        a stays: static NodePool is at its node limit, which leaves no room for a replacement
        b stays: static NodePool is at its node limit, which leaves no room for a replacement
        c stays: static NodePool is at its node limit, which leaves no room for a replacement
    ",
    );
    check(
        &format!("{}\nsearch ends-first", fleet(policy)),
        "
        Drifted: c first (static-at-limit), 0 pods, saves 0.83
        a stays: No allowed disruptions due to blocking budget
        b stays: No allowed disruptions due to blocking budget
    ",
    );
    check(
        &format!("{}\nsearch ends-first", fleet("static=4/4/4/unready")),
        "
        a stays: static NodePool is at its node limit, which leaves no room for a replacement
        b stays: static NodePool is at its node limit, which leaves no room for a replacement
        c stays: static NodePool is at its node limit, which leaves no room for a replacement
    ",
    );
}

#[test]
fn broken_nodes_are_swapped_within_the_limit() {
    let fleet = |policy: &str| {
        format!(
            "
        pool default
        policy default {policy} nodes=10 sick=2
        member a sick=1
        member b sick=2
        resident p on=a cpu=1
    "
        )
    };
    check(
        &format!("{}\nsearch compat", fleet("static=2/2/3")),
        "
        Unhealthy: b -> nothing of 0 , 0 pods, saves 0.83
        a stays: static NodePool is at its node limit, which leaves no room for a replacement",
    );
    check(&fleet("static=1/2/3"), "");
    let blocked = "
        a stays: static NodePool is at its node limit, which leaves no room for a replacement
        b stays: static NodePool is at its node limit, which leaves no room for a replacement
    ";
    check(&fleet("static=2/2/2"), blocked);
    check(
        &format!("{}\nsearch compat\nsearch ends-first", fleet("static=2/2/2")),
        "
        Unhealthy: b first (static-at-limit), 0 pods, saves 0.83
        Unhealthy: a first (static-at-limit), 1 pods, saves 0.83",
    );
}

#[test]
fn where_reservations_are_full_only_nodes_that_hold_one_go_first() {
    let fleet = |left: u32, policy: &str| {
        format!(
            "
        reserve r1 type=default zone=zone-1 left={left}
        pool default req=capacity:In:reserved
        policy default {policy}
        member a drifted=1 capacity=reserved reservation=gone
        member b drifted=2 capacity=reserved reservation=r1
        search ends-first
    "
        )
    };
    check(
        &fleet(0, "static=2/2 budget=1"),
        "
        Drifted: b first (no-reserved-capacity), 0 pods, saves 0.00
        a stays: No allowed disruptions due to blocking budget
    ",
    );
    check(
        &fleet(0, "static=2/2"),
        "
        Drifted: b first (no-reserved-capacity), 0 pods, saves 0.00
        a stays: capacity reservations of the static NodePool are full, which leaves no room for a replacement
    ",
    );
    check(
        &fleet(1, "static=2/2 budget=1"),
        "
        Drifted: a -> nothing of 0 , 0 pods, saves 0.00
        b stays: No allowed disruptions due to blocking budget
    ",
    );
}

#[test]
fn a_reserved_node_goes_first_if_only_its_reservation_has_room_for_its_pods() {
    let fleet = |pods: u32, more: &str| {
        format!(
            "
        option reserved-fallback
        reserve r1 type=default zone=zone-1 left=0
        pool default req=capacity:In:reserved
        policy default never
        member a drifted=1 capacity=reserved reservation=r1
        resident p on=a x{pods} cpu=1
        {more}
    "
        )
    };
    let stays = "
        a stays: Not all pods would schedule, default/p-1 => pool default: no instance type is available in a domain that \
             its topology constraints allow
        a stays: NodePool has consolidation disabled
    ";
    check(&fleet(2, ""), stays);
    check(&fleet(2, "search ends-first"), "Drifted: a first (no-reserved-capacity), 2 pods, saves 0.00");
}
