//! Machines that differ by how they are bought.

use insta::assert_snapshot;

use crate::check::plan;

#[test]
fn an_offering_may_have_more_or_less_than_its_type() {
    // Only the spot machine of zone 2 has the fifth core.
    assert_snapshot!(plan("
        override type=default zone=zone-2 capacity=spot cpu=5
        pool p req=type:In:default
        pod a cpu=4.5
        pod b cpu=3.5
    "), @r"
        1 × p default of 1 in 123: b
        1 × p default of 1 in 2: a
    ");
    assert_snapshot!(plan("
        override type=default zone=zone-3 capacity=on-demand cpu=2
        pool p req=type:In:default req=zone:In:zone-3
        pod a cpu=3
    "), @"pending a: pool p: asks for 3 cpu, the most that is free is 1900m");
}

#[test]
fn a_claim_narrows_to_offerings_that_hold_all_its_pods() {
    assert_snapshot!(plan("
        override type=default zone=zone-2 capacity=spot cpu=6
        pool p req=type:In:default
        pod a x2 cpu=2.5 label=app:a near=host/app:a
    "), @"1 × p default of 1 in 2: 2 a");
}

#[test]
fn an_offering_may_add_a_resource() {
    assert_snapshot!(plan("
        override type=small zone=zone-1 capacity=on-demand example.com/nic=2
        pool p
        pod a example.com/nic=1
        pod b example.com/nic=3
    "), @r"
        1 × p small of 1 in 1: a
        pending b: pool p: asks for 3 example.com/nic, the most that is free is 2
    ");
}

#[test]
fn what_is_not_available_is_not_bought() {
    assert_snapshot!(plan("
        unavailable type=small
        unavailable zone=zone-3
        pool p
        pod a cpu=1
        pod b cpu=1 select=zone:zone-3
    "), @r"
        1 × p default of 5 in 12: a
        pending b: pool p: no instance type matches topology.kubernetes.io/zone In [zone-3]
    ");
}
