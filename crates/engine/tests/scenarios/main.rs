//! Events in, actions out: what an engine does about one thing at a time.

#![expect(clippy::unwrap_used, reason = "tests say so by failing")]

mod ahead;
mod companion;
mod disruption;
mod fixed;
mod observe;
mod repair;
mod story;

use std::collections::BTreeMap;

use headstart_core::cloud::{ClassRef, CloudError, Instance, OfferingKey, ProviderId, State, Token};
use headstart_core::resources::Resources;
use headstart_engine::{Effect, Fact, Kind, Outcome, Refusal, Settings};
use serde_json::{Value, json};
use story::{Story, claim, class, of_web, pod, pool, running_claim};

/// Nobody has anything to say beyond what the API server does.
fn nobody(_: &Effect) -> Option<Outcome> {
    None
}

fn count(effects: &[Effect], is_one: impl Fn(&Effect) -> bool) -> usize {
    effects.iter().filter(|effect| is_one(effect)).count()
}

fn is_create(effect: &Effect) -> bool {
    matches!(effect, Effect::Create { kind: Kind::NodeClaim, .. })
}

fn is_launch(effect: &Effect) -> bool {
    matches!(effect, Effect::Launch(_))
}

fn deletes(effect: &Effect, kind: Kind) -> bool {
    matches!(effect, Effect::Delete { object, .. } if object.kind == kind)
}

fn lets_go(effect: &Effect) -> bool {
    matches!(effect, Effect::Patch { patch, .. } if patch["metadata"]["finalizers"] == json!([]))
}

fn instance(id: &str, uid: &str) -> Instance {
    Instance {
        id: ProviderId(id.to_owned()),
        token: Some(Token(uid.to_owned())),
        offering: OfferingKey {
            instance_type: "c-4x-amd64-linux".to_owned(),
            zone: "test-zone-a".to_owned(),
            capacity_type: "spot".to_owned(),
            reservation: None,
        },
        state: State::Running,
        capacity: Resources::default(),
        allocatable: Resources::default(),
        labels: BTreeMap::new(),
        tags: BTreeMap::new(),
        image: None,
    }
}

/// The ReplicaSet `web`, which wants so many pods.
fn web(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": "web", "namespace": "default", "uid": "uid-web" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } } },
    })
}

