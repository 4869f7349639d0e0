//! What pools say about themselves: hash, readiness, validity, health, usage.

mod valid;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headstart_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use headstart_api::conditions::{self, ConditionSet, Status, nodepool as condition, reasons};
use headstart_api::nodepool::NodePoolStatus;
use headstart_api::{NODEPOOL_HASH_VERSION as HASH_VERSION, NodePool};
use headstart_core::quantity::Quantity;
use headstart_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS, Resources};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Stamp;
use serde_json::{Value, json};

use crate::action::{Effect, ObjectRef, Part};
use crate::agenda::Agenda;
use crate::claims::News;
use crate::errands::Errand;
use crate::kind::Kind;
use crate::out::Out;
use crate::store::{Claim, Store, Touched};
use crate::time::Time;

/// How soon usage is written after it changed.
const COUNTED: Duration = Duration::from_secs(1);
/// How many registrations a pool's health is judged by.
const RING: usize = 4;
/// How many failures among them make it unhealthy.
const SICK: usize = 2;

/// What pools say about themselves.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    agenda: Agenda<String>,
    /// The last registrations of each pool, by uid.
    rings: BTreeMap<String, VecDeque<bool>>,
    /// What the last failure was, by uid.
    failures: BTreeMap<String, (String, String)>,
}

impl Pools {
    pub(crate) fn on(&mut self, now: Time, touched: &Touched, store: &Store) {
        match touched {
            Touched::Pool { name } => self.agenda.mark(name.clone()),
            Touched::Class { name } => {
                let is_user = |pool: &NodePool| pool.spec.template.spec.node_class_ref.name == *name;
                let names: Vec<String> = store
                    .pools
                    .iter()
                    .filter(|(_, pool)| is_user(pool))
                    .map(|(name, _)| name.clone())
                    .collect();
                for name in names {
                    self.agenda.mark(name);
                }
            }
            Touched::Claim { name, .. } => match store.claims.get(name) {
                Some(claim) => self.agenda.at(now + COUNTED, claim.pool().to_owned()),
                None => store.pools.keys().for_each(|pool| self.agenda.at(now + COUNTED, pool.clone())),
            },
            Touched::Node { name, .. } => {
                if let Some(node) = store.nodes.get(name) {
                    self.agenda.at(now + COUNTED, node.pool().to_owned());
                }
            }
            _ => {}
        }
    }

    /// Looks at a pool again, then.
    pub(crate) fn at(&mut self, time: Time, pool: &str) {
        self.agenda.at(time, pool.to_owned());
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.agenda.wake()
    }

    /// Takes notice of a registration that succeeded or failed.
    pub(crate) fn hear(&mut self, news: &News, store: &Store) {
        let News::Registration { pool, succeeded, reason, message, .. } = news else { return };
        let Some(uid) = store.pools.get(pool).and_then(|pool| pool.metadata.uid.clone()) else { return };
        let ring = self.rings.entry(uid.clone()).or_default();
        ring.push_back(*succeeded);
        if ring.len() > RING {
            ring.pop_front();
        }
        if !succeeded {
            self.failures.insert(uid, (reason.clone(), message.clone()));
        }
        self.agenda.mark(pool.clone());
    }

    pub(crate) fn poll(&mut self, store: &Store, out: &mut Out<'_>) {
        for name in self.agenda.take(out.now.time) {
            match store.pools.get(&name) {
                Some(pool) if store.is_ours(&pool.spec.template.spec.node_class_ref) => {
                    self.step(&name, pool, store, out);
                }
                _ => {}
            }
        }
        if self.rings.len() > store.pools.len() {
            let is_known =
                |uid: &String| store.pools.values().any(|pool| pool.metadata.uid.as_ref() == Some(uid));
            self.rings.retain(|uid, _| is_known(uid));
            self.failures.retain(|uid, _| is_known(uid));
        }
    }

    fn step(&mut self, name: &str, pool: &NodePool, store: &Store, out: &mut Out<'_>) {
        let object = object(pool);
        let errand = Errand::Pool(name.to_owned());
        let effect = if let Some(patch) = stamped(pool) {
            Effect::Patch { object, part: Part::Main, patch }
        } else if let Some(patch) = self.status(name, pool, store, out) {
            Effect::Patch { object, part: Part::Status, patch }
        } else {
            return;
        };
        if !out.ask(errand.clone(), effect)
            && let Some(until) = out.errands.until(&errand)
        {
            self.at(until, name);
        }
    }

