//! Works out what stood in the way of a class, after the fact.
//!
//! Packing itself only learns yes or no. What is said to people is recomputed from the final state, once for each class that
//! found no place, with the wishes it insists on least.

use std::sync::Arc;

use crate::explain::{Obstacle, Place, Refusal, Shortage};
use crate::labels::{INITIALIZED, NODE_POOL, REGISTERED};
use crate::quantity::{Notation, Quantity};
use crate::resources::NODES;
use crate::snapshot::untolerated;
use crate::solve::attempt::{Verdict, attachable, conflict};
use crate::solve::classes::{Class, ClassId};
use crate::solve::min_values::shortfall;
use crate::solve::problem::Problem;
use crate::solve::rows::Usable;
use crate::solve::state::State;
use crate::solve::topology::{Choice, Counts, Group, Rule};

/// What stood in the way of a class in every pool, nearest miss first.
pub(crate) fn in_pools(problem: &mut Problem<'_>, state: &mut State, class: ClassId) -> Vec<Obstacle> {
    let mut all = Vec::with_capacity(problem.pools.len());
    for pool in 0..problem.pools.len() {
        let place = Place::Pool(problem.pools[pool].pool.name.clone());
        all.push(Obstacle { place, rule: pool_refusal(problem, state, class, pool) });
    }
    if all.is_empty() {
        all.push(Obstacle { place: Place::Nowhere, rule: Refusal::NoPools });
    }
    nearest_first(all)
}

/// What stood in the way of a class in every pool and on every node, nearest miss first.
pub(crate) fn everywhere(problem: &mut Problem<'_>, state: &mut State, class: ClassId) -> Vec<Obstacle> {
    let mut all = in_pools(problem, state, class);
    for node in 0..problem.nodes.len() {
        let place = Place::Node(problem.nodes[node].node.name.clone());
        let variant = problem.classes.all[class.0 as usize].variants.len() - 1;
        all.extend(node_refusal(problem, state, class, variant, node).map(|rule| Obstacle { place, rule }));
    }
    nearest_first(all)
}

/// What stood in the way of a pod in the places that were asked before the one that took it, nearest miss first.
///
/// Told from how things are once everybody has a place, so that a node may be said to be full that others filled later.
pub(crate) fn before(problem: &mut Problem<'_>, state: &mut State, pod: u32) -> Vec<Obstacle> {
    let class = problem.classes.of_pod[pod as usize];
    let variant = state.relaxed.iter().find(|(other, _)| *other == pod).map_or(0, |(_, variant)| *variant);
    let on = state.nodes.iter().position(|node| node.pods.contains(&pod));
    let pool = state.claims.iter().find(|claim| claim.pods.contains(&pod)).map_or(0, |claim| claim.pool);
    let mut all = Vec::new();
    for node in 0..on.unwrap_or(problem.nodes.len()) {
        let place = Place::Node(problem.nodes[node].node.name.clone());
        all.extend(node_refusal(problem, state, class, variant, node).map(|rule| Obstacle { place, rule }));
    }
    for pool in 0..if on.is_some() { 0 } else { pool } {
        let place = Place::Pool(problem.pools[pool].pool.name.clone());
        all.push(Obstacle { place, rule: pool_refusal(problem, state, class, pool) });
    }
    nearest_first(all)
}

fn nearest_first(mut all: Vec<Obstacle>) -> Vec<Obstacle> {
    all.sort_by_cached_key(|o| (std::cmp::Reverse(o.rule.nearness()), o.rule.miss(), o.place.clone()));
    all
}

