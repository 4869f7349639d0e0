//! The simulated API server: objects with versions, preconditions, finalizers and owners; and a log of all that changed.

mod evict;
mod json;
mod log;
mod patch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_engine::{Kind, ObjectRef, Part, Refusal};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

pub use evict::Budget;
pub use json::{array, field, flag, key, label, number, text, uid};
pub use log::{Actor, Entry, Verb};
pub use patch::merge;

use crate::timeline::Moment;

/// The API server.
#[derive(Debug, Default)]
pub struct Api {
    kinds: BTreeMap<Kind, Objects>,
    version: u64,
    born: u64,
    /// Where the object with a uid is; never iterated.
    uids: FxHashMap<String, (Kind, String)>,
    dependents: BTreeMap<String, BTreeSet<(Kind, String)>>,
    budgets: Vec<Budget>,
    /// How many pods of each app are running and not asked to end.
    running: BTreeMap<String, usize>,
    fresh: Vec<(Kind, usize)>,
    orphaned: Vec<String>,
}

/// All objects of a kind.
#[derive(Debug, Default)]
struct Objects {
    now: BTreeMap<String, Arc<Value>>,
    log: Vec<Entry>,
}

/// Kinds whose status is written apart from the rest, and dropped when they are created.
const fn status_apart(kind: Kind) -> bool {
    matches!(kind, Kind::NodePool | Kind::NodeClaim | Kind::NodeClass | Kind::NodeOverlay)
}

impl Api {
    /// Makes an object.
    pub fn create(
        &mut self,
        now: Moment,
        by: Actor,
        kind: Kind,
        mut object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let key = key(&object);
        if key.ends_with('/') {
            return Err(Refusal::Invalid { message: "metadata.name: required".to_owned() });
        }
        if self.get(kind, &key).is_some() {
            return Err(Refusal::AlreadyExists);
        }
        self.born += 1;
        let uid = nth_uid(self.born);
        let meta = &mut object["metadata"];
        meta["uid"] = json!(uid);
        meta["creationTimestamp"] = json!(now.stamp());
        meta["generation"] = json!(1);
        if let Some(meta) = meta.as_object_mut() {
            meta.remove("deletionTimestamp");
            meta.remove("resourceVersion");
        }
        if status_apart(kind)
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        let owners: Vec<String> = json::owners(&object).map(str::to_owned).collect();
        // An owner that is already gone takes what it owns with it.
        self.orphaned.extend(owners.into_iter().filter(|owner| !self.uids.contains_key(owner)));
        self.uids.insert(uid, (kind, key.clone()));
        Ok(self.put(now, by, kind, key, object, Verb::Added))
    }

    /// Changes half of an object by a merge patch.
    pub fn patch(
        &mut self,
        now: Moment,
        by: Actor,
        object: (Kind, &str),
        part: Part,
        patch: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let (kind, key) = object;
        let old = Arc::clone(self.get(kind, key).ok_or(Refusal::NotFound)?);
        let differs = |path: &str| {
            let wanted = field(patch, path).and_then(Value::as_str);
            wanted.is_some_and(|wanted| Some(wanted) != field(&old, path).and_then(Value::as_str))
        };
        if differs("/metadata/resourceVersion") || differs("/metadata/uid") {
            return Err(Refusal::Conflict);
        }
        let mut new = patch::apply(&old, part, patch, status_apart(kind) || kind == Kind::Node);
        if kind == Kind::NodeClaim && new.get("spec") != old.get("spec") {
            return Err(Refusal::Invalid { message: "spec: Invalid value: spec is immutable".to_owned() });
        }
        if part == Part::Main && new.get("spec") != old.get("spec") {
            new["metadata"]["generation"] = json!(number(&old, "/metadata/generation") + 1);
        }
        Ok(self.replace(now, by, kind, key, &old, new))
    }

