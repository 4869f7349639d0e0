//! Pools that want a choice of instance types.

use insta::assert_snapshot;

use crate::check::plan;

#[test]
fn too_few_instance_types_are_refused_or_forgiven() {
    let scenario = "
        types 5
        pool choosy weight=9 req=type:In:fake-it-3,fake-it-4:2
        pool other
        pod a cpu=4.5
    ";
    assert_snapshot!(plan(scenario), @"1 × other fake-it-4 of 1 in 123: a");
    assert_snapshot!(plan(&format!("{scenario}\n        option best-effort")), @"1 × choosy fake-it-4 of 1 in 123 with relaxed minValues: a");
}

#[test]
fn without_another_pool_the_pod_waits() {
    assert_snapshot!(plan("
        types 5
        pool choosy req=type:Exists::2
        pod a cpu=4.5
    "), @"pending a: pool choosy: too few distinct values: node.kubernetes.io/instance-type Exists minValues 2 has 1");
}

#[test]
fn a_claim_stops_filling_before_it_loses_its_choice() {
    assert_snapshot!(plan("
        types 5
        pool choosy req=type:Exists::3
        pod a x6 cpu=1
    "), @"3 × choosy fake-it-2 of 3 in 123: 2 a");
}

#[test]
fn zones_that_a_pod_rules_out_do_not_count() {
    assert_snapshot!(plan("
        pool choosy req=zone:Exists::2
        pod a cpu=1
        pod b cpu=1 select=zone:zone-1
    "), @r"
        1 × choosy small of 6 in 123: a
        pending b: pool choosy: too few distinct values: topology.kubernetes.io/zone In [zone-1] minValues 2 has 1
    ");
}
