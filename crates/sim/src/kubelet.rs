//! What happens on and around machines: Nodes register, get ready and vanish; pods start and end.

use std::collections::BTreeSet;

use headstart_core::cloud::Taint;
use headstart_core::quantity::Quantity;
use headstart_core::resources::Resources;
use headstart_engine::Kind;
use serde_json::{Map, Value, json};

use crate::api::{Actor, Verb, array, field, label, text, uid};
use crate::dice::Dice;
use crate::fault::Fault;
use crate::ground::{Ground, Happening};
use crate::timeline::Moment;

/// What Nodes say that must be replaced.
pub const SICK: [&str; 3] = ["KWOKUnhealthy", "True", "Storm"];
/// What is said of Nodes that say nothing any more.
pub const SILENT: [&str; 3] = ["Ready", "False", "KubeletStopped"];
/// What Nodes say that must be restarted.
pub const HANGS: [&str; 3] = ["KWOKRebootRequired", "True", "Storm"];
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// The taint that new nodes start with where a pool wants one.
pub const STARTUP: &str = "example.com/starting";
/// The taint of somebody who has nothing to do with us.
pub const FOREIGN: &str = "example.com/not-yours";
/// Marks pods that end by themselves, with the number of seconds they run.
pub const RUNS_FOR: &str = "sim.example.com/runs-for";

/// Kubelets, the node lifecycle controller and the cloud's controller of nodes.
#[derive(Debug)]
pub struct Kubelet {
    dice: Dice,
    tidying: BTreeSet<String>,
}

