//! Ten thousand spoiled manifests, each among good ones, from text to the printed plan.
//!
//! Whatever a manifest says, nothing panics and nothing hangs, the good pods get their places, and an object that cannot be
//! used is named with a field that it really has.

mod mutate;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use headstart_cloud::catalog::{Catalog, Source};
use headstart_core::{
    plan::Plan,
    snapshot::Snapshot,
    solve::{Packing, obstacles, solve},
};
use headstart_intake::{Diagnostic, Document, World, read};
use serde_json::Value;

use crate::{
    manifests::{self, Cluster},
    output::Paint,
    plan,
};
use mutate::{Dice, Mutant, mutate};

const GOOD: &str = include_str!("good.yaml");
const SEEDS: &str = include_str!("seeds.yaml");
const CASES: u64 = 10_000;
const THREADS: u64 = 2;
/// How long one case may take before it is said to hang, on however slow a machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// How the spoiled manifest is handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    /// In a file of its own.
    Alone,
    /// Between good ones in one file.
    Between,
    /// With everything it may refer to, or that may refer to it.
    Related,
}

struct Case {
    number: u64,
    company: Company,
    mutant: Mutant,
    texts: Vec<(String, String)>,
}

fn case(number: u64, seeds: &[Document]) -> Case {
    let mut dice = Dice::new(number);
    let mutant = mutate(&mut dice, &seeds[number as usize % seeds.len()].value);
    let (company, texts) = match dice.roll(8) {
        0..4 => (
            Company::Alone,
            vec![("good".to_owned(), GOOD.to_owned()), ("fuzz".to_owned(), mutant.text.clone())],
        ),
        4..7 => {
            let (first, second) = GOOD.split_at(GOOD.find("---\napiVersion: v1\nkind: Pod").unwrap());
            (Company::Between, vec![("all".to_owned(), format!("{first}---\n{}\n{second}", mutant.text))])
        }
        _ => {
            let others = seeds.iter().enumerate().filter(|(i, _)| *i != number as usize % seeds.len());
            let others: String = others.map(|(_, seed)| seed.value.to_string() + "\n").collect();
            let texts = [("good", GOOD), ("fuzz", &mutant.text), ("others", &others)];
            (Company::Related, texts.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec())
        }
    };
    Case { number, company, mutant, texts }
}

/// A few types of every size, so that the time goes into manifests.
fn catalog() -> Catalog {
    let all = Catalog::load(&Source::Kwok).unwrap();
    let some = all.types().iter().step_by(7).map(|known| (**known).clone()).collect();
    Catalog::new("some of kwok", some, all.well_known)
}

