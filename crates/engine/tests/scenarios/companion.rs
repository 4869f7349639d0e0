//! Beside another autoscaler: what stands for pods that are expected, and when it goes.

use headstart_engine::settings::{Leading, Proactive, With};
use headstart_engine::{Effect, Kind, Mode, Settings};
use serde_json::{Value, json};

use crate::ahead::{owned, replicas};
use crate::story::{CREATED, Story, class, pool, running_claim, running_node};
use crate::{count, deletes, nobody};

const NAMESPACE: &str = "headstart-placeholders";
const OURS: &str = "headstart.dev/placeholder-for";

fn settings(with: With) -> Settings {
    // A lone node is always rather full.
    let proactive = Proactive { enabled: true, threshold: 1.0, others_buy: true, ..Proactive::default() };
    let companion = Leading { with, ..Leading::default() };
    Settings { mode: Mode::Companion, proactive, companion, ..Settings::default() }
}

fn ready_pool() -> Value {
    let mut pool = pool(99);
    pool["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": CREATED,
    }]);
    pool
}

fn beside(objects: &[Value]) -> Story {
    Story::with(settings(With::Placeholders), &[&[ready_pool(), class()][..], objects].concat())
}

fn makes(effect: &Effect, kind: Kind) -> bool {
    matches!(effect, Effect::Create { kind: made, .. } if *made == kind)
}

fn placeholders(story: &Story) -> Vec<Value> {
    let is_ours = |pod: &Value| pod["metadata"]["namespace"] == NAMESPACE;
    story.all(Kind::Pod).into_iter().filter(is_ours).collect()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// A pod of ours is bound to a node and runs there.
fn bind(story: &mut Story, name: &str, node: &str) {
    let mut pod = story.object(Kind::Pod, name).clone();
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({ "phase": "Running" });
    story.seen(Kind::Pod, pod);
}

#[test]
fn a_gap_is_shown_by_pods_that_nothing_of_the_workload_selects() {
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, replicas(10));
    let effects = story.play(200, nobody);
    assert_eq!(count(&effects, |effect| makes(effect, Kind::Pod)), 10, "{effects:?}");
    assert_eq!(count(&effects, |effect| makes(effect, Kind::NodeClaim)), 0);
    let pods = placeholders(&story);
    let owner = story.object(Kind::ConfigMap, "headstart-companion")["metadata"]["uid"].clone();
    for pod in &pods {
        let labels = pod["metadata"]["labels"].as_object().unwrap();
        let keys: Vec<&str> = labels.keys().map(String::as_str).collect();
        let expected = [
            "headstart.dev/placeholder",
            OURS,
            "karpenter.azure.com/fake-pod",
            "karpenter.azure.com/proactive-scaleup",
        ];
        assert_eq!(keys, expected, "none of the workload's own");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], owner);
        assert_eq!(pod["metadata"]["annotations"]["headstart.dev/expected-by"], "gap");
        let because = pod["metadata"]["annotations"]["headstart.dev/because"].as_str().unwrap();
        assert!(because.contains("ReplicaSet default/web wants 10 pods and has 0"), "{because}");
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 0);
        assert_eq!(pod["spec"]["priorityClassName"], "headstart-placeholder-minus-10");
        let requests = json!({ "cpu": "1", "memory": "1Gi" });
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], requests);
    }
    assert_eq!(story.object(Kind::PriorityClass, "headstart-placeholder-minus-10")["value"], -10);
    assert!(story.play(20_000, nobody).is_empty(), "that is all");
}

#[test]
fn they_go_one_by_one_as_the_pods_come() {
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, replicas(10));
    story.play(200, nobody);
    for i in 0..10 {
        story.seen(Kind::Pod, owned(&format!("web-{i}")));
        story.play(0, nobody);
        assert_eq!(placeholders(&story).len(), 9 - i, "pod {i} is there");
    }
    assert_eq!(count(&story.play(60_000, nobody), |effect| makes(effect, Kind::Pod)), 0);
}

#[test]
fn what_fits_on_nodes_that_are_there_needs_nobody_to_keep_the_room() {
    let node = [running_claim("a", "kwok://a"), running_node("a", "kwok://a")];
    let mut story = beside(&node);
    story.seen(Kind::ReplicaSet, replicas(3));
    assert_eq!(count(&story.play(20_000, nobody), |effect| makes(effect, Kind::Pod)), 0);
    story.seen(Kind::ReplicaSet, replicas(6));
    let made = count(&story.play(1_000, nobody), |effect| makes(effect, Kind::Pod));
    assert_eq!(made, 6, "some need a new node, so that the scheduler must see all of them");
}

