//! The simplest brain that works when little goes wrong: one claim for each pod that waits. It proves the world, not the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_core::cloud::{ClassRef, LaunchRequest, NodeTemplate, ProviderId, Taint, Token, key_of};
use headstart_core::resources::Resources;
use headstart_core::types::Types;
use headstart_engine::{
    Action, Change, Effect, EffectId, Event, Fact, Kind, Now, ObjectRef, Outcome, Part, Refusal, Time,
};
use headstart_sim::amounts::Room;
use headstart_sim::api::{array, key, label, text, uid};
use headstart_sim::brain::{Birth, Brain};
use serde_json::{Value, json};

const FINALIZER: &str = "karpenter.sh/termination";

pub(crate) struct Greedy {
    types: Arc<Types>,
    objects: BTreeMap<(Kind, String), Value>,
    listed: BTreeSet<Kind>,
    leading: bool,
    asked: BTreeMap<EffectId, String>,
    launched: BTreeMap<String, Value>,
    ended: BTreeSet<String>,
    wake: Option<Time>,
    retry_at: BTreeMap<String, Time>,
    next: u64,
}

pub(crate) fn greedy(birth: &Birth) -> Box<dyn Brain> {
    Box::new(Greedy {
        types: Arc::clone(&birth.types),
        objects: BTreeMap::new(),
        listed: BTreeSet::new(),
        leading: false,
        asked: BTreeMap::new(),
        launched: BTreeMap::new(),
        ended: BTreeSet::new(),
        wake: None,
        retry_at: BTreeMap::new(),
        next: 0,
    })
}

impl Brain for Greedy {
    fn apply(&mut self, now: Now, event: Event) {
        match event {
            Event::Leading(leading) => self.leading = leading,
            Event::Watched { kind, change } => match change {
                Change::Relisting => self.objects.retain(|(known, _), _| *known != kind),
                Change::Seen(object) => {
                    drop(self.objects.insert((kind, key(&object)), Value::clone(&object)));
                }
                Change::Gone(object) => drop(self.objects.remove(&(kind, key(&object)))),
                Change::Listed => drop(self.listed.insert(kind)),
                Change::Missing { .. } => {}
            },
            Event::Ended { id, outcome } => {
                let Some(what) = self.asked.remove(&id) else { return };
                match outcome {
                    Outcome::Done(Fact::Launched(launch)) => {
                        let status =
                            json!({ "providerID": launch.instance.id.0, "labels": launch.instance.labels });
                        self.launched.insert(what, status);
                    }
                    Outcome::Refused(Refusal::Cloud(error)) if error.is_not_found() => {
                        self.ended.insert(what);
                    }
                    Outcome::Done(_) => {
                        // Watches lag: the effect is remembered until it must have been seen.
                        self.retry_at.insert(what, Time(now.time.0 + 5_000));
                    }
                    Outcome::Refused(_) | Outcome::Unknown { .. } => {
                        self.retry_at.insert(what, Time(now.time.0 + 1_000));
                    }
                }
            }
        }
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        self.retry_at.retain(|_, at| *at > now.time);
        let mut actions = Vec::new();
        let vital = Kind::ALL.iter().filter(|kind| kind.is_vital());
        if self.leading && vital.into_iter().all(|kind| self.listed.contains(kind)) {
            let mut wanted = Vec::new();
            self.pods(&mut wanted);
            self.claims(&mut wanted);
            for (what, effect) in wanted {
                if !self.retry_at.contains_key(&what) && !self.asked.values().any(|asked| *asked == what) {
                    self.next += 1;
                    self.asked.insert(EffectId(self.next), what);
                    actions.push(Action::Do { id: EffectId(self.next), effect });
                }
            }
        }
        self.wake = self.retry_at.values().min().copied();
        actions
    }

    fn next_wake(&self) -> Option<Time> {
        self.wake
    }
}

