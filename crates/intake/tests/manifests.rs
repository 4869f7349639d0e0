//! What objects become, and what is said about those that are wrong.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use headstart_core::labels::WellKnown;
use headstart_intake::{Taken, World, read};
use insta::assert_snapshot;
use proptest::prelude::*;

fn take(text: &str) -> Taken {
    let mut world = World::new();
    let (documents, unreadable) = read("manifest", text);
    for document in documents {
        world.add(document);
    }
    let mut taken = world.snapshot(&Arc::default(), &WellKnown::default());
    taken.diagnostics.extend(unreadable);
    taken
}

/// Every object on one line.
fn shown(text: &str) -> String {
    let taken = take(text);
    let snapshot = &taken.snapshot;
    let mut lines: Vec<String> = Vec::new();
    for pool in &snapshot.pools {
        lines.push(format!("pool {} weight {}: {}", pool.name, pool.weight, pool.requirements));
    }
    for node in &snapshot.nodes {
        let state = if node.initialized { "ready" } else { "starting" };
        lines.push(format!(
            "node {} {state}, {} taints, uses {}",
            node.name,
            node.taints.len(),
            node.requested
        ));
    }
    for pod in &snapshot.pods {
        let attached: Vec<_> =
            pod.volumes.iter().map(|volume| format!("{}:{}", volume.driver, volume.id)).collect();
        let topology: Vec<_> = pod.shape.volume_topology.iter().map(ToString::to_string).collect();
        let more = [attached.join(" "), topology.join(" | ")].join(" ");
        lines.push(
            format!("pod {}/{} {} {}", pod.namespace, pod.name, pod.shape.requests, more.trim())
                .trim()
                .to_owned(),
        );
    }
    lines.extend(
        snapshot.daemons.iter().map(|daemon| format!("daemon {} {}", daemon.name, daemon.shape.requests)),
    );
    lines.extend(
        taken.rejected.iter().map(|rejected| format!("rejected {}: {}", rejected.pod, rejected.reason)),
    );
    lines.extend(taken.diagnostics.iter().map(|diagnostic| format!("! {diagnostic}")));
    lines.join("\n")
}

#[test]
fn pods_to_be_made_ask_for_what_their_namespace_says_if_they_do_not() {
    assert_snapshot!(shown(r"
kind: LimitRange
metadata: {name: defaults, namespace: team}
spec:
  limits:
  - {type: Container, default: {cpu: 2, memory: 1Gi}, defaultRequest: {memory: 512Mi}, max: {example.com/chip: 1}}
  - {type: Pod, max: {cpu: 9}}
---
kind: DaemonSet
metadata: {name: agent, namespace: team}
spec: {template: {spec: {containers: [{name: a, resources: {limits: {memory: 3Gi}}}, {name: b}]}}}
---
kind: DaemonSet
metadata: {name: agent, namespace: other}
spec: {template: {spec: {containers: [{name: a}]}}}
---
kind: Pod
metadata: {name: made, namespace: team}
spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}
"), @r"
        pod team/made cpu 1, pods 1
        daemon team/agent cpu 4, example.com/chip 2, memory 3584Mi, pods 1
        daemon other/agent pods 1
    ");
}

#[test]
fn requests_are_what_the_pod_needs_at_its_peak() {
    assert_snapshot!(shown(r"
kind: Pod
metadata: {name: plain}
spec: {containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}}, {name: b, resources: {requests: {cpu: 1}}}]}
---
kind: Pod
metadata: {name: init}
spec:
  initContainers: [{name: i, resources: {requests: {cpu: 2}}}]
  containers: [{name: a, resources: {requests: {cpu: 1}}}]
---
kind: Pod
metadata: {name: sidecar}
spec:
  initContainers:
  - {name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}
  - {name: i, resources: {requests: {cpu: 2}}}
  containers: [{name: a, resources: {requests: {cpu: 1}}}]
---
kind: Pod
metadata: {name: pod-level}
spec:
  resources: {requests: {cpu: 3}}
  containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Gi}}}]
---
kind: RuntimeClass
metadata: {name: heavy}
overhead: {podFixed: {cpu: 2}}
---
kind: Pod
metadata: {name: overhead}
spec: {runtimeClassName: heavy, containers: [{name: a, resources: {requests: {cpu: 1}}}]}
---
kind: Pod
metadata: {name: resizing}
spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}
status: {containerStatuses: [{name: a, allocatedResources: {cpu: 2}}]}
"), @r"
        pod default/plain cpu 1100m, memory 1Gi, pods 1
        pod default/init cpu 2, pods 1
        pod default/sidecar cpu 3, pods 1
        pod default/pod-level cpu 3, memory 1Gi, pods 1
        pod default/overhead cpu 3, pods 1
        pod default/resizing cpu 2, pods 1
    ");
}

