//! All objects seen so far, each as little as possible.

use std::collections::BTreeMap;

use headstart_core::resources::Resources;
use headstart_core::snapshot::Labels;
use serde::Deserialize;
use serde_json::Value;

use crate::decode::{Fault, decode, nullable};
use crate::diagnostic::Diagnostic;
use crate::meta::Meta;
use crate::node::{CsiNode, KubeNode, NodeClaim};
use crate::overlay::NodeOverlay;
use crate::pod::{KeptPod, Names, Pod};
use crate::pool::NodePool;
use crate::read::Document;
use crate::scheduler_config::SchedulerConfig;
use crate::spread::{Service, Services};
use crate::storage::{Claim, PersistentVolume, Storage, StorageClass};
use crate::workload::Workload;

/// All objects seen so far.
#[derive(Debug, Default)]
pub struct World {
    pub(crate) pools: Vec<NodePool>,
    pub(crate) overlays: Vec<NodeOverlay>,
    pub(crate) nodes: Vec<KubeNode>,
    pub(crate) claims: Vec<NodeClaim>,
    pub(crate) pods: Vec<KeptPod>,
    pub(crate) names: Names,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) daemons: Vec<Workload>,
    pub(crate) csi_nodes: BTreeMap<String, CsiNode>,
    pub(crate) services: Services,
    pub(crate) scheduler: SchedulerConfig,
    pub(crate) storage: Storage,
    pub(crate) priorities: BTreeMap<String, PriorityClass>,
    pub(crate) overheads: BTreeMap<String, Resources>,
    pub(crate) namespaces: BTreeMap<std::sync::Arc<str>, Labels>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A priority class.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PriorityClass {
    metadata: Meta,
    pub(crate) value: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) global_default: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RuntimeClass {
    metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    overhead: RuntimeOverhead,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuntimeOverhead {
    #[serde(deserialize_with = "nullable")]
    pod_fixed: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Namespace {
    metadata: Meta,
}

/// Kinds that decide nothing here but are no mistake either.
const IGNORED: [&str; 6] =
    ["ConfigMap", "Secret", "ServiceAccount", "KWOKNodeClass", "EC2NodeClass", "AKSNodeClass"];

impl World {
    /// A world without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows this configuration of kube-scheduler.
    pub fn follow(&mut self, config: SchedulerConfig) {
        self.scheduler = config;
    }

    /// What was wrong with objects so far.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Takes notice of an object; one that cannot be used becomes a diagnostic.
    pub fn add(&mut self, document: Document) {
        let Document { origin, value } = document;
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
        let object = match (kind.as_str(), name.as_str()) {
            ("", _) => origin.clone(),
            (kind, "") => format!("{kind} in {origin}"),
            (kind, name) if namespace.is_empty() => format!("{kind} {name}"),
            (kind, name) => format!("{kind} {namespace}/{name}"),
        };
        let added = if kind.is_empty() {
            Err(Fault::new("kind", "is missing"))
        } else if name.is_empty() {
            Err(Fault::new("metadata.name", "is missing"))
        } else {
            self.take(&kind, value)
        };
        if let Err(Fault { field, message }) = added {
            self.diagnostics.push(Diagnostic { object, field, message });
        }
    }

    fn take(&mut self, kind: &str, value: Value) -> Result<(), Fault> {
        match kind {
            "Pod" => {
                let pod = decode::<Pod>(value)?.kept(&mut self.names);
                grow(&mut self.pods);
                self.pods.push(pod);
            }
            "Node" => {
                let mut node: KubeNode = decode(value)?;
                node.slim(&mut self.names);
                grow(&mut self.nodes);
                self.nodes.push(node);
            }
            "NodeClaim" => self.claims.push(decode(value)?),
            "NodePool" => self.pools.push(decode(value)?),
            "NodeOverlay" => self.overlays.push(decode(value)?),
            "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" => {
                let workload = Workload { kind: kind.to_owned(), ..decode(value)? };
                self.workloads.push(workload);
            }
            "ReplicationController" => {
                let workload = Workload { kind: kind.to_owned(), ..decode(with_label_selector(value))? };
                self.workloads.push(workload);
            }
            "DaemonSet" => self.daemons.push(Workload { kind: kind.to_owned(), ..decode(value)? }),
            "Service" => {
                let service: Service = decode(value)?;
                let Meta { name, .. } = service.metadata.clone();
                let namespace = service.metadata.namespace().to_owned();
                if let Some(selector) = service.selector() {
                    self.services.entry(namespace).or_default().insert(name, selector);
                }
            }
            "PersistentVolumeClaim" => {
                let claim: Claim = decode(value)?;
                self.storage.claims.insert(claim.metadata.key(), claim);
            }
            "PersistentVolume" => {
                let volume: PersistentVolume = decode(value)?;
                self.storage.volumes.insert(volume.metadata.name.clone(), volume);
            }
            "StorageClass" => {
                let class: StorageClass = decode(value)?;
                self.storage.classes.insert(class.metadata.name.clone(), class);
            }
            "CSINode" => {
                let node: CsiNode = decode(value)?;
                self.csi_nodes.insert(node.metadata.name.clone(), node);
            }
            "PriorityClass" => {
                let class: PriorityClass = decode(value)?;
                self.priorities.insert(class.metadata.name.clone(), class);
            }
            "RuntimeClass" => {
                let class: RuntimeClass = decode(value)?;
                self.overheads.insert(class.metadata.name, class.overhead.pod_fixed);
            }
            "Namespace" => {
                let namespace: Namespace = decode(value)?;
                self.namespaces.insert(namespace.metadata.name.as_str().into(), namespace.metadata.labels);
            }
            other if IGNORED.contains(&other) => {}
            other => return Err(Fault::new("kind", format!("{other} is not understood and left out"))),
        }
        Ok(())
    }
}

/// A replication controller whose selector is written like that of its successors.
fn with_label_selector(mut value: Value) -> Value {
    if let Some(selector) = value.pointer_mut("/spec/selector")
        && !selector.is_null()
    {
        *selector = serde_json::json!({ "matchLabels": selector.take() });
    }
    value
}

/// Makes room for one more, and when there is none left for an eighth more: doubling would leave too much unused in a large
/// cluster.
fn grow<T>(rows: &mut Vec<T>) {
    if rows.len() == rows.capacity() {
        rows.reserve_exact(rows.len() / 8 + 4);
    }
}
