//! Decisions without deeds: what an observer makes of what another autoscaler does.

use headstart_engine::observation::{Belief, Decision, Sample, State};
use headstart_engine::settings::Proactive;
use headstart_engine::{Kind, Mode, Observation, Report, Settings};
use serde_json::{Value, json};

use crate::nobody;
use crate::story::{Story, class, of_web, pod, pool, running_claim, running_node};

/// An observer of a cluster whose pool somebody else has found in order.
fn observer(objects: &[Value]) -> Story {
    let mut pool = pool(99);
    pool["status"] = json!({ "conditions": [{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2023-11-14T22:13:20Z",
    }] });
    let proactive = Proactive { enabled: true, threshold: 1.0, ..Proactive::default() };
    let settings = Settings { mode: Mode::Observe, proactive, ..Settings::default() };
    let story = Story::with(settings, &[&[pool, class()][..], objects].concat());
    assert!(story.began.is_empty(), "{:?}", story.began);
    story
}

/// Plays on; whatever happens, nothing is asked for.
fn play(story: &mut Story, millis: u64) {
    let effects = story.play(millis, nobody);
    assert!(effects.is_empty(), "{effects:?}");
    let is_event = |report: &&Report| matches!(report, Report::Event { .. });
    assert_eq!(story.told.iter().find(is_event), None, "events are written, too");
}

/// Decisions as they were last told, the oldest first.
fn decisions(story: &Story) -> Vec<Decision> {
    let mut all: Vec<Decision> = Vec::new();
    for report in &story.told {
        if let Report::Observed(Observation::Decision(decision)) = report {
            all.retain(|known| known.id != decision.id);
            all.push((**decision).clone());
        }
    }
    all
}

fn last_sample(story: &Story) -> Sample {
    let sample = |report: &Report| match report {
        Report::Observed(Observation::Sample(sample)) => Some((**sample).clone()),
        _ => None,
    };
    story.told.iter().rev().find_map(sample).unwrap()
}

fn beliefs(story: &Story) -> Vec<Belief> {
    let beliefs = |report: &Report| match report {
        Report::Observed(Observation::Beliefs(beliefs)) => Some(beliefs.clone()),
        _ => None,
    };
    story.told.iter().rev().find_map(beliefs).unwrap_or_default()
}

fn replicas(count: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": "web", "namespace": "default", "uid": "uid-web" },
        "spec": {
            "replicas": count, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": pod("x")["spec"] },
        },
    })
}

fn new_pod(story: &Story, name: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["creationTimestamp"] = json!(story.stamp());
    pod
}

/// A pod of the ReplicaSet.
fn owned(story: &Story, name: &str) -> Value {
    of_web(new_pod(story, name))
}

/// The other autoscaler starts a node with four processors, which takes two seconds.
fn start_node(story: &mut Story, name: &str) {
    let labels = json!({
        "karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "c-4x-amd64-linux",
        "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "test-zone-a",
    });
    let id = format!("kwok://{name}");
    let mut claim = running_claim(name, &id);
    claim["metadata"]["labels"] = labels.clone();
    claim["metadata"]["creationTimestamp"] = json!(story.stamp());
    let ready = claim["status"]["conditions"].take();
    claim["status"]["conditions"] = json!([ready[0]]);
    claim["metadata"]["uid"] = json!(format!("uid-{name}"));
    story.seen(Kind::NodeClaim, claim.clone());
    play(story, 2_000);
    let mut node = running_node(name, &id);
    for (key, value) in labels.as_object().unwrap() {
        node["metadata"]["labels"][key] = value.clone();
    }
    story.seen(Kind::Node, node);
    claim["status"]["conditions"] = ready;
    story.seen(Kind::NodeClaim, claim);
}

fn bind(story: &mut Story, pod: &str, node: &str) {
    let mut pod = story.object(Kind::Pod, pod).clone();
    pod["spec"]["nodeName"] = json!(node);
    pod["status"]["phase"] = json!("Running");
    story.seen(Kind::Pod, pod);
}

#[test]
fn a_burst_is_one_decision_and_no_deed_and_is_compared_with_what_the_other_does() {
    let mut story = observer(&[]);
    for i in 0..4 {
        let pod = new_pod(&story, &format!("web-{i}"));
        story.seen(Kind::Pod, pod);
    }
    let from = story.wall();
    play(&mut story, 10_000);
    let [decision] = &decisions(&story)[..] else { panic!("{:?}", decisions(&story)) };
    assert_eq!((decision.pods, decision.expected, decision.waiting), (4, 0, 4));
    assert_eq!(decision.because, "4 pods wait");
    assert!(decision.would.dollars > 0.0 && decision.real.nodes.is_empty());
    assert!(decision.at - from < std::time::Duration::from_millis(100));

    start_node(&mut story, "theirs");
    let ready = story.wall();
    for i in 0..4 {
        bind(&mut story, &format!("web-{i}"), "theirs");
    }
    play(&mut story, 60_000);
    let [decision] = &decisions(&story)[..] else { panic!("{:?}", decisions(&story)) };
    assert_eq!((decision.state, decision.bound, decision.waiting), (State::Done, 4, 0));
    let apart = (decision.real.first.unwrap() - decision.would.first.unwrap()).as_secs_f64();
    assert!((9.0..=10.1).contains(&apart), "theirs was asked for {apart} s later");
    assert_eq!(decision.real.nodes[0].instance_type, "c-4x-amd64-linux");
    assert!(decision.real.dollars > 0.0);
    let waited = (ready - from).as_secs_f64();
    let real = decision.real.waits.quantile(1.0).unwrap();
    assert!((waited - 0.1..=waited + 1.1).contains(&real), "{real} of {waited}");
    // A node of ours would have taken as long as theirs.
    assert_eq!((decision.lead as u32, decision.lead_of), (2, 1));
    let would = decision.would.waits.quantile(1.0).unwrap();
    assert!((2.0..=3.1).contains(&would), "{would}");
    let sample = last_sample(&story);
    assert_eq!((sample.waiting, sample.would_waiting, sample.bound), (0, 0, 4));
    assert!((sample.dollars - decision.real.dollars).abs() < 1e-9);
    assert!((sample.would_dollars - decision.would.dollars).abs() < 1e-9, "{sample:?}");
}

