//! CapacityBuffers that stand for beliefs, where somebody looks after such objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headstart_api::CapacityBuffer;
use headstart_api::labels::{PLACEHOLDER, PLACEHOLDER_FOR};
use serde_json::{Value, json};

use crate::action::{Effect, ObjectRef, Part};
use crate::companion::ground::errand;
use crate::companion::template::labels;
use crate::companion::wanted::Target;
use crate::kind::Kind;
use crate::out::Out;
use crate::report::Level;
use crate::settings::With;
use crate::store::Store;
use crate::time::Time;

/// How long somebody who looks after buffers may take to say so on a new one.
const ANSWERED: Duration = Duration::from_secs(10);
/// How long nobody is asked again.
const PAUSE: Duration = Duration::from_mins(10);
/// How often the size of a buffer is changed.
const EVERY: Duration = Duration::from_secs(1);
/// A buffer for nothing, which tells whether somebody looks after buffers.
const PROBE: &str = "headstart-probe";

/// Whether somebody looks after buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// Nobody has asked.
    Unknown,
    /// There is a buffer for nothing since then.
    Asked(Time),
    /// Somebody has said something on it.
    Active,
    /// Nobody has; until when not to ask again.
    Inactive(Time),
}

/// Makes buffers that stand for beliefs, and takes them away.
#[derive(Debug)]
pub(super) struct Buffers {
    with: With,
    activity: Activity,
    /// Beliefs that buffers stand for, since when and when their size was last changed.
    chosen: BTreeMap<String, (Time, Time)>,
    /// When to go on.
    again: Option<Time>,
}

impl Buffers {
    pub(super) fn new(with: With) -> Self {
        Self { with, activity: Activity::Unknown, chosen: BTreeMap::new(), again: None }
    }

    pub(super) fn wake(&self) -> Option<Time> {
        self.again
    }

    fn go_on(&mut self, time: Time) {
        self.again = Some(self.again.map_or(time, |known| known.min(time)));
    }

    /// How many pods the buffer of a belief stands for.
    pub(super) fn standing(store: &Store, namespace: &str, mark: &str) -> usize {
        let of = ours(store, namespace).filter(|(_, _, own)| own == mark);
        of.map(|(_, buffer, _)| size(buffer)).sum()
    }

    /// Whether a buffer is to stand for a belief: once there is one, as long as somebody looks after it.
    pub(super) fn has(&self, mark: &str) -> bool {
        self.chosen.contains_key(mark)
    }

    /// Asks whether somebody looks after buffers, and makes and changes those that are wanted.
    pub(super) fn settle(
        &mut self,
        targets: &BTreeMap<String, Target>,
        namespace: &str,
        owner: &Value,
        store: &Store,
        out: &mut Out<'_>,
    ) {
        self.again = None;
        let now = out.now.time;
        if !store.is_listed(Kind::CapacityBuffer) {
            self.chosen.clear();
            return;
        }
        if self.with == With::Auto {
            self.probe(namespace, owner, store, out);
        }
        self.chosen.retain(|mark, _| targets.contains_key(mark));
        let is_active = match self.with {
            With::Auto => self.activity == Activity::Active,
            With::Buffers => true,
            With::Placeholders => false,
        };
        let made: BTreeSet<String> = ours(store, namespace).map(|(_, _, mark)| mark).collect();
        if is_active {
            // A belief that pods stand for already keeps them.
            let is_new = |mark: &&String| made.contains(*mark) || super::standing(store, mark) == 0;
            for mark in targets.keys().filter(is_new) {
                self.chosen.entry(mark.clone()).or_insert((now, Time(0)));
            }
        } else {
            self.chosen.clear();
        }
        for (mark, target) in targets {
            if self.chosen.contains_key(mark) && target.wanted(store) > 0 {
                self.keep(mark, target, namespace, owner, store, out);
            }
        }
        self.remove(targets, namespace, store, out);
    }

    /// Makes a belief's buffer, or sees to its size.
    fn keep(
        &mut self,
        mark: &str,
        target: &Target,
        namespace: &str,
        owner: &Value,
        store: &Store,
        out: &mut Out<'_>,
    ) {
        let (now, wanted) = (out.now.time, target.wanted(store));
        let Some((since, changed)) = self.chosen.get(mark).copied() else { return };
        let metadata = || json!({ "name": target.name, "namespace": namespace, "labels": labels(mark), "ownerReferences": owner });
        if !store.has(Kind::PodTemplate, namespace, &target.name) {
            let object = json!({
                "apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata(), "template": target.template,
            });
            out.ask(
                errand(Kind::PodTemplate, &target.name),
                Effect::Create { kind: Kind::PodTemplate, object },
            );
        }
        let known = store.buffers.get(&(namespace.to_owned(), target.name.clone()));
        let Some(buffer) = known else {
            let mut metadata = metadata();
            metadata["annotations"] = target.template["metadata"]["annotations"].clone();
            let object = json!({
                "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": metadata,
                "spec": { "podTemplateRef": { "name": target.name }, "replicas": wanted },
            });
            let effect = Effect::Create { kind: Kind::CapacityBuffer, object };
            if out.ask(errand(Kind::CapacityBuffer, &target.name), effect) {
                self.chosen.insert(mark.to_owned(), (now, now));
            }
            return;
        };
        if self.with == With::Auto && !is_answered(buffer) {
            if now >= since + ANSWERED {
                self.nobody(out);
                return;
            }
            self.go_on(since + ANSWERED);
        }
        if size(buffer) == wanted {
            return;
        }
        if now < changed + EVERY {
            self.go_on(changed + EVERY);
            return;
        }
        let object = object(buffer, namespace, &target.name);
        let patch = json!({ "spec": { "replicas": wanted } });
        let effect = Effect::Patch { object, part: Part::Main, patch };
        if out.ask(errand(Kind::CapacityBuffer, &target.name), effect) {
            self.chosen.insert(mark.to_owned(), (since, now));
        }
    }

