//! Sick nodes: replaced, restarted where they are, or left alone.

use headstart_cloud::kwok::repair_policies;
use headstart_core::cloud::{CloudError, Reason};
use headstart_engine::{Effect, Fact, Kind, Outcome, Refusal, Report, Settings};
use serde_json::{Value, json};

use crate::disruption::{bound, cloud, in_service, objects, pool_with};
use crate::story::{CREATED, Story};
use crate::{count, deletes, is_create};

const REPLACE: &str = "KWOKUnhealthy";
const REBOOT: &str = "KWOKRebootRequired";
const NAMES: &[&str] = &["a", "b"];

/// A node that says of itself that it is sick since it was made.
fn sick(name: &str, condition: &str) -> [Value; 2] {
    let mut both = in_service(name, "c-4x-amd64-linux");
    both[1]["status"]["conditions"].as_array_mut().unwrap().push(json!({
        "type": condition, "status": "True", "reason": "Rehearsal", "lastTransitionTime": CREATED,
    }));
    both[1]["status"]["nodeInfo"] = json!({ "bootID": "first" });
    both
}

/// A cluster with repair, and nothing that money could be saved on.
fn story(nodes: &[[Value; 2]], more: &[Value]) -> Story {
    let settings = Settings { repair: repair_policies(), ..Settings::default() };
    let pool = pool_with(&json!({ "consolidateAfter": "Never", "budgets": [{ "nodes": "1" }] }));
    Story::with(settings, &objects(pool, nodes, more))
}

/// What somebody has written into an annotation of a claim, and where among all effects.
fn annotates(effects: &[Effect], key: &str) -> Option<(usize, Value)> {
    effects.iter().enumerate().find_map(|(at, effect)| match effect {
        Effect::Patch { object, patch, .. } if object.kind == Kind::NodeClaim => {
            Some((at, patch["metadata"]["annotations"].get(key)?.clone()))
        }
        _ => None,
    })
}

fn reboots(effects: &[Effect]) -> Vec<&str> {
    let mut operations = Vec::new();
    for effect in effects {
        if let Effect::Reboot { operation, .. } = effect {
            operations.push(operation.as_str());
        }
    }
    operations
}

/// Status and reason of a condition of the claim `a`.
fn said(story: &Story, condition: &str) -> (String, String) {
    let all = story.object(Kind::NodeClaim, "a")["status"]["conditions"].as_array().unwrap();
    let found = all.iter().find(|said| said["type"] == condition).cloned().unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Kinds of the objects that an event was told about.
fn told(story: &Story, event: &str) -> Vec<Kind> {
    let about = |report: &Report| match report {
        Report::Event { about, reason, .. } if reason == event => Some(about.kind),
        _ => None,
    };
    story.told.iter().filter_map(about).collect()
}

/// A cloud that restarts what it is asked to.
fn willing() -> impl FnMut(&Effect) -> Option<Outcome> {
    let mut others = cloud(NAMES);
    move |effect| match effect {
        Effect::Reboot { .. } => Some(Outcome::Done(Fact::Nothing)),
        _ => others(effect),
    }
}

#[test]
fn a_sick_node_goes_after_a_while_and_its_pods_have_a_bound() {
    let nodes = [sick("a", REPLACE), in_service("b", "c-4x-amd64-linux")];
    let mut stubborn = bound("p", "a");
    stubborn["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": "true" });
    let mut story = story(&nodes, &[stubborn, bound("q", "b")]);
    let early = story.play(20_000, cloud(NAMES));
    assert_eq!(
        count(&early, |effect| deletes(effect, Kind::NodeClaim)),
        0,
        "it is tolerated for half a minute"
    );
    let effects = story.play(30_000, cloud(NAMES));
    let (written, deadline) = annotates(&effects, "karpenter.sh/nodeclaim-termination-timestamp").unwrap();
    let deleted = effects.iter().position(|effect| deletes(effect, Kind::NodeClaim)).unwrap();
    assert!(written < deleted, "{effects:?}");
    assert!(deadline.as_str() < Some("2023-11-14T22:15:20Z"), "{deadline}");
    assert_eq!(said(&story, "DisruptionReason").1, "Unhealthy");
}

