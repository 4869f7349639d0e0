//! What is believed in, given the facts.

use std::sync::Arc;

use super::buffer::{ACTIVE, Buffer, Sizing, Unready, sizes};
use super::*;
use crate::labels::NODE_POOL;
use crate::resources::Resources;
use crate::snapshot::Shape;

/// 2026-03-02 06:00 in universal time, a Monday.
const NOW: i64 = 1_772_431_200_000;
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

fn amounts(text: &str) -> Resources {
    text.split(' ').map(|part| part.split_once('=').unwrap()).map(|(n, a)| (n, a.parse().unwrap())).collect()
}

fn owner(kind: &str, name: &str) -> Owner {
    let uid = format!("uid-{name}").into();
    Owner { kind: kind.into(), namespace: "shop".into(), name: name.into(), uid }
}

fn template(requests: &str) -> Template {
    let shape = Shape { requests: amounts(&format!("{requests} pods=1")), ..Shape::default() };
    Template { namespace: "shop".into(), shape: Arc::new(shape), ..Template::default() }
}

fn maker(wish: Wish, has: u32) -> Maker {
    let template = Ok(template("cpu=1 memory=1Gi"));
    Maker { owner: owner("ReplicaSet", "web"), wish, has, template, trouble: None, stalled: 0 }
}

fn job(parallelism: i64, completions: Option<i64>, succeeded: i64) -> Wish {
    Wish::Job { parallelism: Some(parallelism), completions, succeeded, is_idle: false }
}

/// What is believed in, one line each: source, owner, count; and what is not, with its reason.
fn told(facts: &Facts) -> Vec<String> {
    let beliefs = expect(facts);
    let expected = beliefs.expected.iter().map(|e| format!("{} {} x{}", e.source, e.owner.name, e.count));
    let withheld =
        beliefs.withheld.iter().map(|w| format!("not {} {} x{}: {}", w.source, w.owner.name, w.count, w.why));
    expected.chain(withheld).collect()
}

fn gap(maker: Maker) -> Vec<String> {
    told(&Facts { now: NOW, makers: vec![maker], ..Facts::default() })
}

#[test]
fn a_gap_is_what_is_wanted_less_what_there_is() {
    // Scenarios 1, 3 and 5: running, unschedulable and gated pods are all there.
    for (wish, has, expected) in [
        (Wish::Replicas(10), 5, 5),
        (Wish::Replicas(10), 10, 0),
        (Wish::Replicas(10), 12, 0),
        (Wish::Replicas(-1), 0, 0),
        (Wish::OneByOne, 0, 0),
        (job(5, Some(10), 6), 2, 2),
        (job(5, None, 2), 0, 0),
        (job(5, None, 0), 1, 4),
        (Wish::Job { parallelism: None, completions: None, succeeded: 0, is_idle: false }, 0, 1),
        (Wish::Job { parallelism: Some(5), completions: Some(5), succeeded: 0, is_idle: true }, 0, 0),
    ] {
        let found = gap(maker(wish, has));
        let line = format!("gap web x{expected}");
        assert_eq!(found, if expected > 0 { vec![line] } else { Vec::new() }, "{wish:?} with {has}");
    }
}

#[test]
fn an_owner_that_cannot_make_pods_is_not_believed() {
    let failing = Maker { trouble: Some("exceeded quota".into()), ..maker(Wish::Replicas(20), 0) };
    assert_eq!(gap(failing), ["not gap web x20: it cannot make pods: exceeded quota"]);
    let stalled = |seconds: i64| Maker { stalled: seconds * SECOND, ..maker(Wish::Replicas(20), 3) };
    assert_eq!(gap(stalled(29)), ["gap web x17"]);
    assert_eq!(gap(stalled(30)), ["not gap web x17: it has made no pod in 30 seconds"]);
    let odd = Maker { template: Err("spec.priority is no number".into()), ..maker(Wish::Replicas(2), 0) };
    assert_eq!(gap(odd), ["not gap web x2: spec.priority is no number"]);
}

#[test]
fn quotas_are_shared_by_all_owners_of_a_namespace() {
    let quota = |left: &str| Quota { namespace: "shop".into(), name: "most".into(), left: amounts(left) };
    let two = |left: &str| {
        let second = Maker { owner: owner("ReplicaSet", "api"), ..maker(Wish::Replicas(20), 0) };
        told(&Facts {
            makers: vec![maker(Wish::Replicas(20), 0), second],
            quotas: vec![quota(left)],
            ..Facts::default()
        })
    };
    // Scenario 11: nothing can be made, so nothing is bought.
    assert_eq!(
        two("pods=0"),
        [
            "not gap web x20: ResourceQuota most leaves no room for more",
            "not gap api x20: ResourceQuota most leaves no room for more"
        ]
    );
    assert_eq!(
        two("cpu=25500m memory=1Ti"),
        ["gap web x20", "gap api x5", "not gap api x15: ResourceQuota most leaves no room for more"]
    );
    assert_eq!(two("nvidia.com/gpu=0"), ["gap web x20", "gap api x20"]);
}

