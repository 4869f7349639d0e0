//! Plays many seeds, or one, or a stored plan, and says which laws were broken.
#![allow(clippy::print_stdout, reason = "this is what the program is for")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use headstart_sim::brain;
use headstart_sim::ensemble::{Ensemble, Failure, try_plan, try_seed};
use headstart_sim::pairs::{self, Pairs};
use headstart_sim::plan::{Plan, Profile};
use headstart_sim::shrink::shrink;
use headstart_sim::swarm;
use headstart_sim::timeline::Moment;
use headstart_sim::verdict::{self, Verdict};
use mimalloc::MiMalloc;

// Most of the time goes into objects that are made and dropped.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Plays the engine in a simulated cluster in which things go wrong.
///
///   headstart-sim --seeds 300
///   headstart-sim --seed 17 --trace
///   headstart-sim --plan target/sim/17.json
///
/// Exit codes: 0 all laws held, 1 an error, 2 a law was broken, 3 something never finished, 4 two runs of the same plan
/// differed, 5 a panic, 6 some kind of fault never struck.
#[derive(Parser)]
#[command(name = "headstart-sim", version, verbatim_doc_comment)]
struct Args {
    /// How many seeds to play
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Play this seed only
    #[arg(long, conflicts_with_all = ["seeds", "plan"])]
    seed: Option<u64>,
    /// Play it as one side of a pair: with or without nodes for pods that are expected, whatever the seed says
    #[arg(long, requires = "seed")]
    expecting: Option<bool>,
    /// Play a stored plan
    #[arg(long, conflicts_with = "seeds")]
    plan: Option<PathBuf>,
    /// Pin what kind of runs they are; all kinds in turn if left out
    #[arg(long)]
    profile: Option<ProfileName>,
    /// Measure an hour of this many nodes with ten pods each
    #[arg(long, conflicts_with_all = ["seeds", "seed", "plan"])]
    large: Option<u64>,
    /// Play this many seeds twice, without and with nodes for pods that are expected, and compare how pods waited
    #[arg(long, conflicts_with_all = ["seeds", "seed", "plan", "large"])]
    pairs: Option<u64>,
    /// Print everything that happens in a single run
    #[arg(long)]
    trace: bool,
    /// Leave a failing plan as large as it is
    #[arg(long)]
    no_shrink: bool,
    /// Stop after so many failures
    #[arg(long, default_value_t = 5)]
    failures: usize,
    /// How many runs at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Where failing plans are kept
    #[arg(long, default_value = "target/sim")]
    keep: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileName {
    Any,
    Calm,
    CloudLies,
    Twins,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Any => Self::Any,
            ProfileName::Calm => Self::Calm,
            ProfileName::CloudLies => Self::CloudLies,
            ProfileName::Twins => Self::Twins,
        }
    }
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Clap's own exit code for misuse would read as a finding.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    if let Some(nodes) = args.large {
        return measure(nodes);
    }
    if let Some(count) = args.pairs {
        return pairs(&args, count);
    }
    let single = match (&args.plan, args.seed) {
        (Some(path), _) => match read(path) {
            Ok(plan) => Some(plan),
            Err(error) => {
                eprintln!("error: {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        },
        (None, Some(seed)) => {
            let profile = profile_of(&args, seed);
            Some(
                args.expecting
                    .map_or_else(|| swarm::draw(seed, profile), |with| pairs::side(seed, profile, with)),
            )
        }
        (None, None) => None,
    };
    match single {
        Some(plan) => one(&args, plan),
        None => many(&args),
    }
}

/// The profile of a seed: half of all runs are of any kind, the rest in turn.
fn profile_of(args: &Args, seed: u64) -> Profile {
    match (args.profile, seed % 8) {
        (Some(name), _) => name.into(),
        (None, 1) => Profile::Calm,
        (None, 3) => Profile::CloudLies,
        (None, 5) => Profile::Twins,
        (None, _) => Profile::Any,
    }
}

fn read(path: &Path) -> Result<Plan, Box<dyn std::error::Error>> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn measure(nodes: u64) -> ExitCode {
    let plan = swarm::large(1, nodes, (nodes * 10) as u32);
    let began = Instant::now();
    let verdict = try_plan(&plan, &brain::engine, false, false);
    summary(&verdict);
    println!("took {:.2} s", began.elapsed().as_secs_f64());
    verdict.violation.map_or(ExitCode::SUCCESS, |violation| {
        println!("{violation}");
        code(violation.check)
    })
}

/// Plays seeds both ways; nobody may be worse off, and all together must not wait longer.
fn pairs(args: &Args, count: u64) -> ExitCode {
    let began = Instant::now();
    let (next, end) = (AtomicU64::new(args.first), args.first + count);
    let (pairs, failures) = (Mutex::new(Pairs::default()), AtomicU64::new(0));
    let work = || {
        while (failures.load(Ordering::Relaxed) as usize) < args.failures {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            let pair = pairs::play(seed, profile_of(args, seed), &brain::engine);
            if let Some(violation) = &pair.violation {
                println!("seed {seed}: {} at {}: {}", violation.check, violation.at, violation.message);
                failures.fetch_add(1, Ordering::Relaxed);
            } else if let Some(app) = pair.left_waiting() {
                println!("seed {seed}: pods of {app} wait in the end only because others were expected");
                failures.fetch_add(1, Ordering::Relaxed);
            }
            let mut pairs = pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            pairs.add(pair);
            if pairs.count.is_multiple_of(100) {
                println!("{} pairs after {:.0} s", pairs.count, began.elapsed().as_secs_f64());
            }
        }
    };
    std::thread::scope(|scope| (0..args.jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let mut pairs = pairs.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (without, with) = pairs.summary();
    println!("{} pairs in {:.1} s", pairs.count, began.elapsed().as_secs_f64());
    for (name, summary) in [("without", without), ("with", with)] {
        println!(
            "{name:>8} expectations: {} pods waited {:.0} s together, 95 in 100 of them {:.1} s at most",
            summary.pods, summary.total, summary.p95
        );
    }
    if failures.load(Ordering::Relaxed) > 0 {
        return ExitCode::from(2);
    }
    if with.total > without.total || with.p95 > without.p95 {
        println!("pods wait longer when others are expected");
        return ExitCode::from(2);
    }
    println!("nobody waits longer");
    ExitCode::SUCCESS
}

fn one(args: &Args, plan: Plan) -> ExitCode {
    let began = Instant::now();
    let verdict = try_plan(&plan, &brain::engine, true, args.trace);
    for (at, line) in &verdict.trace {
        println!("{at} {line}");
    }
    summary(&verdict);
    println!("took {:.2} s", began.elapsed().as_secs_f64());
    match verdict.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            let code = code(violation.check);
            explain(args, &Failure { plan, violation });
            code
        }
    }
}

fn many(args: &Args) -> ExitCode {
    let began = Instant::now();
    let next = AtomicU64::new(args.first);
    let end = args.first + args.seeds;
    let ensemble = Mutex::new(Ensemble::default());
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| work(args, &next, end, &ensemble, began));
        }
    });
    let mut ensemble = ensemble.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    ensemble.failures.sort_by_key(|failure| failure.plan.seed);
    println!(
        "{} runs, {:.1} simulated hours, {} pods, {} claims, {} instances in {:.1} s",
        ensemble.runs,
        ensemble.virtual_ms as f64 / 3_600_000.0,
        ensemble.pods,
        ensemble.claims,
        ensemble.instances,
        began.elapsed().as_secs_f64()
    );
    let struck: Vec<String> =
        ensemble.faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
    println!("faults: {}", struck.join(", "));
    let done: Vec<String> = ensemble.deeds.iter().map(|(deed, count)| format!("{deed} {count}")).collect();
    println!("deeds: {}", done.join(", "));
    if let Some(first) = ensemble.failures.first() {
        let mut laws: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for failure in &ensemble.failures {
            laws.entry(failure.violation.check).or_default().push(failure.plan.seed.to_string());
        }
        explain(args, first);
        for (law, seeds) in laws {
            println!("{law} was broken by seeds {}", seeds.join(", "));
        }
        return code(first.violation.check);
    }
    let missing = ensemble.missing();
    // Few runs cannot show everything.
    if !missing.is_empty() && args.seeds >= 200 && args.profile.is_none() {
        println!("never happened: {}", missing.join(", "));
        return ExitCode::from(6);
    }
    println!("all laws held");
    ExitCode::SUCCESS
}