#[test]
fn what_they_brought_stays_held_and_is_cleared_for_pods_that_wait() {
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, replicas(4));
    story.play(200, nobody);
    let names: Vec<String> = placeholders(&story).iter().map(|pod| name_of(pod).to_owned()).collect();
    let mut node = running_node("a", "kwok://a");
    node["status"]["allocatable"]["cpu"] = json!("2");
    story.seen(Kind::NodeClaim, running_claim("a", "kwok://a"));
    story.seen(Kind::Node, node);
    for name in &names[..2] {
        bind(&mut story, name, "a");
    }
    let effects = story.play(5_000, nobody);
    assert!(effects.is_empty(), "two are held, two are still wanted: {effects:?}");

    story.seen(Kind::Pod, owned("web-0"));
    let effects = story.play(0, nobody);
    let [Effect::Delete { object, grace: Some(0) }] = &effects[..] else { panic!("{effects:?}") };
    assert!(names[..2].contains(&object.name), "the one in the way of the pod that waits goes");
}

#[test]
fn once_there_is_room_they_go_a_second_ahead_of_pods_that_come_steadily() {
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, replicas(10));
    story.play(200, nobody);
    let names: Vec<String> = placeholders(&story).iter().map(|pod| name_of(pod).to_owned()).collect();
    let mut node = running_node("a", "kwok://a");
    node["status"]["allocatable"] = json!({ "cpu": "20", "memory": "64Gi", "pods": "110" });
    story.seen(Kind::NodeClaim, running_claim("a", "kwok://a"));
    story.seen(Kind::Node, node);
    for name in &names {
        bind(&mut story, name, "a");
    }
    let effects = story.play(5_000, nobody);
    assert!(effects.is_empty(), "all are held as long as nobody comes: {effects:?}");
    for i in 0..3 {
        story.seen(Kind::Pod, owned(&format!("web-{i}")));
    }
    story.play(0, nobody);
    assert_eq!(placeholders(&story).len(), 7, "for three that came three go");
    story.play(1_500, nobody);
    assert_eq!(placeholders(&story).len(), 4, "and for three more that will come");
    assert!(story.play(5_000, nobody).is_empty(), "whether they come or not");
}

#[test]
fn too_many_go_and_those_that_have_no_node_go_first() {
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, replicas(4));
    story.play(200, nobody);
    let names: Vec<String> = placeholders(&story).iter().map(|pod| name_of(pod).to_owned()).collect();
    story.seen(Kind::NodeClaim, running_claim("a", "kwok://a"));
    story.seen(Kind::Node, running_node("a", "kwok://a"));
    bind(&mut story, &names[3], "a");
    story.seen(Kind::ReplicaSet, replicas(1));
    story.play(2_000, nobody);
    let left: Vec<String> = placeholders(&story).iter().map(|pod| name_of(pod).to_owned()).collect();
    assert_eq!(left, [names[3].clone()]);
    story.seen(Kind::ReplicaSet, replicas(0));
    story.play(2_000, nobody);
    assert!(placeholders(&story).is_empty());
}

#[test]
fn constraints_are_kept_and_those_about_the_workload_are_about_its_placeholders() {
    let term = |app: &str| json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": app } } });
    let spread = |app: &str| {
        json!({
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": app } },
        })
    };
    let mut set = replicas(2);
    let spec = &mut set["spec"]["template"]["spec"];
    spec["topologySpreadConstraints"] = json!([spread("web"), spread("other")]);
    spec["affinity"]["podAntiAffinity"] =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term("web"), term("other")] });
    spec["nodeSelector"] = json!({ "kubernetes.io/arch": "arm64" });
    spec["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" }]);
    spec["initContainers"] =
        json!([{ "name": "i", "resources": { "requests": { "cpu": "3", "memory": "1Gi" } } }]);
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, set);
    story.play(200, nobody);
    let pods = placeholders(&story);
    assert_eq!(pods.len(), 2);
    let (spec, mark) = (&pods[0]["spec"], &pods[0]["metadata"]["labels"][OURS]);
    assert_eq!(spec["nodeSelector"], json!({ "kubernetes.io/arch": "arm64" }));
    assert_eq!(spec["tolerations"], json!([{ "key": "dedicated", "operator": "Exists" }]));
    assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "3", "its hungriest moment");
    let ours = json!({ "matchLabels": { OURS: mark } });
    let spreads = spec["topologySpreadConstraints"].as_array().unwrap();
    assert_eq!(spreads.len(), 1, "pods of other namespaces cannot be counted: {spreads:?}");
    assert_eq!(spreads[0]["labelSelector"], ours);
    let terms = &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms[0]["labelSelector"], ours, "away from each other");
    assert!(terms[0].get("namespaces").is_none());
    let other = |app: &str| json!([{ "key": "app", "operator": "In", "values": [app] }]);
    for (term, app) in [(&terms[1], "web"), (&terms[2], "other")] {
        assert_eq!(term["labelSelector"]["matchExpressions"], other(app), "and from pods that exist");
        assert_eq!(term["namespaces"], json!(["default"]));
    }
}

#[test]
fn an_owner_that_cannot_make_its_pods_gets_none() {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "most", "namespace": "default" },
        "spec": { "hard": { "pods": "5" } }, "status": { "hard": { "pods": "5" }, "used": { "pods": "5" } },
    });
    let mut story = beside(&[quota]);
    story.seen(Kind::ReplicaSet, replicas(20));
    assert_eq!(count(&story.play(60_000, nobody), |effect| makes(effect, Kind::Pod)), 0);
}

