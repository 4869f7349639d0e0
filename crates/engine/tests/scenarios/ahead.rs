//! Nodes before pods: what is bought for pods that do not exist yet, and what is not.

use headstart_engine::settings::Proactive;
use headstart_engine::{Effect, Kind, Report, Settings};
use serde_json::{Value, json};

use crate::disruption::{cloud, in_service, objects, pool_with};
use crate::story::{CREATED, Story, class, of_web, pod, pool, running_claim, running_node};
use crate::{count, deletes, is_create, nobody};

fn proactive() -> Proactive {
    // A lone node is always rather full.
    Proactive { enabled: true, threshold: 1.0, ..Proactive::default() }
}

fn ahead(objects: &[Value]) -> Story {
    ahead_with(proactive(), objects)
}

fn ahead_with(proactive: Proactive, objects: &[Value]) -> Story {
    let base = [pool(99), class()];
    Story::with(Settings { proactive, ..Settings::default() }, &[&base[..], objects].concat())
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod("x")["spec"] })
}

fn workload(kind: &str, spec: &Value) -> Value {
    let version = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
    let mut object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": "web", "namespace": "default", "uid": "uid-web" },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "template": template() },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

pub(crate) fn replicas(count: u32) -> Value {
    workload("ReplicaSet", &json!({ "replicas": count }))
}

/// A pod of the ReplicaSet.
pub(crate) fn owned(name: &str) -> Value {
    of_web(pod(name))
}

/// Claims that are made, each with what its pods ask for in processors.
fn claims(effects: &[Effect]) -> Vec<(&Value, String)> {
    let made = effects.iter().filter_map(|effect| match effect {
        Effect::Create { kind: Kind::NodeClaim, object } => Some(object),
        _ => None,
    });
    let cpu =
        |object: &Value| object["spec"]["resources"]["requests"]["cpu"].as_str().unwrap_or("0").to_owned();
    made.map(|object| (object, cpu(object))).collect()
}

fn processors(effects: &[Effect]) -> u32 {
    claims(effects).iter().map(|(_, cpu)| cpu.parse::<u32>().unwrap()).sum()
}

fn events(story: &Story, reason: &str) -> Vec<String> {
    let of = |report: &Report| match report {
        Report::Event { reason: own, about, message, .. } if own == reason => {
            Some(format!("{about}: {message}"))
        }
        _ => None,
    };
    story.told.iter().filter_map(of).collect()
}

fn name_of(claim: &Value) -> &str {
    claim["metadata"]["name"].as_str().unwrap()
}

#[test]
fn a_gap_is_bought_for_at_once_and_only_once() {
    let mut story = ahead(&[]);
    story.seen(Kind::ReplicaSet, replicas(10));
    let effects = story.play(100, nobody);
    assert_eq!(processors(&effects), 10, "{effects:?}");
    let (claim, _) = claims(&effects)[0];
    assert_eq!(claim["metadata"]["annotations"]["headstart.dev/expected-by"], "gap");
    let because = claim["metadata"]["annotations"]["headstart.dev/because"].as_str().unwrap();
    assert!(because.contains("ReplicaSet default/web wants 10 pods and has 0"), "{because}");
    assert!(story.held_for(name_of(claim)).is_some());
    for i in 0..10 {
        story.seen(Kind::Pod, owned(&format!("web-{i}")));
        assert_eq!(count(&story.play(700, nobody), is_create), 0, "pod {i} has its node already");
    }
    assert_eq!(count(&story.play(60_000, nobody), is_create), 0);
    assert!(events(&story, "Nominated").is_empty(), "nothing was bought for real pods");
    assert!(events(&story, "FailedScheduling").is_empty());
}

#[test]
fn pods_that_exist_and_pods_to_come_are_decided_upon_together() {
    let mut story = ahead(&[]);
    story.seen(Kind::ReplicaSet, replicas(10));
    for i in 0..4 {
        story.seen(Kind::Pod, owned(&format!("web-{i}")));
    }
    let effects = story.play(100, nobody);
    assert_eq!(processors(&effects), 10);
    // Events and nominations name pods that exist, and no others.
    assert_eq!(events(&story, "Nominated").len(), 4);
    assert_eq!(story.gauge("proactive_expected_pods")["gap"] as u32, 6);
}

#[test]
fn switched_off_nothing_is_expected() {
    let mut story = ahead_with(Proactive::default(), &[]);
    story.seen(Kind::ReplicaSet, replicas(10));
    assert_eq!(count(&story.play(20_000, nobody), is_create), 0);
    let gate = Proactive { buffers: true, ..Proactive::default() };
    let mut story = ahead_with(gate, &[]);
    story.seen(Kind::ReplicaSet, replicas(10));
    assert_eq!(count(&story.play(20_000, nobody), is_create), 0, "the gate is about buffers only");
}

#[test]
fn what_makes_no_pods_now_is_not_bought_for() {
    let job = |spec: &Value| workload("Job", spec);
    let foreign = {
        let mut set = replicas(5);
        set["spec"]["template"]["spec"]["schedulerName"] = json!("somebody-else");
        set
    };
    let gated = {
        let mut set = replicas(5);
        set["spec"]["template"]["spec"]["schedulingGates"] = json!([{ "name": "wait" }]);
        set
    };
    let unwilling = {
        let mut set = replicas(5);
        set["metadata"]["annotations"] = json!({ "headstart.dev/proactive-scaleup": "false" });
        set
    };
    for (object, expected) in [
        (workload("StatefulSet", &json!({ "replicas": 5 })), 0),
        (workload("StatefulSet", &json!({ "replicas": 5, "podManagementPolicy": "Parallel" })), 5),
        (job(&json!({ "parallelism": 5, "completions": 5 })), 5),
        (job(&json!({ "parallelism": 5, "completions": 5, "suspend": true })), 0),
        (job(&json!({ "parallelism": 5, "completions": 2 })), 2),
        (foreign, 0),
        (gated, 0),
        (unwilling, 0),
    ] {
        let mut story = ahead(&[]);
        let kind = match object["kind"].as_str().unwrap() {
            "StatefulSet" => Kind::StatefulSet,
            "Job" => Kind::Job,
            _ => Kind::ReplicaSet,
        };
        story.seen(kind, object.clone());
        assert_eq!(processors(&story.play(5_000, nobody)), expected, "{object}");
    }
}

#[test]
fn only_those_who_want_it_if_that_is_asked_for() {
    let mut story = ahead_with(Proactive { only_chosen: true, ..proactive() }, &[]);
    let mut willing = replicas(3);
    story.seen(Kind::ReplicaSet, willing.clone());
    assert_eq!(count(&story.play(5_000, nobody), is_create), 0);
    willing["metadata"]["annotations"] = json!({ "headstart.dev/proactive-scaleup": "true" });
    story.seen(Kind::ReplicaSet, willing);
    assert_eq!(processors(&story.play(5_000, nobody)), 3);
}

#[test]
fn an_owner_that_cannot_make_pods_buys_nothing_and_is_told() {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "most", "namespace": "default" },
        "spec": { "hard": { "pods": "5" } }, "status": { "hard": { "pods": "5" }, "used": { "pods": "5" } },
    });
    let mut story = ahead(&[quota]);
    story.seen(Kind::ReplicaSet, replicas(20));
    assert_eq!(count(&story.play(60_000, nobody), is_create), 0);
    let told = events(&story, "ProactiveScaleUpWithheld");
    assert!(
        told.iter().any(|line| line.contains("ReplicaSet default/web") && line.contains("most")),
        "{told:?}"
    );

    let mut story = ahead(&[]);
    let mut failing = replicas(20);
    failing["status"]["conditions"] = json!([{ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "a webhook says no" }]);
    story.seen(Kind::ReplicaSet, failing);
    assert_eq!(count(&story.play(60_000, nobody), is_create), 0);
    assert!(events(&story, "ProactiveScaleUpWithdrawn")[0].contains("a webhook says no"));
}

