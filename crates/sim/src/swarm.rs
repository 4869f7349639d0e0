//! Draws plans: a coin for every fault and every kind of deed, then rates on a log scale; small worlds mostly.

use std::collections::BTreeMap;

use crate::dice::Dice;
use crate::fault::{Fault, Odds};
use crate::plan::{Ahead, Deed, Knobs, Pace, Plan, PoolPlan, Profile, Step, WorkloadKind, WorkloadPlan};

const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];

/// The plan of a seed.
pub fn draw(seed: u64, profile: Profile) -> Plan {
    let mut dice = Dice::new(seed, "size");
    let calm = profile == Profile::Calm;
    let storm_ms = dice.count(60, 1_200) * 1_000;
    let pools = pools(seed, calm);
    let workloads = workloads(seed, calm);
    let steps = steps(seed, calm, storm_ms, &pools, &workloads);
    let twins = match profile {
        Profile::Twins => true,
        Profile::Calm => false,
        Profile::Any | Profile::CloudLies => dice.chance(0.25),
    };
    Plan {
        seed,
        profile,
        processes: if twins { 2 } else { 1 },
        types: dice.count(3, 36) as usize,
        knobs: knobs(seed, calm),
        pace: pace(seed),
        pools,
        workloads,
        steps,
        faults: if calm { BTreeMap::new() } else { faults(seed, profile) },
        storm_ms,
        drought_stays: dice.chance(0.2),
    }
}

/// A world of a certain size, for measuring: an hour in which everything goes wrong now and then.
pub fn large(seed: u64, nodes: u64, pods: u32) -> Plan {
    let mut plan = draw(seed, Profile::Twins);
    plan.storm_ms = 3_600_000;
    // None has more than four processors, so that there are many nodes.
    plan.types = 9;
    plan.pools = vec![PoolPlan { name: "general".to_owned(), ..PoolPlan::default() }];
    let cpu_m = 3_500 * nodes / u64::from(pods).max(1);
    let workload = |n: usize| WorkloadPlan {
        name: format!("app-{n}"),
        cpu_m: cpu_m.max(1),
        memory_mi: 256,
        grace_s: 10,
        zone: ZONES.get(n).map(|zone| (*zone).to_owned()),
        ..WorkloadPlan::default()
    };
    plan.workloads = (0..8).map(workload).collect();
    let scale =
        |n: usize| Step { at: 1_000 + n as u64 * 60_000, deed: Deed::Scale { workload: n, to: pods / 8 } };
    plan.steps = (0..8).map(scale).collect();
    let weather = Deed::Dry { zone: None, capacity_type: Some("spot".to_owned()), for_ms: 120_000 };
    plan.steps.push(Step { at: 90_000, deed: weather });
    plan.faults = Fault::ALL.iter().map(|fault| (*fault, Odds { rate: 0.001, ..Odds::default() })).collect();
    plan
}

fn knobs(seed: u64, calm: bool) -> Knobs {
    let mut dice = Dice::new(seed, "knobs");
    let search = Dice::new(seed, "search").chance(0.5);
    let batch_max_ms = *dice.pick(&[0, 1_000, 10_000, 10_000, 10_000]).unwrap_or(&10_000);
    let repair = Dice::new(seed, "repair").chance(0.5);
    Knobs { batch_max_ms, nominate: dice.chance(0.8), search, repair, ahead: ahead(seed, calm) }
}

fn ahead(seed: u64, calm: bool) -> Option<Ahead> {
    let mut dice = Dice::new(seed, "ahead");
    // In a calm run everything that is bought must be used, and room is not.
    let threshold = if calm || dice.chance(0.5) { 100 } else { dice.between(50, 99) as u32 };
    let cents = dice.chance(0.3).then(|| dice.count(1, 500) as u32);
    dice.chance(0.5).then_some(Ahead { threshold, cents })
}

fn pace(seed: u64) -> Pace {
    let mut dice = Dice::new(seed, "pace");
    let mut range = |least: u64, most: u64| {
        let from = dice.count(least, most);
        (from, from * dice.between(1, 4))
    };
    Pace {
        join_ms: range(500, 40_000),
        ready_ms: range(100, 10_000),
        end_ms: range(100, 30_000),
        watch_ms: range(1, 100),
        wire_ms: range(1, 60),
    }
}

