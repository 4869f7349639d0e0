//! What is really unfinished in a world, and whether anybody could finish it: a naive second opinion.

use std::fmt;

use headstart_core::catalog::InstanceType;
use headstart_core::cloud::{OfferingKey, key_of};
use headstart_core::resources::Resources;
use headstart_engine::Kind;
use serde_json::Value;

use crate::amounts::{Milli, Room, of, read};
use crate::api::{array, field, label, text, uid};
use crate::cloud::Machine;
use crate::ground::Ground;
use crate::plan::WorkloadKind;
use crate::scheduler::tolerates;

/// Something that should be finished.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Why {
    /// The object it is about.
    pub object: (Kind, String),
    /// Its uid.
    pub uid: String,
    /// What is unfinished.
    pub what: &'static str,
}

impl Why {
    /// The law that is broken if it stays so.
    pub fn check(&self) -> &'static str {
        if self.object.0 == Kind::Pod { "no_pod_left_waiting" } else { "finishes" }
    }
}

/// Everything that is unfinished although it could be finished.
pub fn pending(ground: &Ground) -> Vec<Why> {
    let mut all = Vec::new();
    let mut why = |kind, key: &str, uid: &str, what| {
        all.push(Why { object: (kind, key.to_owned()), uid: uid.to_owned(), what });
    };
    for (key, pod) in ground.api.all(Kind::Pod) {
        if waits(pod) && possible(ground, pod, true) {
            why(Kind::Pod, key, uid(pod), "waits, although a node for it could be bought");
        }
    }
    for (key, claim) in ground.api.all(Kind::NodeClaim) {
        let initialized = |c: &Value| text(c, "/type") == "Initialized" && text(c, "/status") == "True";
        if field(claim, "/metadata/deletionTimestamp").is_some() {
            why(Kind::NodeClaim, key, uid(claim), "is still being deleted");
        } else if !array(claim, "/status/conditions").any(initialized) {
            why(Kind::NodeClaim, key, uid(claim), "is not initialized");
        }
    }
    for (key, node) in ground.api.all(Kind::Node) {
        if field(node, "/metadata/deletionTimestamp").is_some() {
            why(Kind::Node, key, uid(node), "is still being deleted");
        }
    }
    for orphan in ground.cloud.living().filter(|m| !ground.api.exists(&m.claim_uid)) {
        let key = format!("/{}", orphan.request.claim);
        why(Kind::NodeClaim, &key, &orphan.claim_uid, "is gone, but its instance runs");
    }
    all
}

/// Whether there will always be something to do: nodes that expire, or pods for which there is no capacity.
pub fn restless(ground: &Ground) -> bool {
    let thirsty = |pod: &Value| waits(pod) && !possible(ground, pod, true) && possible(ground, pod, false);
    ground.plan.pools.iter().any(|pool| pool.expire_after_s.is_some())
        || ground.api.all(Kind::Pod).any(|(_, pod)| thirsty(pod))
}

fn waits(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && field(pod, "/metadata/deletionTimestamp").is_none()
        && text(pod, "/spec/schedulerName") == "default-scheduler"
        && array(pod, "/spec/schedulingGates").next().is_none()
}

/// Whether some pool could buy a node on which the pod would fit alone, if offerings that ran dry count or not.
fn possible(ground: &Ground, pod: &Value, dry_counts: bool) -> bool {
    let daemons = ground.plan.workloads.iter().filter(|w| w.kind == WorkloadKind::Daemon);
    let mut room = Room::of_pod(pod);
    for daemon in daemons {
        room = room.plus(Room {
            cpu: daemon.cpu_m.cast_signed(),
            memory: daemon.memory_mi.cast_signed() * 1024 * 1024 * 1000,
            pods: 1000,
        });
    }
    ground.api.all(Kind::NodePool).any(|(_, pool)| {
        let sold = ground.cloud.catalog().types().iter();
        usable(pool)
            && tolerated(pod, pool)
            && sold
                .filter(|sold| room.fits(room_of(&sold.allocatable())) && within_limits(ground, pool, sold))
                .any(|sold| {
                    let keys = sold.offerings.iter().map(|offering| key_of(sold, offering));
                    keys.into_iter().any(|key| {
                        (!dry_counts || ground.cloud.has(ground.now(), &key)) && agrees(pool, pod, sold, &key)
                    })
                })
    })
}

