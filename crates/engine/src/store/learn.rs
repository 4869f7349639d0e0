//! How objects are learned of and lost.

use headstart_api::{CapacityBuffer, NodePool};
use headstart_intake::Diagnostic;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::owner::{self, Owner};
use super::pods::is_alive;
use super::{Claim, Class, Guard, Meta, Node, PodKey, Store, Touched};
use crate::kind::Kind;

impl Store {
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
                if self.pools.get(&name).is_some_and(|known| is_behind(&pool.metadata, &known.metadata)) {
                    return None;
                }
                self.pools.insert(name.clone(), pool);
                Some(Touched::Pool { name: name.clone() })
            }),
            Kind::NodeClass => decode(value).map(|class: Class| {
                self.classes.insert(name.clone(), class);
                Some(Touched::Class { name: name.clone() })
            }),
            Kind::CapacityBuffer => decode(value).map(|buffer: CapacityBuffer| {
                let known = self.buffers.get(&(namespace.clone(), name.clone()));
                if known.is_some_and(|known| is_behind(&buffer.metadata, &known.metadata)) {
                    return None;
                }
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
    pub(super) fn refuse(&mut self, at: (Kind, String, String), diagnostic: Diagnostic) -> Vec<Touched> {
        let touched = self.lose(at.0, &at.1, &at.2, None);
        self.diagnostics.insert(at, diagnostic);
        touched
    }

    pub(super) fn learn_node(&mut self, value: &Value) -> Result<Option<Touched>, (String, String)> {
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

    pub(super) fn unindex_node(&mut self, name: &str) -> Option<Node> {
        let node = self.nodes.remove(name)?;
        self.node_of.remove(node.machine(), name);
        Some(node)
    }

    pub(super) fn learn_claim(
        &mut self,
        value: &Value,
        is_assumed: bool,
    ) -> Result<Option<Touched>, (String, String)> {
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

    /// Whether somebody looks at this kind to decide where pods go, or which will come.
    pub(super) fn places_pods(&self, kind: Kind) -> bool {
        match kind {
            Kind::NodeClass | Kind::VolumeAttachment | Kind::CapacityBuffer | Kind::PodDisruptionBudget => {
                false
            }
            Kind::ReplicaSet | Kind::StatefulSet | Kind::Job | Kind::Deployment => self.keeps_makers,
            _ => true,
        }
    }

    /// Whether an object is a Deployment's old ReplicaSet, of which there are many and which makes no pods.
    pub(super) fn is_spent(&self, kind: Kind, value: &Value) -> bool {
        self.keeps_makers
            && kind == Kind::ReplicaSet
            && value.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0)
            && value.pointer("/metadata/ownerReferences").is_some()
    }
}

fn is_older(new: &Meta, known: &Meta) -> bool {
    new.uid == known.uid && new.age() < known.age()
}

/// The same for objects that are kept whole.
fn is_behind(new: &ObjectMeta, known: &ObjectMeta) -> bool {
    let age = |meta: &ObjectMeta| meta.resource_version.as_ref()?.parse::<u64>().ok();
    new.uid == known.uid && age(new) < age(known)
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