fn nightly() -> Schedule {
    Schedule {
        owner: owner("CronJob", "night"),
        line: "10 8 * * *".into(),
        zone: Some("Europe/Berlin".into()),
        is_suspended: false,
        overlap: Overlap::Allow,
        deadline: None,
        last: NOW - 23 * 60 * MINUTE,
        pods: 4,
        template: Ok(template("cpu=1 memory=1Gi")),
        running: None,
    }
}

fn at(now: i64, schedule: Schedule) -> Facts {
    Facts { now, lead: 90 * SECOND, schedules: vec![schedule], ..Facts::default() }
}

#[test]
fn a_run_is_expected_a_nodes_lead_time_ahead_and_until_it_begins() {
    // It is 7 o'clock in Berlin, and the run is at ten past eight.
    let run = NOW + 70 * MINUTE;
    let from = run - 100 * SECOND;
    assert_eq!(expect(&at(NOW, nightly())).next, Some(from));
    assert!(told(&at(from - 1, nightly())).is_empty());
    assert_eq!(told(&at(from, nightly())), ["cronjob night x4"]);
    assert_eq!(expect(&at(from, nightly())).expected[0].when, run);
    assert_eq!(told(&at(run + 30 * SECOND, nightly())), ["cronjob night x4"], "it is a little late");
    assert!(told(&at(run + 2 * MINUTE, nightly())).is_empty(), "nobody believes in it any more");
    let begun = Schedule { last: run, ..nightly() };
    assert!(told(&at(run + SECOND, begun)).is_empty(), "its Job speaks for itself now");
    let strict = Schedule { deadline: Some(10 * SECOND), ..nightly() };
    assert!(told(&at(run + 30 * SECOND, strict)).is_empty());
}

