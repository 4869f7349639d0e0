//! Nodes that are taken away by our own will.

use headstart_core::cloud::Instance;
use headstart_engine::settings::{Consolidation, Proactive};
use headstart_engine::{Effect, Fact, Kind, Outcome, Part, Refusal, Settings};
use serde_json::{Value, json};

use crate::story::{CREATED, Story, class, of_web, pod, pool, running_claim};
use crate::{count, deletes, instance, is_create};

/// A pool with this disruption block.
pub(crate) fn pool_with(disruption: &Value) -> Value {
    let mut pool = pool(9);
    pool["spec"]["disruption"] = disruption.clone();
    pool
}

/// A claim whose instance is of a known kind, and its node.
pub(crate) fn in_service(name: &str, of_type: &str) -> [Value; 2] {
    let id = format!("kwok://{name}");
    let labels = json!({
        "karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": of_type,
        "topology.kubernetes.io/zone": "test-zone-a", "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    });
    let mut claim = running_claim(name, &id);
    claim["metadata"]["labels"] = labels.clone();
    claim["metadata"]["uid"] = json!(format!("uid-{name}"));
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"] },
        "spec": { "providerID": id },
        "status": {
            "capacity": { "cpu": "4", "memory": "8Gi", "pods": "110" },
            "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": CREATED }],
        },
    });
    [claim, node]
}

pub(crate) fn bound(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({ "phase": "Running", "startTime": CREATED });
    pod["metadata"]["labels"] = json!({ "app": "web" });
    pod
}

/// A cloud that runs what the claims say.
pub(crate) fn cloud(names: &'static [&'static str]) -> impl FnMut(&Effect) -> Option<Outcome> {
    let all: Vec<Instance> =
        names.iter().map(|name| instance(&format!("kwok://{name}"), &format!("uid-{name}"))).collect();
    move |effect| match effect {
        Effect::Instances => Some(Outcome::Done(Fact::Instances(all.clone()))),
        Effect::Inspect(id) => {
            let found = all.iter().find(|instance| instance.id == *id)?;
            Some(Outcome::Done(Fact::Instance(Box::new(found.clone()))))
        }
        _ => None,
    }
}

fn taints(effect: &Effect, name: &str) -> Option<usize> {
    let Effect::Patch { object, part: Part::Main, patch } = effect else { return None };
    let taints = patch.pointer("/spec/taints")?.as_array()?;
    (object.kind == Kind::Node && object.name == name).then_some(taints.len())
}

fn says_why(effect: &Effect) -> bool {
    let Effect::Patch { object, part: Part::Status, patch } = effect else { return false };
    let said = patch.pointer("/status/conditions").and_then(Value::as_array);
    let why = |c: &Value| c["type"] == "DisruptionReason" && c["status"] == "True";
    object.kind == Kind::NodeClaim && said.is_some_and(|all| all.iter().any(why))
}

pub(crate) fn objects(pool: Value, nodes: &[[Value; 2]], more: &[Value]) -> Vec<Value> {
    let mut all = vec![pool, class()];
    all.extend(nodes.iter().flatten().cloned());
    all.extend(more.iter().cloned());
    all
}

#[test]
fn an_empty_node_is_marked_before_it_is_removed() {
    let nodes = [in_service("a", "c-4x-amd64-linux")];
    let mut story = Story::begin(&objects(pool_with(&json!({})), &nodes, &[]));
    let early = story.play(8_000, cloud(&["a"]));
    assert_eq!(count(&early, |effect| taints(effect, "a").is_some()), 0, "it must stay empty for a while");
    let effects = story.play(60_000, cloud(&["a"]));
    let tainted = effects.iter().position(|effect| taints(effect, "a") == Some(1)).unwrap();
    let said = effects.iter().position(says_why).unwrap();
    let deleted = effects.iter().position(|effect| deletes(effect, Kind::NodeClaim)).unwrap();
    assert!(tainted < deleted && said < deleted, "{effects:?}");
}

#[test]
fn budgets_of_nought_and_policies_of_never_keep_everything() {
    for disruption in [
        json!({ "budgets": [{ "nodes": "0" }] }),
        json!({ "consolidateAfter": "Never" }),
        json!({ "budgets": [{ "nodes": "5", "schedule": "nonsense", "duration": "1h" }] }),
    ] {
        let nodes = [in_service("a", "c-4x-amd64-linux")];
        let mut story = Story::begin(&objects(pool_with(&disruption), &nodes, &[]));
        let effects = story.play(120_000, cloud(&["a"]));
        assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 0, "{disruption}");
    }
}

