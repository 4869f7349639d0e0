//! All objects seen so far, each as little as possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_core::resources::Resources;
use headstart_core::snapshot::Labels;
use serde::Deserialize;
use serde_json::Value;

use crate::cronjob::CronJob;
use crate::decode::{Fault, decode, nullable};
use crate::diagnostic::Diagnostic;
use crate::kept::KeptPod;
use crate::limit_range::{DefaultRequests, LimitRange};
use crate::meta::{DEFAULT_NAMESPACE, Meta};
use crate::node::{CsiNode, KeptClaim, KeptNode, KubeNode, NodeClaim};
use crate::overlay::NodeOverlay;
use crate::places::Places;
use crate::pod::{Pod, PodTemplate};
use crate::pool::NodePool;
use crate::pooled::Pooled;
use crate::quota::ResourceQuota;
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
    pub(crate) nodes: Vec<KeptNode>,
    pub(crate) claims: Vec<KeptClaim>,
    pub(crate) pods: Vec<KeptPod>,
    pub(crate) pooled: Pooled,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) daemons: Vec<Workload>,
    pub(crate) cron_jobs: BTreeMap<String, CronJob>,
    pub(crate) pod_templates: BTreeMap<String, NamedTemplate>,
    pub(crate) quotas: BTreeMap<String, ResourceQuota>,
    pub(crate) csi_nodes: BTreeMap<String, CsiNode>,
    pub(crate) services: Services,
    pub(crate) scheduler: SchedulerConfig,
    pub(crate) storage: Storage,
    pub(crate) priorities: BTreeMap<String, PriorityClass>,
    pub(crate) overheads: BTreeMap<String, Resources>,
    pub(crate) default_requests: DefaultRequests,
    pub(crate) namespaces: BTreeMap<Arc<str>, Labels>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    places: Places,
    /// How many objects went since unused texts were last dropped.
    removed: usize,
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

/// A template that pods may be made from by name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamedTemplate {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) template: PodTemplate,
    /// How often it has been changed.
    #[serde(skip)]
    pub(crate) generation: Option<i64>,
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

/// After how many removals to look for texts that nobody uses any more.
const SWEEP_EVERY: usize = 10_000;

/// Kinds that decide nothing here but are no mistake either.
const IGNORED: [&str; 6] =
    ["ConfigMap", "Secret", "ServiceAccount", "KWOKNodeClass", "EC2NodeClass", "AKSNodeClass"];

/// Whether an object was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is new.
    New,
    /// It was there, perhaps different.
    Again,
}

/// An object that knows its kind.
trait OfKind {
    fn kind(&self) -> &str;
}

impl OfKind for KeptPod {
    fn kind(&self) -> &'static str {
        "Pod"
    }
}

impl OfKind for KeptNode {
    fn kind(&self) -> &'static str {
        "Node"
    }
}

impl OfKind for KeptClaim {
    fn kind(&self) -> &'static str {
        "NodeClaim"
    }
}

impl OfKind for NodePool {
    fn kind(&self) -> &'static str {
        "NodePool"
    }
}

impl OfKind for NodeOverlay {
    fn kind(&self) -> &'static str {
        "NodeOverlay"
    }
}

impl OfKind for Workload {
    fn kind(&self) -> &str {
        &self.kind
    }
}

fn name_of_node(node: &KeptNode) -> (&str, &str) {
    (DEFAULT_NAMESPACE, &node.name)
}

fn name_of_claim(claim: &KeptClaim) -> (&str, &str) {
    (DEFAULT_NAMESPACE, &claim.of_node.name)
}

/// Adds an object to its list; one of the same name makes room for it, as if it had been applied again.
fn put<T>(
    places: &mut Places,
    list: &mut Vec<T>,
    kind: &str,
    names: impl Fn(&T) -> (&str, &str),
    object: T,
) -> Put {
    if let Some(place) = places.of(kind, names(&object), |at| list.get(at).map(&names)) {
        list[place] = object;
        return Put::Again;
    }
    places.set(kind, names(&object), list.len());
    grow(list);
    list.push(object);
    Put::New
}

/// Takes an object out of its list; the last one, which may be of another kind, takes its place.
fn take_out<T: OfKind>(
    places: &mut Places,
    list: &mut Vec<T>,
    kind: &str,
    names: impl Fn(&T) -> (&str, &str),
    wanted: (&str, &str),
) {
    let Some(place) = places.of(kind, wanted, |at| list.get(at).map(&names)) else { return };
    places.forget(kind, wanted, place);
    list.swap_remove(place);
    if let Some(moved) = list.get(place) {
        let kind = moved.kind();
        places.forget(kind, names(moved), list.len());
        places.set(kind, names(moved), place);
    }
}