#[test]
fn a_lone_pod_gets_a_claim_within_fifty_milliseconds_and_only_one() {
    let mut story = Story::begin(&[pool(9), class()]);
    story.seen(Kind::Pod, pod("web"));
    assert!(story.play(0, nobody).is_empty(), "it waits for company first");
    let effects = story.play(50, nobody);
    let [Effect::Create { object, .. }, ..] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(object["metadata"]["labels"]["karpenter.sh/nodepool"], "general");
    assert_eq!(object["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    assert_eq!(object["spec"]["resources"]["requests"]["cpu"], "1");
    assert_eq!(count(&story.play(20_000, nobody), is_create), 0);
}

#[test]
fn pods_of_which_the_scheduler_speaks_one_by_one_share_a_node() {
    for is_owned in [false, true] {
        let mut story = Story::begin(&[pool(9), class()]);
        let foreign = |i: u32, is_refused: bool| {
            let plain = pod(&format!("web-{i}"));
            let mut pod = if is_owned { of_web(plain) } else { plain };
            pod["metadata"]["uid"] = json!(format!("uid-{i}"));
            pod["spec"]["schedulerName"] = json!("another");
            if is_refused {
                let condition =
                    json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
                pod["status"]["conditions"] = json!([condition]);
            }
            pod
        };
        for i in 0..3 {
            story.seen(Kind::Pod, foreign(i, false));
        }
        let mut effects = story.play(1_000, nobody);
        assert_eq!(count(&effects, is_create), 0, "another scheduler may have a place for them");
        for i in 0..3 {
            story.seen(Kind::Pod, foreign(i, true));
            effects.extend(story.play(200, nobody));
        }
        effects.extend(story.play(1_000, nobody));
        assert_eq!(count(&effects, is_create), 1, "owned: {is_owned}");
    }
}

#[test]
fn pods_that_are_still_being_made_are_waited_for_though_their_pool_changes_meanwhile() {
    let mut story = Story::begin(&[pool(9), class(), web(20)]);
    let mut effects = Vec::new();
    for i in 0..20 {
        story.seen(Kind::Pod, of_web(pod(&format!("web-{i}"))));
        let mut changed = pool(9);
        changed["status"] = json!({ "resources": { "nodes": i.to_string() } });
        story.seen(Kind::NodePool, changed);
        effects.extend(story.play(300, nobody));
    }
    effects.extend(story.play(1_000, nobody));
    assert_eq!(count(&effects, is_create), 1, "{effects:?}");
}

#[test]
fn a_class_that_refuses_though_it_seems_ready_is_left_alone_for_longer_and_longer() {
    let mut story = Story::begin(&[pool(9), class()]);
    story.seen(Kind::Pod, pod("web"));
    let refuse = |effect: &Effect| {
        let class = ClassRef { group: String::new(), kind: String::new(), name: "default".to_owned() };
        let error = CloudError::ClassNotReady { class, message: "no image".to_owned() };
        is_launch(effect).then_some(Outcome::Refused(Refusal::Cloud(error)))
    };
    let effects = story.play(60_000, refuse);
    let tries = count(&effects, is_create);
    assert!((3..=7).contains(&tries), "{tries} claims were made in a minute");
    // Whoever mends the class need not wait.
    story.seen(Kind::NodeClass, class());
    assert_eq!(count(&story.play(1_000, refuse), is_create), 1);
}

#[test]
fn a_claim_that_a_late_request_makes_again_is_deleted_and_not_launched() {
    let mut story = Story::begin(&[pool(9), class()]);
    story.seen(Kind::Pod, pod("web"));
    let mut tries = 0;
    let effects = story.play(20_000, |effect| {
        tries += usize::from(is_create(effect));
        let is_lost = is_create(effect) && tries == 1;
        is_lost.then(|| Outcome::Unknown { message: "no answer".to_owned() })
    });
    let Some(Effect::Create { object: made, .. }) = effects.iter().find(|effect| is_create(effect)) else {
        panic!("{effects:?}")
    };
    let name = made["metadata"]["name"].as_str().unwrap();
    assert_eq!(count(&effects, is_create), 2, "the same claim is asked for again");
    story.gone(Kind::NodeClaim, name);
    story.gone(Kind::Pod, "web");

    story.seen(Kind::NodeClaim, made.clone());
    let effects = story.play(1_000, nobody);
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 1, "{effects:?}");
    assert_eq!(count(&effects, is_launch), 0);
}

#[test]
fn a_claim_that_comes_too_late_for_the_limits_of_its_pool_is_deleted_and_not_launched() {
    let mut story = Story::begin(&[pool(1), class(), running_claim("first", "kwok://first")]);
    story.seen(Kind::NodeClaim, claim("late"));
    let effects = story.play(1_000, nobody);
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 1, "{effects:?}");
    assert_eq!(count(&effects, is_launch), 0);

    let mut story = Story::begin(&[pool(2), class(), running_claim("first", "kwok://first")]);
    story.seen(Kind::NodeClaim, claim("in-time"));
    assert_eq!(count(&story.play(1_000, nobody), is_launch), 1);

    let mut story = Story::begin(&[pool(1), class(), running_claim("first", "kwok://first")]);
    let mut replacement = claim("replacement");
    replacement["metadata"]["annotations"]["headstart.dev/replaces"] = json!("first");
    story.seen(Kind::NodeClaim, replacement);
    assert_eq!(count(&story.play(1_000, nobody), is_launch), 1, "what it replaces has given its room to it");
}

#[test]
fn an_answer_that_a_watch_has_overtaken_takes_nothing_back() {
    let mut story = Story::begin(&[pool(9), class()]);
    let old = story.object(Kind::NodePool, "general").clone();
    let mut new = old.clone();
    new["spec"]["limits"]["nodes"] = json!("0");
    new["metadata"]["generation"] = json!(2);
    story.seen(Kind::NodePool, new);
    let is_pool =
        |effect: &Effect| matches!(effect, Effect::Patch { object, .. } if object.kind == Kind::NodePool);
    let late = |effect: &Effect| is_pool(effect).then(|| Outcome::Done(Fact::Object(old.clone().into())));
    assert!(count(&story.play(1_000, late), is_pool) > 0, "it says that it has seen the change");
    story.seen(Kind::Pod, pod("web"));
    assert_eq!(count(&story.play(1_000, nobody), is_create), 0, "the pool may have no node by now");
}

