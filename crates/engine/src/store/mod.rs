//! What was observed, and what was asked for and will soon be.
//!
//! Objects come from watches and from the answers to our own writes; versions tell which is newer, so that a watch that lags
//! never takes back what a write has told.

mod buried;
mod claim;
mod class;
mod guard;
mod index;
mod meta;
mod node;
mod owner;
mod pod;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_api::conditions::{self, READY};
use headstart_api::labels::PLACEHOLDER;
use headstart_api::nodeclaim::NodeClassReference;
use headstart_api::{CapacityBuffer, NodePool};
use headstart_core::cloud::ProviderId;
use headstart_core::repair::Rules;
use headstart_intake::{Diagnostic, World};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use claim::Claim;
pub(crate) use class::Class;
pub(crate) use guard::Guard;
pub(crate) use meta::{Meta, Owner as OwnerReference, texts};
pub(crate) use node::Node;
pub(crate) use owner::uid;
pub(crate) use pod::{Pod, PodKey, PodLife};

use crate::event::Change;
use crate::kind::Kind;
use crate::settings::ClassKind;
use buried::Buried;
use index::ByMachine;
use owner::Owner;
use table::Table;

/// What is known about all objects.
#[derive(Debug)]
pub(crate) struct Store {
    /// The kind of node class that pools must have to be ours; none if any will do.
    class: Option<ClassKind>,
    /// When a node is sick.
    pub(crate) rules: Rules,
    /// What decides placement.
    pub(crate) world: World,
    pub(crate) nodes: Table<Node>,
    pub(crate) claims: Table<Claim>,
    pub(crate) pools: BTreeMap<String, NodePool>,
    pub(crate) classes: BTreeMap<String, Class>,
    pub(crate) buffers: BTreeMap<(String, String), CapacityBuffer>,
    /// Whether somebody looks at what makes pods.
    keeps_makers: bool,
    /// Pods that are alive and have no node.
    pub(crate) waiting: BTreeSet<PodKey>,
    /// Whether pods that only keep room count for nothing but that.
    pub(crate) sets_placeholders_apart: bool,
    /// Those pods.
    pub(crate) placeholders: BTreeSet<PodKey>,
    /// Pod disruption budgets, by namespace and name.
    pub(crate) guards: BTreeMap<(String, String), Guard>,
    /// What was wrong with objects, by kind, namespace and name.
    pub(crate) diagnostics: BTreeMap<(Kind, String, String), Diagnostic>,
    /// Node and volume of each attachment.
    attachments: BTreeMap<String, (String, String)>,
    /// The volume of each volume claim.
    volumes: BTreeMap<(String, String), String>,
    owners: BTreeMap<String, Owner>,
    /// How many pods with a node have each priority.
    priorities: BTreeMap<i32, usize>,
    live: BTreeMap<Arc<str>, usize>,
    /// How many of those are running.
    running: BTreeMap<Arc<str>, usize>,
    on_node: BTreeMap<Arc<str>, BTreeSet<PodKey>>,
    node_of: ByMachine,
    claim_of: BTreeMap<Arc<str>, Arc<str>>,
    /// Claims that a write has told of and no watch has yet.
    unwatched: BTreeSet<String>,
    /// Names of objects that have no table here.
    others: BTreeMap<Kind, BTreeSet<(String, String)>>,
    reading: BTreeMap<Kind, Reading>,
    buried: Buried,
}

/// How far a kind has been read.
#[derive(Debug, Default)]
struct Reading {
    is_listed: bool,
    is_missing: bool,
    /// What was told since a listing began.
    told: Option<BTreeSet<(String, String)>>,
}

/// What a change may be of interest for.
#[derive(Clone, Debug)]
pub(crate) enum Touched {
    /// A pod, and the nodes it was and is on.
    Pod {
        key: PodKey,
        uid: Arc<str>,
        was_on: Option<Arc<str>>,
        /// The node where it came, ended or began to end just now.
        stirred: Option<Arc<str>>,
    },
    Node {
        name: String,
        provider_id: Option<ProviderId>,
    },
    /// A claim, with its last state if it is gone.
    Claim {
        name: String,
        gone: Option<Box<Claim>>,
    },
    /// A claim that we made is not in a list, which may be older than the claim.
    Doubtful {
        name: String,
    },
    Pool {
        name: String,
    },
    Class {
        name: String,
    },
    Attachment {
        node: String,
    },
    Other(Kind),
}

