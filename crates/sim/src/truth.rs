//! What is really unfinished in a world, and whether anybody could finish it: a naive second opinion.

use std::fmt;

use headstart_core::catalog::InstanceType;
use headstart_core::cloud::{OfferingKey, key_of};
use headstart_core::resources::Resources;
use headstart_engine::Kind;
use serde_json::Value;

use crate::amounts::{Milli, Room, of, read};
use crate::api::{array, field, label, number, text, uid};
use crate::cloud::Machine;
use crate::ground::Ground;
use crate::kubelet::{HANGS, SICK, SILENT};
use crate::plan::{PoolPlan, WorkloadKind, WorkloadPlan};
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
    let is_due = nobody_is_expected(ground);
    for (key, claim) in ground.api.all(Kind::NodeClaim) {
        let initialized = |c: &Value| text(c, "/type") == "Initialized" && text(c, "/status") == "True";
        if field(claim, "/metadata/deletionTimestamp").is_some() {
            why(Kind::NodeClaim, key, uid(claim), "is still being deleted");
        } else if !array(claim, "/status/conditions").any(initialized) && !is_of_sick_node(ground, claim) {
            why(Kind::NodeClaim, key, uid(claim), "is not initialized");
        } else if is_due && is_ahead(claim) && may_go(ground, claim) {
            why(Kind::NodeClaim, key, uid(claim), "is kept for pods that nobody expects any more");
        }
    }
    for (key, node) in ground.api.all(Kind::Node) {
        if field(node, "/metadata/deletionTimestamp").is_some() {
            why(Kind::Node, key, uid(node), "is still being deleted");
        } else if ground.plan.knobs.repair && is_sick(node) && is_curable(ground, node) {
            why(Kind::Node, key, uid(node), "is sick, although it could be replaced");
        }
    }
    for (key, pool) in ground.api.all(Kind::NodePool) {
        if let Some(wanted) = field(pool, "/spec/replicas").and_then(Value::as_u64)
            && usable(pool)
            && wanted != kept(ground, pool)
            && (wanted < kept(ground, pool) || is_sold(ground, pool))
        {
            why(Kind::NodePool, key, uid(pool), "has not as many nodes as it wants");
        }
    }
    for orphan in ground.cloud.living().filter(|m| !ground.api.exists(&m.claim_uid)) {
        let key = format!("/{}", orphan.request.claim);
        why(Kind::NodeClaim, &key, &orphan.claim_uid, "is gone, but its instance runs");
    }
    all
}

/// Whether the node of a claim is sick: then it is the node that has to be looked after.
fn is_of_sick_node(ground: &Ground, claim: &Value) -> bool {
    let node = ground.api.get(Kind::Node, &format!("/{}", text(claim, "/status/nodeName")));
    node.is_some_and(|node| is_sick(node))
}

/// Whether a node says that it must be replaced or restarted.
fn is_sick(node: &Value) -> bool {
    let said = |c: &Value| ["/type", "/status", "/reason"].map(|at| text(c, at).to_owned());
    array(node, "/status/conditions").any(|c| [SICK, SILENT, HANGS].iter().any(|says| said(c) == *says))
}

/// Whether nothing stands in the way of a sick node's end: its pool's budget, others that are sick, or pods without a place.
fn is_curable(ground: &Ground, node: &Value) -> bool {
    let pool = |node: &Value| label(node, "karpenter.sh/nodepool").unwrap_or_default().to_owned();
    let name = pool(node);
    let Some(plan) = ground.plan.pools.iter().find(|plan| plan.name == name) else { return false };
    let Some(known) = ground.api.get(Kind::NodePool, &format!("/{name}")) else { return false };
    let sick = ground.api.all(Kind::Node).filter(|(_, other)| is_sick(other) && pool(other) == name).count();
    let on_it = text(node, "/metadata/name");
    let mut pods = ground.api.all(Kind::Pod).filter(|(_, pod)| text(pod, "/spec/nodeName") == on_it);
    sick == 1
        && plan.budget != Some(0)
        && plan.limit_cpu.is_none()
        && field(known, "/spec/limits/cpu").is_none()
        && usable(known)
        && (field(known, "/spec/replicas").is_none() || is_sold(ground, known))
        && pods.all(|(_, pod)| is_daemon(ground, pod) || possible(ground, pod, true))
}

/// How many nodes a pool has that nobody takes away.
fn kept(ground: &Ground, pool: &Value) -> u64 {
    let name = text(pool, "/metadata/name");
    let is_kept = |claim: &Value| {
        label(claim, "karpenter.sh/nodepool") == Some(name)
            && field(claim, "/metadata/deletionTimestamp").is_none()
    };
    ground.api.all(Kind::NodeClaim).filter(|(_, claim)| is_kept(claim)).count() as u64
}

