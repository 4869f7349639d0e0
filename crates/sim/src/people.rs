//! People and the weather: what is done to the cluster from outside.

use headstart_engine::Kind;
use serde_json::{Value, json};

use crate::api::{Actor, Budget};
use crate::cloud::Drought;
use crate::controllers::{Controllers, DEDICATED, NAMESPACE};
use crate::ground::{Ground, Happening};
use crate::kubelet::{STARTUP, set_condition};
use crate::plan::{Deed, PoolPlan, WorkloadKind};

/// The API group of the node class.
pub const CLASS_GROUP: &str = "karpenter.kwok.sh";
/// The kind of the node class.
pub const CLASS_KIND: &str = "KWOKNodeClass";
/// The one node class.
pub const CLASS: &str = "default";

/// What people have to do.
#[derive(Debug)]
pub enum Due {
    /// A step of the plan, by its place.
    Step(usize),
    /// A NodePool is made, by its place in the plan.
    MakePool(usize),
    /// The node class is ready again.
    Ready,
    /// A buffer is no longer wanted, by its key.
    Drop(String),
}

/// Sets up the cluster and winds up the plan's steps.
pub fn start(ground: &mut Ground) {
    let now = ground.now();
    let class = json!({
        "apiVersion": format!("{CLASS_GROUP}/v1alpha1"), "kind": CLASS_KIND, "metadata": { "name": CLASS }, "spec": {},
    });
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    // The cluster is empty, so nothing can be in the way.
    let _ = ground.api.create(now, Actor::Person, Kind::Namespace, namespace);
    let _ = ground.api.create(now, Actor::Person, Kind::NodeClass, class);
    set_class_ready(ground, true);
    for pool in 0..ground.plan.pools.len() {
        make_pool(ground, pool);
    }
    for step in 0..ground.plan.steps.len() {
        let at = crate::timeline::Moment(ground.plan.steps[step].at);
        ground.time.at(at, Happening::People(Due::Step(step)));
    }
}

/// Something is due.
pub fn on(ground: &mut Ground, controllers: &mut Controllers, due: &Due) {
    match due {
        Due::Step(step) => {
            // A plan that was cut short ends with the storm.
            if let Some(step) = ground.plan.steps.get(*step).cloned()
                && !ground.mischief.is_over()
            {
                ground.trace.note(ground.time.now(), || format!("DEED {:?}", step.deed));
                *ground.deeds.entry(step.deed.name()).or_default() += 1;
                act(ground, controllers, &step.deed);
            }
        }
        Due::MakePool(pool) => make_pool(ground, *pool),
        Due::Ready => set_class_ready(ground, true),
        Due::Drop(key) => ground.delete(Actor::Person, Kind::CapacityBuffer, key, None),
    }
}

/// The storm is over: people repair what they broke.
pub fn calm(ground: &mut Ground) {
    ground.api.unprotect(ground.now());
    ground.tainting_until = ground.now();
    set_class_ready(ground, true);
}

/// Does something now.
pub fn act(ground: &mut Ground, controllers: &mut Controllers, deed: &Deed) {
    let now = ground.now();
    match deed {
        Deed::Scale { workload, to } => controllers.scale(ground, *workload, *to),
        Deed::Wall { workload, for_ms, says } => controllers.wall(ground, *workload, *for_ms, *says),
        Deed::DeletePod { nth } => delete_nth(ground, Kind::Pod, *nth),
        Deed::DeleteClaim { nth } => delete_nth(ground, Kind::NodeClaim, *nth),
        Deed::DeleteNode { nth } => delete_nth(ground, Kind::Node, *nth),
        Deed::DeletePool { pool, back_ms } => {
            if let Some(plan) = ground.plan.pools.get(*pool) {
                let key = format!("/{}", plan.name);
                ground.delete(Actor::Person, Kind::NodePool, &key, None);
                ground.time.after(*back_ms, Happening::People(Due::MakePool(*pool)));
            }
        }
        Deed::LimitPool { pool, cpu } => {
            // A pool that keeps a number of nodes cannot have such a limit.
            if let Some(plan) = ground.plan.pools.get(*pool).filter(|plan| plan.replicas.is_none()) {
                let (key, cpu) = (format!("/{}", plan.name), *cpu);
                ground.api.edit(now, Actor::Person, Kind::NodePool, &key, |pool| {
                    pool["spec"]["limits"] = cpu.map_or(Value::Null, |cpu| json!({ "cpu": cpu.to_string() }));
                    let generation = crate::api::number(pool, "/metadata/generation");
                    pool["metadata"]["generation"] = json!(generation + 1);
                });
            }
        }
        Deed::TaintNewNodes { for_ms } => ground.tainting_until = now + *for_ms,
        Deed::BadPool => {
            let mut pool = pool(&PoolPlan { name: "nonsense".to_owned(), ..PoolPlan::default() });
            pool["spec"]["template"]["spec"]["requirements"] =
                json!([{ "key": "kubernetes.io/os", "operator": "Resembles", "values": [] }]);
            pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("nowhere");
            let _ = ground.api.create(now, Actor::Person, Kind::NodePool, pool);
        }
        Deed::BadPod => {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": format!("impossible-{}", now.0), "namespace": NAMESPACE },
                "spec": {
                    "schedulerName": "default-scheduler",
                    "nodeSelector": { "example.com/no-such": "label" },
                    "containers": [{ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1k" } } }],
                },
                "status": { "phase": "Pending" },
            });
            let _ = ground.api.create(now, Actor::Person, Kind::Pod, pod);
        }
        Deed::Protect { workload, min } => {
            if let Some(plan) = ground.plan.workloads.get(*workload) {
                let budget = Budget { app: plan.name.clone(), min_available: *min };
                ground.api.protect(now, budget);
            }
        }
        Deed::Redesign { pool } => {
            if let Some(plan) = ground.plan.pools.get(*pool) {
                let key = format!("/{}", plan.name);
                ground.api.edit(now, Actor::Person, Kind::NodePool, &key, |pool| {
                    pool["spec"]["template"]["metadata"]["labels"] = json!({ "design": now.0.to_string() });
                    let generation = crate::api::number(pool, "/metadata/generation");
                    pool["metadata"]["generation"] = json!(generation + 1);
                });
            }
        }
        Deed::Buffer { workload, pods, for_ms } => {
            let plan = ground.plan.workloads.get(*workload);
            if let Some(plan) = plan.filter(|plan| plan.kind == WorkloadKind::Replicas) {
                let name = format!("room-{}", now.0);
                let buffer = json!({
                    "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
                    "metadata": { "name": name, "namespace": NAMESPACE },
                    "spec": {
                        "scalableRef": { "apiGroup": "apps", "kind": "ReplicaSet", "name": plan.name },
                        "replicas": pods,
                    },
                });
                let _ = ground.api.create(now, Actor::Person, Kind::CapacityBuffer, buffer);
                let gone = Due::Drop(format!("{NAMESPACE}/{name}"));
                ground.time.after(*for_ms, Happening::People(gone));
            }
        }
        Deed::Resize { to } => {
            let fixed: Vec<String> = ground
                .api
                .all(Kind::NodePool)
                .filter(|(_, pool)| pool["spec"].get("replicas").is_some())
                .map(|(key, _)| key.clone())
                .collect();
            for key in fixed {
                ground.api.edit(now, Actor::Person, Kind::NodePool, &key, |pool| {
                    pool["spec"]["replicas"] = json!(to);
                    let generation = crate::api::number(pool, "/metadata/generation");
                    pool["metadata"]["generation"] = json!(generation + 1);
                });
            }
        }
        Deed::Unready { for_ms } => {
            set_class_ready(ground, false);
            ground.cloud.unready(now + *for_ms);
            ground.time.after(*for_ms, Happening::People(Due::Ready));
        }
        Deed::Dry { zone, capacity_type, for_ms } => ground.cloud.dry(Drought {
            zone: zone.clone(),
            capacity_type: capacity_type.clone(),
            until: now + *for_ms,
        }),
    }
}

