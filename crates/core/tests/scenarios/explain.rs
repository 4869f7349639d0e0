//! Why a pod goes nowhere, and what would help.

use headstart_core::remedy::remedy;
use headstart_core::snapshot::Snapshot;
use headstart_core::solve::{Packing, obstacles, solve};
use insta::assert_snapshot;
use proptest::prelude::*;

use crate::fixture::parse;
use crate::properties::cluster;

/// Every obstacle of the pod `p`, nearest miss first, and what would help.
fn explained(scenario: &str) -> String {
    let snapshot = parse(scenario);
    let pod = snapshot.pods.iter().position(|pod| &*pod.name == "p").unwrap() as u32;
    let found = obstacles(&snapshot, pod);
    let mut lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    if !is_placed(&snapshot, pod) {
        let changes: Vec<String> = remedy(&snapshot, pod, &found).iter().map(ToString::to_string).collect();
        lines.push(if changes.is_empty() {
            "nothing is known to help".to_owned()
        } else {
            format!("would fit if {}", changes.join(" and "))
        });
    }
    lines.join("\n")
}

fn is_placed(snapshot: &Snapshot, pod: u32) -> bool {
    solve(snapshot, Packing::Compat).unplaced.iter().all(|unplaced| unplaced.pod != pod)
}

#[test]
fn the_node_that_lacks_least_comes_first() {
    assert_snapshot!(explained("
        node a cpu=1 memory=4Gi pods=9
        node b cpu=3 memory=4Gi pods=9
        node c cpu=9 memory=4Gi pods=9 taint=t:x:NoSchedule
        pod p cpu=4
    "), @"
        node b: asks for 4 cpu, the most that is free is 3
        node a: asks for 4 cpu, the most that is free is 1
        node c: does not tolerate taint t=x:NoSchedule
        there is no pool to launch from
        would fit if it asked for at most 3 cpu
    ");
}

#[test]
fn a_taint_needs_a_toleration() {
    assert_snapshot!(explained("
        pool main taint=dedicated:x:NoSchedule
        pod p cpu=1
    "), @"
        pool main: does not tolerate taint dedicated=x:NoSchedule
        would fit if it tolerated dedicated=x:NoSchedule
    ");
}

#[test]
fn several_changes_are_proposed_when_one_is_not_enough() {
    assert_snapshot!(explained("
        node a cpu=2 memory=4Gi pods=9 taint=t:x:NoSchedule
        pod p cpu=4
    "), @"
        node a: does not tolerate taint t=x:NoSchedule
        there is no pool to launch from
        would fit if it tolerated t=x:NoSchedule and it asked for at most 2 cpu
    ");
}

#[test]
fn limits_say_how_much_more_is_needed() {
    assert_snapshot!(explained("
        pool main limit=cpu:1
        pod p cpu=2
    "), @"
        pool main: pool limit reached: 1 cpu left
        would fit if NodePool main had 3 more cpu in its limits
    ");
    assert_snapshot!(explained("
        pool main limit=nodes:0
        pod p cpu=2
    "), @"
        pool main: pool limit reached: 0 nodes left
        would fit if NodePool main had 1 more nodes in its limits
    ");
}

#[test]
fn labels_that_no_place_has_are_named() {
    assert_snapshot!(explained("
        pool main
        node a cpu=2 memory=4Gi pods=9 label=zone:zone-1
        pod p cpu=1 select=zone:zone-9
    "), @"
        pool main: no instance type matches topology.kubernetes.io/zone In [zone-9]
        node a: topology.kubernetes.io/zone In [zone-9] excludes topology.kubernetes.io/zone In [zone-1]
        would fit if it did not ask for topology.kubernetes.io/zone In [zone-9]
    ");
}

#[test]
fn other_pods_may_be_in_the_way() {
    assert_snapshot!(explained("
        node a cpu=2 memory=4Gi pods=9 label=zone:zone-1
        bound x on=a label=app:a
        pod p cpu=1 label=app:a apart=zone/app:a
    "), @"
        node a: anti-affinity over topology.kubernetes.io/zone leaves no domain (pods now: zone-1: 1)
        there is no pool to launch from
        would fit if it did not insist on being alone in its topology.kubernetes.io/zone
    ");
    assert_snapshot!(explained("
        node a cpu=2 memory=4Gi pods=9
        bound x on=a label=app:a apart=host/app:b
        pod p cpu=1 label=app:b
    "), @"
        node a: anti-affinity over kubernetes.io/hostname leaves no host
        there is no pool to launch from
        nothing is known to help
    ");
}

#[test]
fn a_pod_that_fits_was_refused_by_those_before() {
    assert_snapshot!(explained("
        pool main
        node a cpu=1 memory=4Gi pods=9
        node b cpu=4 memory=4Gi pods=9
        node c cpu=4 memory=4Gi pods=9
        pod p cpu=2
    "), @"node a: asks for 2 cpu, the most that is free is 1");
    assert_snapshot!(explained("
        pool main
        pool best weight=9 taint=t::NoSchedule
        node a cpu=1 memory=4Gi pods=9
        pod p cpu=2
    "), @"
        node a: asks for 2 cpu, the most that is free is 1
        pool best: does not tolerate taint t:NoSchedule
    ");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Whoever does what is proposed gets a place.
    #[test]
    fn what_is_proposed_helps(text in cluster()) {
        let snapshot = parse(&text);
        let plan = solve(&snapshot, Packing::Compat);
        for unplaced in plan.unplaced.iter().take(3) {
            let found = obstacles(&snapshot, unplaced.pod);
            prop_assert!(!found.is_empty());
            let near: Vec<_> = found.iter().map(|o| (o.rule.nearness(), -o.rule.miss())).collect();
            prop_assert!(near.is_sorted_by(|a, b| a >= b), "not nearest first: {:?}", found);
            let changes = remedy(&snapshot, unplaced.pod, &found);
            let mut changed = snapshot.clone();
            for change in &changes {
                change.apply(&mut changed, unplaced.pod);
            }
            prop_assert!(changes.is_empty() || is_placed(&changed, unplaced.pod), "{text}\n{:?}", changes);
        }
    }
}