#[test]
fn a_sick_node_that_once_replaced_another_goes_though_the_name_is_in_use_again() {
    let mut nodes = [sick("a", REPLACE), in_service("b", "c-4x-amd64-linux")];
    nodes[0][0]["metadata"]["annotations"] = json!({ "headstart.dev/replaces": "b" });
    nodes[1][0]["metadata"]["creationTimestamp"] = json!("2023-11-14T22:13:25Z");
    let mut story = story(&nodes, &[bound("p", "b")]);
    let effects = story.play(200_000, cloud(NAMES));
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 1, "{effects:?}");
}

#[test]
fn the_instance_of_a_node_that_does_not_answer_is_ended() {
    let [claim, mut node] = in_service("a", "c-4x-amd64-linux");
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|said| said["type"] != "Ready");
    conditions.push(
        json!({ "type": "Ready", "status": "False", "reason": "Silent", "lastTransitionTime": CREATED }),
    );
    let mut story = story(&[in_service("b", "c-4x-amd64-linux")], &[bound("q", "b")]);
    story.seen(Kind::NodeClaim, claim);
    story.seen(Kind::Node, node);
    let effects = story.play(660_000, cloud(NAMES));
    assert_eq!(
        count(&effects, |effect| deletes(effect, Kind::NodeClaim)),
        1,
        "it is tolerated for ten minutes"
    );
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Terminate(_))), "{effects:?}");
}

#[test]
fn where_many_are_sick_or_somebody_objects_nothing_is_repaired() {
    let mut story_of_many = story(&[sick("a", REPLACE), sick("b", REPLACE)], &[]);
    let effects = story_of_many.play(120_000, cloud(NAMES));
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 0);
    for kind in [Kind::Node, Kind::NodeClaim, Kind::NodePool] {
        assert!(told(&story_of_many, "NodeRepairBlocked").contains(&kind), "{kind}");
    }
    let mut objects = [sick("a", REPLACE)];
    objects[0][1]["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-repair": "true" });
    let effects = story(&objects, &[]).play(120_000, cloud(NAMES));
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 0);
}

#[test]
fn a_node_is_restarted_where_it_is() {
    let mut story = story(&[sick("a", REBOOT)], &[bound("p", "a")]);
    let mut effects = story.play(40_000, willing());
    assert_eq!(said(&story, "Rebooting"), ("True".to_owned(), "RebootRequested".to_owned()));
    assert_eq!(story.object(Kind::Node, "a")["spec"]["taints"][0]["key"], "karpenter.sh/rebooting");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Evict { .. })), "{effects:?}");
    // The pod does not go; it is on the node when that restarts.
    effects.extend(story.play(60_000, willing()));
    assert_eq!(reboots(&effects).len(), 1, "{effects:?}");
    assert!(reboots(&effects)[0].starts_with("uid-a-17") && reboots(&effects)[0].ends_with("-first"));
    assert_eq!(said(&story, "Rebooting"), ("True".to_owned(), "RebootIssued".to_owned()));
    assert_eq!(said(&story, "Initialized"), ("Unknown".to_owned(), "Rebooting".to_owned()));
    assert!(story.object(Kind::Node, "a")["metadata"]["labels"].get("karpenter.sh/initialized").is_none());
    let mut node = story.object(Kind::Node, "a").clone();
    node["status"]["nodeInfo"]["bootID"] = json!("second");
    node["status"]["conditions"].as_array_mut().unwrap().pop();
    story.seen(Kind::Node, node);
    effects.extend(story.play(60_000, willing()));
    assert_eq!(said(&story, "Rebooting"), ("False".to_owned(), "RebootSucceeded".to_owned()));
    assert_eq!(said(&story, "Initialized").0, "True");
    assert_eq!(said(&story, "DisruptionReason").0, "", "nothing is wrong any more");
    let (node, claim) = (story.object(Kind::Node, "a"), story.object(Kind::NodeClaim, "a"));
    assert_eq!(node["spec"]["taints"], json!([]));
    assert_eq!(node["metadata"]["labels"]["karpenter.sh/initialized"], "true");
    assert!(claim["metadata"]["annotations"].get("karpenter.sh/reboot-pre-boot-id").is_none());
    assert_eq!(told(&story, "RebootObserved"), [Kind::NodeClaim]);
    assert_eq!(count(&effects, |effect| is_create(effect) || deletes(effect, Kind::NodeClaim)), 0);
}

