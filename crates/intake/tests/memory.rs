//! How much memory a pod and a node take: what is kept of them, and their part of a snapshot.

#![allow(clippy::unwrap_used)]
// Counting what is allocated needs an allocator of its own.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use headstart_core::labels::WellKnown;
use headstart_intake::{Document, World};
use serde_json::{Value, json};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TEMPLATES: usize = 100;
/// Most bytes for a pod, its lifecycle included.
const POD: usize = 250;
/// Most bytes for a pod that waits, in a snapshot.
const IN_SNAPSHOT: usize = 96;
/// Most bytes for a node.
const NODE: usize = 2 * 1024;

fn pod(number: usize) -> Value {
    let app = format!("service-{}", number % TEMPLATES);
    let name = format!("{app}-7d9c5b8f6d-{number:05}");
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("0b9f4a5c-6c1f-4b6e-9a51-{number:012}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "generateName": format!("{app}-7d9c5b8f6d-"),
            "labels": {
                "app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "team": "blue",
                "pod-template-hash": "7d9c5b8f6d", "version": "v17",
            },
            "annotations": { "checksum/config": "f".repeat(64), "prometheus.io/scrape": "true", "unique": name },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-7d9c5b8f6d"),
                "uid": "3a4b", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "containers": [
                {
                    "name": "main", "image": "registry.example.com/shop/service:v17",
                    "env": [{ "name": "MODE", "value": "production" }],
                    "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
                    "resources": { "requests": { "cpu": "250m", "memory": "512Mi" }, "limits": { "memory": "1Gi" } },
                    "volumeMounts": [{ "name": format!("kube-api-access-{number}"), "mountPath": "/var/run" }],
                },
                { "name": "proxy", "resources": { "requests": { "cpu": "50m", "memory": "64Mi" } } },
            ],
            "volumes": [{ "name": format!("kube-api-access-{number}"), "projected": { "sources": [] } }],
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
            ],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { "app.kubernetes.io/name": app } },
            }],
            "priority": 0, "schedulerName": "default-scheduler", "serviceAccountName": app,
        },
        "status": { "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] },
    })
}

fn node(number: usize) -> Value {
    let name = format!("ip-10-0-{}-{}.ec2.internal", number / 256, number % 256);
    let amounts = |cpu: &str, memory: &str| {
        json!({
            "cpu": cpu, "memory": memory, "pods": "58", "ephemeral-storage": "83873772Ki",
            "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("1b9f4a5c-6c1f-4b6e-9a51-{number:012}"),
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/instance-type": "m6i.xlarge",
                "failure-domain.beta.kubernetes.io/region": "us-east-1",
                "failure-domain.beta.kubernetes.io/zone": format!("us-east-1{}", ["a", "b", "c"][number % 3]),
                "k8s.io/cloud-provider-aws": "0123456789abcdef0123456789abcdef",
                "karpenter.k8s.aws/instance-category": "m", "karpenter.k8s.aws/instance-cpu": "4",
                "karpenter.k8s.aws/instance-family": "m6i", "karpenter.k8s.aws/instance-memory": "16384",
                "karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.xlarge",
                "topology.kubernetes.io/region": "us-east-1",
                "topology.kubernetes.io/zone": format!("us-east-1{}", ["a", "b", "c"][number % 3]),
            },
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": format!("{{\"ebs.csi.aws.com\":\"i-{number:017}\"}}"),
                "karpenter.sh/nodepool-hash": "12345678901234567890", "karpenter.sh/nodepool-hash-version": "v3",
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": { "providerID": format!("aws:///us-east-1a/i-{number:017}") },
        "status": {
            "capacity": amounts("4", "16073892Ki"), "allocatable": amounts("3920m", "15070372Ki"),
            "images": vec![json!({ "names": ["registry.example.com/shop/service:v17"], "sizeBytes": 123_456 }); 50],
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
        },
    })
}

/// Bytes for each object: what is kept, and what a snapshot adds.
fn cost(count: usize, object: impl Fn(usize) -> Value) -> (usize, usize) {
    let before = HELD.load(Relaxed);
    let mut world = World::new();
    for number in 0..count {
        world.add(Document { origin: String::new(), value: object(number) });
    }
    let kept = HELD.load(Relaxed) - before;
    let taken = world.snapshot(&Arc::default(), &WellKnown::default());
    let in_snapshot = HELD.load(Relaxed) - before - kept;
    assert!(taken.diagnostics.is_empty(), "{}", taken.diagnostics[0]);
    assert_eq!(taken.snapshot.pods.len() + taken.snapshot.nodes.len(), count);
    (kept.div_ceil(count), in_snapshot.div_ceil(count))
}

/// One test, because what other tests allocate at the same time would count too.
#[test]
fn rows_are_small() {
    let (kept, in_snapshot) = cost(10_000, pod);
    println!("a pod: {kept} bytes kept, {in_snapshot} in a snapshot");
    assert!(kept <= POD && in_snapshot <= IN_SNAPSHOT, "a pod takes {kept} + {in_snapshot} bytes");
    let (kept, in_snapshot) = cost(1_000, node);
    println!("a node: {kept} bytes kept, {in_snapshot} in a snapshot");
    assert!(kept + in_snapshot <= NODE, "a node takes {kept} + {in_snapshot} bytes");
}
