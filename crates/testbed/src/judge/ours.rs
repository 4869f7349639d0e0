//! Our solver as something that answers cases.

use std::time::{Duration, Instant};

use headstart_cloud::catalog::Catalog;
use headstart_core::plan::Plan;
use headstart_core::snapshot::{MinValues, Preferences, Snapshot};
use headstart_core::solve::{Packing, solve};
use headstart_intake::World;

use super::{Answer, Case, Existing, NodeClaim, Unschedulable};

/// Our solver with a catalogue.
pub struct Ours {
    catalog: Catalog,
}

impl Ours {
    pub fn new(catalog: Catalog) -> Self {
        Self { catalog }
    }

    fn take(&self, world: &World, case: &Case) -> Snapshot {
        let taken = world.snapshot(self.catalog.types(), &self.catalog.well_known);
        let mut snapshot = taken.snapshot;
        if case.preference_policy == "Ignore" {
            snapshot.options.preferences = Preferences::Ignore;
        }
        if case.min_values_policy == "BestEffort" {
            snapshot.options.min_values = MinValues::BestEffort;
        }
        snapshot
    }

    /// Answers a case; time counts from decoded objects to the plan.
    pub fn ask(&self, case: &Case) -> Answer {
        let world = case.world();
        let (wall, cpu) = (Instant::now(), cpu_time());
        let snapshot = self.take(&world, case);
        let plan = solve(&snapshot, Packing::Compat);
        let (wall, cpu) = (wall.elapsed(), cpu_time().saturating_sub(cpu));
        Answer {
            wall_millis: wall.as_secs_f64() * 1e3,
            cpu_millis: cpu.as_secs_f64() * 1e3,
            peak_mi_b: peak_mib(),
            ..describe(&snapshot, &plan)
        }
    }
}

fn describe(snapshot: &Snapshot, plan: &Plan) -> Answer {
    let name = |pod: &u32| {
        let pod = &snapshot.pods[*pod as usize];
        format!("{}/{}", pod.namespace, pod.name)
    };
    let texts = |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect();
    let claims = plan.claims.iter().map(|claim| NodeClaim {
        node_pool: claim.pool.to_string(),
        instance_types: texts(&claim.instance_types),
        zones: texts(&claim.zones),
        capacity_types: texts(&claim.capacity_types),
        price_per_hour: claim.launch.as_ref().map_or(0.0, |launch| launch.price.dollars()),
        pods: claim.pods.iter().map(name).collect(),
    });
    let existing = plan.existing.iter().map(|node| Existing {
        node: snapshot.nodes[node.node as usize].name.to_string(),
        pods: node.pods.iter().map(name).collect(),
    });
    let unschedulable = plan.unplaced.iter().map(|unplaced| Unschedulable {
        pod: name(&unplaced.pod),
        reason: unplaced.obstacles.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    });
    Answer {
        node_claims: claims.collect(),
        existing: existing.collect(),
        unschedulable: unschedulable.collect(),
        lower_bound_per_hour: plan.lower_bound.dollars(),
        ..Answer::default()
    }
}

/// What this process has computed so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The most memory this process has had.
fn peak_mib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().trim_end_matches(" kB").trim().parse::<i64>().ok());
    kib.unwrap_or(0) / 1024
}