/// What they have to do.
#[derive(Debug)]
pub enum Due {
    /// An instance's Node appears.
    Join(usize),
    /// An instance's Node is ready.
    Ready(usize),
    /// Taints of a starting node are lifted.
    Tidy(String),
    /// A Node says that it is sick, by a condition, its status and its reason.
    Sicken(usize, [&'static str; 3]),
    /// An instance that was told to restart goes down.
    Halt(usize),
    /// It is up again.
    Boot(usize),
    /// A pod runs.
    Start(String, String),
    /// A pod has ended by itself.
    Finish(String, String),
    /// A pod that was told to end has ended.
    End(String, String),
    /// An instance that ended is noticed, and its Node deleted.
    Leave(usize),
    /// Pods of a Node that is gone are deleted.
    Sweep(String),
}

impl Kubelet {
    /// The kubelets of a run.
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed, "kubelet"), tidying: BTreeSet::new() }
    }

    /// An instance was bought.
    pub fn launched(&mut self, ground: &mut Ground, place: usize) {
        let claim = ground.cloud.books()[place].request.claim.clone();
        if ground.strikes(Fault::InstanceDies, &claim) {
            let lives = ground.severity(Fault::InstanceDies, (2_000, 900_000));
            ground.time.after(lives, Happening::Dies(place));
        }
        if ground.strikes(Fault::NeverRegisters, &claim) {
            return;
        }
        let (least, most) = ground.plan.pace.join_ms;
        let mut delay = self.dice.between(least, most);
        if ground.strikes(Fault::SlowToRegister, &claim) {
            delay += ground.severity(Fault::SlowToRegister, (60_000, 600_000));
        }
        ground.time.after(delay, Happening::Kubelet(Due::Join(place)));
    }

    /// An instance ended.
    pub fn ended(&mut self, ground: &mut Ground, place: usize) {
        let now = ground.now();
        let key = format!("/{}", ground.cloud.books()[place].node_name());
        if ground.api.get(Kind::Node, &key).is_some() {
            ground.api.edit(now, Actor::Kubelet, Kind::Node, &key, |node| {
                set_ready(node, now, "Unknown", "NodeStatusUnknown");
                taint(node, UNREACHABLE, "NoSchedule");
                taint(node, UNREACHABLE, "NoExecute");
            });
            ground.time.after(self.dice.between(1_000, 40_000), Happening::Kubelet(Due::Leave(place)));
        }
    }

    /// A pod changed.
    pub fn pod_changed(&mut self, ground: &mut Ground, index: usize) {
        let entry = &ground.api.log(Kind::Pod)[index];
        let (pod, before) = (&entry.object, entry.before.as_deref());
        if entry.verb == Verb::Removed || text(pod, "/spec/nodeName").is_empty() {
            return;
        }
        let who = || (entry.key.to_string(), uid(pod).to_owned());
        let new =
            |at: &str| field(pod, at).is_some() && before.is_none_or(|b| field(b, at) != field(pod, at));
        if new("/metadata/deletionTimestamp") {
            let (key, uid) = who();
            let grace = crate::api::number(pod, "/metadata/deletionGracePeriodSeconds") as u64 * 1000;
            let takes = self.dice.between(100, 8_000).min(grace);
            ground.time.after(takes, Happening::Kubelet(Due::End(key, uid)));
        } else if new("/spec/nodeName") {
            let (key, uid) = who();
            ground.time.after(self.dice.between(200, 3_000), Happening::Kubelet(Due::Start(key, uid)));
        }
    }

    /// A Node changed.
    pub fn node_changed(&mut self, ground: &mut Ground, index: usize) {
        let entry = &ground.api.log(Kind::Node)[index];
        let key = entry.key.to_string();
        if entry.verb == Verb::Removed {
            let name = key.trim_start_matches('/').to_owned();
            ground.time.after(self.dice.between(5_000, 20_000), Happening::Kubelet(Due::Sweep(name)));
            return;
        }
        let passing = |t: &Value| [NOT_READY, STARTUP].contains(&text(t, "/key"));
        let untidy = is_ready(&entry.object) && array(&entry.object, "/spec/taints").any(passing);
        if untidy && self.tidying.insert(key.clone()) {
            ground.time.after(self.dice.between(100, 6_000), Happening::Kubelet(Due::Tidy(key)));
        }
    }

    /// Something is due.
    pub fn on(&mut self, ground: &mut Ground, due: Due) {
        let now = ground.now();
        match due {
            Due::Join(place) => self.join(ground, place),
            Due::Ready(place) => {
                let machine = &ground.cloud.books()[place];
                let (key, claim) = (format!("/{}", machine.node_name()), machine.request.claim.clone());
                if machine.ended.is_none() {
                    ground.api.edit(now, Actor::Kubelet, Kind::Node, &key, |node| {
                        set_ready(node, now, "True", "KubeletReady");
                    });
                    for (fault, says) in
                        [(Fault::NodeSickens, SICK), (Fault::NodeHangs, HANGS), (Fault::KubeletStops, SILENT)]
                    {
                        if ground.plan.knobs.repair && ground.strikes(fault, &claim) {
                            let after = ground.severity(fault, (5_000, 600_000));
                            ground.time.after(after, Happening::Kubelet(Due::Sicken(place, says)));
                        }
                    }
                }
            }
            Due::Sicken(place, says) => {
                let key = format!("/{}", ground.cloud.books()[place].node_name());
                if !ground.mischief.is_over() {
                    ground.api.edit(now, Actor::Kubelet, Kind::Node, &key, |node| {
                        let [kind, status, reason] = says;
                        set_condition(node, now, kind, status, reason);
                    });
                }
            }
            Due::Halt(place) => {
                let key = format!("/{}", ground.cloud.books()[place].node_name());
                ground.api.edit(now, Actor::Kubelet, Kind::Node, &key, |node| {
                    set_ready(node, now, "False", "KubeletNotReady");
                });
                ground.time.after(self.dice.between(1_000, 60_000), Happening::Kubelet(Due::Boot(place)));
            }
            Due::Boot(place) => {
                let machine = &ground.cloud.books()[place];
                let (key, boots) = (format!("/{}", machine.node_name()), machine.reboots.len());
                if machine.ended.is_none() {
                    ground.api.edit(now, Actor::Kubelet, Kind::Node, &key, |node| {
                        node["status"]["nodeInfo"]["bootID"] = json!(format!("boot-{place}-{boots}"));
                        set_condition(node, now, HANGS[0], "False", "Restarted");
                        set_ready(node, now, "True", "KubeletReady");
                    });
                }
            }
            Due::Tidy(key) => {
                self.tidying.remove(&key);
                ground.api.edit(now, Actor::Kubelet, Kind::Node, &key, |node| {
                    if let Some(taints) = node.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
                        taints.retain(|t| ![NOT_READY, STARTUP].contains(&text(t, "/key")));
                    }
                });
            }
            Due::Start(key, uid) => start(ground, &key, &uid),
            Due::Finish(key, uid) => {
                if hosted(ground, &key, &uid) {
                    ground.api.edit(now, Actor::Kubelet, Kind::Pod, &key, |pod| {
                        pod["status"]["phase"] = json!("Succeeded");
                        set_condition(pod, now, "Ready", "False", "PodCompleted");
                    });
                }
            }
            Due::End(key, uid) => {
                if hosted(ground, &key, &uid) {
                    ground.delete(Actor::Kubelet, Kind::Pod, &key, Some(0));
                }
            }
            Due::Leave(place) => {
                let key = format!("/{}", ground.cloud.books()[place].node_name());
                ground.delete(Actor::Kubelet, Kind::Node, &key, None);
            }
            Due::Sweep(node) => {
                if ground.api.get(Kind::Node, &format!("/{node}")).is_none() {
                    let stranded: Vec<String> = ground
                        .api
                        .all(Kind::Pod)
                        .filter(|(_, pod)| text(pod, "/spec/nodeName") == node)
                        .map(|(key, _)| key.clone())
                        .collect();
                    for key in stranded {
                        ground.delete(Actor::Kubelet, Kind::Pod, &key, Some(0));
                    }
                }
            }
        }
    }

    fn join(&mut self, ground: &mut Ground, place: usize) {
        let now = ground.now();
        let machine = &ground.cloud.books()[place];
        if machine.ended.is_some() || machine.ending.is_some() {
            return;
        }
        let (name, template) = (machine.node_name().to_owned(), machine.request.node.clone());
        let (instance, pool) = (machine.instance.clone(), machine.request.pool.clone());
        let claim = machine.request.claim.clone();
        let mut labels = template.labels.clone();
        labels.extend(instance.labels.clone());
        labels.insert("kubernetes.io/hostname".to_owned(), name.clone());
        let mut allocatable = instance.allocatable.clone();
        if ground.strikes(Fault::LessAllocatable, &claim) {
            let percent = ground.severity(Fault::LessAllocatable, (1, 60));
            allocatable = shrunk(&allocatable, percent);
        }
        let plain = |key: &str, effect: &str| Taint {
            key: key.to_owned(),
            value: String::new(),
            effect: effect.to_owned(),
        };
        let mut taints: Vec<Taint> = [template.taints, template.startup_taints].concat();
        taints.push(plain(UNREGISTERED, "NoExecute"));
        taints.push(plain(NOT_READY, "NoSchedule"));
        if ground.strikes(Fault::WrongTaint, &claim) || ground.tainting_until > now {
            taints.push(plain(FOREIGN, "NoSchedule"));
        }
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": labels, "annotations": template.annotations },
            "spec": { "providerID": instance.id.0, "taints": taints },
            "status": {
                "capacity": quantities(&instance.capacity),
                "allocatable": quantities(&allocatable),
                "conditions": [condition(now, "Ready", "False", "KubeletNotReady")],
                "nodeInfo": { "bootID": format!("boot-{place}"), "kubeletVersion": "v1.36.0" },
            },
        });
        ground.trace.note(now, || format!("node {name} of pool {pool} appears"));
        // A name is used once only, so the Node cannot exist.
        let _ = ground.api.create(now, Actor::Kubelet, Kind::Node, node);
        let (least, most) = ground.plan.pace.ready_ms;
        ground.time.after(self.dice.between(least, most), Happening::Kubelet(Due::Ready(place)));
    }
}