    fn status(&mut self, name: &str, pool: &NodePool, store: &Store, out: &Out<'_>) -> Option<Value> {
        let old = pool.status.clone().unwrap_or_default();
        let mut new = old.clone();
        let uid = pool.metadata.uid.clone().unwrap_or_default();
        let created = pool.metadata.creation_timestamp.clone();
        let mut said = std::mem::take(&mut new.conditions);
        let mut set = ConditionSet {
            conditions: &mut said,
            ready_when: condition::READY_WHEN,
            generation: pool.metadata.generation,
            created: created.unwrap_or(Stamp(out.now.wall.stamp())),
            now: Stamp(out.now.wall.stamp()),
        };
        set.initialize();
        let faults = valid::faults(pool);
        if faults.is_empty() {
            set.set_true(condition::VALIDATION_SUCCEEDED);
        } else {
            let message = faults.join("; ");
            let reason = reasons::NODEPOOL_VALIDATION_FAILED;
            set.set(condition::VALIDATION_SUCCEEDED, Status::False, reason, &message);
        }
        let class = store.classes.get(&pool.spec.template.spec.node_class_ref.name);
        let (status, reason, message) = match class {
            None => (Status::False, reasons::NODE_CLASS_NOT_FOUND, "NodeClass not found on cluster"),
            Some(class) if class.metadata.is_leaving() => {
                (Status::False, reasons::NODE_CLASS_TERMINATING, "NodeClass is Terminating")
            }
            Some(class) => match class.readiness() {
                Some(ready) if ready.status == "False" => (Status::False, &*ready.reason, &*ready.message),
                Some(ready) if ready.status != "True" => {
                    (Status::False, reasons::NODE_CLASS_READINESS_UNKNOWN, "Node Class Readiness Unknown")
                }
                _ => (Status::True, condition::NODE_CLASS_READY, ""),
            },
        };
        set.set(condition::NODE_CLASS_READY, status, reason, message);

        if let Some(class) = class {
            let known = conditions::find(set.conditions, condition::NODE_REGISTRATION_HEALTHY);
            let is_stale = known.is_none_or(|known| known.observed_generation != pool.metadata.generation)
                || new.node_class_observed_generation != class.metadata.generation;
            if is_stale {
                self.rings.remove(&uid);
                let reason = reasons::AWAITING_RECONCILIATION;
                let message = "object is awaiting reconciliation";
                set.set(condition::NODE_REGISTRATION_HEALTHY, Status::Unknown, reason, message);
            } else {
                let ring = self.rings.get(&uid);
                let failed = ring.map_or(0, |ring| ring.iter().filter(|succeeded| !**succeeded).count());
                if failed >= SICK {
                    let (reason, message) = self.failures.get(&uid).cloned().unwrap_or_default();
                    set.set(condition::NODE_REGISTRATION_HEALTHY, Status::False, &reason, &message);
                } else if ring.and_then(|ring| ring.back()) == Some(&true) {
                    set.set_true(condition::NODE_REGISTRATION_HEALTHY);
                }
            }
            new.node_class_observed_generation = class.metadata.generation;
        }
        new.conditions = said;
        let (resources, nodes) = usage(name, store);
        new.resources = Some(resources);
        new.nodes = Some(nodes);
        (new != old).then(|| patch(pool, &new))
    }
}

fn patch(pool: &NodePool, status: &NodePoolStatus) -> Value {
    let version = pool.metadata.resource_version.as_deref().unwrap_or_default();
    json!({ "metadata": { "resourceVersion": version }, "status": status })
}

/// A pool as others refer to it.
pub(crate) fn object(pool: &NodePool) -> ObjectRef {
    let (name, uid) = (pool.metadata.name.clone(), pool.metadata.uid.clone());
    ObjectRef {
        kind: Kind::NodePool,
        namespace: String::new(),
        name: name.unwrap_or_default(),
        uid: uid.unwrap_or_default(),
    }
}

/// The change that writes the hash of a pool's template, if it is not written.
fn stamped(pool: &NodePool) -> Option<Value> {
    let written = |key: &str| pool.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let hash = pool.hash();
    let is_written = written(NODEPOOL_HASH).as_deref() == Some(&*hash)
        && written(NODEPOOL_HASH_VERSION).as_deref() == Some(HASH_VERSION);
    let annotations = json!({ (NODEPOOL_HASH): hash, (NODEPOOL_HASH_VERSION): HASH_VERSION });
    (!is_written).then(|| json!({ "metadata": { "annotations": annotations } }))
}

/// What a claim's machine has.
pub(crate) fn capacity(claim: &Claim, store: &Store) -> Arc<Resources> {
    let node = claim.provider_id().and_then(|id| store.node_with(&id).ok().flatten());
    if let Some(node) = node.filter(|node| node.is_initialized()) {
        return node.capacity().clone();
    }
    claim.status.capacity.as_ref().map(|said| said.read.clone()).unwrap_or_default()
}

/// What all machines of a pool have together, and how many there are.
fn usage(pool: &str, store: &Store) -> (BTreeMap<String, Written>, i64) {
    let mut total: Resources =
        [CPU, MEMORY, PODS, EPHEMERAL_STORAGE].map(|name| (name, Quantity::default())).into_iter().collect();
    let mut nodes = 0;
    for claim in store.claims.values().filter(|claim| claim.pool() == pool && claim.provider_id().is_some()) {
        total.add(&capacity(claim, store));
        nodes += 1;
    }
    total.set(NODES, Quantity::from_units(nodes));
    (total.iter().map(|(name, amount)| (name.to_owned(), Written(amount.to_string()))).collect(), nodes)
}
