//! Default spread constraints: which pods get them and who is counted.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use headstart_core::labels::WellKnown;
use headstart_core::snapshot::{Labels, Spread};
use headstart_intake::{SchedulerConfig, World, read};
use insta::assert_snapshot;

const CONFIG: &str = "
podTopologySpread:
  defaultConstraints:
  - {maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
  - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
";

/// Labels that selectors in these tests tell apart.
const PROBES: [&str; 6] = ["app=web", "app=web tier=x", "app=web hash=1", "app=old", "app=db", ""];

/// For each pod its constraints and which of the probes they count.
fn shown(config: &str, objects: &str) -> String {
    let mut world = World::new();
    world.follow(SchedulerConfig::parse(config).unwrap());
    read("manifest", objects).0.into_iter().for_each(|document| world.add(document));
    let taken = world.snapshot(&Arc::default(), &WellKnown::default());
    assert_eq!(taken.diagnostics, []);
    let one = |spread: &Spread| {
        let counted = |probe: &&str| {
            let pairs = probe.split_whitespace().map(|pair| pair.split_once('=').unwrap());
            let labels: Labels = pairs.map(|(key, value)| (key.into(), value.into())).collect();
            spread.selector.as_ref().is_some_and(|selector| selector.matches(&labels))
        };
        let counted: Vec<_> = PROBES.into_iter().filter(counted).map(|probe| format!("[{probe}]")).collect();
        let soft = if spread.required { "" } else { " soft" };
        let key = spread.topology_key.rsplit('/').next().unwrap();
        format!("{key} {}{soft} over {}", spread.max_skew, counted.join(" "))
    };
    let pods = taken.snapshot.pods.iter().map(|pod| {
        let spread: Vec<_> = pod.shape.spread.iter().map(one).collect();
        format!("{}: {}", pod.name, spread.join("; "))
    });
    pods.collect::<Vec<_>>().join("\n")
}

#[test]
fn services_say_who_is_counted() {
    assert_snapshot!(shown(CONFIG, "
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}}
---
kind: Service
metadata: {name: by-hand, namespace: shop}
spec: {}
---
kind: Service
metadata: {name: all, namespace: default}
spec: {selector: {}}
---
{kind: Pod, metadata: {name: selected, namespace: shop, labels: {app: web, tier: x}}, spec: {}}
---
{kind: Pod, metadata: {name: other-labels, namespace: shop, labels: {app: db}}, spec: {}}
---
{kind: Pod, metadata: {name: other-namespace, labels: {app: web}}, spec: {}}
---
kind: Pod
metadata: {name: has-its-own, namespace: shop, labels: {app: web}}
spec:
  topologySpreadConstraints:
  - {maxSkew: 7, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: db}}}
"), @r"
        selected: zone 2 over [app=web] [app=web tier=x] [app=web hash=1]; hostname 1 soft over [app=web] [app=web tier=x] [app=web hash=1]
        other-labels: 
        other-namespace: 
        has-its-own: rack 7 soft over [app=db]
    ");
}

#[test]
fn controllers_say_more() {
    assert_snapshot!(shown(CONFIG, "
{kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
kind: ReplicaSet
metadata: {name: set}
spec: {replicas: 0, selector: {matchLabels: {app: web}, matchExpressions: [{key: hash, operator: Exists}]}}
---
kind: ReplicationController
metadata: {name: old}
spec: {replicas: 0, selector: {app: old}}
---
kind: Pod
metadata:
  name: of-set
  labels: {app: web, hash: '1'}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: set, controller: true}]
---
kind: Pod
metadata:
  name: of-controller
  labels: {app: web}
  ownerReferences: [{apiVersion: v1, kind: ReplicationController, name: old, controller: true}]
---
kind: Pod
metadata:
  name: of-nobody-known
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: gone, controller: true}]
---
kind: Pod
metadata:
  name: not-controlled
  labels: {app: web, hash: '1'}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: set}]
"), @r"
        of-set: zone 2 over [app=web hash=1]; hostname 1 soft over [app=web hash=1]
        of-controller: zone 2 over [app=old]; hostname 1 soft over [app=old]
        of-nobody-known: zone 2 over [app=web] [app=web tier=x] [app=web hash=1]; hostname 1 soft over [app=web] [app=web tier=x] [app=web hash=1]
        not-controlled: zone 2 over [app=web] [app=web tier=x] [app=web hash=1]; hostname 1 soft over [app=web] [app=web tier=x] [app=web hash=1]
    ");
}

#[test]
fn pods_that_a_workload_has_yet_to_make_are_spread_too() {
    assert_snapshot!(shown(CONFIG, "
kind: Deployment
metadata: {name: web}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
---
kind: StatefulSet
metadata: {name: db}
spec: {replicas: 1, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}
---
kind: ReplicationController
metadata: {name: old}
spec: {replicas: 1, selector: {app: old}, template: {metadata: {labels: {app: old}}}}
---
kind: Job
metadata: {name: batch}
spec: {selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}
"), @r"
        web-1: zone 2 over [app=web] [app=web tier=x] [app=web hash=1]; hostname 1 soft over [app=web] [app=web tier=x] [app=web hash=1]
        db-0: zone 2 over [app=db]; hostname 1 soft over [app=db]
        old-1: zone 2 over [app=old]; hostname 1 soft over [app=old]
        batch-1:
    ");
}

#[test]
fn without_configuration_nothing_is_added() {
    let objects = "
{kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
{kind: Pod, metadata: {name: a, labels: {app: web}}, spec: {}}
";
    assert_snapshot!(shown("", objects), @"a:");
    assert_snapshot!(shown("{podTopologySpread: {}}", objects), @"a:");
}
