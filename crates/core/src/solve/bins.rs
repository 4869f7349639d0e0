//! The packing policy of our own search: new nodes are filled with what is worth most for their price.
//!
//! What a unit of each resource is worth follows from the lower bound, and with it which machines are worth their price.
//! Each of those is filled in thought with the pods that use its room most evenly; the one that gains most for its price is
//! made, and the next is filled with what is left. Only amounts are looked at for that: whether a pod may go there is asked
//! as always, and whoever may not is placed one by one at the end.

use crate::solve::attempt::Verdict;
use crate::solve::bits::Bits;
use crate::solve::bound::Ideal;
use crate::solve::classes::ClassId;
use crate::solve::compat::place_all;
use crate::solve::problem::Problem;
use crate::solve::state::State;

/// How much of a machine must be used, by what it is worth, for it to be made at all.
const LEAST_USED: f64 = 0.5;

/// Pods of a class that have no place yet.
struct Left {
    class: ClassId,
    pods: Vec<u32>,
}

/// Places pods, on nodes that exist if they can, else on claims that are worth their price; returns those without a place.
pub(crate) fn fill(
    problem: &mut Problem<'_>,
    state: &mut State,
    ideal: &Ideal,
    settled: &Bits,
    queue: Vec<u32>,
    most_claims: usize,
) -> Vec<u32> {
    let homeless = tightest_nodes(problem, state, ideal, settled, queue);
    let mut left: Vec<Left> = Vec::new();
    for pod in &homeless {
        let class = problem.classes.of_pod[*pod as usize];
        match left.iter_mut().find(|left| left.class == class) {
            Some(left) => left.pods.push(*pod),
            None => left.push(Left { class, pods: vec![*pod] }),
        }
    }
    let mut others = Vec::new();
    while state.claims.len() < most_claims {
        let Some(chosen) = best_bin(problem, ideal, &left) else { break };
        make(problem, state, &chosen, &mut left, &mut others);
    }
    others.extend(left.into_iter().flat_map(|left| left.pods));
    let others = homeless.into_iter().filter(|pod| others.contains(pod)).collect();
    place_all(problem, state, others, most_claims)
}

/// Places pods on nodes that exist, each where it leaves the least room, but first on those that stay whatever happens;
/// returns those that no node takes.
fn tightest_nodes(
    problem: &mut Problem<'_>,
    state: &mut State,
    ideal: &Ideal,
    settled: &Bits,
    queue: Vec<u32>,
) -> Vec<u32> {
    let mut left = Vec::new();
    let mut free: Vec<f64> = state.nodes.iter().map(|node| ideal.value(&node.free)).collect();
    let mut fitting: Vec<(bool, f64, usize)> = Vec::new();
    for pod in queue {
        let class = problem.classes.of_pod[pod as usize];
        let of = &problem.classes.all[class.0 as usize];
        let refused = &state.progress[of.first_variant].no_nodes;
        fitting.clear();
        for (node, known) in state.nodes.iter().enumerate() {
            if of.need.iter().zip(&known.free).all(|(need, free)| need <= free) && !refused.has(node) {
                fitting.push((!settled.has(node), free[node], node));
            }
        }
        fitting.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)).then_with(|| a.2.cmp(&b.2)));
        let takes = |(.., node): &&(bool, f64, usize)| {
            matches!(state.node_takes(problem, class, 0, *node), Verdict::Yes(()))
        };
        match fitting.iter().find(takes).copied() {
            Some((.., node)) => {
                state.put_on_node(problem, class, pod, node);
                free[node] = ideal.value(&state.nodes[node].free);
            }
            None => left.push(pod),
        }
    }
    left
}

/// How many pods of each class in line are put together, for the machine that gains most for its price.
fn best_bin(problem: &Problem<'_>, ideal: &Ideal, left: &[Left]) -> Option<Vec<usize>> {
    let mut best: Option<(f64, Vec<usize>)> = None;
    for (room, price) in &ideal.machines {
        let (value, counts) = filled(problem, ideal, left, room);
        let gain = value / price;
        if gain >= LEAST_USED && best.as_ref().is_none_or(|(known, _)| gain > *known) {
            best = Some((gain, counts));
        }
    }
    best.map(|(_, counts)| counts)
}

/// Fills a room with pods, each time with one that asks for what there is most of; what they are worth, and how many of
/// each class they are.
fn filled(problem: &Problem<'_>, ideal: &Ideal, left: &[Left], room: &[i64]) -> (f64, Vec<usize>) {
    let mut free = room.to_vec();
    let mut counts = vec![0; left.len()];
    let mut value = 0.0;
    loop {
        let mut best: Option<(f64, usize)> = None;
        for (at, of) in left.iter().enumerate().filter(|(at, of)| counts[*at] < of.pods.len()) {
            let need = &problem.classes.all[of.class.0 as usize].need;
            if need.iter().zip(&free).any(|(need, free)| need > free) {
                continue;
            }
            let score = evenness(ideal, need, &free, room);
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, at));
            }
        }
        let Some((_, at)) = best else { return (value, counts) };
        let need = &problem.classes.all[left[at].class.0 as usize].need;
        for (free, need) in free.iter_mut().zip(need) {
            *free -= need;
        }
        value += ideal.value(need);
        counts[at] += 1;
    }
}

/// How well a need matches what is free, in shares of the room and by what they are worth.
fn evenness(ideal: &Ideal, need: &[i64], free: &[i64], room: &[i64]) -> f64 {
    let columns = ideal.worth.iter().zip(need).zip(free.iter().zip(room));
    columns
        .filter(|((worth, _), (_, room))| **worth > 0.0 && **room > 0)
        .map(|((_, need), (free, room))| (*need as f64 / *room as f64) * (*free as f64 / *room as f64))
        .sum()
}

/// Opens a claim and puts pods on it, so many of each class in line; those that may not go there are set aside.
fn make(
    problem: &mut Problem<'_>,
    state: &mut State,
    counts: &[usize],
    left: &mut Vec<Left>,
    others: &mut Vec<u32>,
) {
    let mut claim = None;
    for (of, count) in left.iter_mut().zip(counts) {
        for _ in 0..*count {
            let Some(pod) = of.pods.pop() else { break };
            let placed = match claim {
                None => {
                    claim = state.open_for(problem, of.class, pod);
                    claim.is_some()
                }
                Some(claim) => match state.claim_takes(problem, of.class, 0, claim) {
                    Verdict::Yes(narrowed) => {
                        state.put_on_claim(problem, of.class, pod, claim, narrowed);
                        true
                    }
                    _ => false,
                },
            };
            if !placed {
                others.push(pod);
            }
        }
    }
    left.retain(|left| !left.pods.is_empty());
}
