//! Pools that keep a number of nodes, whatever the pods need.

use std::collections::BTreeSet;

use headstart_core::cloud::CloudError;
use headstart_engine::{Effect, Kind, Outcome, Refusal, Settings};
use serde_json::{Value, json};

use crate::disruption::{bound, cloud, in_service};
use crate::story::{Story, claim, class, pod, pool};
use crate::{count, deletes, is_create, is_launch, nobody};

/// A pool that keeps so many nodes and may have so many.
fn fixed(replicas: u32, limit: u32) -> Value {
    let mut pool = pool(limit);
    pool["spec"]["replicas"] = json!(replicas);
    pool["metadata"]["uid"] = json!("uid-general");
    pool
}

fn settings() -> Settings {
    Settings { static_capacity: true, ..Settings::default() }
}

fn begin(objects: &[Value]) -> Story {
    Story::with(settings(), objects)
}

/// Somebody wants another number of nodes.
fn resize(story: &mut Story, replicas: u32) {
    let mut pool = story.object(Kind::NodePool, "general").clone();
    pool["spec"]["replicas"] = json!(replicas);
    story.seen(Kind::NodePool, pool);
}

/// Names of claims that are asked for.
fn asked(effects: &[Effect]) -> Vec<String> {
    let name = |effect: &Effect| match effect {
        Effect::Create { kind: Kind::NodeClaim, object } => {
            object["metadata"]["name"].as_str().map(str::to_owned)
        }
        _ => None,
    };
    effects.iter().filter_map(name).collect()
}

/// Names of claims that are deleted.
fn removed(effects: &[Effect]) -> BTreeSet<String> {
    let name = |effect: &Effect| match effect {
        Effect::Delete { object, .. } if object.kind == Kind::NodeClaim => Some(object.name.clone()),
        _ => None,
    };
    effects.iter().filter_map(name).collect()
}

#[test]
fn what_is_missing_is_asked_for_at_once_and_once() {
    let mut story = begin(&[fixed(3, 9), class()]);
    let first = asked(&story.began);
    assert_eq!(first.len(), 3);
    let Some(Effect::Create { object, .. }) = story.began.iter().find(|effect| is_create(effect)) else {
        panic!("{:?}", story.began)
    };
    let requirements = object["spec"]["requirements"].as_array().unwrap();
    let names_types = |one: &Value| one["key"] == "node.kubernetes.io/instance-type";
    assert!(!requirements.iter().any(names_types), "the launch chooses: {requirements:?}");
    assert_eq!(count(&story.began, is_launch), 3);
    assert_eq!(asked(&story.play(120_000, nobody)).len(), 0);

    resize(&mut story, 5);
    assert_eq!(asked(&story.play(1_000, nobody)).len(), 2);
}

#[test]
fn a_successor_that_has_read_an_old_list_asks_for_the_same_claims() {
    let exists = |effect: &Effect| is_create(effect).then_some(Outcome::Refused(Refusal::AlreadyExists));
    let before = asked(&begin(&[fixed(4, 9), class()]).began);
    let mut after = begin(&[fixed(4, 9), class()]);
    assert_eq!(asked(&after.began), before);
    assert_eq!(asked(&after.play(5_000, exists)).len(), 0);
}

#[test]
fn a_limit_holds_even_while_nodes_go() {
    let mut story = begin(&[fixed(10, 5), class()]);
    let made = asked(&story.began);
    assert_eq!(made.len(), 5);
    story.leaves(Kind::NodeClaim, &made[0]);
    assert_eq!(asked(&story.play(500, nobody)).len(), 0, "it is there until it is gone");
    story.gone(Kind::NodeClaim, &made[0]);
    assert_eq!(asked(&story.play(500, nobody)).len(), 1);
}