#[test]
fn pods_that_may_not_be_evicted_keep_their_node() {
    let nodes = [in_service("a", "c-4x-amd64-linux"), in_service("b", "c-4x-amd64-linux")];
    let guard = |allowed: u32| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
            "status": { "disruptionsAllowed": allowed },
        })
    };
    for (allowed, expected) in [(0, 0), (1, 1)] {
        let more = [bound("p", "a"), bound("q", "b"), guard(allowed)];
        let mut story = Story::begin(&objects(pool_with(&json!({})), &nodes, &more));
        let effects = story.play(60_000, cloud(&["a", "b"]));
        let removed = count(&effects, |effect| deletes(effect, Kind::NodeClaim));
        assert_eq!(removed, expected, "{allowed} pods may go: {effects:?}");
    }
}

#[test]
fn what_a_predecessor_marked_and_did_not_replace_is_let_be() {
    let mut nodes = [in_service("a", "c-4x-amd64-linux")];
    nodes[0][1]["spec"]["taints"] = json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]);
    let frozen = pool_with(&json!({ "budgets": [{ "nodes": "0" }] }));
    let mut story = Story::begin(&objects(frozen, &nodes, &[bound("p", "a")]));
    let effects = story.play(5_000, cloud(&["a"]));
    let all = [&story.began[..], &effects[..]].concat();
    assert_eq!(count(&all, |effect| taints(effect, "a") == Some(0)), 1, "{all:?}");
}

#[test]
fn a_node_that_drifted_is_replaced_first_and_removed_when_that_is_ready() {
    let mut nodes = [in_service("a", "c-4x-amd64-linux")];
    nodes[0][0]["metadata"]["annotations"] =
        json!({ "karpenter.sh/nodepool-hash": "other", "karpenter.sh/nodepool-hash-version": "v3" });
    let mut story = Story::begin(&objects(pool_with(&json!({})), &nodes, &[bound("p", "a")]));
    let effects = story.play(60_000, cloud(&["a"]));
    let made = effects.iter().find(|effect| is_create(effect));
    let Some(Effect::Create { object, .. }) = made else { panic!("{effects:?}") };
    assert_eq!(object["metadata"]["annotations"]["headstart.dev/replaces"], "a");
    let removed = count(&effects, |effect| deletes(effect, Kind::NodeClaim));
    assert_eq!(removed, 0, "its replacement is not ready");
}

#[test]
fn a_removal_that_was_given_up_counts_as_long_as_its_claim_says_that_it_goes() {
    let mut nodes = [in_service("a", "c-4x-amd64-linux"), in_service("b", "c-4x-amd64-linux")];
    nodes[1][0]["metadata"]["annotations"] =
        json!({ "karpenter.sh/nodepool-hash": "other", "karpenter.sh/nodepool-hash-version": "v3" });
    let pool =
        |most: &str| pool_with(&json!({ "budgets": [{ "nodes": most }], "consolidateAfter": "Never" }));
    let mut story = Story::begin(&objects(pool("0"), &nodes, &[bound("p", "a"), bound("q", "b")]));
    let [[mut marked, _], _] = nodes;
    marked["status"]["conditions"].as_array_mut().unwrap().push(json!({
        "type": "DisruptionReason", "status": "True", "reason": "Drifted", "message": "", "lastTransitionTime": CREATED,
    }));
    story.seen(Kind::NodeClaim, marked);
    story.seen(Kind::NodePool, pool("1"));
    let mut others = cloud(&["a", "b"]);
    let mut play = |story: &mut Story, is_refused: bool| {
        story.play(60_000, |effect| match effect {
            Effect::Patch { object, .. } if is_refused && object.name == "a" => {
                Some(Outcome::Refused(Refusal::Conflict))
            }
            _ => others(effect),
        })
    };
    let goes = |effect: &Effect| taints(effect, "b") == Some(1);
    let effects = play(&mut story, true);
    assert!(!effects.iter().any(goes), "{effects:?}");
    let effects = play(&mut story, false);
    assert!(effects.iter().any(goes), "{effects:?}");
}

#[test]
fn room_for_a_buffer_goes_soon_after_the_buffer() {
    let template = json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "spare", "namespace": "default" },
        "template": { "spec": pod("spare")["spec"] },
    });
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": { "name": "spare", "namespace": "default" },
        "spec": { "podTemplateRef": { "name": "spare" }, "replicas": 1 },
    });
    let settings =
        Settings { proactive: Proactive { buffers: true, ..Proactive::default() }, ..Settings::default() };
    let nodes = [in_service("a", "c-4x-amd64-linux")];
    let mut story = Story::with(settings, &objects(pool_with(&json!({})), &nodes, &[template, buffer]));
    let held = story.play(400_000, cloud(&["a"]));
    assert_eq!(count(&held, |effect| deletes(effect, Kind::NodeClaim)), 0, "{held:?}");
    story.gone(Kind::CapacityBuffer, "spare");
    let effects = story.play(60_000, cloud(&["a"]));
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 1, "{effects:?}");
}

