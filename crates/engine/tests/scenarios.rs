//! Events in, actions out: a pending pod becomes a claim.

#![expect(clippy::unwrap_used, reason = "tests say so by failing")]

use headstart_cloud::catalog::{Catalog, Source};
use headstart_engine::{
    Action, Change, Effect, Engine, Event, Fact, Kind, Now, Outcome, Settings, Time, Wall,
};
use serde_json::{Value, json};

/// An engine and the time.
struct Story {
    engine: Engine,
    now: Now,
    version: u64,
}

impl Story {
    /// An engine that leads and has read a cluster of these objects.
    fn begin(objects: &[Value]) -> Self {
        let catalog = Catalog::load(&Source::Kwok).unwrap();
        let engine = Engine::new(Settings::default(), catalog.types().clone(), catalog.well_known.clone());
        let now = Now { time: Time(1_000), wall: Wall(1_700_000_000_000) };
        let mut story = Self { engine, now, version: 100 };
        for kind in Kind::ALL {
            story.watched(kind, Change::Relisting);
            for object in objects.iter().filter(|object| object["kind"] == kind_name(kind)) {
                story.seen(kind, object.clone());
            }
            story.watched(kind, Change::Listed);
        }
        story.engine.apply(story.now, Event::Leading(true));
        let actions = story.effects();
        assert!(matches!(&actions[..], [(_, Effect::Instances)]), "{actions:?}");
        story.end(actions[0].0, Outcome::Done(Fact::Instances(Vec::new())));
        story
    }

    fn watched(&mut self, kind: Kind, change: Change) {
        self.engine.apply(self.now, Event::Watched { kind, change });
    }

    /// Lets a watch tell of an object, with the metadata that an API server adds.
    fn seen(&mut self, kind: Kind, mut object: Value) {
        self.version += 1;
        let meta = object["metadata"].as_object_mut().unwrap();
        let uid = format!("uid-{}", meta["name"].as_str().unwrap());
        meta.entry("uid").or_insert(json!(uid));
        meta.entry("generation").or_insert(json!(1));
        meta.entry("creationTimestamp").or_insert(json!("2023-11-14T22:13:20Z"));
        meta.insert("resourceVersion".into(), json!(self.version.to_string()));
        self.watched(kind, Change::Seen(object));
    }

    fn end(&mut self, id: headstart_engine::EffectId, outcome: Outcome) {
        self.engine.apply(self.now, Event::Ended { id, outcome });
    }

    /// What is to be done now.
    fn effects(&mut self) -> Vec<(headstart_engine::EffectId, Effect)> {
        let actions = self.engine.decide(self.now);
        assert!(self.engine.decide(self.now).is_empty(), "a second call returns nothing");
        let effect = |action| match action {
            Action::Do { id, effect } => Some((id, effect)),
            Action::Tell(_) => None,
        };
        actions.into_iter().filter_map(effect).collect()
    }

    /// What is to be done until then, if nothing happens.
    fn effects_within(&mut self, millis: u64) -> Vec<(headstart_engine::EffectId, Effect)> {
        let end = self.now.time.0 + millis;
        let mut all = self.effects();
        while let Some(Time(wake)) = self.engine.next_wake() {
            assert!(wake > self.now.time.0);
            if wake > end {
                break;
            }
            self.now.wall = Wall(self.now.wall.0 + (wake - self.now.time.0).cast_signed());
            self.now.time = Time(wake);
            all.extend(self.effects());
        }
        all
    }

    /// Does pool housekeeping as an API server would.
    fn settle_pools(&mut self) {
        loop {
            let effects = self.effects_within(2_000);
            if effects.is_empty() {
                return;
            }
            for (id, effect) in effects {
                let Effect::Patch { object, patch, .. } = effect else { panic!("{effect:?}") };
                assert_eq!(object.kind, Kind::NodePool);
                let mut changed = pool("general");
                self.version += 1;
                merge(&mut changed, &patch);
                changed["metadata"]["uid"] = json!(object.uid);
                changed["metadata"]["generation"] = json!(1);
                changed["metadata"]["creationTimestamp"] = json!("2023-11-14T22:13:20Z");
                changed["metadata"]["resourceVersion"] = json!(self.version.to_string());
                let hashed = pool_hash(&changed);
                merge(&mut changed, &hashed);
                self.end(id, Outcome::Done(Fact::Object(changed)));
            }
        }
    }
}

/// The annotations that every pool ends up with.
fn pool_hash(pool: &Value) -> Value {
    let typed: headstart_api::NodePool = serde_json::from_value(pool.clone()).unwrap();
    json!({ "metadata": { "annotations": {
        "karpenter.sh/nodepool-hash": typed.hash(), "karpenter.sh/nodepool-hash-version": "v3",
    } } })
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

fn kind_name(kind: Kind) -> String {
    if kind == Kind::NodeClass { "KWOKNodeClass".to_owned() } else { kind.to_string() }
}

fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
        "spec": { "template": { "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "requirements": [],
        } } },
    })
}

fn class() -> Value {
    json!({ "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": { "name": "default" } })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }] },
        "status": { "phase": "Pending" },
    })
}

#[test]
fn a_lone_pod_gets_a_claim_within_fifty_milliseconds_and_only_one() {
    let mut story = Story::begin(&[pool("general"), class()]);
    story.settle_pools();
    story.seen(Kind::Pod, pod("web"));
    assert!(story.effects().is_empty(), "it waits for company first");
    let effects = story.effects_within(50);
    let [(_, Effect::Create { kind: Kind::NodeClaim, object })] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(object["metadata"]["labels"]["karpenter.sh/nodepool"], "general");
    assert_eq!(object["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    assert_eq!(object["spec"]["resources"]["requests"]["cpu"], "1");
    // Nothing is bought again while the answer is on its way.
    assert!(story.effects_within(20_000).is_empty());
}
