//! Capacity that is paid for in advance and counted.

use insta::assert_snapshot;

use crate::check::plan;

#[test]
fn a_reservation_is_used_before_other_capacity() {
    assert_snapshot!(plan("
        types F
        reserve r1 type=default zone=zone-2 left=1
        pool p
        pod a cpu=3
    "), @"1 × p default of 1 in 2: a");
}

#[test]
fn pods_wait_for_a_reservation_that_somebody_holds() {
    let scenario = "
        reserve r1 type=default zone=zone-2 left=1
        pool p req=type:In:default
        pod a x3 cpu=3
    ";
    assert_snapshot!(plan(scenario), @r"
        1 × p default of 1 in 2: a
        pending 2 a: pool p: waits for reserved capacity that another claim holds
    ");
    assert_snapshot!(plan(&format!("{scenario}\n        option reserved-fallback")), @r"
        2 × p default of 1 in 123: a
        1 × p default of 1 in 2: a
    ");
    assert_snapshot!(plan(&format!("{scenario}\n        option reserved-off")), @"3 × p default of 1 in 123: a");
}

#[test]
fn a_reservation_that_is_used_up_holds_nobody_back() {
    assert_snapshot!(plan("
        reserve r1 type=default zone=zone-2 left=0
        pool p req=type:In:default
        pod a cpu=3
    "), @"1 × p default of 1 in 123: a");
}

#[test]
fn a_pool_of_nothing_but_full_reservations_waits_or_gives_way() {
    let scenario = "
        reserve r1 type=default zone=zone-2 left=0
        pool only-reserved weight=9 req=capacity:In:reserved
        pool other
        pod a cpu=3
    ";
    assert_snapshot!(plan(scenario), @"pending a: pool only-reserved: waits for reserved capacity that another claim holds");
    assert_snapshot!(plan(&format!("{scenario}\n        option reserved-fallback")), @"1 × other default of 5 in 123: a");
}

#[test]
fn a_claim_holds_every_reservation_it_may_use_and_gives_back_what_it_cannot() {
    // The first claim holds both until the second pod pins it to zone 1; only then is there one left for the third.
    assert_snapshot!(plan("
        reserve r1 type=default zone=zone-1 left=1
        reserve r2 type=default zone=zone-2 left=1
        pool p req=type:In:default req=capacity:In:reserved
        pod first cpu=2
        pod second cpu=1.5 select=zone:zone-1
        pod third cpu=1 select=zone:zone-2
    "), @r"
        1 × p default of 1 in 1: first, second
        1 × p default of 1 in 2: third
    ");
}

#[test]
fn a_pod_that_would_lose_the_reservation_is_not_added_to_the_claim() {
    assert_snapshot!(plan("
        reserve r1 type=default zone=zone-2 left=1
        pool p req=type:In:default
        pod first cpu=2
        pod second cpu=1 select=zone:zone-1
    "), @r"
        1 × p default of 1 in 1: second
        1 × p default of 1 in 2: first
    ");
}

#[test]
fn one_reservation_is_counted_over_all_types_and_pools() {
    assert_snapshot!(plan("
        reserve r1 type=default zone=zone-1 left=1
        reserve r1 type=small zone=zone-1 left=1
        pool p req=capacity:In:reserved req=type:In:default
        pool q req=capacity:In:reserved req=type:In:small
        pod a cpu=3
        pod b cpu=1
    "), @r"
        1 × p default of 1 in 1: a
        pending b: pool p: waits for reserved capacity that another claim holds
    ");
}