    /// Removes buffers that stand for nothing, and their templates.
    fn remove(&self, targets: &BTreeMap<String, Target>, namespace: &str, store: &Store, out: &mut Out<'_>) {
        for (name, buffer, mark) in ours(store, namespace) {
            let target = targets.get(&mark).filter(|_| self.chosen.contains_key(&mark));
            if target.is_none_or(|target| target.wanted(store) == 0) {
                let object = object(buffer, namespace, name);
                out.ask(errand(Kind::CapacityBuffer, name), Effect::Delete { object, grace: None });
                if store.has(Kind::PodTemplate, namespace, name) {
                    let object = ObjectRef {
                        kind: Kind::PodTemplate,
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                        uid: String::new(),
                    };
                    out.ask(errand(Kind::PodTemplate, name), Effect::Delete { object, grace: None });
                }
            }
        }
    }

    /// Finds out whether somebody looks after buffers: whoever does says something on a buffer for nothing.
    fn probe(&mut self, namespace: &str, owner: &Value, store: &Store, out: &mut Out<'_>) {
        let now = out.now.time;
        let known = store.buffers.get(&(namespace.to_owned(), PROBE.to_owned()));
        let remove = |buffer: &CapacityBuffer, out: &mut Out<'_>| {
            let effect = Effect::Delete { object: object(buffer, namespace, PROBE), grace: None };
            out.ask(errand(Kind::CapacityBuffer, PROBE), effect);
        };
        if let Activity::Inactive(until) = self.activity
            && now >= until
        {
            self.activity = Activity::Unknown;
        }
        match (self.activity, known) {
            // What an earlier process has asked may have been answered long ago.
            (Activity::Unknown | Activity::Active | Activity::Inactive(_), Some(buffer)) => {
                remove(buffer, out);
            }
            (Activity::Unknown, None) => {
                let object = json!({
                    "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
                    "metadata": {
                        "name": PROBE, "namespace": namespace, "labels": { PLACEHOLDER: "true" },
                        "ownerReferences": owner,
                    },
                    "spec": { "podTemplateRef": { "name": PROBE }, "replicas": 0 },
                });
                let effect = Effect::Create { kind: Kind::CapacityBuffer, object };
                if out.ask(errand(Kind::CapacityBuffer, PROBE), effect) {
                    self.activity = Activity::Asked(now);
                }
            }
            (Activity::Asked(_), Some(buffer)) if is_answered(buffer) => {
                self.activity = Activity::Active;
                let message = "CapacityBuffers are looked after, so that expected pods are shown by them";
                out.line(Level::Info, message, &[]);
                remove(buffer, out);
            }
            (Activity::Asked(since), known) if now >= since + ANSWERED => {
                self.nobody(out);
                if let Some(buffer) = known {
                    remove(buffer, out);
                }
            }
            (Activity::Asked(_) | Activity::Active | Activity::Inactive(_), _) => {}
        }
        match self.activity {
            Activity::Asked(since) => self.go_on(since + ANSWERED),
            Activity::Inactive(until) => self.go_on(until),
            Activity::Unknown | Activity::Active => {}
        }
    }

    /// Takes notice that nobody looks after buffers.
    fn nobody(&mut self, out: &mut Out<'_>) {
        self.activity = Activity::Inactive(out.now.time + PAUSE);
        self.chosen.clear();
        let message =
            "nobody looks after CapacityBuffers, so that expected pods are shown by placeholder pods";
        out.line(Level::Info, message, &[]);
    }
}

/// Buffers that stand for beliefs: name, buffer and mark.
fn ours<'a>(
    store: &'a Store,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a str, &'a CapacityBuffer, String)> {
    store.buffers.iter().filter(move |((own, _), _)| own == namespace).filter_map(|((_, name), buffer)| {
        let mark = buffer.metadata.labels.as_ref()?.get(PLACEHOLDER_FOR)?.clone();
        Some((name.as_str(), buffer, mark))
    })
}

fn size(buffer: &CapacityBuffer) -> usize {
    buffer.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(0)
}

fn is_answered(buffer: &CapacityBuffer) -> bool {
    buffer.status.as_ref().is_some_and(|status| !status.conditions.is_empty())
}

fn object(buffer: &CapacityBuffer, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef {
        kind: Kind::CapacityBuffer,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: buffer.metadata.uid.clone().unwrap_or_default(),
    }
}