impl Greedy {
    fn of(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((known, _), _)| *known == kind).map(|(_, object)| object)
    }

    fn pods(&self, wanted: &mut Vec<(String, Effect)>) {
        let Some(pool) = self.of(Kind::NodePool).next() else { return };
        for pod in self.of(Kind::Pod) {
            let waits = text(pod, "/spec/nodeName").is_empty()
                && pod.pointer("/metadata/deletionTimestamp").is_none();
            let name = format!("c-{}", &uid(pod)[..8]);
            if !waits || self.objects.contains_key(&(Kind::NodeClaim, format!("/{name}"))) {
                continue;
            }
            let claim = json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {
                    "name": name, "finalizers": [FINALIZER],
                    "labels": { "karpenter.sh/nodepool": text(pool, "/metadata/name") },
                    "ownerReferences": [{ "uid": uid(pool), "kind": "NodePool", "name": text(pool, "/metadata/name") }],
                },
                "spec": {
                    "requirements": [],
                    "nodeClassRef": pool["spec"]["template"]["spec"]["nodeClassRef"],
                    "resources": { "requests": pod["spec"]["containers"][0]["resources"]["requests"] },
                },
            });
            wanted.push((format!("create {name}"), Effect::Create { kind: Kind::NodeClaim, object: claim }));
        }
    }

    fn claims(&self, wanted: &mut Vec<(String, Effect)>) {
        for claim in self.of(Kind::NodeClaim) {
            let (name, id) = (text(claim, "/metadata/name"), text(claim, "/status/providerID"));
            let node =
                self.of(Kind::Node).find(|node| !id.is_empty() && text(node, "/spec/providerID") == id);
            if claim.pointer("/metadata/deletionTimestamp").is_some() {
                leave(wanted, claim, node, self.ended.contains(&format!("end {name}")) || id.is_empty());
            } else if node.is_some_and(|node| node.pointer("/metadata/deletionTimestamp").is_some()) {
                let object = reference(Kind::NodeClaim, claim);
                wanted.push((format!("delete {name}"), Effect::Delete { object, grace: None }));
            } else if id.is_empty() {
                match self.launched.get(&format!("launch {name}")) {
                    None => wanted.push((format!("launch {name}"), self.launch(claim))),
                    Some(launched) => {
                        wanted.push(status(claim, &["Launched"], &launched["providerID"], &Value::Null));
                    }
                }
            } else if let Some(node) = node {
                join(wanted, claim, node);
            }
        }
    }

    fn launch(&self, claim: &Value) -> Effect {
        let room = Room { pods: 1000, ..Room::of(claim.pointer("/spec/resources/requests")) };
        let mut sold: Vec<_> =
            self.types.iter().flat_map(|t| t.offerings.iter().map(move |o| (o.price, t, o))).collect();
        sold.retain(|(_, t, _)| {
            let text = |name| json!(t.allocatable().get(name).to_string());
            room.fits(Room::of(Some(
                &json!({ "cpu": text("cpu"), "memory": text("memory"), "pods": text("pods") }),
            )))
        });
        sold.sort_by_key(|(price, ..)| *price);
        let class = |field: &str| text(claim, &format!("/spec/nodeClassRef/{field}")).to_owned();
        let pool = label(claim, "karpenter.sh/nodepool").unwrap_or_default().to_owned();
        Effect::Launch(Box::new(LaunchRequest {
            token: Token(uid(claim).to_owned()),
            claim: text(claim, "/metadata/name").to_owned(),
            pool: pool.clone(),
            class: ClassRef { group: class("group"), kind: class("kind"), name: class("name") },
            offerings: sold.iter().map(|(_, t, o)| key_of(t, o)).collect(),
            node: NodeTemplate {
                labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), pool)]),
                taints: Vec::<Taint>::new(),
                ..NodeTemplate::default()
            },
            requests: Resources::new(),
            tags: BTreeMap::new(),
        }))
    }
}

fn join(wanted: &mut Vec<(String, Effect)>, claim: &Value, node: &Value) {
    let name = text(node, "/metadata/name");
    let taints: Vec<&Value> = array(node, "/spec/taints").collect();
    let holds = |kind| {
        array(claim, "/status/conditions").any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
    };
    if taints.iter().any(|t| text(t, "/key") == "karpenter.sh/unregistered") {
        let left: Vec<_> = taints.iter().filter(|t| text(t, "/key") != "karpenter.sh/unregistered").collect();
        let patch = json!({
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"], "finalizers": [FINALIZER],
                "ownerReferences": [{ "uid": uid(claim), "kind": "NodeClaim", "name": text(claim, "/metadata/name") }],
            },
            "spec": { "taints": left },
        });
        wanted.push((
            format!("register {name}"),
            Effect::Patch { object: reference(Kind::Node, node), part: Part::Main, patch },
        ));
    } else if !holds("Registered") {
        wanted.push(status(claim, &["Launched", "Registered"], &claim["status"]["providerID"], &json!(name)));
    } else if !holds("Initialized") && headstart_sim::kubelet::is_ready(node) && taints.is_empty() {
        let all = ["Launched", "Registered", "Initialized"];
        wanted.push(status(claim, &all, &claim["status"]["providerID"], &json!(name)));
    }
}

fn leave(wanted: &mut Vec<(String, Effect)>, claim: &Value, node: Option<&Value>, ended: bool) {
    let name = text(claim, "/metadata/name");
    let release = |kind, object: &Value| {
        let patch = json!({ "metadata": { "finalizers": null, "uid": uid(object) } });
        (
            format!("release {kind} {name}"),
            Effect::Patch { object: reference(kind, object), part: Part::Main, patch },
        )
    };
    match node {
        _ if !ended => {
            let id = ProviderId(text(claim, "/status/providerID").to_owned());
            wanted.push((format!("end {name}"), Effect::Terminate(id)));
        }
        Some(node) if array(node, "/metadata/finalizers").next().is_some() => {
            wanted.push(release(Kind::Node, node));
            let object = reference(Kind::Node, node);
            wanted.push((format!("delete node of {name}"), Effect::Delete { object, grace: None }));
        }
        _ => wanted.push(release(Kind::NodeClaim, claim)),
    }
}

fn status(claim: &Value, phases: &[&str], provider_id: &Value, node: &Value) -> (String, Effect) {
    let conditions: Vec<Value> = phases.iter().map(|p| json!({ "type": p, "status": "True" })).collect();
    let patch =
        json!({ "status": { "conditions": conditions, "providerID": provider_id, "nodeName": node } });
    let what = format!("status {} {}", text(claim, "/metadata/name"), phases.len());
    (what, Effect::Patch { object: reference(Kind::NodeClaim, claim), part: Part::Status, patch })
}

fn reference(kind: Kind, object: &Value) -> ObjectRef {
    ObjectRef {
        kind,
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        uid: uid(object).to_owned(),
    }
}