fn pool_refusal(problem: &mut Problem<'_>, state: &mut State, class: ClassId, pool: usize) -> Refusal {
    let of = &problem.classes.all[class.0 as usize];
    let variant = of.variants.len() - 1;
    let wishes = &of.variants[variant];
    let row = &mut problem.pools[pool];
    let template = problem.reqs.get(row.template).clone();
    if !wishes.tolerates.has(row.taints as usize) {
        return untolerated_by(of, problem.taint_sets.get(row.taints));
    }
    if !wishes.any_host {
        return Refusal::Labels("asks for a host by name".to_owned());
    }
    let asked = problem.reqs.get(wishes.claim_reqs).clone();
    let Some(narrowed) = problem.reqs.narrow(row.template, wishes.claim_reqs) else {
        let difference = template.compatible(&asked, problem.reqs.well_known());
        return Refusal::Labels(difference.err().map(|error| error.to_string()).unwrap_or_default());
    };
    let placed = of.volume_topology.iter().find_map(|at| problem.reqs.narrow(narrowed, *at));
    let Some(before) = placed else {
        return Refusal::VolumeTopology("its volumes are where the pool has no nodes".to_owned());
    };
    let usable = row.rows.usable(before, &problem.reqs);
    if usable.rows.is_empty() {
        let mut shown = (**problem.reqs.get(before)).clone();
        for key in [NODE_POOL, REGISTERED, INITIALIZED] {
            shown.remove(key);
        }
        return Refusal::NoInstanceType(shown.to_string());
    }
    let nothing = vec![0; of.need.len()];
    if row.rows.find(&usable, None, &nothing, &of.need).is_none() {
        let row = &problem.pools[pool].rows;
        let rooms = usable.rows.iter().map(|at| (row.instance_type(at).name.clone(), row.room(at)));
        return lacking(problem, of, usable.most(), rooms);
    }
    let row = &problem.pools[pool];
    let taken = |at: usize| conflict(&of.shape.host_ports, &row.rows.daemons(at).ports);
    let port = of.shape.host_ports.first().filter(|_| row.rows.holding(&usable, None, &of.need).all(taken));
    if let Some(port) = port {
        return Refusal::HostPort(port.port);
    }
    if let Some(group) = forbidding(problem, state, class) {
        return Refusal::Topology(group);
    }
    match state.pool_takes(problem, class, variant, pool, None) {
        Verdict::Yes(_) => limits(problem, state, of_need(problem, class), pool, &usable),
        Verdict::Wait => Refusal::Reservation,
        Verdict::NotNow | Verdict::Never => last_refusal(problem, class, pool, before, &usable),
    }
}

/// What is left once labels, room and ports are ruled out.
fn last_refusal(
    problem: &Problem<'_>,
    class: ClassId,
    pool: usize,
    reqs: crate::solve::reqs::ReqId,
    usable: &Usable,
) -> Refusal {
    let of = &problem.classes.all[class.0 as usize];
    let rows = &problem.pools[pool].rows;
    let holding: Vec<usize> = rows.holding(usable, None, &of.need).collect();
    let short = shortfall(problem, pool, reqs, &holding);
    if !short.is_empty() {
        let shown = short.iter().map(|(requirement, found)| format!("{requirement} has {found}"));
        return Refusal::MinValues(shown.collect::<Vec<_>>().join(", "));
    }
    if let Some(volume) = of.volumes.first() {
        return Refusal::VolumeLimit(volume.driver.clone());
    }
    Refusal::Topology(
        "no instance type is available in a domain that its topology constraints allow".to_owned(),
    )
}

/// Why a node refuses, if it does.
fn node_refusal(
    problem: &mut Problem<'_>,
    state: &State,
    class: ClassId,
    variant: usize,
    node: usize,
) -> Option<Refusal> {
    let of = &problem.classes.all[class.0 as usize];
    let wishes = &of.variants[variant];
    let (row, left) = (&problem.nodes[node], &state.nodes[node]);
    if !wishes.tolerates.has(row.taints as usize) {
        return Some(untolerated_by(of, &row.node.taints));
    }
    let labels = problem.reqs.get(row.labels).clone();
    let asked = problem.reqs.get(wishes.node_reqs).clone();
    if let Err(clash) = labels.compatible(&asked, &crate::labels::WellKnown::none()) {
        return Some(Refusal::Labels(clash.to_string()));
    }
    if !row.meets(wishes.node_reqs, &mut problem.reqs) {
        return Some(Refusal::Labels(format!("what it will be is not certain: {labels}")));
    }
    if !of.volume_topology.iter().any(|asked| row.meets(*asked, &mut problem.reqs)) {
        return Some(Refusal::VolumeTopology("its volumes are elsewhere".to_owned()));
    }
    if of.need.iter().zip(&left.free).any(|(need, free)| need > free) {
        let rooms = std::iter::once((row.node.name.clone(), left.free.as_slice()));
        return Some(lacking(problem, of, &left.free, rooms));
    }
    if let Some(port) =
        of.shape.host_ports.iter().find(|port| conflict(std::slice::from_ref(port), &left.ports))
    {
        return Some(Refusal::HostPort(port.port));
    }
    let over = |volume: &&crate::snapshot::Volume| {
        !attachable(std::slice::from_ref(*volume), &left.volumes, |driver| row.node.volume_limits.get(driver))
    };
    if let Some(volume) = of.volumes.iter().find(over) {
        return Some(Refusal::VolumeLimit(volume.driver.clone()));
    }
    let strict = problem.reqs.get(wishes.strict);
    for (group, counts, selects) in state.groups(&problem.classes, of, wishes) {
        let allowed = if group.is_by_host() {
            counts.host_allowed(group.rule, selects, node)
        } else {
            labels
                .get(&group.key)
                .is_some_and(|own| row.allowed(group, counts, selects, strict.get(&group.key), own))
        };
        if !allowed {
            return Some(Refusal::Topology(described(group, counts)));
        }
    }
    None
}

