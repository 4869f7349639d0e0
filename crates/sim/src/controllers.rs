//! Controllers of workloads: ReplicaSets, Jobs and DaemonSets make their pods at a limited rate.

use std::collections::BTreeSet;

use headstart_engine::Kind;
use serde_json::{Value, json};

use crate::api::{Actor, Verb, field, label, number, text, uid};
use crate::dice::Dice;
use crate::ground::{Ground, Happening};
use crate::kubelet::RUNS_FOR;
use crate::plan::{WorkloadKind, WorkloadPlan};
use crate::timeline::Moment;

/// The namespace of all workloads.
pub const NAMESPACE: &str = "default";
/// The taint that some pools have and some workloads tolerate.
pub const DEDICATED: &str = "example.com/dedicated";

/// The controllers, which share one client and so one rate limit.
#[derive(Debug)]
pub struct Controllers {
    dice: Dice,
    workloads: Vec<Workload>,
    bucket: Bucket,
    next: Option<Moment>,
}

#[derive(Debug)]
struct Workload {
    plan: WorkloadPlan,
    owner_uid: String,
    target: u32,
    succeeded: u32,
    made: u64,
    pods: BTreeSet<String>,
    /// Until when no pod of it can be made.
    walled_until: Moment,
    /// Nodes that still lack a daemon.
    bare: BTreeSet<String>,
    run: Run,
}

/// The runs of a CronJob; a Job by itself is one that never ends.
#[derive(Debug, Default)]
struct Run {
    number: u32,
    /// How many pods the runs before it had.
    before: u32,
    /// How many pods the next one has.
    pods: u32,
    next: Option<Moment>,
}

/// Twenty requests a second, and thirty at once, as the real controllers have.
#[derive(Debug)]
struct Bucket {
    millis: u64,
    at: Moment,
}

const REQUEST: u64 = 50;
const BURST: u64 = 30;

impl Controllers {
    /// The controllers of a run.
    pub fn new(seed: u64, plans: &[WorkloadPlan]) -> Self {
        let workload = |plan: &WorkloadPlan| Workload {
            plan: plan.clone(),
            owner_uid: String::new(),
            target: 0,
            succeeded: 0,
            made: 0,
            pods: BTreeSet::new(),
            walled_until: Moment(0),
            bare: BTreeSet::new(),
            run: Run::default(),
        };
        Self {
            dice: Dice::new(seed, "controllers"),
            workloads: plans.iter().map(workload).collect(),
            bucket: Bucket { millis: REQUEST * BURST, at: Moment(0) },
            next: None,
        }
    }

    /// Makes the workloads' objects, without pods yet.
    pub fn start(&mut self, ground: &mut Ground) {
        let now = ground.now();
        for workload in &mut self.workloads {
            let (kind, object) = workload.object();
            if let Ok(object) = ground.api.create(now, Actor::Person, kind, object) {
                uid(&object).clone_into(&mut workload.owner_uid);
            }
            workload.wind(ground);
        }
    }

    /// The storm is over: nobody starts more runs.
    pub fn calm(&mut self, ground: &mut Ground) {
        for workload in self.workloads.iter_mut().filter(|w| w.run.next.is_some()) {
            workload.run.next = None;
            ground.api.edit(ground.time.now(), Actor::Person, Kind::CronJob, &workload.key(), |object| {
                object["spec"]["suspend"] = json!(true);
            });
        }
    }

    /// A workload is to have so many pods; a Job is to have so many more.
    pub fn scale(&mut self, ground: &mut Ground, which: usize, to: u32) {
        let Some(workload) = self.workloads.get_mut(which) else { return };
        let key = workload.key();
        let now = ground.now();
        let kind = workload.kind();
        match workload.plan.kind {
            WorkloadKind::Replicas => workload.target = to,
            WorkloadKind::Job => workload.target += to,
            WorkloadKind::Daemon => return,
            WorkloadKind::Cron { .. } => workload.run.pods = to,
        }
        let target = workload.target;
        ground.api.edit(now, Actor::Person, kind, &key, |object| {
            if kind == Kind::CronJob {
                object["spec"]["jobTemplate"]["spec"]["completions"] = json!(to);
                object["spec"]["jobTemplate"]["spec"]["parallelism"] = json!(to);
            } else if kind == Kind::Job {
                object["spec"]["completions"] = json!(target);
                object["spec"]["parallelism"] = json!(target);
            } else {
                object["spec"]["replicas"] = json!(target);
            }
            object["metadata"]["generation"] = json!(number(object, "/metadata/generation") + 1);
        });
        self.soon(ground);
    }

