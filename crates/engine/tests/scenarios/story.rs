//! An engine, the time, an API server that does as it is asked at once, and a cloud that answers as a scenario wants.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_cloud::catalog::{Catalog, Source};
use headstart_engine::{
    Action, Change, Effect, EffectId, Engine, Event, Fact, Kind, Now, ObjectRef, Outcome, Refusal, Report,
    Settings, Time, Wall,
};
use serde_json::{Value, json};

/// When every object was made.
pub(crate) const CREATED: &str = "2023-11-14T22:13:20Z";

/// How somebody answers an effect; the API server answers what nobody else does.
type Answers<'a> = dyn FnMut(&Effect) -> Option<Outcome> + 'a;

pub(crate) struct Story {
    engine: Engine,
    now: Now,
    /// How many milliseconds the API server's clock is ahead.
    pub(crate) ahead: i64,
    version: u64,
    objects: BTreeMap<(Kind, String), Value>,
    /// Everything that people were told.
    pub(crate) told: Vec<Report>,
    /// What was asked for while it began.
    pub(crate) began: Vec<Effect>,
}

impl Story {
    /// An engine that leads and has read a cluster of these objects; no instance runs.
    pub(crate) fn begin(objects: &[Value]) -> Self {
        Self::with(Settings::default(), objects)
    }

    /// The same with other settings.
    pub(crate) fn with(settings: Settings, objects: &[Value]) -> Self {
        let catalog = Catalog::load(&Source::Kwok).unwrap();
        let engine = Engine::new(settings, catalog.types().clone(), catalog.well_known.clone());
        let now = Now { time: Time(1_000), wall: Wall(1_700_000_000_000) };
        let (objects_known, told, began) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut story = Self { engine, now, ahead: 0, version: 100, objects: objects_known, told, began };
        for kind in Kind::ALL {
            story.watched(kind, Change::Relisting);
            for object in objects.iter().filter(|object| object["kind"] == kind_name(kind)) {
                story.seen(kind, object.clone());
            }
            story.watched(kind, Change::Listed);
        }
        story.engine.apply(story.now, Event::Leading(true));
        story.began = story.play(5_000, |effect| {
            let is_list = matches!(effect, Effect::Instances);
            is_list.then(|| Outcome::Done(Fact::Instances(Vec::new())))
        });
        story
    }

    fn watched(&mut self, kind: Kind, change: Change) {
        self.engine.apply(self.now, Event::Watched { kind, change });
    }

    /// An object comes or changes, and a watch tells; the API server adds to its metadata.
    pub(crate) fn seen(&mut self, kind: Kind, object: Value) {
        let object = self.stored(kind, object);
        self.watched(kind, Change::Seen(Arc::new(object)));
    }

    /// An object goes, and a watch tells.
    pub(crate) fn gone(&mut self, kind: Kind, name: &str) {
        let object = self.objects.remove(&(kind, name.to_owned())).unwrap();
        self.watched(kind, Change::Gone(Arc::new(object)));
    }

    /// Somebody else deletes an object that a finalizer holds.
    pub(crate) fn leaves(&mut self, kind: Kind, name: &str) {
        let mut object = self.objects[&(kind, name.to_owned())].clone();
        object["metadata"]["deletionTimestamp"] =
            json!(Wall(self.now.wall.0 + self.ahead).stamp().to_string());
        self.seen(kind, object);
    }

    fn stored(&mut self, kind: Kind, mut object: Value) -> Value {
        self.version += 1;
        let meta = object["metadata"].as_object_mut().unwrap();
        let name = meta["name"].as_str().unwrap().to_owned();
        meta.entry("uid").or_insert(json!(format!("uid-{name}-{}", self.version)));
        meta.entry("generation").or_insert(json!(1));
        meta.entry("creationTimestamp").or_insert(json!(CREATED));
        meta.insert("resourceVersion".into(), json!(self.version.to_string()));
        self.objects.insert((kind, name), object.clone());
        object
    }

    /// Everything that is asked for within a time, while the API server does its part and others answer theirs.
    pub(crate) fn play(
        &mut self,
        millis: u64,
        mut answers: impl FnMut(&Effect) -> Option<Outcome>,
    ) -> Vec<Effect> {
        let end = self.now.time.0 + millis;
        let mut all = Vec::new();
        loop {
            let asked = self.decide();
            if asked.is_empty() {
                let Some(wake) = self.engine.next_wake().filter(|wake| wake.0 <= end) else { break };
                self.pass(wake.0 - self.now.time.0);
            }
            for (id, effect) in asked {
                if let Some(outcome) = self.answer(&effect, &mut answers) {
                    self.engine.apply(self.now, Event::Ended { id, outcome });
                }
                all.push(effect);
                assert!(all.len() < 1_000, "it never ends: {:?}", &all[990..]);
            }
        }
        self.pass(end - self.now.time.0);
        all
    }

    fn pass(&mut self, millis: u64) {
        self.now.wall = Wall(self.now.wall.0 + millis.cast_signed());
        self.now.time = Time(self.now.time.0 + millis);
    }

    fn decide(&mut self) -> Vec<(EffectId, Effect)> {
        let actions = self.engine.decide(self.now);
        assert!(self.engine.decide(self.now).is_empty(), "a second call returns nothing");
        let told = &mut self.told;
        let effect = |action| match action {
            Action::Do { id, effect } => Some((id, effect)),
            Action::Tell(report) => {
                told.push(report);
                None
            }
        };
        actions.into_iter().filter_map(effect).collect()
    }

