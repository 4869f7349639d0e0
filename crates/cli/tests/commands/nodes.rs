//! `headstart explain node/NAME`.

use std::fmt::Write;

use crate::harness::{Run, run};

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general, uid: pool}
spec:
  template:
    spec:
      nodeClassRef: {group: test.example.com, kind: TestClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: 100%}]}
status:
  conditions: [{type: Ready, status: \"True\", reason: Ready, message: \"\", lastTransitionTime: 2026-01-01T00:00:00Z}]
";

/// A small node of the pool with its claim, and a pod of one core on it.
fn node(name: &str) -> String {
    let labels = format!(
        "{{karpenter.sh/nodepool: general, node.kubernetes.io/instance-type: small, topology.kubernetes.io/zone: z-a, \
         karpenter.sh/capacity-type: on-demand, kubernetes.io/arch: amd64, kubernetes.io/os: linux, \
         kubernetes.io/hostname: {name}, karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true'}}"
    );
    let amounts = "{cpu: '4', memory: 16Gi, pods: '110'}";
    let mut conditions = String::new();
    for kind in ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"] {
        write!(
            conditions,
            "{{type: {kind}, status: 'True', reason: {kind}, message: '', lastTransitionTime: 2026-01-01T00:00:00Z}}, "
        )
        .unwrap();
    }
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: claim-{name}, uid: claim-{name}, creationTimestamp: 2026-01-01T00:00:00Z, labels: {labels}}}
spec:
  nodeClassRef: {{group: test.example.com, kind: TestClass, name: default}}
  requirements: []
status:
  nodeName: {name}
  providerID: test://{name}
  capacity: {amounts}
  allocatable: {amounts}
  conditions: [{conditions}]
---
apiVersion: v1
kind: Node
metadata: {{name: {name}, uid: node-{name}, creationTimestamp: 2026-01-01T00:00:00Z, labels: {labels}}}
spec: {{providerID: test://{name}}}
status:
  capacity: {amounts}
  allocatable: {amounts}
  conditions: [{{type: Ready, status: 'True', lastTransitionTime: 2026-01-01T00:00:00Z}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: web-{name}
  namespace: shop
  uid: pod-{name}
  creationTimestamp: 2026-01-01T00:00:00Z
  labels: {{app: web}}
  ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}}]
spec:
  nodeName: {name}
  containers: [{{name: web, resources: {{requests: {{cpu: '1'}}}}}}]
status: {{phase: Running}}
"
    )
}

fn explain(more: &str, what: &str, args: &[&str]) -> Run {
    let text = [POOL, &node("n1"), &node("n2"), more].concat();
    run(
        &[("w.yaml", &text)],
        "",
        &[&["explain", what, "--catalog", "catalog.json", "-f", "w.yaml"], args].concat(),
    )
}

#[test]
fn a_node_that_may_go_says_what_that_saves() {
    // More would have to move if the other one went.
    let another = "---
apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: shop
  uid: db
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: db, uid: db, controller: true}]
spec: {nodeName: n2, containers: [{name: db, resources: {requests: {cpu: '1'}}}]}
status: {phase: Running}
";
    for search in ["compat", "search"] {
        let run = explain(another, "node/n1", &["--consolidation", search]);
        assert_eq!(
            run.stdout,
            "\
node n1: NodeClaim claim-n1 of NodePool general, $0.200/h, 1 pod to move
  It may go now, as Underutilized: 1 pod to move, to n2, that saves $0.200/h.
",
            "{search}: {}",
            run.stderr
        );
        assert_eq!(run.status, 0);
    }
}

#[test]
fn a_node_that_stays_says_what_keeps_it() {
    let budget = "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop, uid: budget}
spec: {selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: 0}
";
    let run = explain(budget, "node/n1", &[]);
    assert_eq!(
        run.stdout,
        "\
node n1: NodeClaim claim-n1 of NodePool general, $0.200/h, 1 pod to move
  It stays:
    Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])
"
    );
    let document: serde_json::Value =
        serde_json::from_str(&explain(budget, "node/n1", &["-o", "json"]).stdout).unwrap();
    assert_eq!(document["stays"][0], "Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])");
    assert!(document["goes"].is_null());
}

#[test]
fn a_node_that_is_not_there_or_not_ours_is_an_error() {
    let stray = "---
apiVersion: v1
kind: Node
metadata: {name: stray, uid: stray}
spec: {providerID: test://stray}
";
    for (what, expected) in
        [("node/n9", "there is no node of that name"), ("node/stray", "it has no NodeClaim")]
    {
        let run = explain(stray, what, &[]);
        assert!(run.status == 1 && run.stderr.contains(expected), "{}", run.stderr);
    }
}