    /// A workload cannot make pods for a while, and perhaps says so.
    pub fn wall(&mut self, ground: &mut Ground, which: usize, for_ms: u64, says: bool) {
        let Some(workload) = self.workloads.get_mut(which) else { return };
        let (now, key) = (ground.now(), workload.key());
        workload.walled_until = now + for_ms;
        if says && workload.plan.kind == WorkloadKind::Replicas {
            ground.api.edit(now, Actor::Controller, Kind::ReplicaSet, &key, |set| {
                set["status"]["conditions"] = json!([{
                    "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota",
                }]);
            });
        }
        ground.time.at(workload.walled_until, Happening::Workloads);
    }

    /// A pod changed.
    pub fn pod_changed(&mut self, ground: &mut Ground, index: usize) {
        let entry = &ground.api.log(Kind::Pod)[index];
        let Some(app) = label(&entry.object, "app") else { return };
        let Some(workload) = self.workloads.iter_mut().find(|w| w.plan.name == app) else { return };
        let key = entry.key.to_string();
        let succeeded = text(&entry.object, "/status/phase") == "Succeeded";
        let leaving = entry.verb == Verb::Removed
            || field(&entry.object, "/metadata/deletionTimestamp").is_some()
            || succeeded;
        if !leaving || !workload.pods.remove(&key) {
            return;
        }
        if succeeded {
            workload.succeeded += 1;
            let (now, key) = (ground.now(), workload.job_key());
            let done = workload.succeeded - workload.run.before;
            let is_over = workload.run.number > 0 && workload.succeeded == workload.target;
            ground.api.edit(now, Actor::Controller, Kind::Job, &key, |job| {
                job["status"]["succeeded"] = json!(done);
                if is_over {
                    job["status"]["conditions"] = json!([{ "type": "Complete", "status": "True" }]);
                }
            });
        } else if workload.plan.kind == WorkloadKind::Daemon {
            return;
        }
        self.soon(ground);
    }

    /// A Node changed.
    pub fn node_changed(&mut self, ground: &mut Ground, index: usize) {
        let entry = &ground.api.log(Kind::Node)[index];
        if entry.verb == Verb::Added {
            let name = text(&entry.object, "/metadata/name").to_owned();
            for workload in self.workloads.iter_mut().filter(|w| w.plan.kind == WorkloadKind::Daemon) {
                workload.bare.insert(name.clone());
            }
            self.soon(ground);
        }
    }

    /// Compares what there is with what there should be.
    pub fn on(&mut self, ground: &mut Ground) {
        let now = ground.now();
        let begun = self.workloads.iter_mut().filter(|w| w.run.next.is_some_and(|next| next <= now));
        let begun = begun.map(|workload| workload.begin_run(ground)).count();
        if self.lift_walls(ground) || begun > 0 {
            self.next = None;
        }
        if self.next.is_some_and(|next| next > now) {
            return;
        }
        self.next = None;
        for workload in &mut self.workloads {
            while workload.surplus() && self.bucket.take(now) {
                workload.remove_one(ground);
            }
            while workload.deficit() && !workload.is_walled(now) && self.bucket.take(now) {
                workload.make_one(ground);
            }
            while workload.plan.kind == WorkloadKind::Daemon
                && !workload.bare.is_empty()
                && self.bucket.take(now)
            {
                workload.make_daemon(ground);
            }
        }
        let is_open = |w: &Workload| w.deficit() && !w.is_walled(now);
        if self.workloads.iter().any(|w| w.surplus() || is_open(w) || !w.bare.is_empty()) {
            self.wake(ground, now + REQUEST);
        }
    }

