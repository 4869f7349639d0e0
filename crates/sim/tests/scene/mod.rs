//! A plan in which nothing goes wrong, to which tests add what does.

use std::collections::BTreeMap;

use headstart_sim::plan::{Deed, Knobs, Pace, Plan, PoolPlan, Profile, Step, WorkloadPlan};

/// Ten pods on one pool, and nothing goes wrong.
pub(crate) fn quiet_plan() -> Plan {
    Plan {
        seed: 1,
        profile: Profile::Any,
        processes: 1,
        types: 6,
        knobs: Knobs { batch_max_ms: 1_000, nominate: true, search: false, repair: false, ahead: None },
        pace: Pace {
            join_ms: (5_000, 9_000),
            ready_ms: (1_000, 3_000),
            end_ms: (1_000, 5_000),
            watch_ms: (5, 20),
            wire_ms: (2, 10),
        },
        pools: vec![PoolPlan { name: "general".to_owned(), ..PoolPlan::default() }],
        workloads: vec![WorkloadPlan {
            name: "web".to_owned(),
            cpu_m: 700,
            memory_mi: 500,
            grace_s: 5,
            ..WorkloadPlan::default()
        }],
        steps: vec![Step { at: 1_000, deed: Deed::Scale { workload: 0, to: 10 } }],
        faults: BTreeMap::new(),
        storm_ms: 120_000,
        drought_stays: false,
    }
}