impl Store {
    /// A store without objects, for a cloud with this kind of node class, or for any cloud; whether somebody looks at what
    /// makes pods.
    pub(crate) fn new(class: Option<ClassKind>, keeps_makers: bool, rules: Rules) -> Self {
        Self {
            class,
            rules,
            keeps_makers,
            world: World::new(),
            nodes: Table::default(),
            claims: Table::default(),
            pools: BTreeMap::new(),
            classes: BTreeMap::new(),
            buffers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            sets_placeholders_apart: false,
            placeholders: BTreeSet::new(),
            guards: BTreeMap::new(),
            diagnostics: BTreeMap::new(),
            attachments: BTreeMap::new(),
            volumes: BTreeMap::new(),
            owners: BTreeMap::new(),
            priorities: BTreeMap::new(),
            live: BTreeMap::new(),
            running: BTreeMap::new(),
            on_node: BTreeMap::new(),
            node_of: ByMachine::default(),
            claim_of: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            others: BTreeMap::new(),
            reading: BTreeMap::new(),
            buried: Buried::default(),
        }
    }

    /// Takes notice of what a watch saw.
    pub(crate) fn watched(&mut self, kind: Kind, change: Change) -> Vec<Touched> {
        match change {
            Change::Relisting => {
                self.reading.entry(kind).or_default().told = Some(BTreeSet::new());
                Vec::new()
            }
            Change::Seen(value) => {
                if let Some(told) = self.reading.entry(kind).or_default().told.as_mut() {
                    told.insert(owner::names(&value));
                }
                if kind == Kind::NodeClaim {
                    self.unwatched.remove(owner::text(&value, "metadata", "name"));
                }
                if self.buried.has(owner::uid(&value)) {
                    return Vec::new();
                }
                self.learn(kind, &value)
            }
            Change::Gone(value) => {
                let (namespace, name) = owner::names(&value);
                self.buried.add(owner::uid(&value));
                self.lose(kind, &namespace, &name, Some(owner::uid(&value)))
            }
            Change::Listed => self.listed(kind),
            Change::Missing { .. } => {
                let reading = self.reading.entry(kind).or_default();
                *reading = Reading { is_missing: true, ..Reading::default() };
                let names = self.names(kind);
                names.iter().flat_map(|(namespace, name)| self.lose(kind, namespace, name, None)).collect()
            }
        }
    }

    fn listed(&mut self, kind: Kind) -> Vec<Touched> {
        let reading = self.reading.entry(kind).or_default();
        let told = reading.told.take().unwrap_or_default();
        (reading.is_listed, reading.is_missing) = (true, false);
        let mut touched = vec![Touched::Other(kind)];
        for (namespace, name) in self.names(kind) {
            if told.contains(&(namespace.clone(), name.clone())) {
                continue;
            }
            if kind == Kind::NodeClaim {
                if self.claims.get(&name).is_some_and(|claim| claim.is_assumed) {
                    continue;
                }
                if self.unwatched.contains(&name) {
                    touched.push(Touched::Doubtful { name });
                    continue;
                }
            }
            touched.extend(self.lose(kind, &namespace, &name, None));
        }
        touched
    }

    /// Names of all objects of a kind.
    fn names(&self, kind: Kind) -> Vec<(String, String)> {
        let alone = |name: &String| (String::new(), name.clone());
        match kind {
            Kind::Pod => {
                let names = |pod: &Pod| (pod.namespace().to_string(), pod.name().to_string());
                let mut all: Vec<_> = self.world.pods().iter().map(names).collect();
                all.sort_unstable();
                all
            }
            Kind::Node => self.nodes.keys().map(|name| (String::new(), name.to_string())).collect(),
            Kind::NodeClaim => self.claims.keys().map(|name| (String::new(), name.to_string())).collect(),
            Kind::NodePool => self.pools.keys().map(alone).collect(),
            Kind::NodeClass => self.classes.keys().map(alone).collect(),
            Kind::VolumeAttachment => self.attachments.keys().map(alone).collect(),
            Kind::CapacityBuffer => self.buffers.keys().cloned().collect(),
            other => self.others.get(&other).into_iter().flatten().cloned().collect(),
        }
    }

