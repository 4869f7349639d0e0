//! Laws that every plan obeys, tried on random clusters.

use std::collections::BTreeMap;

use headstart_core::plan::Plan;
use headstart_core::resources::Resources;
use headstart_core::snapshot::Snapshot;
use headstart_core::solve::{Packing, solve};
use proptest::prelude::*;

use crate::check::shown;
use crate::fixture::{label, parse};

fn pod_line() -> impl Strategy<Value = String> {
    let size = (
        prop::sample::select(vec!["0.1", "0.5", "1", "1.7", "3"]),
        prop::sample::select(vec!["100Mi", "1Gi", "3Gi"]),
    );
    let app = prop::sample::select(vec!["a", "b", "c"]);
    let wish = prop::sample::select(vec![
        "",
        "",
        "",
        "select=zone:zone-1",
        "select=arch:arm64",
        "need=zone:In:zone-9 or=zone:In:zone-2",
        "prefer=5/zone:In:zone-3",
        "spread=zone/1/app:APP",
        "spread=host/1/app:APP",
        "spread=zone/1/app:APP/soft",
        "apart=host/app:APP",
        "apart=zone/app:b",
        "near=zone/app:APP",
        "near=host/app:APP",
        "near=zone/app:c",
        "port=80",
        "tolerate=t::NoSchedule",
        "expected",
        "priority=5",
    ]);
    (size, app, wish, 1usize..6).prop_map(|((cpu, memory), app, wish, count)| {
        format!("x{count} cpu={cpu} memory={memory} label=app:{app} {}", wish.replace("APP", app))
    })
}

pub(crate) fn cluster() -> impl Strategy<Value = String> {
    let pool = prop::sample::select(vec![
        "pool main",
        "pool main limit=cpu:12",
        "pool main limit=nodes:3",
        "pool main req=zone:In:zone-1,zone-2",
        "pool main taint=t::NoSchedule\npool spare weight=-1",
        "pool main weight=2 req=arch:In:arm64\npool spare limit=memory:20Gi",
        "pool main taint=t::PreferNoSchedule",
    ]);
    let nodes = prop::sample::select(vec![
        "",
        "node n1 cpu=2 memory=4Gi pods=5 label=zone:zone-1 label=arch:amd64",
        "node n1 cpu=2 memory=4Gi pods=5 label=zone:zone-1 label=arch:amd64\nnode n2 cpu=3 memory=3Gi pods=9 label=zone:zone-2 starting\nbound x on=n1 label=app:a apart=zone/app:b",
    ]);
    (pool, nodes, prop::collection::vec(pod_line(), 1..7), any::<bool>()).prop_map(
        |(pool, nodes, pods, daemon)| {
            let pods: Vec<_> = pods.iter().enumerate().map(|(i, pod)| format!("pod p{i} {pod}")).collect();
            let daemon = if daemon { "daemon d cpu=0.2 tolerate=all" } else { "" };
            format!("{pool}\n{nodes}\n{daemon}\n{}", pods.join("\n"))
        },
    )
}

fn requests(snapshot: &Snapshot, pods: &[u32]) -> Resources {
    let mut total = Resources::new();
    for pod in pods {
        total.add(&snapshot.pods[*pod as usize].shape.requests);
    }
    total
}