#[test]
fn a_gap_that_does_not_close_lets_go_of_its_node() {
    let mut story = ahead(&[]);
    story.seen(Kind::ReplicaSet, replicas(2));
    let effects = story.play(20_000, nobody);
    let made = claims(&effects);
    let claim = name_of(made[0].0);
    assert!(story.held_for(claim).is_some());
    assert_eq!(count(&story.play(30_000, nobody), is_create), 0);
    assert_eq!(story.held_for(claim), None, "nobody believes in those pods any more");
    assert_eq!(events(&story, "ProactiveScaleUpWithdrawn").len(), 1);
    assert_eq!(count(&story.play(600_000, nobody), is_create), 0);
}

#[test]
fn pods_to_come_that_fit_on_nodes_that_exist_hold_them() {
    let mut story = ahead(&[running_claim("first", "kwok://first"), running_node("first", "kwok://first")]);
    assert_eq!(story.held_for("first"), None);
    story.seen(Kind::ReplicaSet, replicas(3));
    assert_eq!(count(&story.play(5_000, nobody), is_create), 0);
    assert!(story.held_for("first").unwrap().contains("ReplicaSet default/web"));
    story.seen(Kind::ReplicaSet, replicas(0));
    story.play(5_000, nobody);
    assert_eq!(story.held_for("first"), None);
}