    /// All objects that have a life of their own.
    pub(crate) fn everything(&self) -> Vec<Touched> {
        let pools = self.pools.keys().map(|name| Touched::Pool { name: name.clone() });
        let claims = self.claims.keys().map(|name| Touched::Claim { name: name.to_string(), gone: None });
        let nodes = self
            .nodes
            .values()
            .map(|node| Touched::Node { name: node.name().to_owned(), provider_id: node.provider_id() });
        let waiting = self.waiting.iter().filter_map(|key| self.pod(key));
        let pods = waiting.map(|pod| Touched::Pod {
            key: pod.key(),
            uid: pod.uid().clone(),
            was_on: None,
            stirred: None,
        });
        pools.chain(claims).chain(nodes).chain(pods).collect()
    }

    /// Whether a kind can be read and has been.
    pub(crate) fn is_listed(&self, kind: Kind) -> bool {
        self.reading.get(&kind).is_some_and(|reading| reading.is_listed)
    }

    /// Whether everything has been read that decisions need.
    pub(crate) fn is_complete(&self) -> bool {
        let read = |kind: &Kind| self.reading.get(kind).is_some_and(|reading| reading.is_listed);
        let settled = |kind: &Kind| {
            self.reading.get(kind).is_some_and(|reading| reading.is_listed || reading.is_missing)
        };
        // Whoever does not buy nodes can do without what they are bought by.
        let is_bought_by = |kind: &Kind| matches!(kind, Kind::NodeClass | Kind::NodePool | Kind::NodeClaim);
        let is_vital = |kind: &Kind| kind.is_vital() && (self.class.is_some() || !is_bought_by(kind));
        Kind::ALL.iter().all(|kind| if is_vital(kind) { read(kind) } else { settled(kind) })
    }

    /// Takes notice of the state of an object that a write has told; a watch may know by now that it is gone.
    pub(crate) fn told(&mut self, kind: Kind, value: &Value) -> Vec<Touched> {
        if self.buried.has(owner::uid(value)) {
            return Vec::new();
        }
        let held = value
            .get("metadata")
            .and_then(|metadata| metadata.get("finalizers"))
            .and_then(Value::as_array)
            .is_some_and(|all| !all.is_empty());
        let is_leaving = !owner::text(value, "metadata", "deletionTimestamp").is_empty();
        // Pods have a while to end; anything else that nobody holds is gone with the answer.
        if is_leaving && !held && kind != Kind::Pod {
            let (namespace, name) = owner::names(value);
            self.buried.add(owner::uid(value));
            return self.lose(kind, &namespace, &name, Some(owner::uid(value)));
        }
        self.learn(kind, value)
    }

    /// Takes notice of the state of an object, wherever it was read; an older state than what is known is ignored.
    pub(crate) fn learn(&mut self, kind: Kind, value: &Value) -> Vec<Touched> {
        let (namespace, name) = owner::names(value);
        if kind == Kind::Pod {
            return match self.learn_pod(value) {
                Ok(touched) => touched.into_iter().collect(),
                Err(diagnostic) => self.refuse((kind, namespace, name), diagnostic),
            };
        }
        let at = (kind, namespace.clone(), name.clone());
        let touched = match kind {
            Kind::Node => self.learn_node(value),
            Kind::NodeClaim => self.learn_claim(value, false),
            Kind::NodePool => decode(value).map(|pool: NodePool| {
                self.pools.insert(name.clone(), pool);
                Some(Touched::Pool { name: name.clone() })
            }),
            Kind::NodeClass => decode(value).map(|class: Class| {
                self.classes.insert(name.clone(), class);
                Some(Touched::Class { name: name.clone() })
            }),
            Kind::CapacityBuffer => decode(value).map(|buffer: CapacityBuffer| {
                self.buffers.insert((namespace.clone(), name.clone()), buffer);
                Some(Touched::Other(kind))
            }),
            Kind::VolumeAttachment => {
                let node = owner::text(value, "spec", "nodeName").to_owned();
                let volume =
                    value.get("spec").map(|spec| owner::text(spec, "source", "persistentVolumeName"));
                let volume = volume.unwrap_or_default().to_owned();
                self.attachments.insert(name.clone(), (node.clone(), volume));
                Ok(Some(Touched::Attachment { node }))
            }
            Kind::PodDisruptionBudget => decode(value).map(|guard: Guard| {
                self.guards.insert((namespace.clone(), name.clone()), guard);
                Some(Touched::Other(kind))
            }),
            Kind::ReplicaSet | Kind::StatefulSet | Kind::Job => {
                self.owners.insert(owner::uid(value).to_owned(), Owner::read(kind, value));
                Ok(Some(Touched::Other(kind)))
            }
            _ => Ok(Some(Touched::Other(kind))),
        };
        let touched = match touched {
            Ok(None) => return Vec::new(),
            Ok(Some(touched)) => touched,
            Err(fault) => {
                let object = format!("{kind} {name}");
                return self.refuse(at, Diagnostic { object, field: fault.0, message: fault.1 });
            }
        };
        if kind == Kind::PersistentVolumeClaim {
            let volume = owner::text(value, "spec", "volumeName");
            self.volumes.insert((namespace.clone(), name.clone()), volume.to_owned());
        }
        if !has_table(kind) {
            self.others.entry(kind).or_default().insert((namespace.clone(), name.clone()));
        }
        if kind == Kind::NodePool && !self.is_usable(&name) {
            self.world.remove("NodePool", "", &name);
        } else if is_read_once(kind) {
            self.diagnostics.remove(&at);
        } else if self.is_spent(kind, value) {
            self.world.remove(&kind.to_string(), &namespace, &name);
        } else if self.places_pods(kind) {
            match self.world.set(value) {
                Ok(()) => drop(self.diagnostics.remove(&at)),
                Err(diagnostic) => drop(self.diagnostics.insert(at, diagnostic)),
            }
        }
        vec![touched]
    }