#[test]
fn a_node_that_was_restarted_twice_today_is_replaced() {
    let mut nodes = [sick("a", REBOOT), in_service("b", "c-4x-amd64-linux")];
    nodes[0][0]["metadata"]["annotations"] =
        json!({ "headstart.dev/rebooted": "2023-11-14T20:00:00Z,2023-11-14T21:00:00Z" });
    let mut story = story(&nodes, &[bound("p", "a"), bound("q", "b")]);
    let effects = story.play(60_000, willing());
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 1, "{effects:?}");
    assert_eq!(reboots(&effects), [""; 0]);
}

#[test]
fn a_restart_that_the_cloud_refuses_ends_the_claim_within_the_same_bound() {
    let mut story = story(&[sick("a", REBOOT)], &[]);
    let mut others = cloud(NAMES);
    let effects = story.play(60_000, |effect| match effect {
        Effect::Reboot { .. } => Some(Outcome::Refused(Refusal::Cloud(CloudError::Permanent {
            reason: Reason::RebootNotSupported,
            message: "no".into(),
        }))),
        _ => others(effect),
    });
    let (written, _) = annotates(&effects, "karpenter.sh/nodeclaim-termination-timestamp").unwrap();
    let deleted = effects.iter().position(|effect| deletes(effect, Kind::NodeClaim)).unwrap();
    assert!(written < deleted, "{effects:?}");
    assert_eq!(told(&story, "RebootFailed"), [Kind::NodeClaim]);
}

#[test]
fn a_successor_finds_that_the_node_has_been_restarted_already() {
    let mut nodes = [sick("a", REBOOT)];
    nodes[0][0]["metadata"]["annotations"] = json!({
        "karpenter.sh/reboot-pre-boot-id": "before", "karpenter.sh/reboot-termination-grace-period": "1m0s",
        "headstart.dev/rebooted": CREATED,
    });
    nodes[0][0]["status"]["conditions"].as_array_mut().unwrap().push(json!({
        "type": "Rebooting", "status": "True", "reason": "RebootRequested", "message": "",
        "lastTransitionTime": CREATED,
    }));
    let mut story = story(&nodes, &[]);
    let effects = story.play(20_000, willing());
    assert_eq!(reboots(&effects), [""; 0]);
    assert_eq!(said(&story, "Rebooting").1, "RebootSucceeded");
}

#[test]
fn a_request_that_cannot_be_understood_is_refused_and_the_node_stays() {
    let mut nodes = [in_service("a", "c-4x-amd64-linux")];
    nodes[0][0]["metadata"]["annotations"] =
        json!({ "karpenter.sh/reboot-termination-grace-period": "soon" });
    nodes[0][0]["status"]["conditions"].as_array_mut().unwrap().push(json!({
        "type": "Rebooting", "status": "True", "reason": "RebootRequested", "message": "",
        "lastTransitionTime": CREATED,
    }));
    let mut story = story(&nodes, &[]);
    let effects = story.play(20_000, willing());
    assert_eq!(said(&story, "Rebooting"), ("False".to_owned(), "RebootFailed".to_owned()));
    assert_eq!(count(&effects, |effect| deletes(effect, Kind::NodeClaim)), 0);
}