#[test]
fn ten_thousand_spoiled_manifests_harm_nobody() {
    let (report, reports) = mpsc::channel();
    for thread in 0..THREADS {
        let report = report.clone();
        thread::spawn(move || {
            let catalog = catalog();
            let (seeds, unreadable) = read("seeds", SEEDS);
            assert_eq!(unreadable, []);
            for number in (thread..CASES).step_by(THREADS as usize) {
                // Whoever waits knows which case it is that does not come back.
                let told = report.send((thread, number, None));
                let case = case(number, &seeds);
                let outcome = catch_unwind(AssertUnwindSafe(|| faults(&case, &catalog)));
                let faults = outcome.unwrap_or_else(|_| vec!["panicked".to_owned()]);
                if told.is_err() || report.send((thread, number, Some((case, faults)))).is_err() {
                    return;
                }
            }
        });
    }
    drop(report);
    let (mut running, mut bad, mut done) = ([0; THREADS as usize], Vec::new(), 0);
    loop {
        match reports.recv_timeout(PATIENCE) {
            Ok((thread, number, None)) => running[thread as usize] = number,
            Ok((_, _, Some((case, faults)))) => {
                done += 1;
                if !faults.is_empty() {
                    bad.push((case, faults));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("one of the cases {running:?} hangs"),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    bad.sort_by_key(|(case, _)| case.number);
    for (Case { number, company, mutant, .. }, faults) in bad.iter().take(10) {
        let text: String = mutant.text.chars().take(4_000).collect();
        eprintln!(
            "case {number} ({company:?}; {}):\n  {}\n{text}\n",
            mutant.how.join(", "),
            faults.join("\n  ")
        );
    }
    assert_eq!((bad.len(), done), (0, CASES), "see above");
}

/// What is wrong with the way a case is treated.
fn faults(case: &Case, catalog: &Catalog) -> Vec<String> {
    let (mut world, start) = (World::new(), Instant::now());
    let unreadable = manifests::add(&mut world, case.texts.clone());
    let cluster = Cluster::new(&world, unreadable, catalog, start.elapsed());
    let snapshot = &cluster.taken.snapshot;
    let found = solve(snapshot, Packing::Compat);
    let mut faults = Vec::new();
    let document = plan::document(&cluster, &found, Duration::ZERO);
    if document["nodeClaims"].as_array().map(Vec::len) != Some(found.claims.len()) {
        faults.push("the printed plan lacks claims".to_owned());
    }
    let mut printed = Vec::new();
    plan::table(&cluster, &found, Paint::PLAIN, &mut printed).unwrap();
    if String::from_utf8(printed).is_err() {
        faults.push("the table is not text".to_owned());
    }
    if let Some(unplaced) = found.unplaced.first()
        && obstacles(snapshot, unplaced.pod).is_empty()
    {
        faults.push("no reason is given for a pod that fits nowhere".to_owned());
    }
    for pod in ["good/small", "good/large"] {
        if !is_placed(snapshot, &found, pod) && !is_crowded_out(snapshot, pod) {
            faults.push(format!("{pod} has no place"));
        }
    }
    let (mut documents, mut unreadable) = (Vec::new(), false);
    for (origin, text) in &case.texts {
        let (more, broken) = read(origin, text);
        documents.extend(more.into_iter().filter(|document| !is_good(&document.value)));
        unreadable |= !broken.is_empty();
    }
    for diagnostic in &cluster.taken.diagnostics {
        faults.extend(misnamed(diagnostic, &documents, unreadable));
    }
    for Document { value, .. } in &documents {
        faults.extend(lost(value, &cluster.taken, &document));
    }
    faults
}

fn is_good(object: &Value) -> bool {
    let says = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    says("/metadata/namespace") == "good" || says("/metadata/name").starts_with("good")
}

fn is_placed(snapshot: &Snapshot, plan: &Plan, name: &str) -> bool {
    let on_claims = plan.claims.iter().flat_map(|claim| &claim.pods);
    let on_nodes = plan.existing.iter().flat_map(|node| &node.pods);
    on_claims.chain(on_nodes).any(|pod| {
        let pod = &snapshot.pods[*pod as usize];
        format!("{}/{}", pod.namespace, pod.name) == name
    })
}

/// Whether others rightly take the place of a pod: daemons that fill nodes, or pods that want to be apart from it.
fn is_crowded_out(snapshot: &Snapshot, name: &str) -> bool {
    let mut without = snapshot.clone();
    without.daemons.clear();
    without.pods.retain(|pod| &*pod.namespace == "good");
    without.bound.clear();
    is_placed(&without, &solve(&without, Packing::Compat), name)
}

/// Diagnostics are about a spoiled object, and point to a place in it.
fn misnamed(diagnostic: &Diagnostic, documents: &[Document], unreadable: bool) -> Option<String> {
    let about = documents.iter().find(|document| {
        let name =
            document.value.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        diagnostic.object.ends_with(&document.origin)
            || name.is_some_and(|name| diagnostic.object.ends_with(name))
    });
    let Some(about) = about else {
        let excused =
            unreadable && (diagnostic.message.starts_with("not ") || diagnostic.object.contains("fuzz"));
        return (!excused).then(|| format!("about nobody: {diagnostic}"));
    };
    if diagnostic.field.is_empty() {
        let whole = !about.value.is_object() || diagnostic.message.starts_with("not ");
        return (!whole).then(|| format!("no field: {diagnostic}"));
    }
    (!leads_somewhere(&about.value, &diagnostic.field)).then(|| format!("no such field: {diagnostic}"))
}

/// Whether all of a path but its end exists.
fn leads_somewhere(value: &Value, path: &str) -> bool {
    if path.is_empty() || value.is_null() || path == "metadata.name" && value.get("metadata").is_none() {
        return true;
    }
    match value {
        Value::Array(items) => {
            path.strip_prefix('[').and_then(|path| path.split_once(']')).is_some_and(|(at, rest)| {
                let item = at.parse::<usize>().ok().and_then(|at| items.get(at));
                item.is_some_and(|item| leads_somewhere(item, rest.trim_start_matches('.')))
            })
        }
        Value::Object(fields) => {
            // Keys may hold dots themselves, so every key that the path starts with is tried.
            let known =
                fields.iter().filter_map(|(key, value)| Some((path.strip_prefix(key.as_str())?, value)));
            let mut known = known.filter(|(rest, _)| rest.is_empty() || rest.starts_with(['.', '[']));
            known.any(|(rest, value)| leads_somewhere(value, rest.strip_prefix('.').unwrap_or(rest)))
                || !path.contains(['.', '['])
        }
        _ => false,
    }
}

/// An object that plainly wants something is planned for, or named.
fn lost(value: &Value, taken: &headstart_intake::Taken, printed: &Value) -> Option<String> {
    const SILENT: [&str; 8] = [
        "deletionTimestamp",
        "schedulingGates",
        "nodeName",
        "phase",
        "replicas",
        "conditions",
        "ownerReferences",
        "suspend",
    ];
    let kind = value.get("kind").and_then(Value::as_str)?;
    let name = value.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    let text = value.to_string();
    if SILENT.iter().any(|word| text.contains(word)) {
        return None;
    }
    let snapshot = &taken.snapshot;
    let names: BTreeSet<&str> = match kind {
        "NodePool" => snapshot.pools.iter().map(|pool| &*pool.name).collect(),
        "Node" => snapshot.nodes.iter().map(|node| &*node.name).collect(),
        "DaemonSet" => snapshot.daemons.iter().filter_map(|daemon| daemon.name.split('/').nth(1)).collect(),
        "Pod" => snapshot.pods.iter().map(|pod| &*pod.name).collect(),
        _ => return None,
    };
    let mentioned = taken.diagnostics.iter().any(|diagnostic| diagnostic.object.ends_with(name))
        || printed["unschedulable"].to_string().contains(name);
    (!names.contains(name) && !mentioned).then(|| format!("{kind} {name} is neither used nor named"))
}
