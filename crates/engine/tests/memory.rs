//! How much memory the engine needs for a node, a claim and a pod, all its tables and indexes included.

#![allow(clippy::unwrap_used)]
// Counting what is allocated needs an allocator of its own.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use headstart_cloud::catalog::{Catalog, Source};
use headstart_engine::{Change, Engine, Event, Kind, Now, Settings, Time, Wall};
use serde_json::{Map, Value, json};

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

const NODES: usize = 1_000;
const PODS: usize = 10_000;
const OWNERS: usize = 100;

/// Most bytes for a pod, a node and a claim.
const POD: usize = 300;
const NODE: usize = 2 * 1024;
const CLAIM: usize = 2_500;

const SINCE: &str = "2026-01-01T00:00:00Z";
const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];

fn names(number: usize) -> (String, String) {
    let claim = format!("general-{number:010}");
    (format!("kwok-{claim}-otter-4711"), claim)
}

fn uid(kind: usize, number: usize) -> String {
    format!("0b9f4a5c-6c1f-4b6e-9a5{kind}-{number:012}")
}

/// What a launch says of an instance.
fn labels(number: usize) -> Map<String, Value> {
    let zone = ZONES[number % 3];
    let labels = json!({
        "karpenter.sh/nodepool": "general", "karpenter.kwok.sh/kwoknodeclass": "default",
        "karpenter.sh/capacity-type": "spot", "node.kubernetes.io/instance-type": "m-16x-amd64-linux",
        "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "test-region",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "team": "blue", "stage": "production",
        "karpenter.kwok.sh/instance-cpu": "16", "karpenter.kwok.sh/instance-memory": "65536",
        "karpenter.kwok.sh/instance-family": "m", "karpenter.kwok.sh/instance-size": "16x",
        "eks-node-viewer/instance-price": "0.412300",
    });
    labels.as_object().unwrap().clone()
}

fn amounts(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "20Gi"})
}

fn claim(number: usize) -> Value {
    let (node, claim) = names(number);
    let types: Vec<String> = (0..60).map(|i| format!("m-{i}x-amd64-linux")).collect();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": SINCE, "observedGeneration": 1});
    let conditions =
        ["Launched", "Registered", "Initialized", "ConsistentStateFound", "Ready"].map(condition);
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": claim, "uid": uid(1, number), "resourceVersion": format!("{}", 10_000 + number), "generation": 1,
            "creationTimestamp": SINCE, "labels": labels(number), "finalizers": ["karpenter.sh/termination"],
            "annotations": {
                "karpenter.sh/nodepool-hash": "4012513481623584108", "karpenter.sh/nodepool-hash-version": "v3",
                "headstart.dev/anchor": uid(7, number),
            },
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general", "uid": uid(8, 1), "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["general"]},
            ],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "resources": {"requests": amounts(&format!("{}m", 9_000 + number), "30Gi")},
            "expireAfter": "720h",
        },
        "status": {
            "nodeName": node, "providerID": format!("kwok://{node}"),
            "capacity": amounts("16", "64Gi"), "allocatable": amounts("15900m", "63Gi"),
            "conditions": conditions,
        },
    })
}

fn node(number: usize) -> Value {
    let (node, claim) = names(number);
    let mut labels = labels(number);
    for (key, value) in [
        ("kubernetes.io/hostname", claim.as_str()),
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("kwok-partition", "a"),
        ("kwok.x-k8s.io/node", "fake"),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "KubeletSaysSo", "message": "kubelet says so", "lastHeartbeatTime": SINCE, "lastTransitionTime": SINCE});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": node, "uid": uid(2, number), "resourceVersion": format!("{}", 20_000 + number), "creationTimestamp": SINCE,
            "labels": labels, "finalizers": ["karpenter.sh/termination"],
            "annotations": {
                "karpenter.sh/nodepool-hash": "4012513481623584108", "karpenter.sh/nodepool-hash-version": "v3",
                "headstart.dev/anchor": uid(7, number), "headstart.dev/launch-token": uid(1, number),
                "headstart.dev/launch-digest": format!("{number:016x}"), "headstart.dev/tags": format!("{{\"karpenter.sh/nodeclaim\":\"{claim}\",\"karpenter.sh/nodepool\":\"general\"}}"),
                "kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0",
            },
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim, "uid": uid(1, number), "blockOwnerDeletion": true,
            }],
        },
        "spec": {"providerID": format!("kwok://{node}")},
        "status": {
            "capacity": amounts("16", "64Gi"), "allocatable": amounts("15900m", "63Gi"),
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"), condition("Ready", "True")],
            "images": vec![json!({"names": ["registry.example.com/shop/service:v17"], "sizeBytes": 123_456}); 20],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Linux"},
        },
    })
}

fn pod(number: usize) -> Value {
    let owner = number % OWNERS;
    let app = format!("service-{owner:03}");
    let (set, namespace) = (format!("{app}-7d9c5b8f6d"), ["default", "shop"][owner % 2]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{set}-{number:05x}"), "generateName": format!("{set}-"), "namespace": namespace,
            "uid": uid(3, number), "resourceVersion": format!("{}", 30_000 + number), "creationTimestamp": SINCE,
            "labels": {
                "app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": "1.17.0",
                "app.kubernetes.io/managed-by": "helm", "team": "blue", "pod-template-hash": "7d9c5b8f6d",
            },
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": format!("{number:064x}")},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid(4, owner), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": names(number % NODES).0,
            "containers": [{
                "name": "service", "image": "registry.example.com/shop/service:v17",
                "env": [{"name": "MODE", "value": "production"}],
                "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
            }],
            "volumes": [{"name": "config", "configMap": {"name": app}}, {"name": "scratch", "emptyDir": {}}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
            }],
            "priority": 0, "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Running", "startTime": SINCE,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "service", "ready": true, "restartCount": 0}],
        },
    })
}

const NOW: Now = Now { time: Time(1_000), wall: Wall(1_767_225_600_000) };

/// Tells an engine all objects of a kind as a watch does at its start; how many bytes each one takes.
fn told(engine: &mut Engine, kind: Kind, count: usize, object: impl Fn(usize) -> Value) -> usize {
    let before = HELD.load(Relaxed);
    engine.apply(NOW, Event::Watched { kind, change: Change::Relisting });
    for number in 0..count {
        engine.apply(NOW, Event::Watched { kind, change: Change::Seen(Arc::new(object(number))) });
    }
    engine.apply(NOW, Event::Watched { kind, change: Change::Listed });
    (HELD.load(Relaxed) - before).div_ceil(count)
}

/// One test, because what other tests allocate at the same time would count too.
#[test]
fn rows_are_small() {
    let catalog = Catalog::load(&Source::Kwok).unwrap();
    let mut engine =
        Engine::new(Settings::default(), Arc::clone(catalog.types()), catalog.well_known.clone());
    let a_node = told(&mut engine, Kind::Node, NODES, node);
    let a_claim = told(&mut engine, Kind::NodeClaim, NODES, claim);
    let a_pod = told(&mut engine, Kind::Pod, PODS, pod);
    println!("a node: {a_node} bytes, a claim: {a_claim} bytes, a pod: {a_pod} bytes");
    let before = HELD.load(Relaxed);
    engine.apply(NOW, Event::Leading(true));
    println!("to lead: {} bytes for each node", (HELD.load(Relaxed) - before) / NODES);
    assert!(a_node <= NODE, "a node takes {a_node} bytes");
    assert!(a_claim <= CLAIM, "a claim takes {a_claim} bytes");
    assert!(a_pod <= POD, "a pod takes {a_pod} bytes");
}