fn delete_nth(ground: &mut Ground, kind: Kind, nth: usize) {
    let count = ground.api.count(kind);
    let key = ground.api.all(kind).nth(nth % count.max(1)).map(|(key, _)| key.clone());
    if let Some(key) = key {
        ground.delete(Actor::Person, kind, &key, None);
    }
}

fn set_class_ready(ground: &mut Ground, ready: bool) {
    let now = ground.now();
    let (status, reason) = if ready { ("True", "Ready") } else { ("False", "Broken") };
    ground.api.edit(now, Actor::Person, Kind::NodeClass, &format!("/{CLASS}"), |class| {
        set_condition(class, now, "Ready", status, reason);
    });
}

fn make_pool(ground: &mut Ground, which: usize) {
    let Some(plan) = ground.plan.pools.get(which) else { return };
    let pool = pool(plan);
    // One that was made again in the meantime is as good.
    let _ = ground.api.create(ground.time.now(), Actor::Person, Kind::NodePool, pool);
}

fn pool(plan: &PoolPlan) -> Value {
    let among = |key: &str, values: &[String]| json!({ "key": key, "operator": "In", "values": values });
    let mut requirements = vec![
        among("kubernetes.io/os", &["linux".to_owned()]),
        among("kubernetes.io/arch", &["amd64".to_owned()]),
    ];
    if !plan.zones.is_empty() {
        requirements.push(among("topology.kubernetes.io/zone", &plan.zones));
    }
    let both = ["spot".to_owned(), "on-demand".to_owned()];
    let kinds = if plan.capacity_types.is_empty() { &both[..] } else { &plan.capacity_types };
    requirements.push(among("karpenter.sh/capacity-type", kinds));
    let mut spec = json!({
        "nodeClassRef": { "group": CLASS_GROUP, "kind": CLASS_KIND, "name": CLASS },
        "requirements": requirements,
        "expireAfter": plan.expire_after_s.map_or("Never".to_owned(), |s| format!("{s}s")),
    });
    if plan.tainted {
        spec["taints"] = json!([{ "key": DEDICATED, "value": "yes", "effect": "NoSchedule" }]);
    }
    if plan.startup_taint {
        spec["startupTaints"] = json!([{ "key": STARTUP, "effect": "NoSchedule" }]);
    }
    if let Some(seconds) = plan.grace_s {
        spec["terminationGracePeriod"] = json!(format!("{seconds}s"));
    }
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": plan.name },
        "spec": {
            "template": { "metadata": {}, "spec": spec },
            "disruption": {
                "consolidationPolicy": if plan.when_empty { "WhenEmpty" } else { "WhenEmptyOrUnderutilized" },
                "consolidateAfter": plan.consolidate_after_s.map_or("Never".to_owned(), |s| format!("{s}s")),
                "budgets": [{ "nodes": plan.budget.map_or("10%".to_owned(), |n| n.to_string()) }],
            },
        },
    });
    if let Some(replicas) = plan.replicas {
        pool["spec"]["replicas"] = json!(replicas);
    }
    if plan.weight > 0 {
        pool["spec"]["weight"] = json!(plan.weight);
    }
    if let Some(cpu) = plan.limit_cpu {
        pool["spec"]["limits"] = json!({ "cpu": cpu.to_string() });
    }
    pool
}