#[test]
fn a_claim_is_held_as_long_as_its_instance_may_be_missing_from_the_list() {
    let mut story = Story::begin(&[pool(1), class(), running_claim("first", "kwok://first")]);
    story.seen(Kind::NodeClaim, claim("unknown"));
    story.leaves(Kind::NodeClaim, "unknown");
    let list = |found: Vec<Instance>| {
        move |effect: &Effect| {
            matches!(effect, Effect::Instances).then(|| Outcome::Done(Fact::Instances(found.clone())))
        }
    };
    assert_eq!(count(&story.play(50_000, list(Vec::new())), lets_go), 0);
    assert_eq!(count(&story.play(20_000, list(Vec::new())), lets_go), 1);

    let mut late = claim("late");
    late["metadata"]["uid"] = json!("uid-late");
    story.seen(Kind::NodeClaim, late);
    story.leaves(Kind::NodeClaim, "late");
    let effects = story.play(20_000, list(vec![instance("kwok://late", "uid-late")]));
    let ends = |effect: &Effect| matches!(effect, Effect::Terminate(id) if id.0 == "kwok://late");
    assert_eq!(count(&effects, ends), 1, "{effects:?}");
    assert_eq!(count(&effects, lets_go), 0);
}

#[test]
fn an_instance_that_is_there_after_all_is_not_looked_at_again_at_once() {
    let mut story = Story::begin(&[pool(9), class()]);
    story.seen(Kind::NodeClaim, running_claim("first", "kwok://first"));
    let effects = story.play(180_000, |effect| match effect {
        Effect::Inspect(id) => Some(Outcome::Done(Fact::Instance(Box::new(instance(&id.0, "uid-first"))))),
        Effect::Instances => Some(Outcome::Done(Fact::Instances(Vec::new()))),
        _ => None,
    });
    let looks = count(&effects, |effect| matches!(effect, Effect::Inspect(_)));
    assert!((1..=7).contains(&looks), "{looks} looks in a minute");
}

#[test]
fn a_pod_is_hurried_a_few_times_only_though_the_clock_of_the_api_server_is_ahead() {
    let mut leaving = running_claim("old", "kwok://old");
    leaving["spec"]["terminationGracePeriod"] = json!("2m");
    let mut story = Story::begin(&[pool(9), class(), leaving]);
    story.seen(
        Kind::Node,
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "old", "finalizers": ["karpenter.sh/termination"],
                "labels": { "karpenter.sh/nodepool": "general", "karpenter.sh/registered": "true" },
            },
            "spec": { "providerID": "kwok://old" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }),
    );
    let mut slow = pod("slow");
    slow["spec"]["nodeName"] = json!("old");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(3600);
    slow["status"]["phase"] = json!("Running");
    story.seen(Kind::Pod, slow);
    story.leaves(Kind::NodeClaim, "old");
    story.ahead = 90_000;
    let effects = story.play(200_000, nobody);
    let asked = count(&effects, |effect| deletes(effect, Kind::Pod));
    assert!((1..=9).contains(&asked), "the pod was asked {asked} times");
}

#[test]
fn default_spread_constraints_count_by_what_makes_the_pods() {
    let constraint =
        r#"{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}"#;
    let scheduler_config = format!(r#"{{"podTopologySpread": {{"defaultConstraints": [{constraint}]}}}}"#);
    let settings = Settings { scheduler_config, ..Settings::default() };
    let mut objects = vec![pool(9), class(), web(3)];
    for name in ["a", "b", "c"] {
        let mut pod = of_web(pod(name));
        pod["metadata"]["labels"] = json!({ "app": "web" });
        objects.push(pod);
    }
    let story = Story::with(settings, &objects);
    assert_eq!(count(&story.began, is_create), 3, "{:?}", story.began);
}