fn start(ground: &mut Ground, key: &str, pod_uid: &str) {
    let now = ground.now();
    if !hosted(ground, key, pod_uid) {
        return;
    }
    let pod = ground.api.edit(now, Actor::Kubelet, Kind::Pod, key, |pod| {
        pod["status"]["phase"] = json!("Running");
        pod["status"]["startTime"] = json!(now.stamp());
        set_condition(pod, now, "Ready", "True", "");
    });
    let runs_for = pod.as_deref().and_then(|pod| label(pod, RUNS_FOR)?.parse::<u64>().ok());
    if let Some(seconds) = runs_for {
        let due = Due::Finish(key.to_owned(), pod_uid.to_owned());
        ground.time.after(seconds * 1000, Happening::Kubelet(due));
    }
}

/// Whether a pod still exists on a machine that is alive.
fn hosted(ground: &Ground, key: &str, pod_uid: &str) -> bool {
    let Some(pod) = ground.api.get(Kind::Pod, key).filter(|pod| uid(pod) == pod_uid) else { return false };
    let number = text(pod, "/spec/nodeName").trim_start_matches("i-").parse::<usize>().ok();
    let machine = number.and_then(|place| ground.cloud.books().get(place));
    machine.is_some_and(|machine| machine.ended.is_none())
}

/// Whether a Node says that it is ready.
pub fn is_ready(node: &Value) -> bool {
    array(node, "/status/conditions").any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True")
}

/// Sets a condition of an object.
pub fn set_condition(object: &mut Value, now: Moment, kind: &str, status: &str, reason: &str) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else {
        return;
    };
    let known = conditions.iter().position(|c| text(c, "/type") == kind);
    match known {
        Some(at)
            if text(&conditions[at], "/status") == status && text(&conditions[at], "/reason") == reason => {}
        Some(at) => conditions[at] = condition(now, kind, status, reason),
        None => conditions.push(condition(now, kind, status, reason)),
    }
}

fn set_ready(node: &mut Value, now: Moment, status: &str, reason: &str) {
    set_condition(node, now, "Ready", status, reason);
}

fn condition(now: Moment, kind: &str, status: &str, reason: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now.stamp() })
}

fn taint(node: &mut Value, key: &str, effect: &str) {
    if !node["spec"]["taints"].is_array() {
        node["spec"]["taints"] = json!([]);
    }
    if let Some(taints) = node.pointer_mut("/spec/taints").and_then(Value::as_array_mut)
        && !taints.iter().any(|t| text(t, "/key") == key && text(t, "/effect") == effect)
    {
        taints.push(json!({ "key": key, "effect": effect }));
    }
}

fn quantities(resources: &Resources) -> Value {
    Value::Object(
        resources.iter().map(|(name, n)| (name.to_owned(), json!(n.to_string()))).collect::<Map<_, _>>(),
    )
}

fn shrunk(resources: &Resources, percent: u64) -> Resources {
    let mut less = Resources::new();
    for (name, amount) in resources.iter() {
        let nanos = amount.nanos() * i128::from(100 - percent.min(100)) / 100;
        less.set(name, Quantity::from_nanos(nanos, amount.notation()));
    }
    less
}