fn work(args: &Args, next: &AtomicU64, end: u64, ensemble: &Mutex<Ensemble>, began: Instant) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let (plan, verdict) = try_seed(seed, profile_of(args, seed), &brain::engine);
        if let Some(violation) = &verdict.violation {
            println!("seed {seed}: {} at {}: {}", violation.check, violation.at, violation.message);
        }
        let mut ensemble = ensemble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ensemble.add(plan, verdict);
        if ensemble.runs.is_multiple_of(100) {
            println!("{} runs after {:.0} s", ensemble.runs, began.elapsed().as_secs_f64());
        }
        if ensemble.failures.len() >= args.failures {
            return;
        }
    }
}

fn summary(verdict: &Verdict) {
    let faults: Vec<String> =
        verdict.faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
    println!(
        "ended at {} with {} pods, {} claims, {} instances; faults: {}",
        verdict.ended,
        verdict.pods,
        verdict.claims,
        verdict.instances,
        if faults.is_empty() { "none".to_owned() } else { faults.join(", ") }
    );
}

/// Says what is wrong, how to see it again, and the least that shows it.
fn explain(args: &Args, failure: &Failure) {
    let (seed, check) = (failure.plan.seed, failure.violation.check);
    println!("\n{}", failure.violation);
    println!("again: make sim SEED={seed}{}", again(args));
    if args.no_shrink || check == "no_panic" || check == "same_twice" {
        return;
    }
    let Ok(catalog) = verdict::catalog(&failure.plan) else { return };
    let (plan, verdict) = shrink(&failure.plan, check, &catalog, &brain::engine);
    let path = args.keep.join(format!("{seed}.json"));
    let kept = fs::create_dir_all(&args.keep)
        .and_then(|()| fs::write(&path, serde_json::to_vec_pretty(&plan).unwrap_or_default()));
    println!(
        "\nshrunk to {} steps, {} kinds of fault, a storm of {} s; its trace:",
        plan.steps.len(),
        plan.faults.len(),
        plan.storm_ms / 1000
    );
    if let Some(violation) = &verdict.violation {
        for (at, line) in shortened(&verdict::bearing(&verdict.trace, &violation.names)) {
            println!("{at} {line}");
        }
        println!("\n{violation}");
    }
    match kept {
        Ok(()) => println!("again: make sim PLAN={}", path.display()),
        Err(error) => println!("the plan could not be kept in {}: {error}", path.display()),
    }
}

fn again(args: &Args) -> String {
    let name = args.profile.and_then(|profile| profile.to_possible_value());
    name.map_or_else(String::new, |name| format!(" ARGS=\"--profile {}\"", name.get_name()))
}

/// The beginning and the end of a long trace.
fn shortened(trace: &[&(Moment, String)]) -> Vec<(Moment, String)> {
    const HEAD: usize = 60;
    const TAIL: usize = 100;
    let all = || trace.iter().map(|line| (*line).clone());
    if trace.len() <= HEAD + TAIL {
        return all().collect();
    }
    let left_out = trace.len() - HEAD - TAIL;
    let gap = (trace[HEAD + left_out].0, format!("… {left_out} lines left out …"));
    all().take(HEAD).chain([gap]).chain(all().skip(HEAD + left_out)).collect()
}

fn code(check: &str) -> ExitCode {
    ExitCode::from(match check {
        "finishes" | "no_pod_left_waiting" => 3,
        "same_twice" => 4,
        "no_panic" => 5,
        _ => 2,
    })
}
