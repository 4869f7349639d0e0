//! Real demand before expected demand, and who goes first when not all fit.

use insta::assert_snapshot;

use crate::check::plan;

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