#[test]
fn the_switch_on_the_pools_works_at_once() {
    let off = |mut pool: Value| {
        pool["metadata"]["annotations"] = json!({ "headstart.dev/proactive-scaleup": "false" });
        pool
    };
    let mut story = ahead(&[]);
    story.seen(Kind::ReplicaSet, replicas(2));
    let effects = story.play(1_000, nobody);
    let made = claims(&effects);
    let claim = name_of(made[0].0);
    assert!(story.held_for(claim).is_some());
    let known = story.object(Kind::NodePool, "general").clone();
    story.seen(Kind::NodePool, off(known));
    story.seen(Kind::ReplicaSet, replicas(20));
    assert_eq!(count(&story.play(5_000, nobody), is_create), 0);
    assert_eq!(story.held_for(claim), None);
    // Pods that exist are none of its business.
    for i in 0..5 {
        story.seen(Kind::Pod, pod(&format!("real-{i}")));
    }
    assert_eq!(count(&story.play(5_000, nobody), is_create), 1);
}

#[test]
fn limits_on_belief_hold() {
    let bought = |proactive: Proactive| {
        let mut story = ahead_with(proactive, &[running_claim("first", "kwok://first")]);
        story.seen(Kind::ReplicaSet, replicas(40));
        (processors(&story.play(500, nobody)), story)
    };
    assert_eq!(bought(Proactive { pod_injection_limit: 7, ..proactive() }).0, 7);
    assert_eq!(bought(Proactive { most_dollars: Some(0.0), ..proactive() }).0, 0);
    assert_eq!(bought(Proactive { pool_selector: "team=shop".into(), ..proactive() }).0, 0);
    let (none, story) = bought(Proactive { node_limit: 1, ..proactive() });
    let says = |report: &Report| matches!(report, Report::Line { message, .. } if message.contains("nothing is started ahead"));
    assert_eq!((none, story.told.iter().filter(|report| says(report)).count()), (0, 1), "it says so once");
}

#[test]
fn a_cap_on_spending_holds_though_the_cheapest_runs_dry() {
    let offered = |settings: Proactive, real: bool| {
        let mut story = ahead_with(settings, &[]);
        story.seen(Kind::ReplicaSet, replicas(10));
        if real {
            story.seen(Kind::Pod, owned("web-0"));
        }
        let effects = story.play(1_000, nobody);
        let launch = effects.iter().find_map(|effect| match effect {
            Effect::Launch(request) => Some(request.offerings.len()),
            _ => None,
        });
        (
            claims(&effects)[0].0["metadata"]["annotations"]["headstart.dev/at-most"].is_string(),
            launch.unwrap(),
        )
    };
    let capped = Proactive { most_dollars: Some(9.0), ..proactive() };
    let (is_capped, few) = offered(capped.clone(), false);
    let (is_free, many) = offered(proactive(), false);
    assert!(is_capped && !is_free, "only a cap needs to be kept to");
    assert!(few < many, "nothing dearer than what was decided upon may be launched: {few} of {many}");
    assert_eq!(offered(capped, true), (false, many), "pods that exist get what there is");
}

