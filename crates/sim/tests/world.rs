//! The world itself: a simple brain works in it, and every law notices when a brain breaks it.

mod greedy;
mod scene;

use greedy::greedy;
use headstart_sim::brain::{Birth, Brain, Nursery};
use headstart_sim::ensemble::try_plan;
use headstart_sim::plan::{Deed, Plan, Profile, Step};
use headstart_sim::verdict::Verdict;
use scene::quiet_plan;

fn broken(verdict: &Verdict) -> Option<&str> {
    verdict.violation.as_ref().map(|violation| violation.check)
}

fn play(plan: &Plan, nursery: Nursery<'_>) -> Verdict {
    try_plan(plan, nursery, true, false)
}

#[test]
fn pods_get_nodes_and_the_world_falls_quiet() {
    let verdict = play(&quiet_plan(), &greedy);
    assert!(verdict.violation.is_none(), "{}", verdict.violation.unwrap());
    assert_eq!((verdict.pods, verdict.claims), (10, 10));
}

#[test]
fn claims_and_nodes_are_taken_down_on_request() {
    let mut plan = quiet_plan();
    plan.steps.push(Step { at: 60_000, deed: Deed::DeleteClaim { nth: 3 } });
    plan.steps.push(Step { at: 70_000, deed: Deed::DeleteNode { nth: 1 } });
    plan.steps.push(Step { at: 80_000, deed: Deed::DeletePod { nth: 1 } });
    let verdict = play(&plan, &greedy);
    assert!(verdict.violation.is_none(), "{}", verdict.violation.unwrap());
    assert!(verdict.pods > 11, "the pods of what was deleted came again, {}", verdict.pods);
}

#[test]
fn a_brain_that_does_nothing_does_not_finish() {
    struct Idle;
    impl Brain for Idle {
        fn apply(&mut self, _: headstart_engine::Now, _: headstart_engine::Event) {}
        fn decide(&mut self, _: headstart_engine::Now) -> Vec<headstart_engine::Action> {
            Vec::new()
        }
        fn next_wake(&self) -> Option<headstart_engine::Time> {
            None
        }
    }
    let idle = |_: &Birth| Box::new(Idle) as Box<dyn Brain>;
    assert_eq!(broken(&play(&quiet_plan(), &idle)), Some("no_pod_left_waiting"));
}

#[test]
fn buying_a_node_for_each_pod_is_noticed() {
    let mut plan = quiet_plan();
    plan.profile = Profile::Calm;
    plan.workloads[0].cpu_m = 100;
    plan.workloads[0].memory_mi = 100;
    assert_eq!(broken(&play(&plan, &greedy)), Some("no_double_buy"));
}

#[test]
fn buying_beyond_a_limit_is_noticed() {
    let mut plan = quiet_plan();
    plan.pools[0].limit_cpu = Some(4);
    assert_eq!(broken(&play(&plan, &greedy)), Some("limits_hold"));
}
