//! Which nodes are bought for which pods.

use insta::assert_snapshot;

use crate::check::plan;

#[test]
fn a_small_pod_gets_a_small_node() {
    assert_snapshot!(plan("
        pool p
        pod a memory=100M
    "), @"1 × p small of 6 in 123: a");
}

#[test]
fn pods_share_nodes_and_smaller_ones_fill_the_gaps() {
    assert_snapshot!(plan("
        pool p req=arch:In:amd64
        pod big x40 memory=1.8G
    "), @"20 × p default of 3 in 123: 2 big");
    assert_snapshot!(plan("
        pool p req=arch:In:amd64
        pod big x40 memory=1.8G
        pod little x20 memory=400M
    "), @"20 × p default of 3 in 123: 2 big, little");
}

#[test]
fn pods_that_do_not_fit_together_get_nodes_of_their_own() {
    assert_snapshot!(plan("
        types 5
        pool p
        pod large cpu=4.5
        pod small cpu=1
    "), @r"
        1 × p fake-it-1 of 4 in 123: small
        1 × p fake-it-4 of 1 in 123: large
    ");
}

#[test]
fn extended_resources_need_machines_that_have_them() {
    assert_snapshot!(plan("
        pool p
        pod a fake.com/vendor-a=1
        pod b fake.com/vendor-b=1
        pod both fake.com/vendor-a=1 fake.com/vendor-b=1
    "), @r"
        1 × p gpu-a of 1 in 123: a
        1 × p gpu-b of 1 in 123: b
        pending both: pool p: no machine has room for all requests together: the nearest, gpu-a, has 0 fake.com/vendor-b of 1 asked for
    ");
}

#[test]
fn a_limit_on_nodes_holds_within_one_decision() {
    assert_snapshot!(plan("
        pool p limit=nodes:2
        pod a x3 label=app:a apart=host/app:a
    "), @r"
        2 × p small of 6 in 123: a
        pending a: pool p: pool limit reached: 0 nodes left
    ");
}

#[test]
fn limits_count_the_largest_machine_a_claim_may_become() {
    assert_snapshot!(plan("
        types 5
        pool p limit=cpu:6
        pod a x2 cpu=0.5 label=app:a apart=host/app:a
    "), @r"
        1 × p fake-it-0 of 1 in 123: a
        1 × p fake-it-0 of 5 in 123: a
    ");
    assert_snapshot!(plan("
        types 5
        pool p limit=cpu:6 used=cpu:6
        pod a cpu=0.5
    "), @"pending a: pool p: pool limit reached: 0 cpu left");
}

#[test]
fn an_avoidable_taint_is_avoided_if_possible() {
    assert_snapshot!(plan("
        pool avoided weight=9 taint=slow::PreferNoSchedule
        pool clean
        pod a cpu=1
    "), @"1 × clean small of 6 in 123: a");
    assert_snapshot!(plan("
        pool avoided taint=slow::PreferNoSchedule
        pod a cpu=1
    "), @"1 × avoided small of 6 in 123: a");
}

#[test]
fn preferences_count_only_when_respected() {
    let scenario = "
        pool p
        pod a x3 cpu=0.1 label=app:a prefer=1/zone:In:zone-2 want-apart=10/host/app:a spread=host/1/app:a/soft
    ";
    assert_snapshot!(plan(scenario), @"3 × p small of 6 in 2: a");
    assert_snapshot!(plan(&format!("{scenario}\n        option ignore-preferences")), @"1 × p small of 5 in 123: 3 a");
}

#[test]
fn numbers_in_labels_can_be_compared() {
    let with = |needs: &str| {
        plan(&format!(
            "
        types 5
        pool p
        pod a cpu=0.1 need={needs}
    "
        ))
    };
    assert_snapshot!(with("integer:Gt:3"), @"1 × p fake-it-3 of 2 in 123: a");
    assert_snapshot!(with("integer:Lt:3"), @"1 × p fake-it-0 of 2 in 123: a");
    assert_snapshot!(with("integer:Gte:3+integer:Lte:3"), @"1 × p fake-it-2 of 1 in 123: a");
    assert_snapshot!(with("integer:Gt:7"), @"pending a: pool p: no instance type matches integer Exists >=8");
    assert_snapshot!(with("integer:Exists"), @"1 × p fake-it-0 of 5 in 123: a");
}

#[test]
fn alternatives_are_tried_in_order() {
    assert_snapshot!(plan("
        pool p
        pod a cpu=1 need=zone:In:nowhere or=zone:In:zone-3
        pod b cpu=1 need=zone:In:nowhere
    "), @r"
        1 × p small of 6 in 3: a
        pending b: pool p: no instance type matches topology.kubernetes.io/zone In [nowhere]
    ");
}

#[test]
fn a_label_that_nobody_defines_is_named() {
    assert_snapshot!(plan("
        pool p label=team:blue
        pod a select=team:blue
        pod b select=team:red
        pod c select=tema:blue
        pod d need=team:NotIn:red
        pod e need=squad:DoesNotExist
    "), @r#"
        1 × p small of 5 in 123: a, d, e
        pending c: pool p: label "tema" is not defined
        pending b: pool p: team In [red] excludes team In [blue]
    "#);
}

#[test]
fn nodes_that_exist_come_first_and_those_on_their_way_next() {
    assert_snapshot!(plan("
        pool p
        node ready-b cpu=1 memory=4Gi pods=5 label=pool:p
        node ready-a cpu=1 memory=4Gi pods=5 label=pool:p
        node early cpu=4 memory=4Gi pods=5 label=pool:p starting
        pod a x4 cpu=1
    "), @r"
        node ready-a: a
        node ready-b: a
        node early: 2 a
    ");
}

#[test]
fn a_node_must_have_the_labels_and_taints_right() {
    assert_snapshot!(plan("
        pool p
        node other cpu=4 memory=4Gi pods=5 label=zone:zone-1
        node tainted cpu=4 memory=4Gi pods=5 label=zone:zone-2 taint=gpu:yes:NoSchedule
        pod a cpu=1 select=zone:zone-2
        pod b cpu=1 select=zone:zone-2 tolerate=gpu:yes:NoSchedule
    "), @r"
        node tainted: b
        1 × p small of 6 in 2: a
    ");
}

#[test]
fn daemons_take_their_share_of_a_new_node() {
    assert_snapshot!(plan("
        pool p
        daemon d cpu=2
        pod a cpu=1
    "), @"1 × p default of 4 in 123: a");
    assert_snapshot!(plan("
        pool p taint=dedicated:x:NoSchedule
        daemon does-not-tolerate cpu=2
        daemon matches-nothing cpu=2 tolerate=all need=arch:In:riscv
        pod a cpu=1 tolerate=all
    "), @"1 × p small of 6 in 123: a");
    assert_snapshot!(plan("
        pool p
        daemon huge cpu=10000
        pod a cpu=1
    "), @"pending a: pool p: no instance type has room for the daemons");
}

#[test]
fn daemons_are_counted_once_for_a_node() {
    assert_snapshot!(plan("
        pool p req=type:In:default
        daemon d cpu=2
        pod a x3 cpu=0.5
    "), @"1 × p default of 1 in 123: 3 a");
}

#[test]
fn a_node_keeps_room_for_daemons_that_have_not_come_yet() {
    assert_snapshot!(plan("
        node n cpu=4 memory=4Gi pods=5
        node m cpu=4 memory=4Gi pods=5 used=cpu:2 daemons=cpu:2
        daemon d cpu=2
        pod a x2 cpu=2
    "), @r"
        node m: a
        node n: a
    ");
}

#[test]
fn a_host_port_is_used_once() {
    assert_snapshot!(plan("
        pool p
        pod a x2 cpu=0.1 port=80
    "), @"2 × p small of 6 in 123: a");
    assert_snapshot!(plan("
        pool p
        daemon d port=8080
        pod a cpu=0.1 port=8080
    "), @"pending a: pool p: host port 8080 is taken");
    assert_snapshot!(plan("
        pool p
        daemon d port=8080 need=arch:In:arm64
        pod a cpu=0.1 port=8080
    "), @"1 × p small of 5 in 123: a");
}

#[test]
fn volumes_count_against_what_a_node_can_attach() {
    assert_snapshot!(plan("
        pool p
        node n cpu=16 memory=64Gi pods=99 volumes=csi:3
        pod a cpu=1 pvc=csi:a1 pvc=csi:a2
        pod b cpu=1 pvc=csi:b1 pvc=csi:b2
        pod c cpu=1 pvc=csi:a1 pvc=csi:a2
    "), @r"
        node n: a, c
        1 × p small of 6 in 123: b
    ");
}

#[test]
fn volumes_decide_the_zone() {
    assert_snapshot!(plan("
        pool p
        pod a cpu=1 volume=zone:In:zone-3
        pod b cpu=1 volume=zone:In:nowhere volume=zone:In:zone-2
        pod c cpu=1 volume=zone:In:nowhere
    "), @r"
        1 × p small of 6 in 2: b
        1 × p small of 6 in 3: a
        pending c: pool p: no instance type matches topology.kubernetes.io/zone In [nowhere]
    ");
}

#[test]
fn pools_are_asked_by_weight_then_by_name_backwards() {
    assert_snapshot!(plan("
        pool a
        pool b
        pool heavy weight=5 req=arch:In:arm64
        pod x cpu=0.1 select=arch:amd64
        pod y cpu=0.1
    "), @"1 × b small of 4 in 123: x, y");
}

#[test]
fn without_pools_nothing_can_be_bought() {
    assert_snapshot!(plan("pod a cpu=1"), @"pending a: there is no pool to launch from");
}

#[test]
fn a_pod_can_ask_for_a_host_that_exists_but_not_for_one_that_does_not() {
    assert_snapshot!(plan("
        pool p
        node n cpu=4 memory=4Gi pods=5
        pod here cpu=1 select=host:n
        pod gone cpu=1 select=host:m
        pod elsewhere cpu=1 need=host:NotIn:n
    "), @r"
        node n: here
        1 × p small of 6 in 123: elsewhere
        pending gone: pool p: asks for a host by name
    ");
}