    /// Forgets an object of which nothing can be read, and remembers why.
    fn refuse(&mut self, at: (Kind, String, String), diagnostic: Diagnostic) -> Vec<Touched> {
        let touched = self.lose(at.0, &at.1, &at.2, None);
        self.diagnostics.insert(at, diagnostic);
        touched
    }

    fn learn_pod(&mut self, value: &Value) -> Result<Option<Touched>, Diagnostic> {
        let (pod, diagnostic) = self.world.read_pod(value)?;
        let key = pod.key();
        let known = self.pod(&key);
        if known.is_some_and(|known| known.uid() == pod.uid() && known.version() >= pod.version()) {
            return Ok(None);
        }
        let was_on = known.and_then(Pod::node).cloned();
        let stirs = known.is_some_and(|known| stirs(known, &pod)) && !pod.is_daemon();
        let stirred = pod.node().filter(|_| stirs).cloned();
        let uid = pod.uid().clone();
        self.unindex_pod(&key);
        self.index_pod(&pod);
        self.world.put_pod(pod);
        if diagnostic.is_some() || !self.diagnostics.is_empty() {
            let at = (Kind::Pod, key.0.to_string(), key.1.to_string());
            match diagnostic {
                None => drop(self.diagnostics.remove(&at)),
                Some(diagnostic) => drop(self.diagnostics.insert(at, diagnostic)),
            }
        }
        Ok(Some(Touched::Pod { key, uid, was_on, stirred }))
    }

    /// Whether a pod only keeps room for others, and is looked at by nobody but who made it.
    pub(crate) fn is_placeholder(&self, pod: &Pod) -> bool {
        let is_marked = || pod.shape()?.labels.get(PLACEHOLDER).map(|value| &**value == "true");
        self.sets_placeholders_apart && is_marked() == Some(true)
    }

    fn index_pod(&mut self, pod: &Pod) {
        if self.is_placeholder(pod) {
            self.placeholders.insert(pod.key());
            if let Some(node) = pod.node() {
                self.on_node.entry(node.clone()).or_default().insert(pod.key());
            }
            return;
        }
        if pod.is_waiting() {
            self.waiting.insert(pod.key());
        }
        if let Some(node) = pod.node() {
            self.on_node.entry(node.clone()).or_default().insert(pod.key());
            if is_displaceable(pod) {
                *self.priorities.entry(pod.priority()).or_default() += 1;
            }
        }
        if let Some(owner) = pod.owner().filter(|_| is_alive(pod)) {
            *self.live.entry(owner.clone()).or_default() += 1;
            if pod.is_running() {
                *self.running.entry(owner.clone()).or_default() += 1;
            }
        }
    }