    /// Changes an object in any way, as parts of the control plane do.
    pub fn edit(
        &mut self,
        now: Moment,
        by: Actor,
        kind: Kind,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Value>> {
        let old = Arc::clone(self.get(kind, key)?);
        let mut new = (*old).clone();
        change(&mut new);
        Some(self.replace(now, by, kind, key, &old, new))
    }

    /// Deletes an object: at once, or when nothing holds it any more.
    pub fn delete(
        &mut self,
        now: Moment,
        by: Actor,
        object: &ObjectRef,
        grace: Option<u32>,
    ) -> Result<Option<Arc<Value>>, Refusal> {
        let key = format!("{}/{}", object.namespace, object.name);
        let old = Arc::clone(self.get(object.kind, &key).ok_or(Refusal::NotFound)?);
        if !object.uid.is_empty() && object.uid != uid(&old) {
            return Err(Refusal::Conflict);
        }
        let grace = pod_grace(object.kind, &old, grace);
        if json::finalizers(&old).next().is_none() && grace == 0 {
            self.remove(now, by, object.kind, &key, (*old).clone());
            return Ok(None);
        }
        let mut deadline = now + u64::from(grace) * 1000;
        let known = field(&old, "/metadata/deletionTimestamp").and_then(Value::as_str);
        if let Some(known) = known.and_then(Moment::of_stamp) {
            let granted =
                field(&old, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(0);
            if granted <= u64::from(grace) {
                return Ok(Some(old));
            }
            deadline = Moment(known.0 - (granted - u64::from(grace)) * 1000);
        }
        let mut new = (*old).clone();
        new["metadata"]["deletionTimestamp"] = json!(deadline.stamp());
        new["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        new["metadata"]["generation"] = json!(number(&old, "/metadata/generation") + 1);
        Ok(Some(self.replace(now, by, object.kind, &key, &old, new)))
    }

    /// Deletes all objects of a kind in a namespace that have a label.
    pub fn clear(&mut self, now: Moment, by: Actor, kind: Kind, namespace: &str, (key, value): (&str, &str)) {
        let is_meant = |object: &Value| {
            text(object, "/metadata/namespace") == namespace && label(object, key) == Some(value)
        };
        let meant = self.all(kind).map(|(_, object)| object).filter(|object| is_meant(object));
        let meant: Vec<ObjectRef> = meant
            .map(|object| ObjectRef {
                kind,
                namespace: namespace.to_owned(),
                name: text(object, "/metadata/name").to_owned(),
                uid: uid(object).to_owned(),
            })
            .collect();
        for object in meant {
            // It was there a moment ago.
            let _ = self.delete(now, by, &object, Some(0));
        }
    }

    /// Deletes what nobody owns any more; tells nothing if its owner exists after all.
    pub fn collect(&mut self, now: Moment, owner: &str) {
        if self.uids.contains_key(owner) {
            return;
        }
        for (kind, key) in self.dependents.get(owner).cloned().unwrap_or_default() {
            let Some(object) = self.get(kind, &key).cloned() else { continue };
            if json::owners(&object).any(|other| self.uids.contains_key(other)) {
                continue;
            }
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            let object = ObjectRef {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: uid(&object).to_owned(),
            };
            // It was there a moment ago, and has the uid it had.
            let _ = self.delete(now, Actor::Collector, &object, None);
        }
    }

    /// An object as it is.
    pub fn get(&self, kind: Kind, key: &str) -> Option<&Arc<Value>> {
        self.kinds.get(&kind)?.now.get(key)
    }

    /// All objects of a kind, in the order of their names.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = (&String, &Arc<Value>)> {
        self.kinds.get(&kind).into_iter().flat_map(|objects| &objects.now)
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.kinds.get(&kind).map_or(0, |objects| objects.now.len())
    }

    /// Whether an object with this uid exists.
    pub fn exists(&self, uid: &str) -> bool {
        self.uids.contains_key(uid)
    }

    /// Whether an object with this uid exists, or existed.
    pub fn was(&self, uid: &str) -> bool {
        let number = uid.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.is_some_and(|number| number <= self.born && uid == nth_uid(number))
    }

    /// All that ever changed in a kind, oldest first.
    pub fn log(&self, kind: Kind) -> &[Entry] {
        self.kinds.get(&kind).map_or(&[], |objects| &objects.log)
    }

    /// The objects of a kind as they were when its log had this length.
    pub fn at(&self, kind: Kind, length: usize) -> BTreeMap<String, Arc<Value>> {
        let log = self.log(kind);
        if length >= log.len() {
            return self.all(kind).map(|(key, object)| (key.clone(), Arc::clone(object))).collect();
        }
        let mut then = BTreeMap::new();
        for entry in &log[..length] {
            match entry.verb {
                Verb::Removed => drop(then.remove(&*entry.key)),
                Verb::Added | Verb::Modified => {
                    drop(then.insert(entry.key.to_string(), Arc::clone(&entry.object)));
                }
            }
        }
        then
    }

    /// What changed since this was last asked, as places in the logs.
    pub fn take_fresh(&mut self) -> Vec<(Kind, usize)> {
        std::mem::take(&mut self.fresh)
    }

    /// Owners that went and left something behind, since this was last asked.
    pub fn take_orphaned(&mut self) -> Vec<String> {
        std::mem::take(&mut self.orphaned)
    }

    fn replace(
        &mut self,
        now: Moment,
        by: Actor,
        kind: Kind,
        key: &str,
        old: &Arc<Value>,
        new: Value,
    ) -> Arc<Value> {
        // A write that changes nothing is not a change: nobody hears of it.
        if new == **old {
            return Arc::clone(old);
        }
        let deleting = field(&new, "/metadata/deletionTimestamp").is_some();
        let held = json::finalizers(&new).next().is_some();
        let was_held = json::finalizers(old).next().is_some();
        if deleting && !held && was_held {
            return self.remove(now, by, kind, key, new);
        }
        self.put(now, by, kind, key.to_owned(), new, Verb::Modified)
    }

    fn put(
        &mut self,
        now: Moment,
        by: Actor,
        kind: Kind,
        key: String,
        mut object: Value,
        verb: Verb,
    ) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let old = self.get(kind, &key).cloned();
        self.own(kind, &key, old.as_deref(), Some(&object));
        let object = Arc::new(object);
        self.kinds.entry(kind).or_default().now.insert(key.clone(), Arc::clone(&object));
        self.note(
            kind,
            Entry { at: now, by, verb, key: key.into(), before: old, object: Arc::clone(&object) },
        );
        object
    }

    fn remove(&mut self, now: Moment, by: Actor, kind: Kind, key: &str, mut last: Value) -> Arc<Value> {
        self.version += 1;
        last["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let old = self.kinds.entry(kind).or_default().now.remove(key);
        self.own(kind, key, old.as_deref(), None);
        self.uids.remove(uid(&last));
        if self.dependents.contains_key(uid(&last)) {
            self.orphaned.push(uid(&last).to_owned());
        }
        let object = Arc::new(last);
        let entry = Entry {
            at: now,
            by,
            verb: Verb::Removed,
            key: key.into(),
            before: old,
            object: Arc::clone(&object),
        };
        self.note(kind, entry);
        object
    }

    fn note(&mut self, kind: Kind, entry: Entry) {
        if kind == Kind::Pod {
            self.count_running(&entry);
        }
        let log = &mut self.kinds.entry(kind).or_default().log;
        log.push(entry);
        self.fresh.push((kind, log.len() - 1));
    }

    /// Keeps the index from owners to what they own.
    fn own(&mut self, kind: Kind, key: &str, old: Option<&Value>, new: Option<&Value>) {
        let refs = |object| field(object, "/metadata/ownerReferences");
        if old.and_then(refs) == new.and_then(refs) {
            return;
        }
        for owner in old.into_iter().flat_map(json::owners) {
            if let Some(owned) = self.dependents.get_mut(owner) {
                owned.remove(&(kind, key.to_owned()));
                if owned.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        for owner in new.into_iter().flat_map(json::owners) {
            self.dependents.entry(owner.to_owned()).or_default().insert((kind, key.to_owned()));
        }
    }
}

fn nth_uid(number: u64) -> String {
    format!("{number:08x}-0000-4000-8000-{number:012x}")
}

/// How many seconds a pod has to end; other objects, and pods that do not run, have none.
fn pod_grace(kind: Kind, pod: &Value, asked: Option<u32>) -> u32 {
    if kind != Kind::Pod || text(pod, "/spec/nodeName").is_empty() {
        return 0;
    }
    if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        return 0;
    }
    let own = field(pod, "/spec/terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
    asked.unwrap_or(own as u32)
}

#[cfg(test)]
mod tests;