#[test]
fn nothing_is_decided_twice_while_the_other_takes_its_time() {
    let mut story = observer(&[]);
    for i in 0..8 {
        let pod = new_pod(&story, &format!("web-{i}"));
        story.seen(Kind::Pod, pod);
    }
    play(&mut story, 5_000);
    start_node(&mut story, "first");
    for i in 0..4 {
        bind(&mut story, &format!("web-{i}"), "first");
    }
    // Half of them wait; a would-be node has no room for others any more, and it was decided about these.
    play(&mut story, 30_000);
    assert_eq!(decisions(&story).len(), 1);
    start_node(&mut story, "second");
    for i in 4..8 {
        bind(&mut story, &format!("web-{i}"), "second");
    }
    play(&mut story, 30_000);
    let [decision] = &decisions(&story)[..] else { panic!("{:?}", decisions(&story)) };
    assert_eq!((decision.state, decision.bound), (State::Done, 8));
    let apart = decision.real.last.unwrap() - decision.real.first.unwrap();
    assert!(apart.as_secs() >= 29, "{apart:?}");
    let pod = new_pod(&story, "later");
    story.seen(Kind::Pod, pod);
    play(&mut story, 1_000);
    assert_eq!(decisions(&story).len(), 2, "what comes later needs a node of its own");
}

#[test]
fn expected_pods_are_decided_about_before_they_are_there_and_told_by_source() {
    let mut story = observer(&[]);
    story.seen(Kind::ReplicaSet, replicas(8));
    play(&mut story, 100);
    let [decision] = &decisions(&story)[..] else { panic!("{:?}", decisions(&story)) };
    assert_eq!((decision.pods, decision.expected), (8, 8));
    assert_eq!(decision.sources, ["gap"]);
    assert!(
        decision.because.contains("ReplicaSet default/web wants 8 pods and has 0"),
        "{}",
        decision.because
    );

    for i in 0..4 {
        let pod = owned(&story, &format!("web-{i}"));
        story.seen(Kind::Pod, pod);
        play(&mut story, 500);
    }
    start_node(&mut story, "first");
    for i in 0..4 {
        bind(&mut story, &format!("web-{i}"), "first");
    }
    for i in 4..8 {
        let pod = owned(&story, &format!("web-{i}"));
        story.seen(Kind::Pod, pod);
        play(&mut story, 500);
    }
    start_node(&mut story, "second");
    for i in 4..8 {
        bind(&mut story, &format!("web-{i}"), "second");
    }
    play(&mut story, 60_000);
    let [decision] = &decisions(&story)[..] else { panic!("{:?}", decisions(&story)) };
    assert_eq!((decision.state, decision.bound), (State::Done, 8));
    let [belief] = &beliefs(&story)[..] else { panic!("{:?}", beliefs(&story)) };
    assert_eq!((belief.source.as_str(), belief.expected, belief.arrived), ("gap", 8, 8));
    assert!(belief.saved_seconds > 0.0, "{belief:?}");
    assert_eq!(story.gauge("proactive_hit_rate")["gap"] as u32, 1);
}

#[test]
fn a_false_alarm_is_told_with_what_it_would_have_cost() {
    // A node that was ready at once is all that is known about how long nodes take.
    let mut story =
        observer(&[running_claim("there", "kwok://there"), running_node("there", "kwok://there")]);
    story.seen(Kind::ReplicaSet, replicas(8));
    play(&mut story, 120_000);
    story.seen(Kind::ReplicaSet, replicas(0));
    play(&mut story, 30_000);
    let missed: Vec<Decision> =
        decisions(&story).into_iter().filter(|decision| decision.state == State::Missed).collect();
    assert!(!missed.is_empty(), "{:?}", decisions(&story));
    let [belief] = &beliefs(&story)[..] else { panic!("{:?}", beliefs(&story)) };
    assert_eq!((belief.expected, belief.arrived), (4, 0));
    assert!(belief.idle_node_seconds > 0.0 && belief.idle_dollars > 0.0, "{belief:?}");
    assert!(last_sample(&story).would_dollars < 1e-9);
}

#[test]
fn pods_that_nobody_helps_are_overdue_and_not_decided_about_again() {
    let mut story = observer(&[]);
    let pod = new_pod(&story, "alone");
    story.seen(Kind::Pod, pod);
    play(&mut story, 3_600_000);
    let [decision] = &decisions(&story)[..] else { panic!("{:?}", decisions(&story)) };
    assert_eq!((decision.state, decision.waiting), (State::Overdue, 1));
    assert_eq!(decision.real.first, None);
}

#[test]
fn a_provisioner_tells_what_became_of_its_own_decisions() {
    let mut story = Story::begin(&[pool(9), class()]);
    let pod = new_pod(&story, "web");
    story.seen(Kind::Pod, pod);
    story.play(5_000, nobody);
    let [decision] = &decisions(&story)[..] else { panic!("{:?}", decisions(&story)) };
    assert_eq!((decision.mode, decision.pods, decision.waiting), (Mode::Provisioner, 1, 1));
    let sample = last_sample(&story);
    assert_eq!((sample.waiting, sample.would_waiting), (1, 1));
}