/// Whether the cloud has capacity for anything that a pool asks for.
fn is_sold(ground: &Ground, pool: &Value) -> bool {
    let anything = Value::Null;
    ground.cloud.catalog().types().iter().any(|sold| {
        let keys = sold.offerings.iter().map(|offering| key_of(sold, offering));
        keys.into_iter()
            .any(|key| ground.cloud.has(ground.now(), &key) && agrees(pool, &anything, sold, &key))
    })
}

/// Whether there will always be something to do: nodes that expire, pods or static pools for which there is no capacity, or
/// jobs that are not through yet.
pub fn restless(ground: &Ground) -> bool {
    let thirsty = |pod: &Value| waits(pod) && !possible(ground, pod, true) && possible(ground, pod, false);
    let lacks = |pool: &Value| {
        let wanted = field(pool, "/spec/replicas").and_then(Value::as_u64);
        wanted.is_some_and(|wanted| wanted > kept(ground, pool)) && !is_sold(ground, pool)
    };
    ground.plan.pools.iter().any(|pool| pool.expire_after_s.is_some())
        || ground.api.all(Kind::Pod).any(|(_, pod)| thirsty(pod))
        || ground.api.all(Kind::NodePool).any(|(_, pool)| lacks(pool))
        || works(ground)
}

/// Whether a pod runs that will end by itself.
fn works(ground: &Ground) -> bool {
    let ends = |w: &&WorkloadPlan| matches!(w.kind, WorkloadKind::Job | WorkloadKind::Cron { .. });
    let jobs: Vec<&str> = ground.plan.workloads.iter().filter(ends).map(|w| w.name.as_str()).collect();
    let is_of_one = |pod: &Value| label(pod, "app").is_some_and(|app| jobs.contains(&app));
    let runs = |pod: &Value| text(pod, "/status/phase") == "Running" && is_of_one(pod);
    !jobs.is_empty() && ground.api.all(Kind::Pod).any(|(_, pod)| runs(pod))
}

/// Whether a pod waits for a node.
pub(crate) fn waits(pod: &Value) -> bool {
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
            && field(pool, "/spec/replicas").is_none()
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
pub(crate) fn is_spare(ground: &Ground, machine: &Machine) -> bool {
    let claim = ground.api.get(Kind::NodeClaim, &format!("/{}", machine.request.claim));
    claim.is_some_and(|claim| is_ahead(claim)) && !runs_pods(ground, machine.node_name())
}

/// Whether a claim was made for pods that were expected.
fn is_ahead(claim: &Value) -> bool {
    field(claim, "/metadata/annotations").is_some_and(|all| all.get("headstart.dev/expected-by").is_some())
}

/// Whether pods that are no daemons are on a node.
fn runs_pods(ground: &Ground, node: &str) -> bool {
    let pods = ground.api.all(Kind::Pod).filter(|(_, pod)| text(pod, "/spec/nodeName") == node);
    pods.into_iter().any(|(_, pod)| !is_daemon(ground, pod))
}

fn is_daemon(ground: &Ground, pod: &Value) -> bool {
    let is_it = |w: &WorkloadPlan| w.kind == WorkloadKind::Daemon && label(pod, "app") == Some(&w.name);
    ground.plan.workloads.iter().any(is_it)
}

/// Whether everybody has all pods they want, and wants no room for more.
fn nobody_is_expected(ground: &Ground) -> bool {
    let has_headroom = ground.plan.knobs.ahead.as_ref().is_none_or(|ahead| ahead.threshold < 100);
    let lives = |app: &str| {
        let is_it = |pod: &Value| {
            label(pod, "app") == Some(app)
                && field(pod, "/metadata/deletionTimestamp").is_none()
                && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
        };
        let pods = ground.api.all(Kind::Pod).filter(|(_, pod)| is_it(pod)).count();
        i64::try_from(pods).unwrap_or(i64::MAX)
    };
    let has_all = |kind: Kind, wanted: &dyn Fn(&Value) -> i64| {
        ground.api.all(kind).all(|(_, owner)| {
            let app = label(owner, "app").unwrap_or_default();
            app.is_empty() || lives(app) >= wanted(owner)
        })
    };
    !has_headroom
        && ground.api.count(Kind::CapacityBuffer) == 0
        && !ground.api.all(Kind::Pod).any(|(_, pod)| waits(pod))
        && has_all(Kind::ReplicaSet, &|set| number(set, "/spec/replicas"))
        && has_all(Kind::Job, &|job| number(job, "/spec/completions") - number(job, "/status/succeeded"))
}

/// Whether nothing keeps an empty node of a claim's pool from being removed.
fn may_go(ground: &Ground, claim: &Value) -> bool {
    let pool = label(claim, "karpenter.sh/nodepool").unwrap_or_default();
    let plan = ground.plan.pools.iter().find(|plan| plan.name == pool);
    let lets_go = |plan: &PoolPlan| plan.consolidate_after_s.is_some() && plan.budget != Some(0);
    plan.is_some_and(lets_go)
        && ground.api.get(Kind::NodePool, &format!("/{pool}")).is_some_and(|pool| usable(pool))
        && !runs_pods(ground, text(claim, "/status/nodeName"))
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