    /// Lets workloads make pods again whose time has come; whether there were any.
    fn lift_walls(&mut self, ground: &mut Ground) -> bool {
        let now = ground.now();
        let is_over = |w: &&mut Workload| w.walled_until > Moment(0) && w.walled_until <= now;
        let mut any = false;
        for workload in self.workloads.iter_mut().filter(is_over) {
            (workload.walled_until, any) = (Moment(0), true);
            if workload.plan.kind == WorkloadKind::Replicas {
                let key = workload.key();
                ground.api.edit(now, Actor::Controller, Kind::ReplicaSet, &key, |set| {
                    set["status"]["conditions"] = json!([]);
                });
            }
        }
        any
    }

    fn soon(&mut self, ground: &mut Ground) {
        let at = ground.now() + self.dice.between(5, 60);
        self.wake(ground, at);
    }

    fn wake(&mut self, ground: &mut Ground, at: Moment) {
        if self.next.is_none_or(|next| at < next) {
            self.next = Some(at);
            ground.time.at(at, Happening::Workloads);
        }
    }
}

impl Workload {
    fn kind(&self) -> Kind {
        match self.plan.kind {
            WorkloadKind::Replicas => Kind::ReplicaSet,
            WorkloadKind::Job => Kind::Job,
            WorkloadKind::Daemon => Kind::DaemonSet,
            WorkloadKind::Cron { .. } => Kind::CronJob,
        }
    }

    /// The Job whose pods are made now.
    fn job_key(&self) -> String {
        if self.run.number == 0 { self.key() } else { format!("{}-{}", self.key(), self.run.number) }
    }

    /// Makes sure that the next run begins when it is due.
    fn wind(&mut self, ground: &mut Ground) {
        let WorkloadKind::Cron { minutes } = self.plan.kind else { return };
        let period = u64::from(minutes.max(1)) * 60_000;
        let next = Moment((ground.now().0 / period + 1) * period);
        self.run.next = Some(next);
        ground.time.at(next, Happening::Workloads);
    }