#[test]
fn a_limit_on_pods_is_used_by_those_that_exist_first() {
    let mut story = ahead_with(Proactive { pod_injection_limit: 10, ..proactive() }, &[]);
    for i in 0..3 {
        story.seen(Kind::Pod, owned(&format!("web-{i}")));
    }
    story.seen(Kind::ReplicaSet, replicas(13));
    assert_eq!(processors(&story.play(500, nobody)), 10, "three that exist and seven of ten to come");
    for i in 0..20 {
        story.seen(Kind::Pod, pod(&format!("other-{i}")));
    }
    assert_eq!(
        processors(&story.play(12_000, nobody)),
        13,
        "all that exist get room, seven of them what was expected"
    );
}

#[test]
fn only_pods_of_its_own_fill_a_gap_and_gated_ones_do() {
    let mut story = ahead(&[]);
    for i in 0..2 {
        let mut stray = pod(&format!("stray-{i}"));
        stray["metadata"]["labels"] = json!({ "app": "web" });
        story.seen(Kind::Pod, stray);
    }
    story.seen(Kind::ReplicaSet, replicas(3));
    assert_eq!(processors(&story.play(500, nobody)), 5, "a label makes nobody its pod");

    let mut story = ahead(&[]);
    for i in 0..3 {
        let mut gated = owned(&format!("web-{i}"));
        gated["spec"]["schedulingGates"] = json!([{ "name": "later" }]);
        story.seen(Kind::Pod, gated);
    }
    story.seen(Kind::ReplicaSet, replicas(3));
    assert_eq!(count(&story.play(5_000, nobody), is_create), 0, "they are there, and may not run yet");
}

#[test]
fn a_run_of_a_cron_job_finds_its_nodes() {
    // It is 22:13:25, and a node takes a minute as far as anybody knows.
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": { "name": "night", "namespace": "default", "uid": "uid-night", "creationTimestamp": CREATED },
        "spec": {
            "schedule": "20 22 * * *",
            "jobTemplate": { "spec": { "parallelism": 3, "completions": 6, "template": template() } },
        },
    });
    let mut story = ahead(&[]);
    story.seen(Kind::CronJob, cron_job.clone());
    assert_eq!(count(&story.play(320_000, nobody), is_create), 0, "it is too early");
    let effects = story.play(10_000, nobody);
    assert_eq!(processors(&effects), 3);
    assert_eq!(claims(&effects)[0].0["metadata"]["annotations"]["headstart.dev/expected-by"], "cronjob");
    // The run begins: its Job wants the same pods, and nothing is bought twice.
    story.play(65_000, nobody);
    let mut job = workload("Job", &json!({ "parallelism": 3, "completions": 6 }));
    job["metadata"] = json!({
        "name": "night-1", "namespace": "default", "uid": "uid-night-1", "creationTimestamp": "2023-11-14T22:20:00Z",
        "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "CronJob", "name": "night", "uid": "uid-night", "controller": true }],
    });
    story.seen(Kind::Job, job);
    assert_eq!(count(&story.play(20_000, nobody), is_create), 0);

    let mut story = ahead(&[]);
    story.seen(Kind::CronJob, cron_job);
    story.play(100_000, nobody);
    story.gone(Kind::CronJob, "night");
    assert_eq!(count(&story.play(600_000, nobody), is_create), 0, "it is gone");
}

fn buffer(spec: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": { "name": "spare", "namespace": "default", "uid": "uid-spare" }, "spec": spec,
    })
}

fn pod_template() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "shape", "namespace": "default" },
        "template": template(),
    })
}