#[test]
fn a_new_process_goes_on_with_what_it_finds_and_removes_the_rest() {
    let mut first = beside(&[]);
    first.seen(Kind::ReplicaSet, replicas(5));
    first.play(200, nobody);
    let mut found = placeholders(&first);
    for pod in &mut found {
        pod["kind"] = json!("Pod");
    }
    let mut stray = found[0].clone();
    stray["metadata"]["name"] = json!("stray");
    stray["metadata"]["uid"] = json!("uid-stray");
    stray["metadata"]["labels"][OURS] = json!("0000000000000000");
    let mut objects = found.clone();
    objects.extend([stray, replicas(5)]);
    let second = beside(&objects);
    assert_eq!(count(&second.began, |effect| makes(effect, Kind::Pod)), 0, "{:?}", second.began);
    assert_eq!(count(&second.began, |effect| deletes(effect, Kind::Pod)), 1);
    let names = |pods: &[Value]| pods.iter().map(|pod| name_of(pod).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&placeholders(&second)), names(&found));
}

#[test]
fn they_are_made_at_a_bounded_rate() {
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, replicas(600));
    let made = |effects: &[Effect]| count(effects, |effect| makes(effect, Kind::Pod));
    let first = made(&story.play(100, nobody));
    assert!((300..=320).contains(&first), "{first} at once");
    let next = made(&story.play(1_000, nobody));
    assert!(
        (180..=210).contains(&next),
        "{next} in a second, without a pause in which somebody could decide"
    );
    assert_eq!(first + next + made(&story.play(1_000, nobody)), 600);
}

#[test]
fn nothing_is_left_when_the_process_ends() {
    let mut story = beside(&[]);
    story.seen(Kind::ReplicaSet, replicas(3));
    story.play(200, nobody);
    let effects = story.wind_up();
    let clears = |effect: &Effect, of: Kind| matches!(effect, Effect::Clear { kind, .. } if *kind == of);
    for kind in [Kind::Pod, Kind::CapacityBuffer, Kind::PodTemplate] {
        assert_eq!(count(&effects, |effect| clears(effect, kind)), 1, "{effects:?}");
    }
    assert_eq!(
        count(&effects, |effect| deletes(effect, Kind::ConfigMap)),
        1,
        "what is made late goes with it"
    );
}

/// Somebody looks after a buffer.
fn answered(story: &mut Story, name: &str) {
    let mut buffer = story.object(Kind::CapacityBuffer, name).clone();
    buffer["status"]["conditions"] = json!([{
        "type": "ReadyForProvisioning", "status": "True", "reason": "Resolved", "message": "",
        "lastTransitionTime": CREATED,
    }]);
    story.seen(Kind::CapacityBuffer, buffer);
}

#[test]
fn where_somebody_looks_after_buffers_they_stand_for_expected_pods() {
    let mut story = Story::with(settings(With::Auto), &[ready_pool(), class()]);
    answered(&mut story, "headstart-probe");
    story.play(1_000, nobody);
    story.seen(Kind::ReplicaSet, replicas(10));
    let effects = story.play(1_000, nobody);
    assert_eq!(count(&effects, |effect| makes(effect, Kind::Pod)), 0, "{effects:?}");
    let is_ours = |buffer: &&Value| buffer["metadata"]["labels"].get(OURS).is_some();
    let of = |story: &Story| -> Vec<Value> {
        story.all(Kind::CapacityBuffer).iter().filter(is_ours).cloned().collect()
    };
    let buffers = of(&story);
    assert_eq!(buffers.len(), 1);
    assert_eq!(buffers[0]["spec"]["replicas"], 10);
    let named = story.object(Kind::PodTemplate, name_of(&buffers[0]));
    assert_eq!(named["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
    answered(&mut story, name_of(&buffers[0]));
    for i in 0..4 {
        story.seen(Kind::Pod, owned(&format!("web-{i}")));
    }
    story.play(2_000, nobody);
    assert_eq!(of(&story)[0]["spec"]["replicas"], 6);
    story.seen(Kind::ReplicaSet, replicas(4));
    let effects = story.play(2_000, nobody);
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::CapacityBuffer)), 1, "{effects:?}");
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::PodTemplate)), 1);
}

#[test]
fn where_nobody_does_pods_stand_for_them() {
    let mut story = Story::with(settings(With::Auto), &[ready_pool(), class()]);
    assert_eq!(count(&story.began, |effect| makes(effect, Kind::CapacityBuffer)), 1, "somebody is asked");
    story.seen(Kind::ReplicaSet, replicas(3));
    let effects = story.play(1_000, nobody);
    assert_eq!(count(&effects, |effect| makes(effect, Kind::Pod)), 3, "nobody waits for the answer");
    let effects = story.play(20_000, nobody);
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::CapacityBuffer)), 1, "{effects:?}");
    assert_eq!(count(&effects, |effect| makes(effect, Kind::CapacityBuffer)), 0, "not asked again at once");
}
