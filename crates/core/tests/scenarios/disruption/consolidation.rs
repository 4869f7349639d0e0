//! Nodes that are not worth their price.

use headstart_core::disrupt::{Fleet, Idea, Style, decide, least_after};

use crate::disruption::{check, fleet};

#[test]
fn a_large_node_for_a_small_pod_is_replaced() {
    // Ours leaves out what would save too little.
    for (search, types) in [("", 8), ("search compat", 9)] {
        check(
            &format!(
                "
            types 20
            pool default req=capacity:In:on-demand
            policy default
            {search}
            member a type=fake-it-9
            resident p on=a cpu=500m
        "
            ),
            &format!("Underutilized: a -> fake-it-0 of {types} on-demand, 1 pods, saves 2.83"),
        );
    }
}

#[test]
fn the_cheapest_node_stays() {
    for search in ["", "search compat"] {
        check(
            &format!(
                "
            types 20
            pool default
            policy default
            {search}
            member a type=fake-it-0
            resident p on=a cpu=500m
        "
            ),
            "a stays: Can't replace with a cheaper node",
        );
    }
}

#[test]
fn on_demand_is_replaced_by_spot_only_for_certain() {
    check(
        "
        types 20
        pool default
        policy default
        search compat
        member a type=fake-it-9
        resident p on=a cpu=500m
    ",
        "Underutilized: a -> fake-it-0 of 9 spot, 1 pods, saves 2.83",
    );
}

#[test]
fn spot_is_replaced_by_spot_only_with_enough_choice() {
    let fleet = |of_type: &str, search: &str| {
        format!(
            "
        types 40
        pool default req=capacity:In:spot
        policy default
        search compat
        {search}
        member a type={of_type} capacity=spot
        resident p on=a cpu=500m
    "
        )
    };
    check(
        &fleet("fake-it-20", ""),
        "a stays: SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
    );
    check(
        &fleet("fake-it-9", "search spot"),
        "a stays: SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to \
         consolidate, got 9",
    );
    check(
        &fleet("fake-it-20", "search spot"),
        "Underutilized: a -> fake-it-0 of 15 spot, 1 pods, saves 6.29",
    );
}

#[test]
fn pods_go_to_nodes_that_stay() {
    for search in ["", "search compat"] {
        check(
            &format!(
                "
            types 20
            pool default req=capacity:In:on-demand
            policy default
            {search}
            member a type=fake-it-3
            member b type=fake-it-3
            resident p on=a x3 cpu=900m
            resident q on=b cpu=900m
        "
            ),
            "
            Underutilized: b, 1 pods, saves 1.26
        "
            .replace("\n        ", "\n")
            .as_str(),
        );
    }
}

#[test]
fn budgets_and_policies_hold_nodes() {
    let fleet = |policy: &str| {
        format!(
            "
        types 20
        pool default req=capacity:In:on-demand
        policy default {policy}
        member a type=fake-it-9
        resident p on=a cpu=500m
    "
        )
    };
    check(&fleet("budget=0"), "a stays: No allowed disruptions due to blocking budget");
    check(&fleet("budget=Underutilized:0"), "a stays: No allowed disruptions due to blocking budget");
    check(
        &fleet("when=Empty"),
        "a stays: NodePool has consolidation policy WhenEmpty, but node is not empty",
    );
    check(&fleet("never"), "a stays: NodePool has consolidation disabled");
    check(&fleet("in-vain"), "a stays: A node that the NodePool could do without had to be bought again");
}

#[test]
fn one_node_becomes_two_where_upstream_gives_up() {
    // Two pods that must not share a node cannot be on one new node.
    let fleet = "
        types 20
        pool default req=capacity:In:on-demand
        policy default
        member a type=fake-it-19
        resident p on=a cpu=500m label=app:web apart=host/app:web
        resident q on=a cpu=500m label=app:web apart=host/app:web
    ";
    check(
        fleet,
        "Underutilized: a -> fake-it-0 of 8 on-demand -> fake-it-0 of 8 on-demand, 2 pods, saves 5.67",
    );
    check(&format!("{fleet}\nsearch compat"), "a stays: Can't remove without creating several nodes");
}

