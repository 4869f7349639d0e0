//! Works out what stood in the way of a class, after the fact.
//!
//! Packing itself only learns yes or no. What is said to people is recomputed from the final state, once for each class that
//! found no place, with the wishes it insists on least.

use std::sync::Arc;

use crate::explain::{Obstacle, Place, Refusal};
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
        all.push(Obstacle { place, rule: node_refusal(problem, state, class, node) });
    }
    nearest_first(all)
}

fn nearest_first(mut all: Vec<Obstacle>) -> Vec<Obstacle> {
    all.sort_by(|a, b| b.rule.nearness().cmp(&a.rule.nearness()).then_with(|| a.place.cmp(&b.place)));
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
        return lacking(problem, of, usable.most());
    }
    let taken = |at: usize| conflict(&of.shape.host_ports, &row.rows.daemons(at).ports);
    let port = of.shape.host_ports.first().filter(|_| row.rows.holding(&usable, None, &of.need).all(taken));
    if let Some(port) = port {
        return Refusal::HostPort(port.port);
    }
    if let Some(group) = forbidding(problem, state, class) {
        return Refusal::Topology(group);
    }
    match state.pool_takes(problem, class, variant, pool, None) {
        Verdict::Yes(_) => Refusal::Limit(limits(state, pool)),
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

fn node_refusal(problem: &mut Problem<'_>, state: &State, class: ClassId, node: usize) -> Refusal {
    let of = &problem.classes.all[class.0 as usize];
    let wishes = &of.variants[of.variants.len() - 1];
    let (row, left) = (&problem.nodes[node], &state.nodes[node]);
    if !wishes.tolerates.has(row.taints as usize) {
        return untolerated_by(of, &row.node.taints);
    }
    let labels = problem.reqs.get(row.labels).clone();
    let asked = problem.reqs.get(wishes.node_reqs).clone();
    if let Err(clash) = labels.compatible(&asked, &crate::labels::WellKnown::none()) {
        return Refusal::Labels(clash.to_string());
    }
    if !row.meets(wishes.node_reqs, &mut problem.reqs) {
        return Refusal::Labels(format!("what it will be is not certain: {labels}"));
    }
    if !of.volume_topology.iter().any(|asked| row.meets(*asked, &mut problem.reqs)) {
        return Refusal::VolumeTopology("its volumes are elsewhere".to_owned());
    }
    if of.need.iter().zip(&left.free).any(|(need, free)| need > free) {
        return lacking(problem, of, &left.free);
    }
    if let Some(port) =
        of.shape.host_ports.iter().find(|port| conflict(std::slice::from_ref(port), &left.ports))
    {
        return Refusal::HostPort(port.port);
    }
    let over = |volume: &&crate::snapshot::Volume| {
        !attachable(std::slice::from_ref(*volume), &left.volumes, |driver| row.node.volume_limits.get(driver))
    };
    if let Some(volume) = of.volumes.iter().find(over) {
        return Refusal::VolumeLimit(volume.driver.clone());
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
            return Refusal::Topology(described(group, counts));
        }
    }
    Refusal::Combination
}

fn untolerated_by(class: &Class, taints: &[crate::snapshot::Taint]) -> Refusal {
    let taint = untolerated(taints, &class.shape.tolerations);
    Refusal::Taint(taint.map(ToString::to_string).unwrap_or_default())
}

/// The resource that is shortest of what is asked.
fn lacking(problem: &Problem<'_>, class: &Class, most: &[i64]) -> Refusal {
    let short = (0..class.need.len()).find(|column| class.need[*column] > most[*column]);
    short.map_or(Refusal::Combination, |column| {
        let name: &Arc<str> = problem.columns.name(column);
        let asked = class.shape.requests.get(name);
        let units = problem.columns.quantity(column, most[column].max(0));
        let notation =
            if asked.notation() == Notation::Binary { Notation::Binary } else { Notation::Decimal };
        Refusal::Resource { name: name.clone(), asked, most: Quantity::from_nanos(units.nanos(), notation) }
    })
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

fn limits(state: &State, pool: usize) -> String {
    let left = state.pools[pool].left().iter();
    let shown: Vec<_> = left
        .map(|(name, left)| {
            let left = left.at_least_zero();
            if &**name == NODES { format!("{left} nodes left") } else { format!("{left} {name} left") }
        })
        .collect();
    shown.join(", ")
}
