//! Claims whose node does not exist yet, in manifests.

use headstart_core::labels::WellKnown;
use headstart_core::solve::{Packing, solve};
use headstart_intake::{World, read};
use insta::assert_snapshot;

use crate::catalog::catalog;

const POOL: &str = "
kind: NodePool
metadata: {name: p}
spec: {limits: {cpu: 8}, template: {spec: {}}}
---
kind: NodeOverlay
metadata: {name: nic}
spec: {requirements: [], capacity: {example.com/nic: 1}}
---
";

/// Where pods go.
fn planned(objects: &str) -> String {
    let mut world = World::new();
    read("manifest", &format!("{POOL}{objects}")).0.into_iter().for_each(|document| world.add(document));
    let taken = world.snapshot(&catalog(), &WellKnown::default());
    let plan = solve(&taken.snapshot, Packing::Compat);
    let names = |pods: &[u32]| {
        let names = pods.iter().map(|pod| &*taken.snapshot.pods[*pod as usize].name);
        names.collect::<Vec<_>>().join(" ")
    };
    let mut lines = Vec::new();
    for node in &plan.existing {
        lines.push(format!("{}: {}", taken.snapshot.nodes[node.node as usize].name, names(&node.pods)));
    }
    for claim in &plan.claims {
        lines.push(format!(
            "new {} in {}: {}",
            claim.instance_types.join("/"),
            claim.zones.join("/"),
            names(&claim.pods)
        ));
    }
    lines.extend(
        plan.unplaced.iter().map(|unplaced| format!("{}: {}", names(&[unplaced.pod]), unplaced.obstacles[0])),
    );
    lines.extend(taken.diagnostics.iter().map(ToString::to_string));
    lines.join("\n")
}

fn pod(name: &str, cpu: &str, more: &str) -> String {
    format!(
        "
---
kind: Pod
metadata: {{name: {name}, labels: {{app: a}}}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}], {more}}}"
    )
}

const CLAIM: &str = "
kind: NodeClaim
metadata: {name: early, labels: {karpenter.sh/nodepool: p}}
spec:
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [a, b]}
  - {key: topology.kubernetes.io/zone, operator: In, values: [east, west]}
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}";

#[test]
fn a_claim_is_the_least_it_may_become() {
    let pods = [
        pod("fits", "2", "nodeSelector: {karpenter.sh/capacity-type: spot}"),
        pod("too-big", "4", ""),
        pod("elsewhere", "1", "nodeSelector: {topology.kubernetes.io/zone: east}"),
    ];
    assert_snapshot!(planned(&format!("{CLAIM}{}", pods.concat())), @r"
        early: fits
        new b in east/west: too-big
        elsewhere: pool p: pool limit reached: 0 cpu left
    ");
}

#[test]
fn what_a_launch_has_told_counts() {
    let launched = CLAIM
        .replace("p}", "p, topology.kubernetes.io/zone: east, node.kubernetes.io/instance-type: b}")
        + "\nstatus: {providerID: x://1, capacity: {cpu: 4, memory: 8Gi, pods: 10}, allocatable: {cpu: 3500m, memory: 8Gi, pods: 10}}";
    let pods = [
        pod("large", "2.5", "nodeSelector: {topology.kubernetes.io/zone: east}"),
        pod("small", "1", "nodeSelector: {node.kubernetes.io/instance-type: b}"),
        pod("other", "1", "nodeSelector: {topology.kubernetes.io/zone: west}"),
    ];
    assert_snapshot!(planned(&format!("{launched}{}", pods.concat())), @r"
        early: large small
        new a/b in west: other
    ");
}

#[test]
fn overlays_are_on_machines_that_are_on_their_way() {
    assert_snapshot!(planned(&format!("{CLAIM}{}", pod("network", "1, example.com/nic: 1", ""))), @"early: network");
}

#[test]
fn volumes_are_counted_as_for_the_type_that_takes_fewest() {
    let storage = "
---
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
kind: PersistentVolumeClaim
metadata: {name: one, namespace: default}
---
kind: PersistentVolumeClaim
metadata: {name: two, namespace: default}";
    let claims = |names: &[&str]| {
        let one = |name: &&str| format!("{{name: {name}, persistentVolumeClaim: {{claimName: {name}}}}}");
        format!("volumes: [{}]", names.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    assert_snapshot!(planned(&format!("{CLAIM}{storage}{}", pod("modest", "1", &claims(&["one"])))), @"early: modest");
    assert_snapshot!(planned(&format!("{CLAIM}{storage}{}", pod("greedy", "1", &claims(&["one", "two"])))), @"new b in east/west: greedy");
}

#[test]
fn a_claim_counts_against_limits_before_its_size_is_known() {
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}}]}}";
    let pods = [pod("one", "2", apart), pod("two", "2", apart), pod("three", "2", apart)];
    assert_snapshot!(planned(&format!("{CLAIM}{}", pods.concat())), @r"
        early: one
        new a/b in east/west: three
        two: pool p: pool limit reached: 0 cpu left
    ");
}