    /// Begins a run, unless another one is under way.
    fn begin_run(&mut self, ground: &mut Ground) {
        self.wind(ground);
        let now = ground.now();
        if self.deficit() || !self.pods.is_empty() || self.run.pods == 0 {
            return;
        }
        self.run.number += 1;
        self.run.before = self.succeeded;
        self.target = self.succeeded + self.run.pods;
        let (key, name, pods) =
            (self.key(), format!("{}-{}", self.plan.name, self.run.number), self.run.pods);
        let cron = ground.api.get(Kind::CronJob, &key).map(|cron| uid(cron).to_owned()).unwrap_or_default();
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": name, "namespace": NAMESPACE, "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": self.plan.name, "uid": cron, "controller": true,
            }] },
            "spec": { "completions": pods, "parallelism": pods, "template": self.template() },
            "status": {},
        });
        if let Ok(job) = ground.api.create(now, Actor::Controller, Kind::Job, job) {
            uid(&job).clone_into(&mut self.owner_uid);
        }
        ground.api.edit(now, Actor::Controller, Kind::CronJob, &key, |cron| {
            cron["status"]["lastScheduleTime"] = json!(now.stamp());
        });
    }

    fn key(&self) -> String {
        format!("{NAMESPACE}/{}", self.plan.name)
    }

    fn wanted(&self) -> usize {
        self.target.saturating_sub(self.succeeded) as usize
    }

    fn surplus(&self) -> bool {
        self.plan.kind == WorkloadKind::Replicas && self.pods.len() > self.wanted()
    }

    fn deficit(&self) -> bool {
        self.pods.len() < self.wanted()
    }

    fn is_walled(&self, now: Moment) -> bool {
        self.walled_until > now
    }

    /// Deletes a pod that waits, if any, else the newest.
    fn remove_one(&mut self, ground: &mut Ground) {
        let unbound = |key: &&String| {
            ground.api.get(Kind::Pod, key).is_some_and(|pod| text(pod, "/spec/nodeName").is_empty())
        };
        let victim = self.pods.iter().rev().find(unbound).or_else(|| self.pods.last()).cloned();
        if let Some(key) = victim {
            self.pods.remove(&key);
            ground.delete(Actor::Controller, Kind::Pod, &key, None);
        }
    }

    fn make_one(&mut self, ground: &mut Ground) {
        self.made += 1;
        let name = format!("{}-{:06}", self.plan.name, self.made);
        self.make(ground, &name, None);
    }

    fn make_daemon(&mut self, ground: &mut Ground) {
        let Some(node) = self.bare.pop_first() else { return };
        if ground.api.get(Kind::Node, &format!("/{node}")).is_some() {
            self.make(ground, &format!("{}-{node}", self.plan.name), Some(&node));
        }
    }

    fn make(&mut self, ground: &mut Ground, name: &str, node: Option<&str>) {
        let (kind, version) = match self.plan.kind {
            WorkloadKind::Replicas => ("ReplicaSet", "apps/v1"),
            WorkloadKind::Job | WorkloadKind::Cron { .. } => ("Job", "batch/v1"),
            WorkloadKind::Daemon => ("DaemonSet", "apps/v1"),
        };
        let owner = self.job_key().replacen(&format!("{NAMESPACE}/"), "", 1);
        let template = self.template();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": template["metadata"], "spec": template["spec"], "status": { "phase": "Pending" },
        });
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(NAMESPACE);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": version, "kind": kind, "name": owner, "uid": self.owner_uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        if ground.api.create(ground.time.now(), Actor::Controller, Kind::Pod, pod).is_ok() {
            self.pods.insert(format!("{NAMESPACE}/{name}"));
        }
    }

    fn template(&self) -> Value {
        let plan = &self.plan;
        let mut labels = json!({ "app": plan.name });
        let ends = matches!(plan.kind, WorkloadKind::Job | WorkloadKind::Cron { .. });
        if ends {
            labels[RUNS_FOR] = json!((20 + plan.cpu_m % 120).to_string());
        }
        let mut tolerations = vec![
            json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }),
            json!({ "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }),
        ];
        if plan.tolerates {
            tolerations.push(json!({ "key": DEDICATED, "operator": "Exists" }));
        }
        if plan.kind == WorkloadKind::Daemon {
            tolerations.push(json!({ "operator": "Exists" }));
        }
        let mut spec = json!({
            "containers": [{ "name": "main", "image": "pause", "resources": { "requests": {
                "cpu": format!("{}m", plan.cpu_m), "memory": format!("{}Mi", plan.memory_mi),
            } } }],
            "restartPolicy": if ends { "Never" } else { "Always" },
            "schedulerName": if plan.foreign { "somebody-else" } else { "default-scheduler" },
            "terminationGracePeriodSeconds": plan.grace_s,
            "tolerations": tolerations,
        });
        if let Some(zone) = &plan.zone {
            spec["nodeSelector"] = json!({ "topology.kubernetes.io/zone": zone });
        }
        if plan.gated {
            spec["schedulingGates"] = json!([{ "name": "example.com/wait" }]);
        }
        json!({ "metadata": { "labels": labels }, "spec": spec })
    }

    fn object(&self) -> (Kind, Value) {
        let name = &self.plan.name;
        let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": { "app": name } });
        let selector = json!({ "matchLabels": { "app": name } });
        let template = self.template();
        let object = match self.plan.kind {
            WorkloadKind::Replicas => json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata,
                "spec": { "replicas": 0, "selector": selector, "template": template }, "status": { "replicas": 0 },
            }),
            WorkloadKind::Job => json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
                "spec": { "completions": 0, "parallelism": 0, "selector": selector, "template": template },
                "status": {},
            }),
            WorkloadKind::Cron { minutes } => json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata,
                "spec": {
                    "schedule": format!("*/{minutes} * * * *"), "concurrencyPolicy": "Forbid",
                    "jobTemplate": { "spec": { "completions": 0, "parallelism": 0, "template": template } },
                },
                "status": {},
            }),
            WorkloadKind::Daemon => json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata,
                "spec": { "selector": selector, "template": template }, "status": {},
            }),
        };
        (self.kind(), object)
    }
}

impl Bucket {
    fn take(&mut self, now: Moment) -> bool {
        self.millis = (self.millis + now.since(self.at)).min(REQUEST * BURST);
        self.at = now;
        if self.millis < REQUEST {
            return false;
        }
        self.millis -= REQUEST;
        true
    }
}
