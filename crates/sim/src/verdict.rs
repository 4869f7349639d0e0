//! Plays a plan to its end: storm, calm, and what is to be said about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_cloud::Catalog;
use headstart_cloud::catalog::Source;
use headstart_engine::Kind;

use crate::brain::Nursery;
use crate::checks::{Broken, QUIET, Violation};
use crate::fault::Fault;
use crate::plan::Plan;
use crate::timeline::Moment;
use crate::truth::{self, Why};
use crate::waits::Waits;
use crate::world::World;

/// How long anything may stay unfinished in a calm world.
const PATIENCE: u64 = 30 * 60_000;
/// How often it is looked at meanwhile.
const GLANCE: u64 = 10_000;
/// How long everything must stay finished.
const STAYS: u64 = 5 * 60_000;

/// How long nodes that nobody needs may go one by one, as budgets want it, when all is finished.
const TIDIES_UP: u64 = 2 * 3_600_000;

/// How long a calm world may go on without ever being finished for that long.
const RESTS: u64 = 8 * 3_600_000;

/// What became of a run.
#[derive(Debug)]
pub struct Verdict {
    /// The law that was broken, if any.
    pub violation: Option<Violation>,
    /// When it ended.
    pub ended: Moment,
    /// How often each fault struck.
    pub faults: BTreeMap<Fault, u64>,
    /// How often each deed was done.
    pub deeds: BTreeMap<&'static str, u64>,
    /// How many claims were made.
    pub claims: u64,
    /// How many instances were bought.
    pub instances: usize,
    /// How many pods ever were.
    pub pods: usize,
    /// How long pods waited.
    pub waits: Waits,
    /// A number that differs when runs differ.
    pub digest: u64,
    /// What happened, in lines, if they were wanted.
    pub trace: Vec<(Moment, String)>,
}

impl Verdict {
    /// A run that could not be played to any end.
    pub(crate) fn failed(check: &'static str, message: String) -> Self {
        let violation = Violation { check, at: Moment(0), message, history: Vec::new(), names: Vec::new() };
        Self {
            violation: Some(violation),
            ended: Moment(0),
            faults: BTreeMap::new(),
            deeds: BTreeMap::new(),
            claims: 0,
            instances: 0,
            pods: 0,
            waits: Waits::default(),
            digest: 0,
            trace: Vec::new(),
        }
    }
}

/// The lines of a trace that bear on what is concerned: faults, deeds, processes, and the objects named.
pub fn bearing<'a>(trace: &'a [(Moment, String)], names: &[String]) -> Vec<&'a (Moment, String)> {
    let of_process = |line: &str| {
        line.starts_with("process ")
            && ["starts", "is killed", "leads", "stands still"].iter().any(|what| line.contains(what))
    };
    let bears = |line: &str| {
        line.starts_with("FAULT")
            || line.starts_with("DEED")
            || line.starts_with("the storm")
            || of_process(line)
            || names.iter().any(|name| line.contains(name.as_str()))
    };
    trace.iter().filter(|(_, line)| bears(line)).collect()
}

/// What the cloud of a plan sells.
pub fn catalog(plan: &Plan) -> Result<Arc<Catalog>, headstart_cloud::catalog::CatalogError> {
    let all = Catalog::load(&Source::Kwok)?;
    let fits = |name: &str| name.ends_with("-amd64-linux");
    let types = all.types().iter().filter(|t| fits(&t.name)).take(plan.types.max(1));
    let types = types.map(|t| (**t).clone()).collect();
    Ok(Arc::new(Catalog::new("sim", types, all.well_known.clone())))
}

/// Plays a plan.
pub fn play(plan: &Plan, catalog: &Arc<Catalog>, nursery: Nursery<'_>, traced: bool) -> Verdict {
    let mut world = World::new(Arc::new(plan.clone()), Arc::clone(catalog), nursery, traced);
    let violation = run(&mut world).err();
    let ground = &world.ground;
    Verdict {
        violation,
        ended: ground.now(),
        faults: ground.mischief.fired(),
        deeds: ground.deeds.clone(),
        claims: world.checks().claims(),
        instances: ground.cloud.books().len(),
        pods: ground.api.log(Kind::Pod).iter().filter(|entry| entry.before.is_none()).count(),
        waits: Waits::of(ground),
        digest: ground.trace.digest(),
        trace: ground.trace.lines().to_vec(),
    }
}

fn run(world: &mut World<'_>) -> Result<(), Violation> {
    world.run_until(Moment(world.ground.plan.storm_ms))?;
    world.calm();
    let began = world.ground.now();
    let mut quiet_since: Option<Moment> = None;
    let mut unfinished: BTreeMap<Why, Moment> = BTreeMap::new();
    loop {
        let now = world.ground.now();
        let pending = truth::pending(&world.ground);
        unfinished.retain(|why, _| pending.contains(why));
        for why in pending {
            let since = *unfinished.entry(why.clone()).or_insert(now);
            if now.since(since) >= PATIENCE {
                let broken = Broken::new(format!("after {} minutes of calm {why}", PATIENCE / 60_000));
                let check = why.check();
                return Err(broken.about(why.object.0, why.object.1).by(check, &world.ground));
            }
        }
        if truth::restless(&world.ground) {
            // There is no end to wait for, but nothing may stay unfinished.
            quiet_since = None;
            if now.since(began) >= 2 * PATIENCE {
                return Ok(());
            }
        } else if unfinished.is_empty() {
            let stayed = now.since(*quiet_since.get_or_insert(now));
            if stayed >= TIDIES_UP || (stayed >= STAYS && world.is_at_rest()) {
                return world.end();
            }
        } else {
            quiet_since = None;
        }
        if now.since(began) >= RESTS {
            let hours = RESTS / 3_600_000;
            let broken = Broken::new(format!("something begins again and again for {hours} hours"));
            return Err(broken.by("comes_to_rest", &world.ground));
        }
        world.run_until(now + GLANCE)?;
        world.glance()?;
    }
}

const _: () = assert!(QUIET < STAYS, "what must be quiet is looked at long enough");