/// A condition of the buffer: status, reason, message.
fn condition(story: &Story, kind: &str) -> (String, String, String) {
    let buffer = story.object(Kind::CapacityBuffer, "spare");
    let all = buffer["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn is(story: &Story, kind: &str, status: &str, reason: &str) {
    let found = condition(story, kind);
    assert_eq!((found.0.as_str(), found.1.as_str()), (status, reason), "{kind}: {}", found.2);
}

#[test]
fn a_buffer_becomes_true_capacity_and_says_so() {
    let gate = Proactive { buffers: true, ..Proactive::default() };
    let mut story = ahead_with(gate, &[pod_template()]);
    story
        .seen(Kind::CapacityBuffer, buffer(&json!({ "podTemplateRef": { "name": "shape" }, "replicas": 3 })));
    let effects = story.play(5_000, nobody);
    assert_eq!(processors(&effects), 3);
    is(&story, "ReadyForProvisioning", "True", "Resolved");
    is(&story, "Provisioning", "False", "RequiresNewCapacity");
    is(&story, "LimitedByQuotas", "False", "ResourceQuotasAllocated");
    let status = &story.object(Kind::CapacityBuffer, "spare")["status"];
    assert_eq!((&status["replicas"], &status["podTemplateRef"]["name"]), (&json!(3), &json!("shape")));
    assert_eq!(status["podTemplateGeneration"], 1);
    let made = claims(&effects);
    let claim = name_of(made[0].0);
    assert!(story.held_for(claim).unwrap().contains("keeps room for 3 pods"));

    // A node that is ready has the room; the claim under way is not needed any more.
    story.seen(Kind::NodeClaim, running_claim("first", "kwok://first"));
    story.seen(Kind::Node, running_node("first", "kwok://first"));
    story.play(20_000, nobody);
    is(&story, "Provisioning", "True", "FitsExistingCapacity");
    assert!(story.held_for("first").is_some());
    story.gone(Kind::CapacityBuffer, "spare");
    story.play(5_000, nobody);
    assert_eq!(story.held_for("first"), None);
}

#[test]
fn buffers_that_cannot_be_kept_say_why() {
    let deployment = |replicas: u32| workload("Deployment", &json!({ "replicas": replicas }));
    let scaled = json!({ "scalableRef": { "apiGroup": "apps", "kind": "Deployment", "name": "web" }, "percentage": 50 });
    for (spec, ready, provisioning) in [
        (json!({ "replicas": 3 }), "ResolutionFailed", "NotReadyForProvisioning"),
        (
            json!({ "podTemplateRef": { "name": "none" }, "replicas": 3 }),
            "PodTemplateNotFound",
            "NotReadyForProvisioning",
        ),
        (
            json!({ "scalableRef": { "kind": "Deployment", "name": "none" }, "replicas": 3 }),
            "ScalableRefNotFound",
            "NotReadyForProvisioning",
        ),
        (
            json!({ "scalableRef": { "apiGroup": "batch", "kind": "Job", "name": "web" }, "replicas": 3 }),
            "ResolutionFailed",
            "NotReadyForProvisioning",
        ),
        (
            json!({ "podTemplateRef": { "name": "shape" }, "replicas": 3, "provisioningStrategy": "x/standby" }),
            "ResolutionFailed",
            "NotReadyForProvisioning",
        ),
        (scaled.clone(), "Resolved", "BufferEmpty"),
    ] {
        let mut story = ahead(&[pod_template(), deployment(0)]);
        story.seen(Kind::CapacityBuffer, buffer(&spec));
        assert_eq!(count(&story.play(5_000, nobody), is_create), 0, "{spec}");
        let found = condition(&story, "ReadyForProvisioning");
        assert_eq!(found.1, ready, "{spec}: {}", found.2);
        is(&story, "Provisioning", "False", provisioning);
    }
    let mut story = ahead(&[deployment(0)]);
    story.seen(Kind::CapacityBuffer, buffer(&scaled));
    story.play(5_000, nobody);
    story.seen(Kind::Deployment, deployment(7));
    assert_eq!(processors(&story.play(5_000, nobody)), 4, "half of seven, rounded up");
}

#[test]
fn a_buffer_whose_pods_keep_apart_needs_a_node_for_each() {
    let mut apart = pod_template();
    apart["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }]);
    let nodes = ["first", "second"].map(|name| {
        let id = format!("kwok://{name}");
        [running_claim(name, &id), running_node(name, &id)]
    });
    let mut story = ahead(&[&nodes.concat()[..], &[apart]].concat());
    let spec = json!({ "podTemplateRef": { "name": "shape" }, "replicas": 3 });
    story.seen(Kind::CapacityBuffer, buffer(&spec));
    assert_eq!(processors(&story.play(5_000, nobody)), 1, "the third has no place on two nodes");
}

#[test]
fn a_buffers_nodes_outlast_those_who_keep_them() {
    let spec = json!({ "podTemplateRef": { "name": "shape" }, "replicas": 3 });
    let kept = objects(
        pool_with(&json!({ "consolidateAfter": "0s" })),
        &[in_service("kept", "c-4x-amd64-linux"), in_service("spare", "c-4x-amd64-linux")],
        &[pod_template(), buffer(&spec)],
    );
    let settings =
        Settings { proactive: Proactive { buffers: true, ..Proactive::default() }, ..Settings::default() };
    let mut story = Story::with(settings, &kept);
    let mut effects = std::mem::take(&mut story.began);
    effects.extend(story.play(120_000, cloud(&["kept", "spare"])));
    let gone: Vec<&str> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Delete { object, .. } if object.kind == Kind::NodeClaim => Some(&*object.name),
            _ => None,
        })
        .collect();
    assert_eq!(gone.len(), 1, "one of two empty nodes has the room that is wanted: {gone:?}");
    assert_eq!(count(&effects, is_create), 0, "nothing is bought again");
}