/// Every pod once, in exactly one place.
fn places(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<u32, usize> {
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let placed =
        plan.claims.iter().map(|claim| &claim.pods).chain(plan.existing.iter().map(|node| &node.pods));
    for (place, pods) in placed.enumerate() {
        for pod in pods {
            assert!(seen.insert(*pod, place).is_none(), "pod {pod} is in two places");
        }
    }
    for unplaced in &plan.unplaced {
        assert!(!seen.contains_key(&unplaced.pod), "pod {} is placed and is not", unplaced.pod);
    }
    assert_eq!(seen.len() + plan.unplaced.len(), snapshot.pods.len());
    seen
}

/// What is wrong with a plan, if anything.
fn faults(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut faults = Vec::new();
    let daemons = requests_of_daemons(snapshot);
    for claim in &plan.claims {
        let pool = snapshot.pools.iter().find(|pool| pool.name == claim.pool).unwrap();
        let mut total = requests(snapshot, &claim.pods);
        total.add(&daemons);
        for name in &claim.instance_types {
            let instance_type = pool.types.iter().find(|known| known.name == *name).unwrap();
            if !total.fits(&instance_type.allocatable()) {
                faults.push(format!("{name} is too small for {total}"));
            }
        }
        if claim.launch.is_none() {
            faults.push("a claim cannot be launched".to_owned());
        }
        for pod in &claim.pods {
            let shape = &snapshot.pods[*pod as usize].shape;
            for selected in shape.node_selector.iter() {
                let own = claim.requirements.get(selected.key());
                if own.is_none_or(|own| own.values().any(|value| !selected.has(value))) {
                    faults.push(format!("claim does not keep to {selected}"));
                }
            }
        }
        clashes(snapshot, &claim.pods, &mut faults);
    }
    for planned in &plan.existing {
        let node = &snapshot.nodes[planned.node as usize];
        let mut total = requests(snapshot, &planned.pods);
        total.add(&node.requested);
        if !total.fits(&node.allocatable) {
            faults.push(format!("node {} is over-committed", node.name));
        }
        clashes(snapshot, &planned.pods, &mut faults);
    }
    limits(snapshot, plan, &mut faults);
    zones(snapshot, plan, &mut faults);
    faults
}

fn requests_of_daemons(snapshot: &Snapshot) -> Resources {
    let mut total = Resources::new();
    snapshot.daemons.iter().for_each(|daemon| total.add(&daemon.shape.requests));
    total
}

/// Host ports and anti-affinity or spread over hosts, within one place.
fn clashes(snapshot: &Snapshot, pods: &[u32], faults: &mut Vec<String>) {
    let ports = pods.iter().filter(|pod| !snapshot.pods[**pod as usize].shape.host_ports.is_empty()).count();
    if ports > 1 {
        faults.push("a host port is used twice".to_owned());
    }
    for pod in pods {
        let shape = &snapshot.pods[*pod as usize].shape;
        let matching = |selector: &headstart_core::snapshot::Selector| {
            pods.iter()
                .filter(|other| selector.matches(&snapshot.pods[**other as usize].shape.labels))
                .count()
        };
        for term in
            shape.anti_affinity.required.iter().filter(|term| &*term.topology_key == "kubernetes.io/hostname")
        {
            let own = usize::from(term.selector.as_ref().unwrap().matches(&shape.labels));
            if matching(term.selector.as_ref().unwrap()) > own {
                faults.push("pods that must be apart share a host".to_owned());
            }
        }
        // Pods without the constraint may join later, so only those that have it are counted.
        for spread in
            shape.spread.iter().filter(|s| s.required && &*s.topology_key == "kubernetes.io/hostname")
        {
            let same = |other: &&u32| snapshot.pods[**other as usize].shape.spread.contains(spread);
            if pods.iter().filter(same).count() > spread.max_skew as usize {
                faults.push("too many pods on a host".to_owned());
            }
        }
    }
}

fn limits(snapshot: &Snapshot, plan: &Plan, faults: &mut Vec<String>) {
    for pool in &snapshot.pools {
        let Some(limits) = &pool.limits else { continue };
        let mut used = pool.used.clone();
        for claim in plan.claims.iter().filter(|claim| claim.pool == pool.name) {
            let mut most = Resources::new();
            for name in &claim.instance_types {
                most.max(&pool.types.iter().find(|known| known.name == *name).unwrap().capacity);
            }
            most.set("nodes", "1".parse().unwrap());
            used.add(&most);
        }
        for (name, limit) in limits.iter() {
            if used.get(name) > limit {
                faults.push(format!("limit of {name} exceeded"));
            }
        }
    }
}

/// Anti-affinity and spread over zones, where the zone is certain.
fn zones(snapshot: &Snapshot, plan: &Plan, faults: &mut Vec<String>) {
    let mut zone_of: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for claim in &plan.claims {
        for pod in &claim.pods {
            zone_of.insert(*pod, claim.zones.iter().map(ToString::to_string).collect());
        }
    }
    for planned in &plan.existing {
        let zone = label(&snapshot.nodes[planned.node as usize].labels, "zone").map(ToOwned::to_owned);
        planned.pods.iter().for_each(|pod| drop(zone_of.insert(*pod, zone.iter().cloned().collect())));
    }
    for (pod, own) in &zone_of {
        let shape = &snapshot.pods[*pod as usize].shape;
        for term in shape.anti_affinity.required.iter().filter(|term| term.topology_key.ends_with("/zone")) {
            for (other, zones) in zone_of.iter().filter(|(other, _)| *other != pod) {
                let near = zones.iter().any(|zone| own.contains(zone));
                if near
                    && term.selector.as_ref().unwrap().matches(&snapshot.pods[*other as usize].shape.labels)
                {
                    faults.push("pods that must be apart may share a zone".to_owned());
                }
            }
        }
        for term in shape.affinity.required.iter().filter(|term| term.topology_key.ends_with("/zone")) {
            let bound = snapshot
                .bound
                .iter()
                .filter(|bound| term.selector.as_ref().unwrap().matches(&bound.shape.labels));
            let mut there: Vec<&str> = bound
                .filter_map(|bound| label(&snapshot.nodes[bound.node as usize].labels, "zone"))
                .collect();
            for (_, zones) in zone_of.iter().filter(|(other, _)| {
                term.selector.as_ref().unwrap().matches(&snapshot.pods[**other as usize].shape.labels)
            }) {
                there.extend(zones.iter().map(String::as_str));
            }
            if !own.iter().all(|zone| there.contains(&&**zone)) {
                faults.push("a pod may be far from those it must be near".to_owned());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_sound(text in cluster()) {
        let snapshot = parse(&text);
        let plan = solve(&snapshot, Packing::Compat);
        places(&snapshot, &plan);
        prop_assert_eq!(faults(&snapshot, &plan), Vec::<String>::new(), "{}", text);
        prop_assert!(plan.lower_bound <= plan.price, "bound {} above price {}", plan.lower_bound, plan.price);
        prop_assert!(plan.unplaced.iter().all(|unplaced| !unplaced.obstacles.is_empty()));
    }

    #[test]
    fn the_order_of_lists_does_not_matter(text in cluster(), seed in any::<u64>()) {
        let snapshot = parse(&text);
        let mut shuffled = snapshot.clone();
        shuffled.pods.sort_by_key(|pod| seed.rotate_left(pod.uid.parse::<u32>().unwrap() % 64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        shuffled.pools.reverse();
        let first = shown(&snapshot, &solve(&snapshot, Packing::Compat));
        let second = shown(&shuffled, &solve(&shuffled, Packing::Compat));
        prop_assert_eq!(first, second);
    }

    #[test]
    fn expected_pods_change_nothing_for_real_ones(text in cluster()) {
        let with = parse(&text);
        let mut without = with.clone();
        without.pods.retain(|pod| pod.demand == headstart_core::snapshot::Demand::Real);
        let placed = |snapshot: &Snapshot| {
            let plan = solve(snapshot, Packing::Compat);
            let out: Vec<u32> = plan.unplaced.iter().map(|unplaced| unplaced.pod).collect();
            let real = |pod: &&u32| snapshot.pods[**pod as usize].demand == headstart_core::snapshot::Demand::Real;
            let mut names: Vec<_> = out.iter().filter(real).map(|pod| snapshot.pods[*pod as usize].name.clone()).collect();
            names.sort();
            names
        };
        prop_assert_eq!(placed(&with), placed(&without));
    }
}
