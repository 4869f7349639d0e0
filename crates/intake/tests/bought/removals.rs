//! Pods on nodes that are going away need a place elsewhere.

use headstart_core::labels::WellKnown;
use headstart_intake::{World, read};

use crate::catalog::catalog;

#[test]
fn pods_move_from_a_node_that_is_being_removed_unless_they_go_with_it() {
    let mut world = World::new();
    let objects = "
{kind: NodeClaim, metadata: {name: old, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {}, status: {providerID: 'x://1'}}
---
{kind: Node, metadata: {name: gone}, spec: {providerID: 'x://1'}}
---
{kind: Pod, metadata: {name: moves}, spec: {nodeName: gone}}
---
{kind: Pod, metadata: {name: ended}, spec: {nodeName: gone}, status: {phase: Succeeded}}
---
{kind: Pod, metadata: {name: leaves, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {nodeName: gone}}
---
{kind: Pod, metadata: {name: agent, ownerReferences: [{kind: DaemonSet, name: agent}]}, spec: {nodeName: gone}}
";
    read("manifest", objects).0.into_iter().for_each(|document| world.add(document));
    let taken = world.snapshot(&catalog(), &WellKnown::default());
    let names: Vec<&str> = taken.snapshot.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["moves"]);
    assert!(taken.snapshot.nodes.is_empty() && taken.snapshot.bound.is_empty());
}
