//! How many volumes a machine can attach.

use insta::assert_snapshot;

use crate::check::plan;

#[test]
fn a_new_machine_is_of_a_type_that_can_attach_all_volumes() {
    assert_snapshot!(plan("
        attach type=small csi=1
        attach type=default csi=2
        pool p req=type:In:small,default
        pod a cpu=0.1 pvc=csi:1 pvc=csi:2
        pod b cpu=0.1 pvc=csi:1 pvc=csi:2 pvc=csi:3
    "), @r"
        1 × p default of 1 in 123: a
        pending b: pool p: too many volumes of csi
    ");
}

#[test]
fn volumes_of_all_pods_on_a_claim_count_and_shared_ones_once() {
    assert_snapshot!(plan("
        attach type=default csi=2
        pool p req=type:In:default
        pod a cpu=0.1 pvc=csi:1
        pod b cpu=0.1 pvc=csi:2
        pod c cpu=0.1 pvc=csi:3
        pod shares cpu=0.1 pvc=csi:1 pvc=csi:2
    "), @r"
        1 × p default of 1 in 123: a, b, shares
        1 × p default of 1 in 123: c
    ");
}

#[test]
fn a_driver_without_a_limit_attaches_any_number() {
    assert_snapshot!(plan("
        attach type=default csi=1
        pool p req=type:In:default
        pod a cpu=0.1 pvc=other:1 pvc=other:2 pvc=other:3
    "), @"1 × p default of 1 in 123: a");
}

#[test]
fn six_pods_with_two_volumes_each_need_a_second_node_of_ten() {
    assert_snapshot!(plan("
        pool p
        node n cpu=16 memory=64Gi pods=99 volumes=csi:10
        pod a cpu=1 pvc=csi:a1 pvc=csi:a2
        pod b cpu=1 pvc=csi:b1 pvc=csi:b2
        pod c cpu=1 pvc=csi:c1 pvc=csi:c2
        pod d cpu=1 pvc=csi:d1 pvc=csi:d2
        pod e cpu=1 pvc=csi:e1 pvc=csi:e2
        pod f cpu=1 pvc=csi:f1 pvc=csi:f2
    "), @r"
        node n: a, b, c, d, e
        1 × p small of 6 in 123: f
    ");
}

#[test]
fn volumes_that_are_attached_already_count() {
    assert_snapshot!(plan("
        pool p
        node n cpu=16 memory=64Gi pods=99 volumes=csi:2 attached=csi:x,csi:y
        pod again cpu=1 pvc=csi:x
        pod new cpu=1 pvc=csi:z
    "), @r"
        node n: again
        1 × p small of 6 in 123: new
    ");
}
