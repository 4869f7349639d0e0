//! Claims without a node: a pod may go there only if it fits whatever the claim becomes.

use insta::assert_snapshot;

use crate::check::plan;

#[test]
fn a_launch_takes_what_the_least_of_its_types_has_room_for() {
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:small,default
        pod fits cpu=1.9
    "), @"node early: fits");
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:small,default
        pod too-big cpu=2
    "), @"1 × p default of 5 in 123: too-big");
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:gpu-a,gpu-b
        pod a fake.com/vendor-a=1
    "), @"1 × p gpu-a of 1 in 123: a");
}

#[test]
fn a_type_that_the_claim_rules_out_by_other_labels_does_not_count() {
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:small,arm req=arch:In:arm64
        pod a cpu=15
    "), @"node early: a");
}

#[test]
fn the_daemons_of_each_type_are_taken_off() {
    // On small machines a daemon takes one of two cores, so that arm with its 16 is not the one to look at.
    assert_snapshot!(plan("
        pool p
        daemon d cpu=1 need=arch:In:amd64
        launch early of=p req=type:In:small,arm
        pod a cpu=0.9
        pod b cpu=0.1
    "), @r"
        node early: a
        1 × p small of 5 in 123: b
    ");
    assert_snapshot!(plan("
        pool p
        daemon d cpu=3 need=type:In:default
        launch early of=p req=type:In:small,default
        pod a cpu=0.9
        pod b cpu=0.1
    "), @r"
        node early: a
        1 × p small of 6 in 123: b
    ");
}

#[test]
fn once_the_size_is_known_it_counts() {
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:small,default cpu=3.9 memory=4Gi pods=5 label=type:default
        pod a cpu=3
    "), @"node early: a");
}

#[test]
fn pods_may_ask_only_for_labels_that_are_certain() {
    assert_snapshot!(plan("
        pool p req=zone:In:zone-1,zone-2
        launch early of=p req=type:In:small,default
        pod either cpu=0.1 need=zone:In:zone-1,zone-2,zone-3
        pod certain cpu=0.1 select=arch:amd64
        pod not-there cpu=0.1 need=zone:NotIn:zone-3
        pod perhaps cpu=0.1 select=zone:zone-1
        pod perhaps-not cpu=0.1 need=zone:NotIn:zone-1
    "), @r"
        node early: certain, either, not-there
        1 × p small of 6 in 1: perhaps
        1 × p small of 6 in 2: perhaps-not
    ");
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:default label=zone:zone-1
        pod known cpu=0.1 select=zone:zone-1
    "), @"node early: known");
}

#[test]
fn a_label_that_only_some_types_have_is_not_certain() {
    // Machines with more than 4 cores and 8 GiB are special; fake-it-3 has 4 cores.
    assert_snapshot!(plan("
        types 9
        pool p
        launch early of=p req=type:In:fake-it-3,fake-it-8
        pod special cpu=0.1 need=special:Exists
        pod plain cpu=0.1 need=special:DoesNotExist
    "), @r"
        1 × p fake-it-0 of 4 in 123: plain
        1 × p fake-it-4 of 5 in 123: special
    ");
}

#[test]
fn volumes_must_be_reachable_from_wherever_it_comes_up() {
    assert_snapshot!(plan("
        pool p req=zone:In:zone-1,zone-2
        launch early of=p req=type:In:default
        pod here cpu=0.1 volume=zone:In:zone-1,zone-2
        pod there cpu=0.1 volume=zone:In:zone-1
    "), @r"
        node early: here
        1 × p small of 6 in 1: there
    ");
}

#[test]
fn its_pods_count_in_every_zone_it_may_come_up_in() {
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:default req=zone:In:zone-1,zone-2
        bound a on=early label=app:a
        pod shy cpu=0.1 apart=zone/app:a
    "), @"1 × p small of 6 in 3: shy");
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:default req=zone:In:zone-1,zone-2
        bound shy on=early apart=zone/app:a
        pod a cpu=0.1 label=app:a
    "), @"1 × p small of 6 in 3: a");
}

#[test]
fn pods_that_keep_apart_by_zone_do_not_buy_again_what_is_on_its_way() {
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:small
        pod a x2 cpu=1 label=app:a apart=zone/app:a
    "), @r"
        node early: a
        pending a: pool p: anti-affinity over topology.kubernetes.io/zone leaves no domain (pods now: zone-1: 1, zone-2: 1, zone-3: 1)
    ");
    assert_snapshot!(plan("
        pool p
        node n label=zone:zone-2
        bound other on=n label=app:a
        launch early of=p req=type:In:small req=zone:In:zone-1,zone-2
        pod a cpu=1 label=app:a apart=zone/app:a
    "), @"1 × p small of 6 in 13: a");
}

#[test]
fn pods_go_near_others_only_where_that_is_certain() {
    let with = |zones: &str| {
        plan(&format!(
            "
        pool p
        node n1 label=zone:zone-1
        node n2 label=zone:zone-2
        bound x on=n1 label=app:a
        bound y on=n2 label=app:a
        launch early of=p req=type:In:small req=zone:In:{zones}
        pod a cpu=1 near=zone/app:a
    "
        ))
    };
    assert_snapshot!(with("zone-1,zone-2"), @"node early: a");
    assert_snapshot!(with("zone-1,zone-3"), @"1 × p small of 6 in 12: a");
    // Nobody is there yet: the first must go where the second can follow.
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:small
        pod a x2 cpu=1 label=app:a near=zone/app:a
    "), @"1 × p default of 4 in 1: 2 a");
}

#[test]
fn pods_are_spread_only_over_what_is_certain() {
    assert_snapshot!(plan("
        pool p
        launch nobody-knows of=p req=type:In:default
        launch zone-2 of=p req=type:In:default req=zone:In:zone-2
        pod a x3 cpu=0.1 label=app:a spread=zone/1/app:a
    "), @r"
        node zone-2: a
        1 × p small of 6 in 1: a
        1 × p small of 6 in 3: a
    ");
}

#[test]
fn hosts_are_certain_even_before_they_exist() {
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:default
        pod a x2 cpu=0.1 label=app:a apart=host/app:a
        pod b x2 cpu=0.1 label=app:b spread=host/1/app:b
    "), @r"
        node early: a, b
        1 × p small of 5 in 123: a, b
    ");
}

#[test]
fn a_launch_counts_against_limits_as_the_largest_it_may_be() {
    let with = |known: &str| {
        plan(&format!(
            "
        types 5
        pool p limit=cpu:6 used=nodes:1
        launch early of=p req=type:In:fake-it-0,fake-it-3 {known} taint=full::NoSchedule
        pod a cpu=2
    "
        ))
    };
    assert_snapshot!(with(""), @"pending a: pool p: pool limit reached: 2 cpu left");
    assert_snapshot!(with("cpu=1 memory=1Gi pods=9"), @"1 × p fake-it-2 of 3 in 123: a");
}

#[test]
fn taints_of_the_pool_are_on_the_launch() {
    assert_snapshot!(plan("
        pool p taint=dedicated:x:NoSchedule
        launch early of=p req=type:In:default
        pod a cpu=1
        pod b cpu=1 tolerate=dedicated:x:NoSchedule
    "), @r"
        node early: b
        pending a: pool p: does not tolerate taint dedicated=x:NoSchedule
    ");
}

#[test]
fn a_launch_of_something_unknown_takes_nothing() {
    assert_snapshot!(plan("
        pool p
        launch early of=p req=type:In:retired
        pod a cpu=1
    "), @"1 × p small of 6 in 123: a");
}