fn pools(seed: u64, calm: bool) -> Vec<PoolPlan> {
    let mut dice = Dice::new(seed, "pools");
    let count = dice.count(1, 3);
    let pool = |n: u64| {
        let some = |dice: &mut Dice, of: &[&str]| {
            let chosen: Vec<String> =
                of.iter().filter(|_| dice.chance(0.6)).map(|name| (*name).to_owned()).collect();
            if dice.chance(0.7) { Vec::new() } else { chosen }
        };
        PoolPlan {
            name: format!("pool-{n}"),
            weight: if dice.chance(0.3) { dice.between(1, 100) as u32 } else { 0 },
            zones: some(&mut dice, &ZONES),
            capacity_types: some(&mut dice, &["spot", "on-demand"]),
            limit_cpu: (dice.chance(0.4)).then(|| dice.count(1, 200)),
            tainted: n > 0 && dice.chance(0.3),
            startup_taint: dice.chance(0.2),
            expire_after_s: (!calm && dice.chance(0.1)).then(|| dice.between(300, 1_200)),
            grace_s: dice.chance(0.3).then(|| dice.between(10, 300)),
            ..PoolPlan::default()
        }
    };
    let mut all: Vec<PoolPlan> = (0..count).map(pool).collect();
    // A generator of its own, so that what was drawn before stays as it was.
    let mut dice = Dice::new(seed, "consolidation");
    for pool in all.iter_mut().filter(|_| !calm) {
        pool.consolidate_after_s = dice.chance(0.6).then(|| *dice.pick(&[0, 0, 30, 120]).unwrap_or(&0));
        pool.when_empty = dice.chance(0.2);
        pool.budget = dice.chance(0.7).then(|| dice.between(0, 4) as u32);
    }
    let mut dice = Dice::new(seed, "fixed");
    if !calm && dice.chance(0.25) {
        all.push(PoolPlan {
            name: "fixed".to_owned(),
            replicas: Some(dice.between(0, 5) as u32),
            grace_s: dice.chance(0.3).then(|| dice.between(10, 300)),
            budget: dice.chance(0.7).then(|| dice.between(0, 4) as u32),
            ..PoolPlan::default()
        });
    }
    all
}

fn workloads(seed: u64, calm: bool) -> Vec<WorkloadPlan> {
    let mut dice = Dice::new(seed, "workloads");
    let count = dice.count(1, 5);
    let mut workload = |n: u64| WorkloadPlan {
        name: format!("app-{n}"),
        kind: match dice.between(0, 9) {
            0 if n > 0 => WorkloadKind::Daemon,
            1 | 2 if !calm => WorkloadKind::Job,
            _ => WorkloadKind::Replicas,
        },
        cpu_m: dice.count(10, 3_000),
        memory_mi: dice.count(16, 6_000),
        zone: dice.chance(0.2).then(|| dice.pick(&ZONES).map_or_else(String::new, |zone| (*zone).to_owned())),
        tolerates: dice.chance(0.3),
        grace_s: dice.count(1, 60),
        gated: n > 0 && dice.chance(0.05),
        foreign: n > 0 && dice.chance(0.05),
    };
    let mut all: Vec<WorkloadPlan> = (0..count).map(&mut workload).collect();
    let mut dice = Dice::new(seed, "cron");
    if !calm && dice.chance(0.3) {
        all.push(WorkloadPlan {
            name: "nightly".to_owned(),
            kind: WorkloadKind::Cron { minutes: dice.between(1, 5) as u32 },
            cpu_m: dice.count(10, 3_000),
            memory_mi: dice.count(16, 6_000),
            grace_s: 10,
            ..WorkloadPlan::default()
        });
    }
    for daemon in all.iter_mut().filter(|w| w.kind == WorkloadKind::Daemon) {
        (daemon.cpu_m, daemon.memory_mi) = (daemon.cpu_m.min(200), daemon.memory_mi.min(200));
        (daemon.zone, daemon.gated, daemon.foreign) = (None, false, false);
    }
    all
}