#[test]
fn runs_that_will_not_take_place_are_not_expected() {
    let due = NOW + 70 * MINUTE - MINUTE;
    assert!(told(&at(due, Schedule { is_suspended: true, ..nightly() })).is_empty());
    let busy = |overlap| Schedule { overlap, running: Some(3), ..nightly() };
    assert_eq!(told(&at(due, busy(Overlap::Allow))), ["cronjob night x4"]);
    assert!(told(&at(due, busy(Overlap::Forbid))).is_empty());
    assert_eq!(told(&at(due, busy(Overlap::Replace))), ["cronjob night x1"]);
    let bad = Schedule { line: "61 * * * *".into(), ..nightly() };
    assert_eq!(told(&at(due, bad)), [r#"not cronjob night x4: its schedule "61" is no minute"#]);
    let nowhere = Schedule { zone: Some("Mars".into()), ..nightly() };
    assert_eq!(told(&at(due, nowhere)), [r#"not cronjob night x4: there is no time zone "Mars""#]);
}

fn buffer(size: impl FnOnce(&mut Buffer)) -> Buffer {
    let mut buffer = Buffer {
        owner: owner("CapacityBuffer", "spare"),
        created: NOW,
        strategy: ACTIVE.into(),
        template: Ok(template("cpu=2 memory=1Gi")),
        replicas: None,
        percentage: None,
        limits: None,
        workload: None,
    };
    size(&mut buffer);
    buffer
}

#[test]
fn a_buffer_is_the_larger_of_replicas_and_percentage_within_its_limits() {
    let size = |size: fn(&mut Buffer)| {
        sizes(&[buffer(size)], &[]).remove(0).replicas.map_err(|unready| unready.message)
    };
    assert_eq!(size(|b| b.replicas = Some(5)), Ok(5));
    assert_eq!(size(|b| (b.replicas, b.percentage, b.workload) = (Some(2), Some(25), Some(10))), Ok(3));
    assert_eq!(size(|b| (b.percentage, b.workload) = (Some(1), Some(3))), Ok(1));
    assert_eq!(size(|b| (b.percentage, b.workload) = (Some(150), Some(10))), Ok(15));
    // Scenario 15: a share of nothing is nothing.
    assert_eq!(size(|b| (b.percentage, b.workload) = (Some(50), Some(0))), Ok(0));
    assert_eq!(size(|b| b.limits = Some(amounts("cpu=7 memory=64Gi"))), Ok(3));
    assert_eq!(size(|b| (b.replicas, b.limits) = (Some(2), Some(amounts("cpu=7")))), Ok(2));
    assert_eq!(
        size(|b| (b.replicas, b.limits) = (Some(2), Some(amounts("nvidia.com/gpu=7")))),
        Err("the limits name no resource that the pods ask for".into())
    );
    // Scenario 23.
    let standby = size(|b| (b.replicas, b.strategy) = (Some(2), "x/standby".into()));
    assert!(standby.unwrap_err().contains("x/standby is not supported"));
    let gone = Unready { reason: "PodTemplateNotFound", message: "there is no PodTemplate a".into() };
    let lost = Buffer { template: Err(gone.clone()), ..buffer(|b| b.replicas = Some(2)) };
    assert_eq!(sizes(&[lost], &[]), [Sizing { replicas: Err(gone), limited_by: None }]);
}

#[test]
fn the_older_buffer_gets_what_a_quota_leaves() {
    let older = Buffer {
        created: NOW - 1,
        owner: owner("CapacityBuffer", "older"),
        ..buffer(|b| b.replicas = Some(3))
    };
    let quota = Quota { namespace: "shop".into(), name: "most".into(), left: amounts("cpu=8 pods=0") };
    let found = sizes(&[buffer(|b| b.replicas = Some(3)), older], std::slice::from_ref(&quota));
    assert_eq!(found[0], Sizing { replicas: Ok(1), limited_by: Some(("most".into(), 3)) });
    assert_eq!(found[1], Sizing { replicas: Ok(3), limited_by: None });
}

#[test]
fn a_buffers_pods_have_the_names_that_others_give_them() {
    let facts = Facts { buffers: vec![buffer(|b| b.replicas = Some(2))], ..Facts::default() };
    let pods: Vec<Pod> = expect(&facts).expected[0].pods().collect();
    assert_eq!((&*pods[1].name, &*pods[1].uid), ("capacity-buffer-spare-2", "uid-spare-2"));
    assert!(pods.iter().all(|pod| pod.demand == Demand::Expected && &*pod.namespace == "shop"));
}

fn pool_use(requested: &str, allocatable: &str, mix: Vec<Template>) -> PoolUse {
    let pool = Owner { namespace: "".into(), ..owner("NodePool", "general") };
    PoolUse { pool, requested: amounts(requested), allocatable: amounts(allocatable), mix }
}

#[test]
fn a_pool_that_is_nearly_full_expects_more_of_what_it_runs() {
    let headroom =
        |threshold, used: PoolUse| told(&Facts { threshold, pools: vec![used], ..Facts::default() });
    let mix = || vec![template("cpu=1 memory=1Gi"), template("cpu=3 memory=1Gi")];
    // Of 80 processors 20 more should be free: five of each make 20, and one more is needed to be below.
    let full = || pool_use("cpu=80 memory=10Gi", "cpu=100 memory=400Gi", mix());
    assert_eq!(headroom(0.8, full()), ["headroom general x6", "headroom general x5"]);
    assert!(headroom(1.0, full()).is_empty(), "one switches it off");
    assert!(headroom(0.81, full()).is_empty());
    let memory = pool_use("cpu=1 memory=90Gi", "cpu=100 memory=100Gi", mix());
    assert_eq!(headroom(0.9, memory), ["headroom general x6", "headroom general x5"]);
    assert!(headroom(0.8, pool_use("cpu=90 memory=1Gi", "cpu=100 memory=9Gi", Vec::new())).is_empty());
    let beliefs = expect(&Facts { threshold: 0.8, pools: vec![full()], ..Facts::default() });
    let pinned = |expected: &Expected| expected.template.shape.node_selector.allow(NODE_POOL, "general");
    assert!(beliefs.expected.iter().all(pinned));
}

#[test]
fn volumes_of_its_own_are_different_for_every_pod() {
    let shared = [Volume { driver: "csi".into(), id: "shop/data".into() }];
    let template = Template { shared: shared.into(), own: ["csi".into()].into(), ..template("cpu=1") };
    let facts = Facts {
        makers: vec![Maker { template: Ok(template), ..maker(Wish::Replicas(2), 0) }],
        ..Facts::default()
    };
    let pods: Vec<Pod> = expect(&facts).expected[0].pods().collect();
    assert_eq!(pods[0].volumes[0], pods[1].volumes[0]);
    assert_ne!(pods[0].volumes[1], pods[1].volumes[1]);
}
