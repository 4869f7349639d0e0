//! What sources may look at, as the store knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_api::CapacityBuffer;
use headstart_api::capacitybuffer::CapacityBufferSpec;
use headstart_api::conditions::nodeclaim::INITIALIZED;
use headstart_api::conditions::reasons::{POD_TEMPLATE_NOT_FOUND, RESOLUTION_FAILED, SCALABLE_REF_NOT_FOUND};
use headstart_core::demand::buffer::{Buffer, Unready};
use headstart_core::demand::{Facts, Maker, Owner, PoolUse, Schedule, Template};
use headstart_core::labels::{NODE_POOL, WellKnown};
use headstart_core::resources::{CPU, MEMORY};
use headstart_core::snapshot::Snapshot;
use headstart_intake::{Choice, Drawing, MakerRef};

use crate::demand::progress::Progress;
use crate::settings::Proactive;
use crate::store::{Pod, Store};
use crate::time::Now;

/// How long a node is thought to take before any has been seen, in milliseconds.
const PRIOR: i64 = 60_000;
/// How many nodes of a pool must have been seen before they count more than that.
const ENOUGH: usize = 3;
/// How many nodes of a pool are looked at, the latest.
const LATEST: usize = 32;
/// How many of a pool's youngest pods make up its mix.
const MIX: usize = 10;

/// Everything that sources may look at; nothing of what is switched off.
pub(crate) fn facts(
    settings: &Proactive,
    progress: &mut Progress,
    store: &Store,
    snapshot: &Snapshot,
    well_known: &WellKnown,
    now: Now,
) -> Facts {
    let mut drawing = store.world.drawing(well_known);
    let mut facts = Facts {
        now: now.wall.0,
        lead: lead(store),
        threshold: settings.threshold,
        quotas: store.world.quotas_left(),
        ..Facts::default()
    };
    let is_chosen = |choice: Option<Choice>| match choice {
        Some(choice) => choice == Choice::Yes,
        None => !settings.only_chosen,
    };
    if settings.enabled {
        facts.makers = makers(progress, store, &mut drawing, now, is_chosen);
        facts.schedules = schedules(store, &mut drawing, is_chosen);
        if settings.has_headroom() {
            facts.pools = pools(settings.threshold, store, snapshot, &mut drawing);
        }
    }
    if settings.has_buffers() {
        facts.buffers = store.buffers.values().map(|buffer| self::buffer(buffer, &mut drawing)).collect();
    }
    facts
}

/// How long a node takes from being asked for to being ready: longer than nine of ten, in the slowest pool.
fn lead(store: &Store) -> i64 {
    let mut by_pool: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    for claim in store.claims.values().filter(|claim| claim.is_initialized()) {
        let made = claim.metadata.created();
        let took = (claim.since(INITIALIZED) - made).as_millis() as i64;
        by_pool.entry(claim.pool()).or_default().push((made.0, took));
    }
    let of_pool = |mut seen: Vec<(i64, i64)>| {
        if seen.len() < ENOUGH {
            return PRIOR;
        }
        seen.sort_unstable();
        let mut took: Vec<i64> = seen.iter().rev().take(LATEST).map(|(_, took)| *took).collect();
        took.sort_unstable();
        took[(took.len() * 9 / 10).min(took.len() - 1)]
    };
    by_pool.into_values().map(of_pool).max().unwrap_or(PRIOR)
}

