//! All objects seen so far, each as little as possible.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use headstart_core::resources::Resources;
use headstart_core::snapshot::Labels;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::Deserialize;
use serde_json::Value;

use crate::decode::{Fault, decode, nullable};
use crate::diagnostic::Diagnostic;
use crate::meta::Meta;
use crate::node::{CsiNode, KubeNode, NodeClaim};
use crate::pod::Pod;
use crate::pool::NodePool;
use crate::read::Document;
use crate::storage::{Claim, PersistentVolume, Storage, StorageClass};
use crate::workload::Workload;

/// All objects seen so far.
#[derive(Debug, Default)]
pub struct World {
    pub(crate) pools: Vec<NodePool>,
    pub(crate) nodes: Vec<KubeNode>,
    pub(crate) claims: Vec<NodeClaim>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) daemons: Vec<Workload>,
    pub(crate) csi_nodes: BTreeMap<String, CsiNode>,
    pub(crate) storage: Storage,
    pub(crate) priorities: BTreeMap<String, PriorityClass>,
    pub(crate) overheads: BTreeMap<String, Resources>,
    pub(crate) namespaces: BTreeMap<std::sync::Arc<str>, Labels>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Where in its list each object is, by a hash of kind and name.
    places: FxHashMap<u64, usize>,
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
const IGNORED: [&str; 7] =
    ["Service", "ConfigMap", "Secret", "ServiceAccount", "KWOKNodeClass", "EC2NodeClass", "AKSNodeClass"];

/// Adds an object to its list; one of the same name makes room for it, as if it had been applied again.
fn put<T>(
    places: &mut FxHashMap<u64, usize>,
    list: &mut Vec<T>,
    kind: &str,
    meta: impl Fn(&T) -> &Meta,
    object: T,
) -> Result<(), Fault> {
    let own = meta(&object);
    let place =
        places.entry(FxBuildHasher.hash_one((kind, own.namespace(), &own.name))).or_insert(list.len());
    match list.get_mut(*place) {
        Some(known) if meta(known).namespace() == own.namespace() && meta(known).name == own.name => {
            *known = object;
            Err(Fault::new("metadata.name", "appears more than once; the last one counts"))
        }
        _ => {
            list.push(object);
            Ok(())
        }
    }
}

/// Why an object has no name.
fn nameless(object: &Value) -> Fault {
    match object.get("metadata") {
        Some(metadata) if !metadata.is_object() && !metadata.is_null() => {
            Fault::new("metadata", "must be an object")
        }
        _ => Fault::new("metadata.name", "is missing"),
    }
}

/// Which group a kind belongs to; kinds of that name in other groups are something else.
fn group_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Pod" | "Node" | "PersistentVolume" | "PersistentVolumeClaim" | "Namespace" => "",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps",
        "Job" => "batch",
        "NodePool" | "NodeClaim" | "NodeOverlay" => "karpenter.sh",
        "StorageClass" | "CSINode" => "storage.k8s.io",
        "PriorityClass" => "scheduling.k8s.io",
        "RuntimeClass" => "node.k8s.io",
        _ => return None,
    })
}

/// Whether the object is of the group that its kind is known from; text without a version is given the benefit of the doubt.
fn check_version(kind: &str, version: Option<&Value>) -> Result<(), Fault> {
    let (Some(expected), Some(version)) = (group_of(kind), version.filter(|version| !version.is_null()))
    else {
        return Ok(());
    };
    let group = version.as_str().map(|version| version.split_once('/').map_or("", |(group, _)| group));
    if group == Some(expected) {
        return Ok(());
    }
    let expected = if expected.is_empty() { "v1" } else { expected };
    Err(Fault::new("apiVersion", format!("{version} has no {kind} that is understood here; {expected} has")))
}

impl World {
    /// A world without objects.
    pub fn new() -> Self {
        Self::default()
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
        let added = if !value.is_object() {
            Err(Fault::new("", "is no object"))
        } else if kind.is_empty() {
            Err(Fault::new("kind", "is missing"))
        } else if name.is_empty() {
            Err(nameless(&value))
        } else {
            check_version(&kind, value.get("apiVersion")).and_then(|()| self.take(&kind, value))
        };
        if let Err(Fault { field, message }) = added {
            self.diagnostics.push(Diagnostic { object, field, message });
        }
    }

    fn take(&mut self, kind: &str, value: Value) -> Result<(), Fault> {
        match kind {
            "Pod" => put(&mut self.places, &mut self.pods, kind, |pod| &pod.metadata, decode(value)?)?,
            "Node" => put(&mut self.places, &mut self.nodes, kind, |node| &node.metadata, decode(value)?)?,
            "NodeClaim" => {
                put(&mut self.places, &mut self.claims, kind, |claim| &claim.metadata, decode(value)?)?;
            }
            "NodePool" => {
                put(&mut self.places, &mut self.pools, kind, |pool| &pool.metadata, decode(value)?)?;
            }
            "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" | "DaemonSet" => {
                let workload = Workload { kind: kind.to_owned(), ..decode(value)? };
                let list = if kind == "DaemonSet" { &mut self.daemons } else { &mut self.workloads };
                put(&mut self.places, list, kind, |workload| &workload.metadata, workload)?;
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
            "NodeOverlay" => {
                return Err(Fault::new(
                    "kind",
                    "NodeOverlay is not applied yet: prices and capacity are the catalog's",
                ));
            }
            other => return Err(Fault::new("kind", format!("{other} is not understood and left out"))),
        }
        Ok(())
    }
}