#[test]
fn a_pod_that_was_evicted_is_not_asked_again_and_does_not_count_as_one_that_runs() {
    let pods = ["web-1", "web-2", "web-3"].map(|name| of_web(bound(name, "a")));
    let nodes = [in_service("a", "c-4x-amd64-linux")];
    let mut story = Story::begin(&objects(pool_with(&json!({ "consolidateAfter": "Never" })), &nodes, &pods));
    story.leaves(Kind::NodeClaim, "a");
    // The first of them may not go yet, and no watch tells that others do.
    let mut others = cloud(&["a"]);
    let effects = story.play(60_000, |effect| match effect {
        Effect::Evict { object } if object.name == "web-1" => Some(Outcome::Refused(Refusal::Conflict)),
        _ => others(effect),
    });
    let asked = |name: &str| {
        count(&effects, |effect| matches!(effect, Effect::Evict { object } if object.name == name))
    };
    assert_eq!(
        [asked("web-1"), asked("web-2"), asked("web-3")],
        [1, 1, 1],
        "it is the last one now, which stays for a while"
    );
}

/// Three nodes alike, of which the last is full and stays; pods of the others can share a node.
fn two_that_are_one_too_many() -> Vec<Value> {
    let mut pool = pool_with(&json!({ "budgets": [{ "nodes": "100%" }] }));
    pool["spec"]["template"]["spec"]["requirements"] = json!([
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"] },
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
    ]);
    let mut pods = vec![bound("web-a", "a"), bound("web-b", "b")];
    for name in ["c-1", "c-2", "c-3", "c-4"] {
        let mut pod = bound(name, "c");
        pod["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
        pods.push(pod);
    }
    for pod in &mut pods {
        pod["metadata"]["creationTimestamp"] = json!("2023-11-14T20:00:00Z");
    }
    let nodes = ["a", "b", "c"].map(|name| in_service(name, "c-4x-amd64-linux"));
    objects(pool, &nodes, &pods.into_iter().map(of_web).collect::<Vec<_>>())
}

fn searching() -> Settings {
    Settings { consolidation: Consolidation::Search, ..Settings::default() }
}

#[test]
fn a_pod_that_was_just_made_to_move_is_left_in_peace() {
    let mut story = Story::with(searching(), &two_that_are_one_too_many());
    let effects = story.play(60_000, cloud(&["a", "b", "c"]));
    let removed: Vec<&str> =
        effects.iter().filter(|effect| deletes(effect, Kind::NodeClaim)).filter_map(name).collect();
    let (gone, left) = match removed[..] {
        ["a"] => ("a", "b"),
        ["b"] => ("b", "a"),
        _ => panic!("{effects:?}"),
    };
    let (gone, left) = (gone.to_owned(), left.to_owned());
    // It comes back on the other node, and room elsewhere makes that one worth removing too.
    story.gone(Kind::Pod, &format!("web-{gone}"));
    let mut moved = of_web(bound("web-moved", &left));
    moved["metadata"]["creationTimestamp"] = json!(story.stamp());
    story.seen(Kind::Pod, moved);
    for name in ["c-1", "c-2", "c-3"] {
        story.gone(Kind::Pod, name);
    }
    let of_left = |effects: &[Effect]| {
        effects
            .iter()
            .filter(|effect| deletes(effect, Kind::NodeClaim))
            .filter_map(name)
            .filter(|name| *name == left)
            .count()
    };
    let effects = story.play(500_000, cloud(&["a", "b", "c"]));
    assert_eq!(of_left(&effects), 0, "it rests: {effects:?}");
    let effects = story.play(500_000, cloud(&["a", "b", "c"]));
    assert_eq!(of_left(&effects), 1, "{effects:?}");
}

#[test]
fn pods_that_were_young_when_an_engine_began_may_have_been_made_to_move() {
    let mut objects = two_that_are_one_too_many();
    for pod in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        pod["metadata"]["creationTimestamp"] = json!("2023-11-14T22:10:00Z");
    }
    let mut story = Story::with(searching(), &objects);
    let effects = story.play(300_000, cloud(&["a", "b", "c"]));
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 0, "{effects:?}");
    let effects = story.play(500_000, cloud(&["a", "b", "c"]));
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 1, "{effects:?}");
}

fn name(effect: &Effect) -> Option<&str> {
    let Effect::Delete { object, .. } = effect else { return None };
    Some(&object.name)
}