fn makers<'a>(
    progress: &mut Progress,
    store: &'a Store,
    drawing: &mut Drawing<'a>,
    now: Now,
    is_chosen: impl Fn(Option<Choice>) -> bool,
) -> Vec<Maker> {
    let lacking = |maker: &MakerRef<'_>| maker.wish().pods() as usize > store.live(maker.uid());
    let makers: Vec<MakerRef<'a>> =
        store.world.makers().filter(|maker| is_chosen(maker.choice())).filter(lacking).collect();
    let uids: BTreeSet<&str> = makers.iter().map(MakerRef::uid).collect();
    progress.keep(|uid| uids.contains(uid));
    let mut youngest: BTreeMap<&str, &Pod> = BTreeMap::new();
    if !uids.is_empty() {
        for pod in store.world.pods().iter().filter(|pod| !pod.is_over() && pod.deleted().is_none()) {
            let Some(owner) = pod.owner().map(|uid| &**uid).filter(|owner| uids.contains(owner)) else {
                continue;
            };
            let known = youngest.entry(owner).or_insert(pod);
            if (pod.created(), pod.name()) > (known.created(), known.name()) {
                *known = pod;
            }
        }
    }
    let mut all: Vec<Maker> = makers
        .into_iter()
        .map(|maker| {
            let owner = maker.owner();
            let has = u32::try_from(store.live(maker.uid())).unwrap_or(u32::MAX);
            let stalled = progress.stalled(now.time, &owner.uid, maker.wish().pods(), has);
            let like = youngest.get(maker.uid()).map(|pod| (&**pod.namespace(), &**pod.name()));
            let template = drawing.maker(maker, like).and_then(|template| {
                if store.displaces(template.shape.priority) {
                    return Err("kube-scheduler may make room for its pods by sending others away".to_owned());
                }
                Ok(template)
            });
            Maker { owner, wish: maker.wish(), has, template, trouble: maker.trouble(), stalled }
        })
        .collect();
    all.sort_by(|a, b| a.owner.cmp(&b.owner));
    all
}

fn schedules<'a>(
    store: &'a Store,
    drawing: &mut Drawing<'a>,
    is_chosen: impl Fn(Option<Choice>) -> bool,
) -> Vec<Schedule> {
    // When its latest job was made, and how many pods its jobs have that have not ended.
    let mut jobs: BTreeMap<(&str, &str), (i64, Option<u32>)> = BTreeMap::new();
    for (cron_job, uid, made, is_over) in store.world.jobs_of_runs() {
        let (last, running) = jobs.entry(cron_job).or_default();
        *last = made.max(*last);
        if !is_over {
            *running = Some(running.unwrap_or(0) + u32::try_from(store.live(uid)).unwrap_or(u32::MAX));
        }
    }
    let runs = store.world.runs().filter(|run| is_chosen(run.choice()));
    let schedule = |run: headstart_intake::Run<'a>| {
        let owner = run.owner();
        let (made, running) = jobs.get(&(run.namespace(), &*owner.name)).copied().unwrap_or_default();
        let (line, zone) = run.line();
        Schedule {
            line: line.to_owned(),
            zone: zone.map(str::to_owned),
            is_suspended: run.is_suspended(),
            overlap: run.overlap(),
            deadline: run.deadline(),
            last: run.last().max(made),
            pods: run.pods(),
            template: drawing.run(run),
            running,
            owner,
        }
    };
    runs.map(schedule).collect()
}

/// When a pod was made, its namespace and its name.
type Young<'a> = (i64, &'a Arc<str>, &'a Arc<str>);