fn of_need<'a>(problem: &'a Problem<'_>, class: ClassId) -> &'a [i64] {
    &problem.classes.all[class.0 as usize].need
}

fn untolerated_by(class: &Class, taints: &[crate::snapshot::Taint]) -> Refusal {
    // A taint that only repels is forgiven in the end, so it is one of the others that decides.
    let hard = |taint: &&crate::snapshot::Taint| taint.effect != crate::snapshot::Effect::PreferNoSchedule;
    let hard: Vec<_> = taints.iter().filter(hard).cloned().collect();
    let taint = untolerated(&hard, &class.shape.tolerations).or_else(|| taints.first());
    taint.map_or(Refusal::NoPools, |taint| Refusal::Taint(taint.clone()))
}

/// What is short even where there is most of it, or else in the machine that lacks least, of those given with their room.
fn lacking<'a>(
    problem: &Problem<'_>,
    class: &Class,
    most: &[i64],
    rooms: impl Iterator<Item = (Arc<str>, &'a [i64])>,
) -> Refusal {
    let shortage = |column: usize, most: i64| {
        let name: &Arc<str> = problem.columns.name(column);
        let asked = class.shape.requests.get(name);
        let units = problem.columns.quantity(column, most.max(0));
        let notation =
            if asked.notation() == Notation::Binary { Notation::Binary } else { Notation::Decimal };
        Shortage { name: name.clone(), asked, most: Quantity::from_nanos(units.nanos(), notation) }
    };
    if let Some(column) = (0..class.need.len()).find(|column| class.need[*column] > most[*column]) {
        return Refusal::Resource(shortage(column, most[column]));
    }
    let short_of = |(name, room): (Arc<str>, &[i64])| {
        let short = (0..class.need.len()).filter(|column| class.need[*column] > room[*column]);
        let short: Vec<Shortage> = short.map(|column| shortage(column, room[column])).collect();
        (short.len(), Refusal::Combination { nearest: name, short })
    };
    let nearest = rooms.map(short_of).min_by_key(|(count, rule)| (*count, rule.miss()));
    nearest.map_or(Refusal::NoPools, |(_, rule)| rule)
}

/// A group that leaves no domain at all, described.
fn forbidding(problem: &Problem<'_>, state: &State, class: ClassId) -> Option<String> {
    let of = &problem.classes.all[class.0 as usize];
    let wishes = &of.variants[of.variants.len() - 1];
    let strict = problem.reqs.get(wishes.strict);
    let new_host = state.nodes.len() + state.claims.len();
    state
        .groups(&problem.classes, of, wishes)
        .find(|(group, counts, selects)| {
            if group.is_by_host() {
                return !counts.host_allowed(group.rule, *selects, new_host);
            }
            let pod = strict.get(&group.key);
            counts.choose(group.rule, *selects, pod, pod) == Choice::Nowhere
        })
        .map(|(group, counts, _)| described(group, counts))
}

fn described(group: &Group, counts: &Counts) -> String {
    let rule = match group.rule {
        Rule::Spread { max_skew, .. } => format!("spread over {} with skew {max_skew}", group.key),
        Rule::Near => format!("affinity over {}", group.key),
        Rule::Apart => format!("anti-affinity over {}", group.key),
    };
    if group.is_by_host() {
        return format!("{rule} leaves no host");
    }
    let shown: Vec<_> = counts.domains().iter().map(|(domain, count)| format!("{domain}: {count}")).collect();
    format!(
        "{rule} leaves no domain (pods now: {})",
        if shown.is_empty() { "none".into() } else { shown.join(", ") }
    )
}

/// What is left of the limits, and how much more would do.
fn limits(problem: &Problem<'_>, state: &State, need: &[i64], pool: usize, usable: &Usable) -> Refusal {
    let left = state.pools[pool].left();
    let rows = &problem.pools[pool].rows;
    let more = rows.holding(usable, None, need).map(|row| {
        let capacity = &rows.instance_type(row).capacity;
        let asked = |name: &str| if name == NODES { Quantity::from_units(1) } else { capacity.get(name) };
        let more = left.iter().map(|(name, left)| (name.clone(), (asked(name) - *left).at_least_zero()));
        more.filter(|(_, more)| !more.is_zero()).collect::<Vec<_>>()
    });
    let size = |more: &Vec<(Arc<str>, Quantity)>| {
        (more.len(), more.iter().map(|(name, more)| (name.clone(), *more)).collect::<Vec<_>>())
    };
    Refusal::Limit { left: left.to_vec(), more: more.min_by_key(size).unwrap_or_default() }
}
