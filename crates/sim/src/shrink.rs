//! Makes a failing plan smaller while the same law stays broken.

use std::sync::Arc;

use headstart_cloud::Catalog;

use crate::brain::Nursery;
use crate::plan::{Deed, Plan};
use crate::verdict::{self, Verdict};

/// How many plans are tried at most.
const TRIES: usize = 300;

/// A smaller plan that breaks the same law, with its verdict.
pub fn shrink(plan: &Plan, check: &str, catalog: &Arc<Catalog>, nursery: Nursery<'_>) -> (Plan, Verdict) {
    let broken = |plan: &Plan| {
        let violation = verdict::play(plan, catalog, nursery, false).violation;
        violation.is_some_and(|violation| violation.check == check)
    };
    let mut best = plan.clone();
    let mut tries = 0;
    loop {
        let mut shrunk = false;
        for candidate in candidates(&best) {
            tries += 1;
            if tries > TRIES {
                break;
            }
            if broken(&candidate) {
                best = candidate;
                shrunk = true;
                break;
            }
        }
        if !shrunk || tries > TRIES {
            break;
        }
    }
    let verdict = verdict::play(&best, catalog, nursery, true);
    (best, verdict)
}

/// Smaller plans, the boldest cuts first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut smaller = plan.clone();
        change(&mut smaller);
        if smaller != *plan {
            all.push(smaller);
        }
    };
    with(&|p| {
        p.storm_ms /= 2;
        let end = p.storm_ms;
        p.steps.retain(|step| step.at < end);
    });
    with(&|p| {
        let half = p.steps.len().div_ceil(2);
        p.steps.truncate(half);
    });
    with(&|p| p.processes = 1);
    for fault in plan.faults.keys() {
        with(&|p| drop(p.faults.remove(fault)));
    }
    for at in 0..plan.steps.len() {
        with(&|p| drop(p.steps.remove(at)));
    }
    for at in 0..plan.steps.len() {
        with(&|p| {
            if let Deed::Scale { to, .. } = &mut p.steps[at].deed
                && *to > 1
            {
                *to /= 2;
            }
        });
    }
    with(&|p| p.storm_ms = p.storm_ms * 3 / 4);
    all
}
