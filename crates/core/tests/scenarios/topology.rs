//! Spread, affinity and anti-affinity.

use insta::assert_snapshot;

use crate::check::plan;

#[test]
fn zones_fill_evenly() {
    assert_snapshot!(plan("
        pool p
        pod a x4 cpu=0.1 label=app:a spread=zone/1/app:a
    "), @r"
        1 × p small of 5 in 1: 2 a
        1 × p small of 6 in 2: a
        1 × p small of 6 in 3: a
    ");
    assert_snapshot!(plan("
        pool p req=zone:In:zone-1,zone-2
        pod a x4 cpu=0.1 label=app:a spread=zone/1/app:a
    "), @r"
        1 × p small of 5 in 1: 2 a
        1 × p small of 5 in 2: 2 a
    ");
}

#[test]
fn among_equally_full_zones_the_cheapest_comes_first() {
    assert_snapshot!(plan("
        unavailable type=small zone=zone-1
        unavailable type=small zone=zone-2
        pool p
        pod a cpu=0.1 label=app:a spread=zone/1/app:a
    "), @"1 × p small of 6 in 3: a");
}

#[test]
fn skew_is_measured_from_pods_that_are_there() {
    assert_snapshot!(plan("
        pool p req=zone:In:zone-3
        node n1 label=zone:zone-1
        node n2 label=zone:zone-2
        bound x on=n1 label=app:a
        bound y on=n2 label=app:a
        pod a x10 cpu=0.1 label=app:a spread=zone/5/app:a
    "), @r"
        1 × p small of 5 in 3: 5 a
        1 × p small of 6 in 3: a
        pending 4 a: pool p: no instance type is available in a domain that its topology constraints allow
    ");
}

#[test]
fn a_minimum_of_domains_holds_pods_back() {
    assert_snapshot!(plan("
        pool p req=zone:In:zone-1,zone-2
        pod a x3 cpu=0.1 label=app:a spread=zone/1/app:a/min3
    "), @r"
        1 × p small of 6 in 1: a
        1 × p small of 6 in 2: a
        pending a: pool p: spread over topology.kubernetes.io/zone with skew 1 leaves no domain (pods now: zone-1: 1, zone-2: 1)
    ");
    assert_snapshot!(plan("
        pool p
        pod a x11 cpu=0.1 label=app:a spread=zone/1/app:a/min3
    "), @r"
        1 × p small of 5 in 1: 4 a
        1 × p small of 5 in 2: 4 a
        1 × p small of 5 in 3: 3 a
    ");
}

#[test]
fn any_label_can_be_spread_over() {
    assert_snapshot!(plan("
        pool p
        pod a x4 cpu=0.1 label=app:a spread=capacity/1/app:a
    "), @r"
        1 × p small of 5 in 123: 2 a
        1 × p small of 5 in 12: 2 a
    ");
    assert_snapshot!(plan("
        pool p
        pod a x4 cpu=0.1 label=app:a spread=arch/1/app:a
    "), @r"
        1 × p arm of 1 in 123: 2 a
        1 × p small of 4 in 123: 2 a
    ");
    assert_snapshot!(plan("
        pool p
        pod a cpu=0.1 label=app:a spread=unknown/1/app:a
        pod b cpu=0.1
    "), @r"
        1 × p small of 6 in 123: b
        pending a: pool p: spread over unknown with skew 1 leaves no domain (pods now: none)
    ");
}

#[test]
fn a_soft_spread_gives_way() {
    assert_snapshot!(plan("
        pool p req=zone:In:zone-1
        node n2 label=zone:zone-2
        pod a x3 cpu=0.1 label=app:a spread=zone/1/app:a/soft
    "), @"1 × p small of 5 in 1: 3 a");
}

#[test]
fn hosts_take_no_more_than_the_skew() {
    assert_snapshot!(plan("
        pool p
        pod a x4 cpu=0.1 label=app:a spread=host/1/app:a
        pod b x5 cpu=0.1 label=app:b spread=host/2/app:b
    "), @r"
        1 × p small of 5 in 123: a, 2 b
        3 × p small of 5 in 123: a, b
    ");
}

#[test]
fn a_spread_without_selector_counts_nobody() {
    assert_snapshot!(plan("
        pool p
        pod a x2 cpu=0.1 label=app:a spread=zone/1/
    "), @"1 × p small of 5 in 1: 2 a");
}

#[test]
fn pods_that_can_only_go_to_one_zone_wait_for_the_others() {
    assert_snapshot!(plan("
        pool p req=zone:In:zone-1,zone-2
        pod a x3 cpu=0.2 label=app:x select=zone:zone-1 spread=zone/1/app:x/anyaffinity
        pod b x3 cpu=0.1 label=app:x select=zone:zone-2 spread=zone/1/app:x/anyaffinity
    "), @r"
        1 × p small of 5 in 1: 3 a
        1 × p small of 5 in 2: 3 b
    ");
}

#[test]
fn anti_affinity_over_hosts_works_in_both_directions() {
    assert_snapshot!(plan("
        pool p
        pod shy cpu=2 apart=host/app:a
        pod a cpu=1 label=app:a
    "), @r"
        1 × p default of 5 in 123: shy
        1 × p small of 6 in 123: a
    ");
    assert_snapshot!(plan("
        pool p
        pod shy cpu=1 apart=host/app:a
        pod a cpu=2 label=app:a
    "), @r"
        1 × p default of 5 in 123: a
        1 × p small of 6 in 123: shy
    ");
}

#[test]
fn anti_affinity_over_zones_blocks_every_zone_a_claim_may_be_in() {
    assert_snapshot!(plan("
        pool p
        pod z1 cpu=2 label=app:a select=zone:zone-1
        pod z2 cpu=2 label=app:a select=zone:zone-2
        pod z3 cpu=2 label=app:a select=zone:zone-3
        pod shy cpu=1 apart=zone/app:a
    "), @r"
        1 × p default of 5 in 1: z1
        1 × p default of 5 in 2: z2
        1 × p default of 5 in 3: z3
        pending shy: pool p: anti-affinity over topology.kubernetes.io/zone leaves no domain (pods now: zone-1: 1, zone-2: 1, zone-3: 1)
    ");
    assert_snapshot!(plan("
        pool p
        pod somewhere cpu=2 label=app:a
        pod shy cpu=1 apart=zone/app:a
    "), @r"
        1 × p default of 5 in 123: somewhere
        pending shy: pool p: anti-affinity over topology.kubernetes.io/zone leaves no domain (pods now: zone-1: 1, zone-2: 1, zone-3: 1)
    ");
    assert_snapshot!(plan("
        pool p
        pod a x3 cpu=1 label=app:a apart=zone/app:a
    "), @r"
        1 × p small of 6 in 123: a
        pending 2 a: pool p: anti-affinity over topology.kubernetes.io/zone leaves no domain (pods now: zone-1: 1, zone-2: 1, zone-3: 1)
    ");
}

#[test]
fn running_pods_keep_others_away() {
    assert_snapshot!(plan("
        pool p
        node n1 label=zone:zone-1 cpu=8 memory=8Gi pods=9
        node n2 label=zone:zone-2 cpu=8 memory=8Gi pods=9
        bound shy on=n1 apart=zone/app:a
        bound wishful on=n2 want-apart=1/zone/app:a
        pod a cpu=1 label=app:a
    "), @"node n2: a");
}

#[test]
fn affinity_needs_somebody_to_be_near() {
    assert_snapshot!(plan("
        pool p
        pod a cpu=1 near=zone/app:missing
        pod b cpu=1
    "), @r"
        1 × p small of 6 in 123: b
        pending a: pool p: affinity over topology.kubernetes.io/zone leaves no domain (pods now: zone-1: 0, zone-2: 0, zone-3: 0)
    ");
    assert_snapshot!(plan("
        pool p
        pod a x4 cpu=2 label=app:a near=zone/app:a
    "), @"1 × p arm of 1 in 1: 4 a");
    assert_snapshot!(plan("
        pool p
        pod a x4 cpu=1.5 label=app:a near=host/app:a
    "), @"1 × p arm of 1 in 123: 4 a");
}

#[test]
fn a_chain_of_affinities_is_followed() {
    assert_snapshot!(plan("
        pool p
        pod c cpu=0.3 label=app:c near=zone/app:b
        pod b cpu=0.2 label=app:b near=zone/app:a
        pod a cpu=0.1 label=app:a select=zone:zone-2
    "), @"1 × p small of 5 in 2: a, b, c");
}

#[test]
fn terms_can_look_into_other_namespaces() {
    assert_snapshot!(plan("
        pool p
        namespace red label=team:red
        namespace default label=team:blue
        node n1 label=zone:zone-1
        bound x on=n1 ns=red label=app:a
        pod named cpu=0.1 near=zone/app:a/ns:red
        pod labelled cpu=0.1 near=zone/app:a/team:red
        pod own cpu=0.1 near=zone/app:a
    "), @r"
        1 × p small of 5 in 1: labelled, named
        pending own: pool p: affinity over topology.kubernetes.io/zone leaves no domain (pods now: zone-1: 0, zone-2: 0, zone-3: 0)
    ");
}

#[test]
fn wishes_to_stay_apart_are_given_up_heaviest_first() {
    assert_snapshot!(plan("
        pool p
        pod a x5 cpu=0.1 label=app:a want-apart=10/zone/app:a want-apart=1/host/app:a
    "), @"5 × p small of 6 in 123: a");
}

#[test]
fn taints_can_take_domains_out_of_a_spread() {
    assert_snapshot!(plan("
        pool open req=zone:In:zone-1,zone-2
        pool closed req=zone:In:zone-3 taint=x::NoSchedule
        pod a x6 cpu=0.1 label=app:a spread=zone/1/app:a/taints
        pod b x6 cpu=0.1 label=app:b spread=zone/1/app:b
    "), @r"
        1 × open small of 5 in 1: 3 a, b
        1 × open small of 5 in 2: 3 a, b
        pending 4 b: pool open: no instance type is available in a domain that its topology constraints allow
    ");
}

#[test]
fn pods_count_from_when_the_zone_of_their_claim_is_certain() {
    // The scheduler counts both big pods in zone-1 once the first small one has pinned their node to it.
    assert_snapshot!(plan("
        pool p
        pod big x2 cpu=3 label=app:a
        pod a x7 cpu=0.1 label=app:a spread=zone/1/app:a
    "), @r"
        1 × p arm of 1 in 1: a, 2 big
        1 × p small of 5 in 2: 3 a
        1 × p small of 5 in 3: 3 a
    ");
}

#[test]
fn a_node_in_a_zone_that_no_pool_knows_takes_pods_that_others_shun() {
    assert_snapshot!(plan("
        pool p req=zone:In:zone-1
        node far cpu=4 memory=8Gi pods=9 label=zone:zone-9
        pod shy cpu=0.5 label=app:a apart=zone/app:b
        pod b cpu=1 label=app:b
    "), @r"
        node far: b
        1 × p small of 6 in 1: shy
    ");
}
