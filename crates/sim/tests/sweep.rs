//! Exhaustive first: one fault, at each occasion in turn, in a small story of coming and going.

mod scene;

use std::collections::{BTreeMap, BTreeSet};

use headstart_sim::brain;
use headstart_sim::ensemble::try_plan;
use headstart_sim::fault::{Fault, Odds};
use headstart_sim::plan::{Deed, Plan, Profile, Step};
use scene::quiet_plan;

/// Pods come, a claim and a node are deleted, pods go.
fn story() -> Plan {
    let mut plan = quiet_plan();
    plan.profile = Profile::Twins;
    plan.processes = 2;
    plan.workloads[0].cpu_m = 1_500;
    plan.pools[0].limit_cpu = Some(16);
    plan.pools[0].startup_taint = true;
    plan.steps[0].deed = Deed::Scale { workload: 0, to: 2 };
    plan.steps.push(Step { at: 30_000, deed: Deed::DeleteClaim { nth: 0 } });
    plan.steps.push(Step { at: 45_000, deed: Deed::Scale { workload: 0, to: 3 } });
    plan.steps.push(Step { at: 60_000, deed: Deed::DeleteNode { nth: 1 } });
    plan.storm_ms = 90_000;
    plan
}

/// Lets a fault strike at its first occasion, in another run at its second, and so on until there is none.
fn sweep(fault: Fault) {
    for occasion in 1.. {
        let mut plan = story();
        let odds = Odds { rate: 0.0, at: BTreeSet::from([occasion]) };
        plan.faults = BTreeMap::from([(fault, odds)]);
        let verdict = try_plan(&plan, &brain::engine, false, false);
        if let Some(violation) = verdict.violation {
            panic!("{fault} at occasion {occasion}: {violation}\n{}", serde_json::json!(plan));
        }
        if !verdict.faults.contains_key(&fault) {
            assert!(occasion > 3, "{fault} had {occasion} occasions only");
            return;
        }
    }
}

#[test]
fn killed_before_any_write() {
    sweep(Fault::KillBefore);
}

#[test]
fn killed_during_any_write() {
    sweep(Fault::KillDuring);
}

#[test]
fn killed_after_any_write() {
    sweep(Fault::KillAfter);
}

#[test]
fn any_write_lost() {
    sweep(Fault::WriteLost);
}

#[test]
fn any_write_unanswered() {
    sweep(Fault::WriteUnanswered);
}

#[test]
fn any_write_late() {
    sweep(Fault::WriteLate);
}

#[test]
fn any_write_refused_with_a_conflict() {
    sweep(Fault::WriteConflict);
}

#[test]
fn any_call_to_the_cloud_lost() {
    sweep(Fault::CallLost);
}

#[test]
fn any_call_to_the_cloud_unanswered() {
    sweep(Fault::CallUnanswered);
}

#[test]
fn any_call_to_the_cloud_late() {
    sweep(Fault::CallLate);
}

#[test]
fn any_watch_dropped() {
    sweep(Fault::WatchDropped);
}

#[test]
fn a_pause_at_any_time() {
    sweep(Fault::Pause);
}