    /// What the wall clock says.
    pub(crate) fn wall(&self) -> Wall {
        self.now.wall
    }

    /// The same as the API server stamps objects.
    pub(crate) fn stamp(&self) -> String {
        self.now.wall.stamp().to_string()
    }

    /// What is asked for before the process ends.
    pub(crate) fn wind_up(&mut self) -> Vec<Effect> {
        let effect = |action| match action {
            Action::Do { effect, .. } => Some(effect),
            Action::Tell(_) => None,
        };
        self.engine.wind_up(self.now).into_iter().filter_map(effect).collect()
    }

    /// All objects of a kind, by name.
    pub(crate) fn all(&self, kind: Kind) -> Vec<Value> {
        let of = self.objects.iter().filter(|((own, _), _)| *own == kind);
        of.map(|(_, object)| object.clone()).collect()
    }

    /// Why a claim's node is kept though no pod needs it.
    pub(crate) fn held_for(&self, claim: &str) -> Option<String> {
        self.engine.held_for(claim)
    }

    /// An object as the API server has it.
    pub(crate) fn object(&self, kind: Kind, name: &str) -> &Value {
        &self.objects[&(kind, name.to_owned())]
    }

    /// The values of a metric that goes up and down, by source.
    pub(crate) fn gauge(&self, name: &str) -> BTreeMap<String, f64> {
        let gauges = self.engine.gauges().into_iter().filter(|gauge| gauge.name == name);
        gauges.map(|gauge| (gauge.labels[0].1.clone(), gauge.value)).collect()
    }

    fn answer(&mut self, effect: &Effect, answers: &mut Answers<'_>) -> Option<Outcome> {
        if let Some(outcome) = answers(effect) {
            return Some(outcome);
        }
        Some(match effect {
            Effect::Create { kind, object } => {
                let mut object = object.clone();
                object["metadata"]["creationTimestamp"] = json!(self.now.wall.stamp().to_string());
                Outcome::Done(Fact::Object(self.stored(*kind, object).into()))
            }
            Effect::Patch { object, patch, .. } => self.change(object, |known| merge(known, patch)),
            Effect::Delete { object, grace: Some(0) } => {
                self.objects.remove(&(object.kind, object.name.clone()));
                Outcome::Done(Fact::Nothing)
            }
            Effect::Delete { object, grace } => {
                let now = self.now.wall.0 + self.ahead + i64::from(grace.unwrap_or(0)) * 1000;
                self.change(object, |known| {
                    known["metadata"]["deletionTimestamp"] = json!(Wall(now).stamp().to_string());
                    known["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
                })
            }
            Effect::Read { object } => self.change(object, |_| {}),
            Effect::Clear { kind, namespace, label: (key, value) } => {
                let is_meant = |object: &Value| {
                    object["metadata"]["namespace"] == **namespace
                        && object["metadata"]["labels"][key] == **value
                };
                self.objects.retain(|(of, _), object| of != kind || !is_meant(object));
                Outcome::Done(Fact::Nothing)
            }
            Effect::Evict { .. } => Outcome::Done(Fact::Nothing),
            Effect::Launch(_)
            | Effect::Terminate(_)
            | Effect::Reboot { .. }
            | Effect::Inspect(_)
            | Effect::Instances => return None,
        })
    }

    fn change(&mut self, object: &ObjectRef, change: impl FnOnce(&mut Value)) -> Outcome {
        let Some(mut known) = self.objects.get(&(object.kind, object.name.clone())).cloned() else {
            return Outcome::Refused(Refusal::NotFound);
        };
        change(&mut known);
        Outcome::Done(Fact::Object(self.stored(object.kind, known).into()))
    }
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    object.remove(key);
                    continue;
                }
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

fn kind_name(kind: Kind) -> String {
    if kind == Kind::NodeClass { "KWOKNodeClass".to_owned() } else { kind.to_string() }
}

/// A pool that anything can be bought for, up to some number of nodes.
pub(crate) fn pool(nodes: u32) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "general" },
        "spec": {
            "limits": { "nodes": nodes.to_string() },
            "template": { "spec": { "nodeClassRef": class_ref(), "requirements": [] } },
        },
    })
}

fn class_ref() -> Value {
    json!({ "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" })
}

pub(crate) fn class() -> Value {
    json!({ "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": { "name": "default" } })
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }] },
        "status": { "phase": "Pending" },
    })
}

/// The same pod, made by the ReplicaSet `web`.
pub(crate) fn of_web(mut pod: Value) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": true }]);
    pod
}

/// A claim of somebody else for which nothing is known to be launched.
pub(crate) fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "finalizers": ["karpenter.sh/termination"],
            "labels": { "karpenter.sh/nodepool": "general" },
        },
        "spec": { "nodeClassRef": class_ref(), "requirements": [], "resources": { "requests": {} } },
    })
}

/// The node of a claim of somebody else, in service.
pub(crate) fn running_node(name: &str, instance: &str) -> Value {
    let size = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "finalizers": ["karpenter.sh/termination"],
            "labels": {
                "karpenter.sh/nodepool": "general", "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true", "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            },
        },
        "spec": { "providerID": instance },
        "status": {
            "capacity": size, "allocatable": size, "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

/// A claim of somebody else whose instance has a node in service.
pub(crate) fn running_claim(name: &str, instance: &str) -> Value {
    let condition = |kind| json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": CREATED });
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
    let size = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    let mut claim = claim(name);
    claim["status"] = json!({
        "providerID": instance, "nodeName": name, "capacity": size, "allocatable": size,
        "conditions": conditions,
    });
    claim
}
