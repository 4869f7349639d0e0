//! What pods that do not exist yet will need, read from the objects that will make them.

#![expect(clippy::unwrap_used, reason = "tests say so by failing")]

use headstart_core::demand::{Template, Wish};
use headstart_core::labels::WellKnown;
use headstart_intake::{Choice, World};
use serde_json::{Value, json};

fn world(objects: &[Value]) -> World {
    let mut world = World::new();
    for object in objects {
        world.set(object).unwrap();
    }
    world
}

fn set(kind: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": "web", "namespace": "shop", "uid": "u", "annotations": { "headstart.dev/proactive-scaleup": "true" } },
        "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
        } },
    })
}

fn pod(cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web-1", "namespace": "shop", "uid": "p", "labels": { "app": "web", "pod-template-hash": "h" } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
    })
}

#[test]
fn makers_of_several_kinds_go_in_any_order() {
    let kinds = ["ReplicaSet", "Deployment", "StatefulSet"];
    for first in kinds {
        for second in kinds.into_iter().filter(|kind| *kind != first) {
            let mut world = world(&kinds.map(|kind| set(kind, "1")));
            world.remove(first, "shop", "web");
            world.remove(second, "shop", "web");
            let makers = world.makers().map(|maker| maker.owner().kind.to_string());
            let left = kinds.into_iter().find(|kind| ![first, second, "Deployment"].contains(kind));
            assert_eq!(makers.collect::<Vec<_>>(), Vec::from_iter(left), "{first}, then {second}");
            world.set(&set(second, "2")).unwrap();
            world.remove(second, "shop", "web");
        }
    }
}

fn drawn(world: &World, youngest: Option<(&str, &str)>) -> Result<Template, String> {
    let maker = world.makers().next().unwrap();
    world.drawing(&WellKnown::none()).maker(maker, youngest)
}

fn cpu(template: &Template) -> String {
    template.shape.requests.get("cpu").to_string()
}

#[test]
fn a_pod_that_was_admitted_tells_more_than_the_template() {
    let world = world(&[set("ReplicaSet", "1"), pod("1500m")]);
    let maker = world.makers().next().unwrap();
    assert_eq!((maker.wish(), maker.choice()), (Wish::Replicas(3), Some(Choice::Yes)));
    assert_eq!(cpu(&drawn(&world, None).unwrap()), "1");
    let like = drawn(&world, Some(("shop", "web-1"))).unwrap();
    assert_eq!(cpu(&like), "1500m");
    assert_eq!(like.shape.labels.get("pod-template-hash").map(|value| &**value), Some("h"));
}

#[test]
fn limit_ranges_add_to_templates_that_say_nothing() {
    let mut silent = set("ReplicaSet", "1");
    silent["spec"]["template"]["spec"]["containers"] = json!([{ "name": "c" }]);
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "r", "namespace": "shop" },
        "spec": { "limits": [{ "type": "Container", "defaultRequest": { "cpu": "250m" } }] },
    });
    assert_eq!(cpu(&drawn(&world(&[silent, range]), None).unwrap()), "250m");
}

#[test]
fn volumes_of_stateful_sets_are_each_pods_own() {
    let mut ordered = set("StatefulSet", "1");
    assert_eq!(world(&[ordered.clone()]).makers().next().unwrap().wish(), Wish::OneByOne);
    ordered["spec"]["podManagementPolicy"] = json!("Parallel");
    ordered["spec"]["volumeClaimTemplates"] =
        json!([{ "metadata": { "name": "data" }, "spec": { "storageClassName": "fast" } }]);
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "fast" },
        "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let template = drawn(&world(&[ordered.clone(), class]), None).unwrap();
    assert_eq!((template.shared.len(), &*template.own), (0, &["csi.example.com".into()][..]));
    let unknown = drawn(&world(&[ordered]), None).unwrap_err();
    assert!(unknown.contains("storage class fast"), "{unknown}");
}

#[test]
fn pods_that_nobody_can_help_yet_have_no_template() {
    let with = |field: &str, value: Value| {
        let mut set = set("ReplicaSet", "1");
        set["spec"]["template"]["spec"][field] = value;
        drawn(&world(&[set]), None).unwrap_err()
    };
    assert!(with("schedulerName", json!("other")).contains("another scheduler"));
    assert!(with("schedulingGates", json!([{ "name": "wait" }])).contains("gate"));
    assert!(with("resourceClaims", json!([{ "name": "gpu" }])).contains("devices"));
}

#[test]
fn quotas_count_by_the_names_that_pods_use() {
    let quota = |scopes: Value| {
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q", "namespace": "shop" },
            "spec": {
                "hard": { "requests.cpu": "10", "cpu": "8", "limits.cpu": "1", "count/pods": "5", "requests.nvidia.com/gpu": "2" },
                "scopes": scopes,
            },
            "status": { "used": { "requests.cpu": "1", "cpu": "1", "count/pods": "6" } },
        })
    };
    let left = world(&[quota(json!([]))]).quotas_left().remove(0).left;
    let all: Vec<String> = left.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    assert_eq!(all, ["cpu=7", "nvidia.com/gpu=2", "pods=0"]);
    assert!(world(&[quota(json!(["BestEffort"]))]).quotas_left().is_empty());
    assert_eq!(world(&[quota(json!(["NotTerminating"]))]).quotas_left().len(), 1);
}

#[test]
fn runs_of_cron_jobs_have_the_pods_of_their_job() {
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": { "name": "night", "namespace": "shop", "uid": "c", "creationTimestamp": "2026-03-01T00:00:00Z" },
        "spec": {
            "schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 30,
            "jobTemplate": { "spec": { "parallelism": 4, "completions": 2, "template": set("ReplicaSet", "2")["spec"]["template"] } },
        },
        "status": { "lastScheduleTime": "2026-03-02T02:00:00Z" },
    });
    let world = world(&[cron_job]);
    let run = world.runs().next().unwrap();
    assert_eq!(run.line(), ("0 3 * * *", Some("Europe/Berlin")));
    assert_eq!((run.pods(), run.deadline(), run.is_suspended()), (2, Some(30_000), false));
    assert_eq!(run.last(), "2026-03-02T02:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond());
    assert_eq!(cpu(&world.drawing(&WellKnown::none()).run(run).unwrap()), "2");
}