#[test]
fn a_buffers_nodes_that_drift_are_replaced_within_budgets_and_the_buffer_says_so() {
    let drifted = |name: &str| {
        let mut node = in_service(name, "c-4x-amd64-linux");
        node[0]["metadata"]["annotations"] =
            json!({ "karpenter.sh/nodepool-hash": "old", "karpenter.sh/nodepool-hash-version": "v3" });
        node
    };
    let kept = objects(
        pool_with(&json!({ "consolidateAfter": "0s", "budgets": [{ "nodes": "1" }] })),
        &[drifted("a"), drifted("b")],
        &[pod_template(), buffer(&json!({ "podTemplateRef": { "name": "shape" }, "replicas": 6 }))],
    );
    let settings =
        Settings { proactive: Proactive { buffers: true, ..Proactive::default() }, ..Settings::default() };
    let mut story = Story::with(settings, &kept);
    let mut effects = std::mem::take(&mut story.began);
    effects.extend(story.play(120_000, cloud(&["a", "b"])));
    assert_eq!(
        count(&effects, is_create),
        1,
        "the budget lets one go at a time, and its room is bought first"
    );
    assert_eq!(
        count(&effects, |effect| deletes(effect, Kind::NodeClaim)),
        0,
        "what replaces it is not there yet"
    );
    is(&story, "Provisioning", "False", "RequiresNewCapacity");
}