fn steps(seed: u64, calm: bool, storm_ms: u64, pools: &[PoolPlan], workloads: &[WorkloadPlan]) -> Vec<Step> {
    let mut dice = Dice::new(seed, "steps");
    let mut steps: Vec<Step> = Vec::new();
    let most = dice.count(3, 60);
    for (workload, plan) in workloads.iter().enumerate().filter(|(_, w)| w.kind != WorkloadKind::Daemon) {
        let mut size = 0;
        let mut at = dice.between(0, 5_000);
        for _ in 0..dice.count(1, 6) {
            let to = dice.count(1, most) as u32;
            // In a calm run workloads only grow, so that whatever is bought can be used.
            size = if calm { size + to } else { to };
            steps.push(Step { at, deed: Deed::Scale { workload, to: size } });
            at += dice.between(200, storm_ms / 3);
        }
        if plan.kind == WorkloadKind::Replicas && !calm && dice.chance(0.2) {
            steps.push(Step { at: storm_ms * 3 / 4, deed: Deed::Scale { workload, to: 0 } });
        }
    }
    for name in Deed::NAMES.iter().skip(1) {
        // Each kind of deed has a generator of its own, so that a new kind moves no other.
        let mut dice = Dice::new(seed, name);
        if calm || !dice.chance(0.3) {
            continue;
        }
        for _ in 0..dice.count(1, 6) {
            let at = dice.between(1_000, storm_ms);
            steps.push(Step { at, deed: deed(&mut dice, name, pools, workloads) });
        }
    }
    steps.sort_by_key(|step| step.at);
    steps
}

fn deed(dice: &mut Dice, name: &str, pools: &[PoolPlan], workloads: &[WorkloadPlan]) -> Deed {
    let nth = dice.any() as usize % 1_000;
    let pool = nth % pools.len().max(1);
    match name {
        "delete-pod" => Deed::DeletePod { nth },
        "delete-claim" => Deed::DeleteClaim { nth },
        "delete-node" => Deed::DeleteNode { nth },
        "delete-pool" => Deed::DeletePool { pool, back_ms: dice.count(1_000, 120_000) },
        "limit-pool" => Deed::LimitPool { pool, cpu: dice.chance(0.8).then(|| dice.count(1, 300)) },
        "taint-new-nodes" => Deed::TaintNewNodes { for_ms: dice.count(1_000, 120_000) },
        "bad-pool" => Deed::BadPool,
        "bad-pod" => Deed::BadPod,
        "protect" => {
            Deed::Protect { workload: nth % workloads.len().max(1), min: dice.count(1, 30) as usize }
        }
        "wall" => Deed::Wall {
            workload: nth % workloads.len().max(1),
            for_ms: dice.count(1_000, 300_000),
            says: dice.chance(0.5),
        },
        "redesign" => Deed::Redesign { pool },
        "buffer" => Deed::Buffer {
            workload: nth % workloads.len().max(1),
            pods: dice.count(1, 10) as u32,
            for_ms: dice.count(1_000, 1_800_000),
        },
        "resize" => Deed::Resize { to: dice.between(0, 8) as u32 },
        "unready" => Deed::Unready { for_ms: dice.count(1_000, 120_000) },
        _ => {
            let mut maybe =
                |of: &[&str]| dice.chance(0.5).then(|| dice.pick(of).map(|n| (*n).to_owned())).flatten();
            let (zone, capacity_type) = (maybe(&ZONES), maybe(&["spot", "on-demand"]));
            Deed::Dry { zone, capacity_type, for_ms: dice.count(1_000, 600_000) }
        }
    }
}

fn faults(seed: u64, profile: Profile) -> BTreeMap<Fault, Odds> {
    let mut faults = BTreeMap::new();
    for fault in Fault::ALL {
        let mut dice = Dice::new(seed, &format!("odds of {fault}"));
        let pinned = match profile {
            Profile::CloudLies => of_cloud(*fault),
            Profile::Twins => matches!(fault, Fault::Pause | Fault::LeaseCut),
            Profile::Any | Profile::Calm => false,
        };
        if pinned || dice.chance(0.3) {
            let (least, most) = range(*fault);
            let at = if dice.chance(0.5) { vec![dice.count(1, 10)] } else { Vec::new() };
            faults.insert(*fault, Odds { rate: dice.scaled(least, most), at: at.into_iter().collect() });
        }
    }
    faults
}

fn of_cloud(fault: Fault) -> bool {
    fault >= Fault::CallLost && fault <= Fault::LessAllocatable
}

/// How often a fault may strike, so that the world stays survivable.
fn range(fault: Fault) -> (f64, f64) {
    match fault {
        Fault::KillBefore | Fault::KillDuring | Fault::KillAfter => (0.001, 0.05),
        Fault::Pause | Fault::LeaseCut | Fault::WallJump => (0.002, 0.05),
        Fault::WatchLag | Fault::WatchDropped => (0.001, 0.1),
        Fault::InstanceDies
        | Fault::NeverRegisters
        | Fault::WrongTaint
        | Fault::LessAllocatable
        | Fault::NodeSickens
        | Fault::NodeHangs
        | Fault::KubeletStops => (0.01, 0.3),
        _ => (0.003, 0.3),
    }
}