    /// Forgets what follows from a pod, before the pod itself is forgotten or replaced.
    fn unindex_pod(&mut self, key: &PodKey) {
        let Some(pod) = self.world.pod(&key.0, &key.1) else { return };
        self.waiting.remove(key);
        let is_placeholder = self.placeholders.remove(key);
        if let Some(node) = pod.node()
            && let Some(pods) = self.on_node.get_mut(node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.on_node.remove(node);
            }
            if is_displaceable(pod) && !is_placeholder {
                let left = self.priorities.entry(pod.priority()).or_insert(1);
                *left -= 1;
                if *left == 0 {
                    self.priorities.remove(&pod.priority());
                }
            }
        }
        if let Some(owner) = pod.owner().filter(|_| is_alive(pod) && !is_placeholder)
            && let Some(live) = self.live.get_mut(owner)
        {
            *live -= 1;
            if *live == 0 {
                self.live.remove(owner);
            }
            if let Some(running) = self.running.get_mut(owner).filter(|_| pod.is_running()) {
                *running -= 1;
                if *running == 0 {
                    self.running.remove(owner);
                }
            }
        }
    }

    /// A pod.
    pub(crate) fn pod(&self, key: &PodKey) -> Option<&Pod> {
        self.world.pod(&key.0, &key.1)
    }

    fn learn_node(&mut self, value: &Value) -> Result<Option<Touched>, (String, String)> {
        let node = Node::read(value, &mut self.world, &self.rules).map_err(|error| fault(&error))?;
        let name = node.metadata.name.clone();
        if self.nodes.get(&name).is_some_and(|known| is_older(&node.metadata, &known.metadata)) {
            return Ok(None);
        }
        self.unindex_node(&name);
        if !node.machine().is_empty() {
            self.node_of.add(node.machine().clone(), name.clone());
        }
        let touched = Touched::Node { name: name.to_string(), provider_id: node.provider_id() };
        self.world.put_node(node.kept());
        self.nodes.insert(name, node);
        Ok(Some(touched))
    }

    fn unindex_node(&mut self, name: &str) -> Option<Node> {
        let node = self.nodes.remove(name)?;
        self.node_of.remove(node.machine(), name);
        Some(node)
    }

    fn learn_claim(&mut self, value: &Value, is_assumed: bool) -> Result<Option<Touched>, (String, String)> {
        let claim =
            Claim { is_assumed, ..Claim::read(value, &mut self.world).map_err(|error| fault(&error))? };
        let name = claim.metadata.name.clone();
        let known = self.claims.get(&name);
        if known.is_some_and(|known| is_older(&claim.metadata, &known.metadata)) {
            return Ok(None);
        }
        if let Some(id) = known.and_then(Claim::machine) {
            self.claim_of.remove(id);
        }
        if let Some(id) = claim.machine() {
            self.claim_of.insert(id.clone(), name.clone());
        }
        self.world.put_claim(claim.kept());
        let touched = Touched::Claim { name: name.to_string(), gone: None };
        self.claims.insert(name, claim);
        Ok(Some(touched))
    }

    /// Takes for granted that a claim will be made; it counts like one that is there.
    pub(crate) fn assume(&mut self, value: &Value) {
        // What we made ourselves can be read.
        let _ = self.learn_claim(value, true);
    }

    /// Takes notice that a claim was made, before a watch tells.
    pub(crate) fn made(&mut self, value: &Value) -> Vec<Touched> {
        let (_, name) = owner::names(value);
        if self.buried.has(owner::uid(value)) {
            return self.lose(Kind::NodeClaim, "", &name, None);
        }
        if self.claims.get(&name).is_none_or(|claim| claim.is_assumed) {
            self.unwatched.insert(name);
        }
        self.told(Kind::NodeClaim, value)
    }

    /// Takes notice that an object is gone, if it is still the same.
    pub(crate) fn lose(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Vec<Touched> {
        let is_other =
            |known: &str| uid.is_some_and(|uid| !uid.is_empty() && !known.is_empty() && uid != known);
        let touched = match kind {
            Kind::Pod => {
                let key: PodKey = (namespace.into(), name.into());
                let Some(pod) = self.pod(&key).filter(|pod| !is_other(pod.uid())) else { return Vec::new() };
                // One that was seen to end has stirred the node before.
                let is_sudden = !pod.is_daemon() && is_alive(pod);
                let (uid, was_on) = (pod.uid().clone(), pod.node().cloned());
                let touched =
                    Touched::Pod { uid, stirred: was_on.clone().filter(|_| is_sudden), was_on, key };
                if let Touched::Pod { key, .. } = &touched {
                    self.unindex_pod(key);
                }
                self.world.remove("Pod", namespace, name);
                if !self.diagnostics.is_empty() {
                    self.diagnostics.remove(&(kind, namespace.to_owned(), name.to_owned()));
                }
                return vec![touched];
            }
            Kind::Node => {
                if self.nodes.get(name).is_some_and(|node| is_other(&node.metadata.uid)) {
                    return Vec::new();
                }
                let provider_id = self.unindex_node(name).and_then(|node| node.provider_id());
                Touched::Node { name: name.to_owned(), provider_id }
            }
            Kind::NodeClaim => {
                if self.claims.get(name).is_some_and(|claim| is_other(&claim.metadata.uid)) {
                    return Vec::new();
                }
                self.unwatched.remove(name);
                let Some(claim) = self.claims.remove(name) else { return Vec::new() };
                if let Some(id) = claim.machine() {
                    self.claim_of.remove(id);
                }
                Touched::Claim { name: name.to_owned(), gone: Some(Box::new(claim)) }
            }
            Kind::NodePool => {
                self.pools.remove(name);
                Touched::Pool { name: name.to_owned() }
            }
            Kind::NodeClass => {
                self.classes.remove(name);
                Touched::Class { name: name.to_owned() }
            }
            Kind::VolumeAttachment => {
                let node = self.attachments.remove(name).map(|(node, _)| node).unwrap_or_default();
                Touched::Attachment { node }
            }
            Kind::CapacityBuffer => {
                self.buffers.remove(&(namespace.to_owned(), name.to_owned()));
                Touched::Other(kind)
            }
            Kind::ReplicaSet | Kind::StatefulSet | Kind::Job => {
                if let Some(uid) = uid {
                    self.owners.remove(uid);
                }
                Touched::Other(kind)
            }
            other => Touched::Other(other),
        };
        let names = (namespace.to_owned(), name.to_owned());
        if kind == Kind::PodDisruptionBudget {
            self.guards.remove(&names);
        }
        if kind == Kind::PersistentVolumeClaim {
            self.volumes.remove(&names);
        }
        if let Some(others) = self.others.get_mut(&kind) {
            others.remove(&names);
        }
        if self.places_pods(kind) {
            self.world.remove(&kind.to_string(), namespace, name);
        }
        self.diagnostics.remove(&(kind, names.0, names.1));
        vec![touched]
    }

    /// Whether a pool's class is of our cloud.
    pub(crate) fn is_ours(&self, class: &NodeClassReference) -> bool {
        self.class.as_ref().is_none_or(|ours| class.group == ours.group && class.kind == ours.kind)
    }

    /// Whether nodes may be bought from a pool: it is ours and has been found in order.
    pub(crate) fn is_usable(&self, pool: &str) -> bool {
        self.pools.get(pool).is_some_and(|pool| {
            let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice());
            self.is_ours(&pool.spec.template.spec.node_class_ref)
                && conditions::is_true(conditions.unwrap_or_default(), READY)
        })
    }

    /// The only node with a provider id; `Err` if there are several.
    pub(crate) fn node_with(&self, id: &ProviderId) -> Result<Option<&Node>, ()> {
        let mut nodes = self.nodes_with(id);
        let node = nodes.next();
        if nodes.next().is_some() { Err(()) } else { Ok(node) }
    }

    /// All nodes with a provider id.
    pub(crate) fn nodes_with(&self, id: &ProviderId) -> impl Iterator<Item = &Node> {
        self.node_of.on(&id.0).filter_map(|name| self.nodes.get(name))
    }

    pub(crate) fn claim_with(&self, id: &ProviderId) -> Option<&Claim> {
        self.claims.get(self.claim_of.get(&*id.0)?)
    }

    /// The claim of a node.
    pub(crate) fn claim_of_node(&self, node: &Node) -> Option<&Claim> {
        self.claims.get(self.claim_of.get(node.machine())?)
    }

    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Pod> {
        self.on_node.get(node).into_iter().flatten().filter_map(|key| self.pod(key))
    }

    /// Volumes attached to a node.
    pub(crate) fn attached_to<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let here = move |(_, (on, _)): &(&String, &(String, String))| on == node;
        self.attachments.iter().filter(here).map(|(name, (_, volume))| (name.as_str(), volume.as_str()))
    }

    /// Whether kube-scheduler may make room for a pod by sending away another.
    pub(crate) fn could_displace(&self, pod: &Pod) -> bool {
        self.displaces(pod.priority())
    }

    /// The same for pods of a priority.
    pub(crate) fn displaces(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// How many pods that have not ended and are not leaving belong to an owner.
    pub(crate) fn live(&self, owner: &str) -> usize {
        self.live.get(owner).copied().unwrap_or(0)
    }

    /// Whether pods of an owner have no node.
    pub(crate) fn awaits_node(&self, owner: &str) -> bool {
        self.n_waiting(owner) > 0
    }

    /// Whether pods of an owner have a node.
    pub(crate) fn has_placed(&self, owner: &str) -> bool {
        self.live(owner) > self.n_waiting(owner)
    }

    fn n_waiting(&self, owner: &str) -> usize {
        let is_of = |pod: &&Pod| pod.owner().is_some_and(|uid| &**uid == owner);
        self.waiting.iter().filter_map(|key| self.pod(key)).filter(is_of).count()
    }

    /// Whether there is an object of a kind that has no table here.
    pub(crate) fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        self.others.get(&kind).is_some_and(|names| names.contains(&key))
    }

    /// Whether somebody looks at this kind to decide where pods go, or which will come.
    fn places_pods(&self, kind: Kind) -> bool {
        match kind {
            Kind::NodeClass | Kind::VolumeAttachment | Kind::CapacityBuffer | Kind::PodDisruptionBudget => {
                false
            }
            Kind::ReplicaSet | Kind::StatefulSet | Kind::Job | Kind::Deployment => self.keeps_makers,
            _ => true,
        }
    }

    /// Whether an object is a Deployment's old ReplicaSet, of which there are many and which makes no pods.
    fn is_spent(&self, kind: Kind, value: &Value) -> bool {
        self.keeps_makers
            && kind == Kind::ReplicaSet
            && value.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0)
            && value.pointer("/metadata/ownerReferences").is_some()
    }

    /// The volume behind a volume claim.
    pub(crate) fn volume_of(&self, namespace: &str, claim: &str) -> Option<&str> {
        self.volumes.get(&(namespace.to_owned(), claim.to_owned())).map(String::as_str)
    }

    /// How many pods of an owner are running, and whether there are several or should be.
    pub(crate) fn siblings(&self, owner: &str) -> (usize, bool) {
        let wants = self.owners.get(owner).map_or(0, |owner| owner.wants);
        let live = self.live.get(owner).copied().unwrap_or(0);
        (self.running.get(owner).copied().unwrap_or(0), wants.max(live) > 1)
    }

    /// How many pods whoever made this one still has to make; nothing is known of owners that are not watched.
    pub(crate) fn still_to_come(&self, pod: &Pod) -> usize {
        let Some(uid) = pod.owner() else { return 0 };
        let wants = self.owners.get(&**uid).map_or(0, |owner| owner.wants);
        wants.saturating_sub(self.live.get(uid).copied().unwrap_or(0))
    }
}