#[test]
fn a_node_that_waits_for_its_readiness_rules_is_counted_on_and_not_initialized() {
    let tainted = |taints: Value| {
        let mut node = running_node("first", "kwok://first");
        node["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/initialized");
        node["spec"]["taints"] = taints;
        node
    };
    let mut claim = running_claim("first", "kwok://first");
    claim["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .retain(|c| c["type"] == "Launched" || c["type"] == "Registered");
    let rule = json!([{ "key": "readiness.k8s.io/net", "effect": "NoSchedule" }]);
    let mut story = ahead(&[claim, tainted(rule)]);
    story.seen(Kind::Pod, pod("waits"));
    let effects = story.play(60_000, nobody);
    assert_eq!(count(&effects, is_create), 0, "the node on its way is for it");
    let initialized = |story: &Story| {
        let conditions = &story.object(Kind::NodeClaim, "first")["status"]["conditions"];
        let is_it = |c: &&Value| c["type"] == "Initialized";
        conditions.as_array().unwrap().iter().find(is_it).unwrap()["status"].clone()
    };
    assert_eq!(initialized(&story), "Unknown");
    story.seen(Kind::Node, tainted(json!([])));
    story.play(5_000, nobody);
    assert_eq!(initialized(&story), "True");
}

#[test]
fn a_pod_that_takes_a_buffers_room_is_followed_by_a_refill() {
    let gate = Proactive { buffers: true, ..Proactive::default() };
    let objects =
        [pod_template(), running_claim("first", "kwok://first"), running_node("first", "kwok://first")];
    let mut story = ahead_with(gate, &objects);
    story
        .seen(Kind::CapacityBuffer, buffer(&json!({ "podTemplateRef": { "name": "shape" }, "replicas": 3 })));
    assert_eq!(count(&story.play(5_000, nobody), is_create), 0);
    is(&story, "Provisioning", "True", "FitsExistingCapacity");
    for i in 0..2 {
        let mut taker = pod(&format!("taker-{i}"));
        taker["spec"]["nodeName"] = json!("first");
        taker["status"]["phase"] = json!("Running");
        story.seen(Kind::Pod, taker);
    }
    assert_eq!(processors(&story.play(5_000, nobody)), 1, "two fit beside the two that came");
    is(&story, "Provisioning", "False", "RequiresNewCapacity");
}

#[test]
fn a_pool_that_is_nearly_full_gets_room_for_more_of_its_pods() {
    let objects = [running_claim("first", "kwok://first"), running_node("first", "kwok://first")];
    let mut story = ahead_with(Proactive { threshold: 0.75, ..proactive() }, &objects);
    let bound = |i: u32| {
        let mut bound = pod(&format!("busy-{i}"));
        bound["spec"]["nodeName"] = json!("first");
        bound["status"]["phase"] = json!("Running");
        bound
    };
    story.seen(Kind::Pod, bound(0));
    story.seen(Kind::Pod, bound(1));
    assert_eq!(count(&story.play(20_000, nobody), is_create), 0, "half of it is requested");
    story.seen(Kind::Pod, bound(2));
    let effects = story.play(20_000, nobody);
    // Of three requested one more should be free to be at three quarters, and a second to be below.
    assert_eq!(processors(&effects), 1, "one fits beside them");
    assert_eq!(claims(&effects)[0].0["metadata"]["annotations"]["headstart.dev/expected-by"], "headroom");
    assert_eq!(count(&story.play(120_000, nobody), is_create), 0, "and then it is content");
}

#[test]
fn claims_that_end_before_their_node_is_there_are_not_made_again_and_again() {
    let mut story = ahead(&[]);
    story.seen(Kind::ReplicaSet, replicas(3));
    let mut made = 0;
    for second in 0..29 {
        let effects = story.play(1_000, nobody);
        for (claim, _) in claims(&effects) {
            made += 1;
            story.gone(Kind::NodeClaim, name_of(claim));
        }
        assert!(made <= 7, "{made} claims after {second} seconds");
    }
    assert!(made >= 3, "only {made} tries");
}

#[test]
fn nodes_that_were_started_ahead_give_way_to_pods_that_exist() {
    let mut story =
        Story::with(Settings { proactive: proactive(), ..Settings::default() }, &[pool(1), class()]);
    story.seen(Kind::ReplicaSet, replicas(2));
    let effects = story.play(1_000, nobody);
    let made = claims(&effects);
    let claim = name_of(made[0].0).to_owned();
    // One that does not fit there: the only node that the pool may have is held for pods that nobody has made.
    let mut other = pod("elsewhere");
    other["spec"]["nodeSelector"] = json!({ "kubernetes.io/arch": "arm64" });
    story.seen(Kind::Pod, other);
    let effects = story.play(20_000, nobody);
    let gives_way = |effect: &Effect| matches!(effect, Effect::Delete { object, .. } if object.name == claim);
    assert_eq!(count(&effects, gives_way), 1, "{effects:?}");
    story.gone(Kind::NodeClaim, &claim);
    let effects = story.play(5_000, nobody);
    assert_eq!(count(&effects, is_create), 1);
    assert!(
        !claims(&effects)[0].0["metadata"]["annotations"]
            .as_object()
            .unwrap()
            .contains_key("headstart.dev/expected-by")
    );
}
