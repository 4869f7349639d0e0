//! Real demand before expected demand, and who goes first when not all fit.

use headstart_core::demand::trim;
use headstart_core::price::Price;
use headstart_core::snapshot::Demand;
use headstart_core::solve::{Packing, solve};
use insta::assert_snapshot;

use crate::check::{plan, shown};
use crate::fixture::parse;

/// How many real and expected pods still need a node, once a limit has been applied; those named `buffer` must stay.
fn within(limit: usize, scenario: &str) -> (usize, usize) {
    let mut snapshot = parse(scenario);
    let plan = solve(&snapshot, Packing::Compat);
    let sure = |pod: u32| (!snapshot.pods[pod as usize].name.starts_with("buffer")).then_some(50);
    let out = trim::over_limit(&snapshot, &plan, limit, sure);
    trim::without(&mut snapshot, &out);
    let plan = solve(&snapshot, Packing::Compat);
    let needing = plan.claims.iter().flat_map(|claim| &claim.pods);
    let (real, expected): (Vec<&u32>, Vec<&u32>) =
        needing.partition(|pod| snapshot.pods[**pod as usize].demand == Demand::Real);
    (real.len(), expected.len())
}

#[test]
fn the_injection_limit_trims_expected_pods_that_need_nodes_and_never_real_ones() {
    let scenario = |real: &str, expected: &str| {
        format!(
            "
        pool p
        pod now {real} cpu=1
        {expected}
    "
        )
    };
    assert_eq!(within(10, &scenario("x3", "pod soon x10 cpu=1 expected")), (3, 7));
    assert_eq!(within(10, &scenario("x11", "pod soon x5 cpu=1 expected")), (11, 0));
    assert_eq!(within(10, &scenario("x3", "pod buffer x10 cpu=1 expected")), (3, 10), "buffers stay");
    let with_room = "
        pool p
        node n cpu=8 memory=8Gi pods=8
        pod now x3 cpu=1
        pod soon x10 cpu=1 expected
    ";
    assert_eq!(within(5, with_room), (0, 5), "what fits on nodes that exist does not count");
}

#[test]
fn belief_costs_at_most_what_it_may() {
    let mut snapshot = parse(
        "
        pool p req=type:In:default
        pod now cpu=3
        pod soon x3 cpu=3 expected
    ",
    );
    let plan = solve(&snapshot, Packing::Compat);
    let each = plan.claims[0].launch.as_ref().unwrap().price;
    let left = Price::from_dollars(each.dollars() * 2.5);
    let out = trim::over_budget(&snapshot, &plan, left);
    trim::without(&mut snapshot, &out);
    assert_snapshot!(shown(&snapshot, &solve(&snapshot, Packing::Compat)), @r"
    1 × p default of 1 in 123: now
    2 × p default of 1 in 123: soon
    ");
}

#[test]
fn a_pool_for_real_pods_only_buys_nothing_for_expected_ones() {
    let shown = plan(
        "
        pool p only-real
        node n cpu=2 memory=4Gi pods=5
        pod soon x2 cpu=2 expected
        pod now cpu=3
    ",
    );
    let placed: Vec<&str> = shown.lines().filter(|line| !line.starts_with("pending")).collect();
    assert_eq!(placed, ["node n: soon", "1 × p default of 5 in 123: now"]);
}

#[test]
fn expected_pods_get_what_real_ones_leave() {
    assert_snapshot!(plan("
        pool p
        node n cpu=2 memory=4Gi pods=5
        pod soon cpu=2 expected
        pod now cpu=1
    "), @r"
        node n: now
        1 × p default of 5 in 123: soon
    ");
}

#[test]
fn expected_pods_never_take_the_last_of_a_limit() {
    assert_snapshot!(plan("
        types 4
        pool p limit=cpu:5
        pod now x2 cpu=3
        pod soon cpu=0.5 expected
    "), @r"
        1 × p fake-it-3 of 1 in 123: now, soon
        pending now: pool p: pool limit reached: 1 cpu left
    ");
}

#[test]
fn priority_decides_only_when_not_all_fit() {
    let scenario = |limit: &str| {
        format!(
            "
        pool p {limit} req=type:In:default
        pod large cpu=3
        pod important cpu=2 priority=10
    "
        )
    };
    assert_snapshot!(plan(&scenario("")), @r"
        1 × p default of 1 in 123: important
        1 × p default of 1 in 123: large
    ");
    assert_snapshot!(plan(&scenario("limit=nodes:1")), @r"
        1 × p default of 1 in 123: important
        pending large: pool p: pool limit reached: 0 nodes left
    ");
}