/// What is wrong with an object.
fn wrong(kind: &str, value: &Value, Fault { field, message }: Fault) -> Diagnostic {
    let text = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let of = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    Diagnostic { object: format!("{kind} {of}{name}"), field, message }
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
        "Pod"
        | "Node"
        | "PersistentVolume"
        | "PersistentVolumeClaim"
        | "Namespace"
        | "Service"
        | "LimitRange"
        | "PodTemplate"
        | "ResourceQuota"
        | "ReplicationController" => "",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps",
        "Job" | "CronJob" => "batch",
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
        let added = if !value.is_object() {
            Err(Fault::new("", "is no object"))
        } else if kind.is_empty() {
            Err(Fault::new("kind", "is missing"))
        } else if name.is_empty() {
            Err(nameless(&value))
        } else {
            check_version(&kind, value.get("apiVersion")).and_then(|()| self.take(&kind, &value))
        };
        let twice = || Fault::new("metadata.name", "appears more than once; the last one counts");
        let fault = match added {
            Ok(Put::New) => return,
            Ok(Put::Again) => twice(),
            Err(fault) => fault,
        };
        self.diagnostics.push(Diagnostic { object, field: fault.field, message: fault.message });
    }

    /// Takes notice of the present state of an object that may be known already.
    ///
    /// One that cannot be used is forgotten and told.
    pub fn set(&mut self, value: &Value) -> Result<(), Diagnostic> {
        let text = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/kind");
        let Err(fault) = self.take(kind, value) else { return Ok(()) };
        self.remove(kind, text("/metadata/namespace"), text("/metadata/name"));
        Err(wrong(kind, value, fault))
    }

    /// Reads a pod without taking notice of it; what is wrong with its needs comes with it.
    pub fn read_pod(&mut self, value: &Value) -> Result<(KeptPod, Option<Diagnostic>), Diagnostic> {
        let told = |fault| wrong("Pod", value, fault);
        Pod::read(value, &mut self.pooled).map(|(pod, fault)| (pod, fault.map(told))).map_err(told)
    }

    /// Takes notice of a pod that was read.
    pub fn put_pod(&mut self, pod: KeptPod) {
        put(&mut self.places, &mut self.pods, "Pod", KeptPod::names, pod);
    }

    /// Takes notice of a node.
    pub fn put_node(&mut self, node: KeptNode) -> Put {
        put(&mut self.places, &mut self.nodes, "Node", name_of_node, node)
    }

    /// Takes notice of a claim.
    pub fn put_claim(&mut self, claim: KeptClaim) -> Put {
        put(&mut self.places, &mut self.claims, "NodeClaim", name_of_claim, claim)
    }

    /// Labels that share their texts with those of others.
    pub fn share_texts(&mut self, labels: &Labels) -> Arc<Labels> {
        Arc::new(self.pooled.labels(labels))
    }

    /// Labels that are kept once however many objects have them.
    pub fn share_labels(&mut self, labels: &Labels) -> Arc<Labels> {
        self.pooled.label_set(labels)
    }

    /// Amounts that are kept once however many objects have them.
    pub fn share_amounts(&mut self, amounts: Resources) -> Arc<Resources> {
        self.pooled.resources(&Arc::new(amounts))
    }

    /// A pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&KeptPod> {
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
        let at = self.places.of("Pod", (namespace, name), |at| self.pods.get(at).map(KeptPod::names))?;
        self.pods.get(at)
    }

    /// All pods, in no order of note.
    pub fn pods(&self) -> &[KeptPod] {
        &self.pods
    }

    /// Forgets an object.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
        let names = (namespace, name);
        let places = &mut self.places;
        match kind {
            "Pod" => take_out(places, &mut self.pods, kind, KeptPod::names, names),
            "Node" => take_out(places, &mut self.nodes, kind, name_of_node, names),
            "NodeClaim" => take_out(places, &mut self.claims, kind, name_of_claim, names),
            "NodePool" => take_out(places, &mut self.pools, kind, |pool| pool.metadata.names(), names),
            "NodeOverlay" => {
                take_out(places, &mut self.overlays, kind, |overlay| overlay.metadata.names(), names);
            }
            "DaemonSet" => take_out(places, &mut self.daemons, kind, |set| set.metadata.names(), names),
            "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job" => {
                take_out(places, &mut self.workloads, kind, |workload| workload.metadata.names(), names);
            }
            "Service" => {
                self.services.get_mut(namespace).map(|services| services.remove(name));
            }
            "LimitRange" => {
                self.default_requests.get_mut(namespace).map(|ranges| ranges.remove(name));
            }
            "CronJob" => drop(self.cron_jobs.remove(&format!("{namespace}/{name}"))),
            "PodTemplate" => drop(self.pod_templates.remove(&format!("{namespace}/{name}"))),
            "ResourceQuota" => drop(self.quotas.remove(&format!("{namespace}/{name}"))),
            "PersistentVolumeClaim" => drop(self.storage.claims.remove(&format!("{namespace}/{name}"))),
            "PersistentVolume" => drop(self.storage.volumes.remove(name)),
            "StorageClass" => drop(self.storage.classes.remove(name)),
            "CSINode" => drop(self.csi_nodes.remove(name)),
            "PriorityClass" => drop(self.priorities.remove(name)),
            "RuntimeClass" => drop(self.overheads.remove(name)),
            "Namespace" => drop(self.namespaces.remove(name)),
            _ => {}
        }
        self.removed += 1;
        if self.removed > SWEEP_EVERY {
            self.removed = 0;
            self.pooled.sweep();
        }
    }

    fn take(&mut self, kind: &str, value: &Value) -> Result<Put, Fault> {
        let put = match kind {
            "Pod" => {
                let pod = match Pod::read(value, &mut self.pooled)? {
                    (_, Some(fault)) => return Err(fault),
                    (pod, None) => pod,
                };
                put(&mut self.places, &mut self.pods, kind, KeptPod::names, pod)
            }
            "Node" => {
                let node = decode::<KubeNode>(value)?.kept(&mut self.pooled);
                self.put_node(node)
            }
            "NodeClaim" => {
                let claim = decode::<NodeClaim>(value)?.kept(&mut self.pooled);
                self.put_claim(claim)
            }
            "NodePool" => {
                let pool: NodePool = decode(value)?;
                put(&mut self.places, &mut self.pools, kind, |pool| pool.metadata.names(), pool)
            }
            "NodeOverlay" => {
                let overlay: NodeOverlay = decode(value)?;
                put(&mut self.places, &mut self.overlays, kind, |overlay| overlay.metadata.names(), overlay)
            }
            "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job" | "DaemonSet" => {
                let is_old = kind == "ReplicationController";
                let decoded =
                    if is_old { decode(&with_label_selector(value.clone())) } else { decode(value) };
                let workload = Workload { kind: kind.to_owned(), ..decoded? };
                let list = if kind == "DaemonSet" { &mut self.daemons } else { &mut self.workloads };
                put(&mut self.places, list, kind, |workload| workload.metadata.names(), workload)
            }
            "Service" => {
                let service: Service = decode(value)?;
                let Meta { name, .. } = service.metadata.clone();
                let namespace = service.metadata.namespace().to_owned();
                if let Some(selector) = service.selector() {
                    self.services.entry(namespace).or_default().insert(name, selector);
                } else if let Some(services) = self.services.get_mut(&namespace) {
                    services.remove(&name);
                }
                Put::New
            }
            "CronJob" => {
                let cron_job: CronJob = decode(value)?;
                self.cron_jobs.insert(cron_job.metadata.key(), cron_job);
                Put::New
            }
            "PodTemplate" => {
                let mut template: NamedTemplate = decode(value)?;
                template.generation = value.pointer("/metadata/generation").and_then(Value::as_i64);
                self.pod_templates.insert(template.metadata.key(), template);
                Put::New
            }
            "ResourceQuota" => {
                let quota: ResourceQuota = decode(value)?;
                self.quotas.insert(quota.metadata.key(), quota);
                Put::New
            }
            "PersistentVolumeClaim" => {
                let claim: Claim = decode(value)?;
                self.storage.claims.insert(claim.metadata.key(), claim);
                Put::New
            }
            "PersistentVolume" => {
                let volume: PersistentVolume = decode(value)?;
                self.storage.volumes.insert(volume.metadata.name.clone(), volume);
                Put::New
            }
            "StorageClass" => {
                let class: StorageClass = decode(value)?;
                self.storage.classes.insert(class.metadata.name.clone(), class);
                Put::New
            }
            "CSINode" => {
                let node: CsiNode = decode(value)?;
                self.csi_nodes.insert(node.metadata.name.clone(), node);
                Put::New
            }
            "PriorityClass" => {
                let class: PriorityClass = decode(value)?;
                self.priorities.insert(class.metadata.name.clone(), class);
                Put::New
            }
            "RuntimeClass" => {
                let class: RuntimeClass = decode(value)?;
                self.overheads.insert(class.metadata.name, class.overhead.pod_fixed);
                Put::New
            }
            "LimitRange" => {
                let range: LimitRange = decode(value)?;
                let (namespace, requests) = (range.metadata.namespace().to_owned(), range.default_requests());
                self.default_requests.entry(namespace).or_default().insert(range.metadata.name, requests);
                Put::New
            }
            "Namespace" => {
                let namespace: Namespace = decode(value)?;
                self.namespaces.insert(
                    namespace.metadata.name.as_str().into(),
                    Arc::unwrap_or_clone(namespace.metadata.labels),
                );
                Put::New
            }
            other if IGNORED.contains(&other) => Put::New,
            other => return Err(Fault::new("kind", format!("{other} is not understood and left out"))),
        };
        Ok(put)
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