#[test]
fn an_immovable_node_does_not_hide_others() {
    // Node a saves most but its pod fits nowhere else; upstream's prefixes all contain it.
    let fleet = "
        types 20
        pool default req=capacity:In:on-demand
        policy default
        member a type=fake-it-19
        member b type=fake-it-5
        member c type=fake-it-5
        resident p on=a cpu=500m select=host:a
        resident q on=b cpu=2
        resident r on=c cpu=2
    ";
    check(
        fleet,
        "
        Underutilized: b, 1 pods, saves 1.89
        Underutilized: c, 1 pods, saves 1.89
        a stays: Not all pods would schedule, default/p => pool default: asks for a host by name
    ",
    );
}

#[test]
fn a_node_that_has_just_replaced_another_rests() {
    check(
        "
        types 20
        pool default req=capacity:In:on-demand
        policy default
        now 100
        member a type=fake-it-9 rests=200
        resident p on=a cpu=500m
    ",
        "a stays: Node has just replaced another or taken its pods",
    );
}

#[test]
fn balanced_weighs_savings_against_evictions() {
    // What a move saves of the pool's price must be at least half of its share of the pool's evictions.
    let fleet = |of_type: &str| {
        format!(
            "
        types 20
        pool default req=capacity:In:on-demand
        policy default when=Balanced
        search compat
        member a type={of_type}
        resident p on=a cpu=700m x10
        member b type=fake-it-7
        resident q on=b cpu=700m x10
    "
        )
    };
    check(
        &fleet("fake-it-8"),
        "
        a stays: Would save at most $0.629 an hour, too little for its evictions
        b stays: Would save at most $0.629 an hour, too little for its evictions
    ",
    );
    check(
        &fleet("fake-it-19"),
        "
        Underutilized: a -> fake-it-6 of 13 on-demand, 10 pods, saves 4.09
    ",
    );
}

#[test]
fn an_eviction_must_save_something() {
    // Ten pods would move to save a fifth of the node at the very best.
    check(
        "
        types 20
        pool default req=capacity:In:on-demand
        policy default
        member a type=fake-it-8
        resident p on=a cpu=700m x10
    ",
        "a stays: Would save at most $0.315 an hour, too little for its evictions",
    );
}

#[test]
fn what_was_proposed_stays_proposed() {
    let text = "
        types 20
        pool default req=capacity:In:on-demand
        policy default budget=1
        member a type=fake-it-9
        member b type=fake-it-9
        resident p on=a cpu=500m
        resident q on=b cpu=500m
    ";
    let chosen = |fleet: &Fleet| -> Vec<Vec<u32>> {
        decide(fleet).moves.into_iter().map(|chosen| chosen.members).collect()
    };
    for member in [0, 1] {
        let ideas = vec![Idea { members: vec![member], style: Style::default() }];
        assert_eq!(
            chosen(&Fleet { ideas, ..fleet(text) }),
            [[member]],
            "only one may go, and it was this one"
        );
    }
}

#[test]
fn moves_that_share_no_new_node_do_not_wait_for_each_other() {
    check(
        "
        types 20
        pool default req=capacity:In:on-demand
        policy default
        member a type=fake-it-9
        member b type=fake-it-9 zone=zone-2
        resident p on=a cpu=500m select=zone:zone-1
        resident q on=b cpu=500m select=zone:zone-2
    ",
        "
        Underutilized: a -> fake-it-0 of 8 on-demand, 1 pods, saves 2.83
        Underutilized: b -> fake-it-0 of 8 on-demand, 1 pods, saves 2.83
    ",
    );
}

#[test]
fn more_evictions_may_save_more_and_none_save_nothing() {
    let fleet = fleet(
        "
        types 20
        pool default req=capacity:In:on-demand
        policy default
        member a type=fake-it-9
        member b type=fake-it-9
        resident p on=a cpu=500m
        resident q on=b cpu=500m
    ",
    );
    let [none, one, both] = [0, 1, 2].map(|evictions| least_after(&fleet, evictions).dollars());
    let is_just_below = |least: f64, of: f64| least <= of && least > 0.99 * of;
    let price = 3.1478;
    assert!(is_just_below(none, 2.0 * price), "nothing goes: {none}");
    assert!(is_just_below(one, price), "one pod moves to the other node: {one}");
    let saved: f64 = decide(&fleet).moves.iter().map(|chosen| chosen.saving.dollars()).sum();
    assert!((0.1..=2.0 * price - saved).contains(&both), "both pods move to something small: {both}");
}