#[test]
fn workloads_count_as_the_pods_they_lack() {
    assert_snapshot!(shown(r"
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a}]}}
---
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, ownerReferences: [{kind: Deployment, name: web}]}
spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
---
kind: Pod
metadata: {name: web-1-x, namespace: shop, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, name: web-1}]}
spec: {containers: []}
---
kind: Job
metadata: {name: batch}
spec: {parallelism: 4, completions: 3, template: {spec: {containers: []}}}
status: {succeeded: 1}
---
kind: Job
metadata: {name: held}
spec: {parallelism: 4, suspend: true}
---
kind: DaemonSet
metadata: {name: agent}
spec: {template: {spec: {containers: [{name: a, resources: {requests: {cpu: 50m}}}]}}}
"), @r"
        pod shop/web-1-x pods 1
        pod shop/web-1 pods 1
        pod shop/web-2 pods 1
        pod default/batch-1 pods 1
        pod default/batch-2 pods 1
        daemon default/agent cpu 50m, pods 1
    ");
}

#[test]
fn pods_that_exist_are_not_counted_twice() {
    assert_snapshot!(shown(r"
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
---
# Of a ReplicaSet that nobody showed.
kind: Pod
metadata: {name: web-1-x, namespace: shop, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, name: web-1}]}
spec: {nodeName: elsewhere}
---
kind: Job
metadata: {name: gave-up}
spec: {parallelism: 4, template: {spec: {containers: []}}}
status: {failed: 7, conditions: [{type: Failed, status: 'True'}]}
---
# Room is being made for it.
kind: Pod
metadata: {name: nominated}
status: {nominatedNodeName: elsewhere}
"), @"pod shop/web-1 pods 1");
}

#[test]
fn volumes_say_where_and_what_or_why_not() {
    assert_snapshot!(shown(r"
kind: StorageClass
metadata: {name: zonal}
provisioner: kubernetes.io/aws-ebs
volumeBindingMode: WaitForFirstConsumer
allowedTopologies:
- matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [a]}]
- matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b]}]
---
kind: StorageClass
metadata: {name: hasty}
provisioner: x
---
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  template: {spec: {containers: []}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: zonal}}]
---
kind: PersistentVolumeClaim
metadata: {name: quick, namespace: default}
spec: {storageClassName: hasty}
---
kind: PersistentVolumeClaim
metadata: {name: lost, namespace: default}
status: {phase: Lost}
---
kind: Pod
metadata: {name: a}
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: quick}}]}
---
kind: Pod
metadata: {name: b}
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: lost}}]}
---
kind: Pod
metadata: {name: c}
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: missing}}]}
---
kind: Pod
metadata: {name: d}
spec: {volumes: [{name: v, emptyDir: {}}]}
"), @r"
        pod default/d pods 1
        pod default/db-0 pods 1 ebs.csi.aws.com:default/data-db-0 topology.kubernetes.io/zone In [a] | topology.kubernetes.io/zone In [b]
        pod default/db-1 pods 1 ebs.csi.aws.com:default/data-db-1 topology.kubernetes.io/zone In [a] | topology.kubernetes.io/zone In [b]
        rejected default/a: volume claim default/quick is unbound, but its storage class binds immediately
        rejected default/b: volume claim default/lost has lost its volume
        rejected default/c: volume claim default/missing does not exist
    ");
}

#[test]
fn nodes_and_claims_are_one_machine() {
    assert_snapshot!(shown(r"
kind: NodePool
metadata: {name: p}
spec: {weight: 3, template: {spec: {requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}}}
---
kind: NodePool
metadata: {name: static}
spec: {replicas: 2, template: {spec: {}}}
---
kind: NodePool
metadata: {name: unready}
spec: {template: {spec: {}}}
status: {conditions: [{type: Ready, status: 'False'}]}
---
kind: Node
metadata: {name: first, labels: {karpenter.sh/registered: 'true'}}
spec:
  providerID: x://1
  taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}, {key: boot, effect: NoSchedule}, {key: gpu, effect: NoSchedule}]
status: {allocatable: {cpu: 4}}
---
kind: NodeClaim
metadata: {name: p-1, labels: {karpenter.sh/nodepool: p}}
spec: {startupTaints: [{key: boot, effect: NoSchedule}]}
status: {providerID: 'x://1', allocatable: {cpu: 4, gpu: 1}}
---
kind: NodeClaim
metadata: {name: p-2}
spec: {}
status: {providerID: 'x://2', allocatable: {cpu: 4}}
---
kind: Node
metadata: {name: foreign}
spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}
---
kind: Pod
metadata: {name: there}
spec: {nodeName: first, containers: [{name: a, resources: {requests: {cpu: 1}}}]}
"), @r"
        pool p weight 3: kubernetes.io/arch In [amd64]
        node first starting, 1 taints, uses cpu 1, pods 1
        node foreign ready, 1 taints, uses 
        node p-2 starting, 0 taints, uses
    ");
}