/// Whether a pod has come to a node, ended there, or begun to.
fn stirs(was: &Pod, is: &Pod) -> bool {
    was.node() != is.node() || was.is_over() != is.is_over() || was.is_leaving() != is.is_leaving()
}

fn is_alive(pod: &Pod) -> bool {
    !pod.is_over() && !pod.is_leaving()
}

/// Whether kube-scheduler may send a pod away for the sake of another.
fn is_displaceable(pod: &Pod) -> bool {
    !pod.is_daemon() && !pod.is_over()
}

fn is_older(new: &Meta, known: &Meta) -> bool {
    new.uid == known.uid && new.age() < known.age()
}

fn decode<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<T, (String, String)> {
    T::deserialize(value).map_err(|error| fault(&error))
}

fn fault(error: &serde_json::Error) -> (String, String) {
    (String::new(), error.to_string())
}

/// Whether names of this kind are known from a table of its own.
fn has_table(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Pod
            | Kind::Node
            | Kind::NodeClaim
            | Kind::NodePool
            | Kind::NodeClass
            | Kind::VolumeAttachment
            | Kind::CapacityBuffer
    )
}

/// Whether what is read here of this kind serves the solver as well.
fn is_read_once(kind: Kind) -> bool {
    matches!(kind, Kind::Pod | Kind::Node | Kind::NodeClaim)
}
