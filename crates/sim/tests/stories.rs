//! Long stories in virtual time, with the real engine: a fleet that drifts, one that rests, and room that is kept.

mod scene;

use std::sync::Arc;

use headstart_engine::Kind;
use headstart_sim::api::{array, field, label, text};
use headstart_sim::brain;
use headstart_sim::plan::{Ahead, Deed, Plan, PoolPlan, WorkloadPlan};
use headstart_sim::timeline::Moment;
use headstart_sim::verdict;
use headstart_sim::world::World;
use scene::quiet_plan;
use serde_json::Value;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A world that goes on until the test has seen enough.
struct Story(World<'static>);

impl Story {
    fn new(mut plan: Plan) -> Self {
        plan.steps.clear();
        // Nothing goes wrong, so that the storm need not end.
        plan.storm_ms = u64::MAX / 2;
        let catalog = verdict::catalog(&plan).expect("KWOK has a catalogue");
        Self(World::new(Arc::new(plan), catalog, &brain::engine, false))
    }

    fn now(&self) -> u64 {
        self.0.ground.now().0
    }

    /// Lets time pass; the laws of the simulation hold all the while.
    fn pass(&mut self, millis: u64) {
        let end = Moment(self.now() + millis);
        self.0.run_until(end).unwrap_or_else(|violation| panic!("{violation}"));
    }

    /// Lets time pass until something is so, and tells how long that took.
    fn until(&mut self, most: u64, what: &str, is_so: impl Fn(&Self) -> bool) -> u64 {
        let began = self.now();
        while !is_so(self) {
            assert!(self.now() - began < most, "{what}: not after {most} ms");
            self.pass(SECOND / 4);
        }
        self.now() - began
    }

    fn all(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.0.ground.api.all(kind).map(|(_, object)| &**object)
    }

    /// Nodes of a pool that nobody takes away.
    fn nodes(&self, pool: &str) -> usize {
        let stays = |claim: &&Value| {
            label(claim, "karpenter.sh/nodepool") == Some(pool)
                && field(claim, "/metadata/deletionTimestamp").is_none()
                && is(claim, "Initialized")
        };
        self.all(Kind::NodeClaim).filter(stays).count()
    }

    fn drifted(&self, pool: &str) -> usize {
        let is_it =
            |claim: &&Value| label(claim, "karpenter.sh/nodepool") == Some(pool) && is(claim, "Drifted");
        self.all(Kind::NodeClaim).filter(is_it).count()
    }

    fn running(&self, app: &str) -> usize {
        let runs = |pod: &&Value| label(pod, "app") == Some(app) && text(pod, "/status/phase") == "Running";
        self.all(Kind::Pod).filter(runs).count()
    }

    /// How many objects of a kind were ever made.
    fn made(&self, kind: Kind) -> usize {
        self.0.ground.api.log(kind).iter().filter(|entry| entry.before.is_none()).count()
    }
}

fn is(claim: &Value, condition: &str) -> bool {
    array(claim, "/status/conditions").any(|c| text(c, "/type") == condition && text(c, "/status") == "True")
}

/// A pool, and a workload each of whose pods needs a node of it for itself.
fn pool_and_app(plan: &mut Plan, name: &str, zone: &str, budget: u32) {
    plan.types = 1;
    plan.pools.push(PoolPlan {
        name: name.to_owned(),
        zones: vec![zone.to_owned()],
        budget: Some(budget),
        ..PoolPlan::default()
    });
    plan.workloads.push(WorkloadPlan {
        name: format!("{name}-app"),
        cpu_m: 700,
        memory_mi: 500,
        zone: Some(zone.to_owned()),
        grace_s: 5,
        ..WorkloadPlan::default()
    });
}

fn empty_plan() -> Plan {
    let mut plan = quiet_plan();
    (plan.pools, plan.workloads) = (Vec::new(), Vec::new());
    plan
}

#[test]
fn a_hundred_drifted_nodes_are_replaced_ten_at_a_time_in_the_time_of_ten_waves() {
    let mut plan = empty_plan();
    pool_and_app(&mut plan, "fleet", "test-zone-a", 10);
    let mut story = Story::new(plan);
    story.0.act(&Deed::Scale { workload: 0, to: 100 });
    story.until(10 * MINUTE, "a hundred nodes", |story| story.running("fleet-app") == 100);
    assert_eq!(story.nodes("fleet"), 100);
    let bought = story.made(Kind::NodeClaim);

    story.0.act(&Deed::Redesign { pool: 0 });
    story.until(MINUTE, "drift", |story| story.drifted("fleet") == 100);
    // That no more than ten go at once is a law that the simulation checks after every step.
    let first = story.until(10 * MINUTE, "the first wave", |story| story.drifted("fleet") <= 90);
    let rest = story
        .until(HOUR, "all others", |story| story.drifted("fleet") == 0 && story.running("fleet-app") == 100);
    // From the decision until its ten are gone a wave takes a start (12 s), a steady moment (3 s), a drain and an end (10 s).
    let wave = 40 * SECOND;
    if std::env::var_os("TRACE").is_some() {
        for (at, line) in story.0.ground.trace.lines() {
            eprintln!("{at} {line}");
        }
    }
    assert!(
        first <= wave && first + rest <= 10 * wave,
        "the first ten took {first} ms, the others {rest} ms"
    );
    assert_eq!(story.made(Kind::NodeClaim) - bought, 100, "each is replaced once");
}

#[test]
fn a_pool_whose_replacements_fail_does_not_starve_the_others() {
    let mut plan = empty_plan();
    pool_and_app(&mut plan, "broken", "test-zone-a", 5);
    pool_and_app(&mut plan, "sound", "test-zone-b", 5);
    let mut story = Story::new(plan);
    story.0.act(&Deed::Scale { workload: 0, to: 20 });
    story.0.act(&Deed::Scale { workload: 1, to: 20 });
    story.until(10 * MINUTE, "all pods", |story| {
        story.running("broken-app") == 20 && story.running("sound-app") == 20
    });

    let zone = Some("test-zone-a".to_owned());
    story.0.act(&Deed::Dry { zone, capacity_type: None, for_ms: HOUR });
    story.0.act(&Deed::Redesign { pool: 0 });
    story.0.act(&Deed::Redesign { pool: 1 });
    story.until(10 * MINUTE, "the pool that can", |story| {
        story.drifted("sound") == 0 && story.running("sound-app") == 20
    });
    assert_eq!((story.nodes("broken"), story.running("broken-app")), (20, 20), "nothing goes unreplaced");
    story.until(2 * HOUR, "the other one, once there is capacity", |story| {
        story.drifted("broken") == 0 && story.running("broken-app") == 20
    });
}

#[test]
fn a_fleet_that_has_shrunk_is_left_in_peace_for_ten_hours() {
    for search in [false, true] {
        let mut plan = quiet_plan();
        plan.types = 30;
        plan.knobs.search = search;
        plan.pools[0].consolidate_after_s = Some(30);
        plan.pools[0].capacity_types = vec!["on-demand".to_owned()];
        plan.workloads.extend((0..5).map(|n| WorkloadPlan {
            name: format!("app-{n}"),
            cpu_m: 300 + 350 * n,
            memory_mi: 600 + 300 * n,
            grace_s: 5,
            ..WorkloadPlan::default()
        }));
        let mut story = Story::new(plan);
        let scale = |story: &mut Story, to: u32| {
            for workload in 0..6 {
                story.0.act(&Deed::Scale { workload, to });
            }
        };
        let run = |story: &Story, each: usize| {
            (0..5).all(|n| story.running(&format!("app-{n}")) == each) && story.running("web") == each
        };
        for to in [10, 20, 30, 40, 50] {
            scale(&mut story, to);
            story.until(10 * MINUTE, "more pods", |story| run(story, to as usize));
        }
        let before = story.nodes("general");
        scale(&mut story, 20);
        story.pass(2 * HOUR);
        assert!(run(&story, 20) && story.nodes("general") < before);
        let made = (story.made(Kind::NodeClaim), story.made(Kind::Pod));
        story.pass(10 * HOUR);
        assert_eq!((story.made(Kind::NodeClaim), story.made(Kind::Pod)), made, "search: {search}");
    }
}

#[test]
fn a_buffer_is_room_that_stays_serves_a_burst_is_filled_again_and_goes() {
    let mut plan = empty_plan();
    pool_and_app(&mut plan, "general", "test-zone-a", 10);
    plan.pools[0].consolidate_after_s = Some(30);
    plan.knobs.ahead = Some(Ahead { threshold: 100, cents: None });
    let mut story = Story::new(plan);
    story.0.act(&Deed::Buffer { workload: 0, pods: 5, for_ms: 3 * HOUR });
    story.until(5 * MINUTE, "room for five", |story| story.nodes("general") == 5);

    story.pass(HOUR);
    assert_eq!((story.nodes("general"), story.made(Kind::NodeClaim)), (5, 5), "an idle hour changes nothing");

    story.0.act(&Deed::Scale { workload: 0, to: 5 });
    // A node takes six seconds at least; who finds room does not wait for one.
    story.until(5 * SECOND, "five pods at once", |story| story.running("general-app") == 5);
    story.until(5 * MINUTE, "room again", |story| story.nodes("general") == 10);
    assert_eq!(story.made(Kind::NodeClaim), 10);

    story.pass(3 * HOUR);
    assert_eq!((story.nodes("general"), story.running("general-app")), (5, 5), "nobody wants room any more");
}

#[test]
fn room_that_is_saved_and_bought_again_is_not_saved_for_ever() {
    for (search, threshold) in [(true, 55), (false, 80)] {
        let mut plan = empty_plan();
        plan.types = 6;
        plan.pools.push(PoolPlan {
            name: "general".to_owned(),
            consolidate_after_s: Some(30),
            ..PoolPlan::default()
        });
        plan.knobs.search = search;
        plan.knobs.ahead = Some(Ahead { threshold, cents: None });
        let app = |name: &str, cpu_m, memory_mi| WorkloadPlan {
            name: name.to_owned(),
            cpu_m,
            memory_mi,
            grace_s: 5,
            ..WorkloadPlan::default()
        };
        plan.workloads = vec![app("large", 43, 3110), app("small", 124, 488), app("shrinks", 950, 588)];
        let mut story = Story::new(plan);
        for (workload, to) in [(0, 25), (1, 3), (2, 14)] {
            story.0.act(&Deed::Scale { workload, to });
        }
        story.pass(10 * MINUTE);
        story.0.act(&Deed::Scale { workload: 2, to: 4 });

        // A plan moves a pod to a node that is half full, and kube-scheduler to the one that is kept free.
        story.pass(2 * HOUR);
        let before = story.made(Kind::NodeClaim);
        story.pass(10 * HOUR);
        let bought = story.made(Kind::NodeClaim) - before;
        // It is tried again after half an hour, an hour, two and so on.
        assert!(bought <= 20, "search {search}: {bought} nodes bought in ten hours in which nothing happens");
    }
}
