//! What a big cluster is made of: objects of the size that real ones have.

use serde_json::{Map, Value, json};

const NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];
const IMAGE: &str = "registry.example.com/platform/storefront/service";
const SINCE: &str = "2026-01-01T00:00:00Z";

/// What a kubelet says of a node that is well.
pub(super) fn ready_node() -> Value {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": format!("kubelet says {reason}"),
               "lastHeartbeatTime": SINCE, "lastTransitionTime": SINCE})
    };
    let images: Vec<Value> = (0..40)
        .map(|i| {
            let names = [format!("{IMAGE}-{i}@sha256:{:064x}", i * 7_919), format!("{IMAGE}-{i}:v1.{i}.0")];
            json!({"names": names, "sizeBytes": 50_000_000 + i})
        })
        .collect();
    json!({"status": {
        "phase": "Running",
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "images": images,
        "nodeInfo": {
            "architecture": "amd64", "bootID": "0d4b0f7e", "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12.46", "kubeProxyVersion": "", "kubeletVersion": "v1.36.3",
            "machineID": "7b7d", "operatingSystem": "linux", "osImage": "Linux", "systemUUID": "7b7d",
        },
    }})
}

/// kube-scheduler's word that a pod fits nowhere.
pub(super) fn unschedulable() -> Value {
    let message = "0/0 nodes are available";
    json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message, "lastTransitionTime": SINCE},
    ]}})
}

/// A ReplicaSet that has all its pods, and how its pods look.
pub(super) struct Owner {
    name: String,
    namespace: &'static str,
    labels: Value,
    spec: Value,
    n_pods: usize,
}

impl Owner {
    pub(super) fn new(index: usize, n_pods: usize) -> Self {
        let app = format!("service-{index:03}");
        let name = format!("{app}-{:09x}", 0x1_0000_0000 + index * 104_729);
        let labels = json!({
            "app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": format!("1.{}.0", index % 20),
            "app.kubernetes.io/managed-by": "helm", "team": format!("team-{}", index % 17), "pod-template-hash": format!("{index:08x}"),
        });
        Self { spec: pod_spec(index, &app, &labels), namespace: NAMESPACES[index % 3], name, labels, n_pods }
    }

    pub(super) fn namespace(&self) -> &'static str {
        self.namespace
    }

    pub(super) fn object(&self) -> Value {
        let mut spec = self.spec.clone();
        spec["restartPolicy"] = json!("Always");
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels},
            "spec": {
                "replicas": self.n_pods,
                "selector": {"matchLabels": {"pod-template-hash": self.labels["pod-template-hash"]}},
                "template": {"metadata": {"labels": self.labels}, "spec": spec},
            },
        })
    }

    pub(super) fn status(&self) -> Value {
        let n = self.n_pods;
        let status = json!({"replicas": n, "fullyLabeledReplicas": n, "readyReplicas": n, "availableReplicas": n, "observedGeneration": 1});
        json!({"status": status})
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// One of its pods, on a node.
    pub(super) fn pod(&self, uid: &str, index: usize, node: &str) -> Value {
        let mut spec = self.spec.clone();
        spec["nodeName"] = json!(node);
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": self.name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
        });
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{}-{index:05x}", self.name), "generateName": format!("{}-", self.name), "namespace": self.namespace,
                "labels": self.labels, "ownerReferences": [owner],
                "annotations": {
                    "prometheus.io/scrape": "true", "prometheus.io/port": "9090",
                    "checksum/config": format!("{:064x}", index * 31),
                },
            },
            "spec": spec,
        })
    }
}

/// What a kubelet says of a pod that runs.
pub(super) fn running_pod(index: usize) -> Value {
    let ip = format!("10.{}.{}.{}", 1 + index / 65_536, index / 256 % 256, index % 256);
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": SINCE}))
            .to_vec();
    let image = format!("{IMAGE}:v1.0.0");
    json!({"status": {
        "phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": ip, "podIPs": [{"ip": ip}],
        "qosClass": "Burstable", "startTime": SINCE,
        "containerStatuses": [{
            "name": "service", "image": image, "imageID": format!("{IMAGE}@sha256:{index:064x}"), "containerID": format!("containerd://{index:064x}"),
            "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": SINCE}},
        }],
    }})
}

fn pod_spec(index: usize, app: &str, labels: &Value) -> Value {
    let mut env: Vec<Value> = (0..14)
        .map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("https://{app}.example.com/v1/setting-{i}")}))
        .collect();
    env.push(json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}));
    env.push(json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": app, "key": "password"}}}));
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3, "timeoutSeconds": 1});
    let token = json!({"projected": {"sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}, "name": "kube-api-access"});
    let container = json!({
        "name": "service", "image": format!("{IMAGE}:v1.0.0"), "args": ["serve", "--port=8080", format!("--name={app}")],
        "env": env, "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": format!("{}m", 100 + index % 10 * 50), "memory": format!("{}Mi", 128 + index % 8 * 64)},
            "limits": {"memory": "1Gi"},
        },
        "livenessProbe": probe("/live"), "readinessProbe": probe("/ready"),
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/service"}, {"name": "scratch", "mountPath": "/tmp"},
            {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
        ],
    });
    let mut spec = Map::new();
    spec.insert("containers".to_owned(), json!([container]));
    spec.insert("serviceAccountName".to_owned(), json!(app));
    spec.insert("terminationGracePeriodSeconds".to_owned(), json!(30));
    spec.insert(
        "volumes".to_owned(),
        json!([{"name": "config", "configMap": {"name": app}}, {"name": "scratch", "emptyDir": {}}, token]),
    );
    // A quarter of the services spread over zones.
    if index.is_multiple_of(4) {
        let selector = json!({"matchLabels": {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}});
        let constraint = json!({
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector,
        });
        spec.insert("topologySpreadConstraints".to_owned(), json!([constraint]));
    }
    Value::Object(spec)
}