#[test]
fn what_is_too_much_goes_those_first_that_nobody_misses() {
    let nodes = ["a", "b", "c", "d"].map(|name| in_service(name, "c-4x-amd64-linux"));
    let mut objects = vec![fixed(5, 9), class(), claim("unlaunched")];
    objects.extend(nodes.into_iter().flatten());
    let mut protected = bound("p", "a");
    protected["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
    objects.extend([protected, bound("q", "b"), bound("r", "b"), bound("s", "c")]);
    let names = &["a", "b", "c", "d"];
    for (replicas, expected) in [
        (5, &[][..]),
        (4, &["unlaunched"]),
        (3, &["unlaunched", "d"]),
        (2, &["unlaunched", "d", "c"]),
        (1, &["unlaunched", "d", "c", "b"]),
        (0, &["unlaunched", "d", "c", "b", "a"]),
    ] {
        let mut story = begin(&objects);
        assert_eq!(count(&story.began, |effect| deletes(effect, Kind::NodeClaim)), 0);
        resize(&mut story, replicas);
        let effects = story.play(2_000, cloud(names));
        let expected = expected.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(removed(&effects), expected, "{replicas} replicas");
        assert_eq!(asked(&effects).len(), 0);
    }
}

#[test]
fn pods_buy_nothing_from_such_a_pool() {
    let mut story = begin(&[fixed(0, 9), class()]);
    story.seen(Kind::Pod, pod("web"));
    assert_eq!(asked(&story.play(30_000, nobody)).len(), 0);
}

#[test]
fn without_the_gate_such_a_pool_is_left_alone() {
    let mut objects = vec![fixed(3, 9), class()];
    objects.extend(in_service("a", "c-4x-amd64-linux"));
    let mut story = Story::begin(&objects);
    story.seen(Kind::Pod, pod("web"));
    let effects = story.play(120_000, cloud(&["a"]));
    let all = [&story.began[..], &effects[..]].concat();
    assert_eq!(asked(&all).len(), 0);
    assert_eq!(count(&all, |effect| deletes(effect, Kind::NodeClaim)), 0);
}

#[test]
fn a_pool_that_goes_or_is_not_ready_gets_nothing() {
    let mut story = begin(&[fixed(3, 9)]);
    assert_eq!(asked(&story.play(60_000, nobody)).len(), 0, "its class is missing");
    story.seen(Kind::NodeClass, class());
    let made = asked(&story.play(1_000, nobody));
    assert_eq!(made.len(), 3);
    story.leaves(Kind::NodePool, "general");
    story.gone(Kind::NodeClaim, &made[0]);
    assert_eq!(asked(&story.play(60_000, nobody)).len(), 0);
}

#[test]
fn what_cannot_be_launched_is_tried_again_less_and_less_often() {
    let mut story = begin(&[fixed(0, 9), class()]);
    let refuse = |effect: &Effect| {
        let error = CloudError::InsufficientCapacity { dry: Vec::new(), message: "none left".to_owned() };
        is_launch(effect).then_some(Outcome::Refused(Refusal::Cloud(error)))
    };
    resize(&mut story, 1);
    let mut tries = 0;
    for _ in 0..120 {
        let effects = story.play(500, refuse);
        tries += asked(&effects).len();
        for effect in &effects {
            if let Effect::Delete { object, .. } = effect {
                story.gone(Kind::NodeClaim, &object.name);
            }
        }
    }
    assert!((3..=8).contains(&tries), "{tries} claims were made in a minute");
}

/// Nodes of the pool that are no longer what it asks for.
fn outdated(names: &[&str]) -> Vec<Value> {
    let mut all = Vec::new();
    for name in names {
        let [mut claim, node] = in_service(name, "c-4x-amd64-linux");
        claim["metadata"]["annotations"] =
            json!({ "karpenter.sh/nodepool-hash": "other", "karpenter.sh/nodepool-hash-version": "v3" });
        all.extend([claim, node]);
    }
    all
}

/// A pool that may swap all its nodes at once.
fn lenient(replicas: u32, limit: u32) -> Value {
    let mut pool = fixed(replicas, limit);
    pool["spec"]["disruption"] = json!({ "budgets": [{ "nodes": "100%" }] });
    pool
}

#[test]
fn drifted_nodes_are_replaced_within_the_limit_before_they_go() {
    let names = &["a", "b", "c"];
    for (limit, expected) in [(3, 0), (4, 1), (5, 2), (9, 3)] {
        let mut objects = vec![lenient(3, limit), class()];
        objects.extend(outdated(names));
        let mut story = begin(&objects);
        let effects = [std::mem::take(&mut story.began), story.play(90_000, cloud(names))].concat();
        assert_eq!(asked(&effects).len(), expected, "at most {limit} nodes");
        assert_eq!(removed(&effects).len(), 0, "replacements are not ready");
    }
}

#[test]
fn at_its_limit_a_drifted_node_goes_first_and_its_seat_is_filled_when_it_is_gone() {
    let mut objects = vec![lenient(1, 1), class()];
    objects.extend(outdated(&["a"]));
    let settings = Settings { terminate_first_drift: true, ..settings() };
    let mut story = Story::with(settings, &objects);
    let effects = [std::mem::take(&mut story.began), story.play(60_000, cloud(&["a"]))].concat();
    assert_eq!(removed(&effects), BTreeSet::from(["a".to_owned()]));
    assert_eq!(asked(&effects).len(), 0);
    story.gone(Kind::NodeClaim, "a");
    assert_eq!(asked(&story.play(1_000, nobody)).len(), 1);
}