/// Whether a pool means a class that exists, and is not being deleted.
fn usable(pool: &Value) -> bool {
    let class = text(pool, "/spec/template/spec/nodeClassRef/name");
    field(pool, "/metadata/deletionTimestamp").is_none() && class == crate::people::CLASS
}

fn tolerated(pod: &Value, pool: &Value) -> bool {
    let toleration = |t: &Value| ["/key", "/operator", "/value", "/effect"].map(|at| text(t, at).to_owned());
    let tolerations: Vec<[String; 4]> = array(pod, "/spec/tolerations").map(toleration).collect();
    array(pool, "/spec/template/spec/taints").all(|t| {
        let taint = ["/key", "/value", "/effect"].map(|at| text(t, at).to_owned());
        tolerations.iter().any(|toleration| tolerates(toleration, &taint))
    })
}

fn within_limits(ground: &Ground, pool: &Value, sold: &InstanceType) -> bool {
    let limit = field(pool, "/spec/limits/cpu");
    if limit.is_none() {
        return true;
    }
    let name = text(pool, "/metadata/name");
    // What was bought for pods that were expected, and runs none, gives way.
    let living = ground.cloud.living().filter(|m| m.request.pool == name && !is_spare(ground, m));
    let used: Milli = living.map(|m| room_of(&m.instance.capacity).cpu).sum();
    used + room_of(&sold.capacity).cpu <= of(limit)
}

/// Whether a machine was bought for pods that were expected, and runs none.
fn is_spare(ground: &Ground, machine: &Machine) -> bool {
    let claim = ground.api.get(Kind::NodeClaim, &format!("/{}", machine.request.claim));
    let is_ahead = claim.is_some_and(|claim| {
        field(claim, "/metadata/annotations")
            .is_some_and(|all| all.get("headstart.dev/expected-by").is_some())
    });
    let daemons = ground.plan.workloads.iter().filter(|w| w.kind == WorkloadKind::Daemon);
    let daemons: Vec<&str> = daemons.map(|w| w.name.as_str()).collect();
    let runs = |pod: &Value| {
        text(pod, "/spec/nodeName") == machine.node_name()
            && !label(pod, "app").is_some_and(|app| daemons.contains(&app))
    };
    is_ahead && !ground.api.all(Kind::Pod).any(|(_, pod)| runs(pod))
}

/// Whether an offering is what both pool and pod ask for.
fn agrees(pool: &Value, pod: &Value, sold: &InstanceType, key: &OfferingKey) -> bool {
    let value = |label: &str| match label {
        "topology.kubernetes.io/zone" => Some(key.zone.as_str()),
        "karpenter.sh/capacity-type" => Some(key.capacity_type.as_str()),
        other => sold.requirements.get(other).and_then(|requirement| requirement.single()),
    };
    let wanted = array(pool, "/spec/template/spec/requirements").all(|requirement| {
        let Some(have) = value(text(requirement, "/key")) else { return false };
        array(requirement, "/values").any(|v| v.as_str() == Some(have))
            == (text(requirement, "/operator") == "In")
    });
    let selector = field(pod, "/spec/nodeSelector").and_then(Value::as_object);
    wanted && selector.into_iter().flatten().all(|(label, wanted)| value(label) == wanted.as_str())
}

fn room_of(resources: &Resources) -> Room {
    let get = |name| read(&resources.get(name).to_string());
    Room { cpu: get("cpu"), memory: get("memory"), pods: get("pods") }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.object.0, self.object.1.trim_start_matches('/'), self.what)
    }
}