/// How full pools are whose fullness matters.
fn pools<'a>(
    threshold: f64,
    store: &'a Store,
    snapshot: &Snapshot,
    drawing: &mut Drawing<'a>,
) -> Vec<PoolUse> {
    let mut pools: BTreeMap<&Arc<str>, PoolUse> = BTreeMap::new();
    for node in &snapshot.nodes {
        let Some(pool) = node.labels.get(NODE_POOL) else { continue };
        // A node on its way counts once it says what it has; one that runs nothing is room already.
        let is_used =
            [CPU, MEMORY].iter().any(|name| node.requested.get(name) > node.daemon_requested.get(name));
        if is_used && !node.allocatable.is_empty() {
            let known = pools.entry(pool).or_default();
            known.requested.add(&node.requested);
            known.allocatable.add(&node.allocatable);
        }
    }
    let is_full = |known: &PoolUse| {
        [CPU, MEMORY].iter().any(|name| {
            let (requested, all) = (known.requested.get(name).as_f64(), known.allocatable.get(name).as_f64());
            all > 0.0 && requested / all >= threshold
        })
    };
    pools.retain(|_, known| is_full(known));
    if pools.is_empty() {
        return Vec::new();
    }
    let mut youngest: BTreeMap<&str, BTreeSet<Young<'_>>> = BTreeMap::new();
    let counts =
        |pod: &&Pod| !pod.is_over() && !pod.is_daemon() && !pod.is_mirror() && !store.is_placeholder(pod);
    for pod in store.world.pods().iter().filter(counts) {
        let node = pod.node().and_then(|node| store.nodes.get(node));
        let Some(node) = node.filter(|node| pools.contains_key(&Arc::from(node.pool()))) else { continue };
        let known = youngest.entry(node.pool()).or_default();
        known.insert((pod.created(), pod.namespace(), pod.name()));
        if known.len() > MIX {
            known.pop_first();
        }
    }
    let finish = |(pool, mut used): (&Arc<str>, PoolUse)| {
        let uid = store.pools.get(&**pool).and_then(|pool| pool.metadata.uid.as_deref()).unwrap_or_default();
        used.pool =
            Owner { kind: "NodePool".into(), namespace: "".into(), name: pool.clone(), uid: uid.into() };
        let mix = youngest.get(&**pool).into_iter().flatten().rev();
        used.mix = mix.filter_map(|(_, namespace, name)| drawing.like(namespace, name)).collect();
        used
    };
    pools.into_iter().map(finish).collect()
}

fn buffer(buffer: &CapacityBuffer, drawing: &mut Drawing<'_>) -> Buffer {
    let meta = &buffer.metadata;
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let (template, workload) = template(&buffer.spec, namespace, drawing);
    let count = |count: Option<i32>| count.map(|count| u32::try_from(count).unwrap_or(0));
    let limits = buffer.spec.limits.as_ref().map(|limits| {
        limits.iter().filter_map(|(name, amount)| Some((name.as_str(), amount.0.parse().ok()?))).collect()
    });
    Buffer {
        owner: Owner {
            kind: "CapacityBuffer".into(),
            namespace: namespace.into(),
            name: text(&meta.name),
            uid: text(&meta.uid),
        },
        created: meta.creation_timestamp.as_ref().map_or(0, |stamp| stamp.0.as_millisecond()),
        strategy: buffer.spec.provisioning_strategy().to_owned(),
        template,
        replicas: count(buffer.spec.replicas),
        percentage: count(buffer.spec.percentage),
        limits,
        workload,
    }
}

/// What a buffer's pods need, and how many pods its workload wants.
fn template(
    spec: &CapacityBufferSpec,
    namespace: &str,
    drawing: &mut Drawing<'_>,
) -> (Result<Template, Unready>, Option<u32>) {
    let unready = |reason, message: String| Unready { reason, message };
    let failed = |message| unready(RESOLUTION_FAILED, message);
    if let Some(named) = &spec.pod_template_ref {
        let name = &named.name;
        let missing =
            || unready(POD_TEMPLATE_NOT_FOUND, format!("there is no PodTemplate {namespace}/{name}"));
        let found = drawing.named(namespace, name);
        return (found.ok_or_else(missing).and_then(|found| found.map_err(failed)), None);
    }
    let Some(scaled) = &spec.scalable_ref else {
        return (Err(failed("neither podTemplateRef nor scalableRef is set".to_owned())), None);
    };
    let (group, kind, name) = (scaled.api_group.as_deref().unwrap_or_default(), &scaled.kind, &scaled.name);
    let is_known =
        ["", "apps"].contains(&group) && ["Deployment", "StatefulSet", "ReplicaSet"].contains(&kind.as_str());
    if !is_known {
        let message = format!(
            "{kind} of group {group:?} cannot be followed; Deployments, StatefulSets and ReplicaSets can"
        );
        return (Err(failed(message)), None);
    }
    match drawing.scaled(kind, namespace, name) {
        Some((template, pods)) => (template.map_err(failed), Some(pods)),
        None => {
            (Err(unready(SCALABLE_REF_NOT_FOUND, format!("there is no {kind} {namespace}/{name}"))), None)
        }
    }
}