#[test]
fn a_bad_object_is_named_and_the_others_stay() {
    assert_snapshot!(shown(r"
kind: Pod
metadata: {name: cpu}
spec: {containers: [{name: a, resources: {requests: {cpu: 1Q}}}]}
---
kind: Pod
metadata: {name: operator}
spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is, values: [b]}]}]}}}}
---
kind: Pod
metadata: {name: skew}
spec: {topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone}]}
---
kind: Pod
metadata: {name: type}
spec: {containers: 5}
---
kind: NodePool
metadata: {name: taint}
spec: {template: {spec: {taints: [{key: a, effect: Never}]}}}
---
kind: Gadget
metadata: {name: x}
---
metadata: {name: nothing}
---
kind: Pod
metadata: {name: good}
spec: {containers: [], tolerations: null, nodeSelector: null}
"), @r#"
        pod default/good pods 1
        ! Pod cpu: spec.containers[0].resources.requests.cpu: "1Q" has the unknown quantity suffix "Q"
        ! Pod type: spec.containers: invalid type: integer `5`, expected a sequence
        ! Gadget x: kind: Gadget is not understood and left out
        ! manifest#7: kind: is missing
        ! NodePool taint: spec.template.spec.taints[0].effect: unknown taint effect "Never"
        ! Pod default/operator: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: unknown operator "Is"
        ! Pod default/skew: spec.topologySpreadConstraints[0].maxSkew: must be at least 1
    "#);
}

const SAMPLE: &str = r"
kind: Pod
metadata: {name: a, labels: {app: a}, creationTimestamp: 2026-01-01T00:00:00Z}
spec:
  containers: [{name: c, ports: [{hostPort: 80}], resources: {requests: {cpu: 100m, memory: 1Gi}}}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: a}}}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]
---
kind: Pod
metadata: {name: neighbor}
spec: {containers: []}
";

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Whatever happens to one document, nothing breaks and its neighbor is seen.
    #[test]
    fn mutated_manifests_break_nothing(at in 0usize..500, with in "[ -~\n]{0,6}", cut in 0usize..40) {
        let (first, second) = SAMPLE.split_once("---").unwrap();
        let at = at.min(first.len());
        let end = (at + cut).min(first.len());
        let mutated = format!("{}{with}{}\n---{second}", &first[..at], &first[end..]);
        let taken = take(&mutated);
        prop_assert!(taken.snapshot.pods.iter().any(|pod| &*pod.name == "neighbor"), "{mutated}");
    }
}

#[test]
fn what_kubernetes_would_refuse_is_named() {
    assert_snapshot!(shown(r"
kind: Pod
metadata: {name: negative}
spec: {containers: [{name: a}, {name: b, resources: {requests: {cpu: -5}}}]}
---
kind: Pod
metadata: {name: list}
spec: {containers: [[]]}
---
kind: Deployment
metadata: {name: endless}
spec: {replicas: 9223372036854775807, template: {spec: {containers: []}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: elsewhere}
---
kind: Pod
metadata: 7
--- 
- 1
- []
"), @r#"
        ! Pod list: spec.containers[0]: must be an object
        ! Job elsewhere: apiVersion: "batch.volcano.sh/v1alpha1" has no Job that is understood here; batch has
        ! Pod in manifest#5: metadata: must be an object
        ! manifest#6[0]: is no object
        ! Pod default/negative: spec.containers[1].resources.requests.cpu: -5 is less than nothing
        ! Deployment default/endless: spec.replicas: 9223372036854775807 pods are more than one workload can have
    "#);
}

#[test]
fn null_says_nothing_and_the_last_of_a_name_counts() {
    assert_snapshot!(shown(r"
kind: Pod
metadata: {name: a, namespace: null, labels: null, ownerReferences: [{kind: null}]}
spec:
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: null, preference: null}]}}
  containers: [{name: null, resources: {requests: {cpu: 1, memory: null}}}]
status: null
---
kind: NodePool
metadata: {name: p}
spec: {weight: null, limits: null, template: {metadata: null, spec: null}}
---
kind: Pod
metadata: {name: a}
spec: {containers: [{name: b, resources: {requests: {cpu: 2}}}]}
"), @r"
        pool p weight 0: 
        pod default/a cpu 2, pods 1
        ! Pod a: metadata.name: appears more than once; the last one counts
    ");
}

#[test]
fn a_daemons_pod_counts_on_the_node_that_its_controller_chose() {
    let taken = take(
        r"
apiVersion: v1
kind: Node
metadata: {name: one}
status: {allocatable: {cpu: '4', pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata:
  name: agent
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]
spec:
  nodeName: one
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [one]}]}]
  containers: [{name: c, resources: {requests: {cpu: '3'}}}]
",
    );
    assert_eq!(taken.diagnostics, []);
    assert_eq!(taken.snapshot.nodes[0].requested.get("cpu").to_string(), "3");
    assert_eq!(taken.snapshot.nodes[0].daemon_requested.get("cpu").to_string(), "3");
}
