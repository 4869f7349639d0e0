//! What any fleet must cost at least.
//!
//! Give every unit of every resource a price, such that no instance type holds more value than it costs. Then the value of
//! what the pods ask for is a bound on the cost of any fleet that holds them. The best such prices are the solution of a
//! linear program with one unknown for each resource and one row for each kind of machine.
//!
//! Left at that, two thirds of a machine would cost two thirds of its price, though nobody else can use the rest. So places
//! for large pods are resources too: of pods that need at least some size, a machine holds no more than whole times its
//! room divided by that size.
//!
//! Nor is room worth anything that no pod can use: a machine's processors count only as far as its memory holds pods that
//! ask for so many, and the other way round.

use std::cmp::Reverse;

use crate::price::Price;
use crate::solve::problem::Problem;
use crate::solve::state::State;

/// Most sizes in one resource whose places are counted.
const MAX_SIZES: usize = 8;

/// Pods that need at least `size` steps of one resource have places of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    column: usize,
    size: i64,
}

impl Places {
    fn in_room(self, room: &[i64]) -> f64 {
        (room[self.column].max(0) / self.size) as f64
    }
}

/// The sizes worth counting: those of the pods that ask for most together, in every resource.
fn places(needs: &[(&[i64], usize)], columns: usize) -> Vec<Places> {
    let mut all = Vec::new();
    for column in 0..columns {
        let mut sizes: Vec<(i64, usize)> =
            needs.iter().map(|(need, count)| (need[column], *count)).filter(|(size, _)| *size > 0).collect();
        sizes.sort_unstable();
        let same = sizes.chunk_by(|(one, _), (other, _)| one == other);
        // Where all pods need the same, places of that size are the resource itself in whole numbers.
        let mut sizes: Vec<(i128, i64)> = same
            .map(|same| {
                let count: usize = same.iter().map(|(_, count)| count).sum();
                (i128::from(same[0].0) * count as i128, same[0].0)
            })
            .collect();
        sizes.sort_unstable_by_key(|size| Reverse(*size));
        all.extend(sizes.iter().take(MAX_SIZES).map(|(_, size)| Places { column, size: *size }));
    }
    all.retain(|places| places.size > 1);
    all
}

/// A bound on what the placed pods cost on any fleet, the free room of existing nodes being a gift.
pub(crate) fn lower_bound(problem: &mut Problem<'_>, state: &State) -> Price {
    let columns = problem.columns.len();
    let mut counts = vec![0; problem.classes.all.len()];
    let placed =
        state.claims.iter().map(|claim| &claim.pods).chain(state.nodes.iter().map(|node| &node.pods));
    for pod in placed.flatten() {
        counts[problem.classes.of_pod[*pod as usize].0 as usize] += 1;
    }
    let machines = machines(problem);
    let needs = needs(problem, &counts);
    let nodes: Vec<&[i64]> = problem.nodes.iter().map(|node| node.free.as_slice()).collect();
    let bound = bound(columns, &needs, &nodes, useful(undominated(machines), &needs));
    // Rounded down: a bound that is a hair too low is still a bound.
    Price::from_nanos((bound * 1e9).floor().max(0.0) as i64)
}

/// What a step of each column costs on a fleet that is ideal for these pods, each class given by its number of pods.
pub(crate) fn worth(problem: &mut Problem<'_>, counts: &[usize]) -> Vec<f64> {
    let columns = problem.columns.len();
    let mut demand = vec![0.0; columns];
    for (class, count) in problem.classes.all.iter().zip(counts) {
        for (demand, need) in demand.iter_mut().zip(&class.need) {
            *demand += *need as f64 * *count as f64;
        }
    }
    let machines = machines(problem);
    let machines = useful(undominated(machines), &needs(problem, counts));
    let rows: Vec<(Vec<f64>, f64)> = machines
        .iter()
        .map(|(room, price)| (room.iter().map(|room| *room as f64).collect(), *price))
        .collect();
    match best_worth(&demand, &rows) {
        Some((worth, excess)) => worth.into_iter().map(|worth| worth / excess).collect(),
        None => vec![0.0; columns],
    }
}

/// What the pods of each class need, and how many there are, classes without any left out.
fn needs<'p>(problem: &'p Problem<'_>, counts: &[usize]) -> Vec<(&'p [i64], usize)> {
    let classes = problem.classes.all.iter().zip(counts).filter(|(_, count)| **count > 0);
    classes.map(|(class, count)| (class.need.as_slice(), *count)).collect()
}

/// The machines that are on sale, with what they cost at least.
fn machines(problem: &mut Problem<'_>) -> Vec<(Vec<i64>, f64)> {
    let mut machines = Vec::new();
    for pool in &mut problem.pools {
        // Whatever the pods ask for can only narrow the template, so its cheapest offering is cheapest for all.
        let priced = pool.rows.priced(pool.template, &problem.reqs);
        for buy in priced.iter().filter(|buy| buy.price != Price::MAX) {
            machines.push((pool.rows.room(buy.row as usize).to_vec(), buy.price.dollars()));
        }
    }
    machines
}

/// The bound for pods by need and number, free room, and machines that are on sale.
fn bound(columns: usize, needs: &[(&[i64], usize)], nodes: &[&[i64]], machines: Vec<(Vec<i64>, f64)>) -> f64 {
    let places = places(needs, columns);
    let widened = |room: &[i64]| -> Vec<f64> {
        room.iter().map(|room| *room as f64).chain(places.iter().map(|places| places.in_room(room))).collect()
    };
    let mut demand = vec![0.0; columns + places.len()];
    for (need, count) in needs {
        for (demand, need) in demand.iter_mut().zip(*need) {
            *demand += *need as f64 * *count as f64;
        }
        for (demand, places) in demand[columns..].iter_mut().zip(&places) {
            *demand += if need[places.column] >= places.size { *count as f64 } else { 0.0 };
        }
    }
    for free in nodes {
        for (demand, free) in demand.iter_mut().zip(widened(free)) {
            *demand -= free.max(0.0);
        }
    }
    let machines: Vec<(Vec<f64>, f64)> =
        machines.into_iter().map(|(room, price)| (widened(&room), price)).collect();
    let plain: Vec<(Vec<f64>, f64)> =
        machines.iter().map(|(room, price)| (room[..columns].to_vec(), *price)).collect();
    // The larger program may run out of steps; the smaller one is a bound of its own.
    best_value(&demand, &machines).max(best_value(&demand[..columns], &plain))
}

/// What pods with these needs can use of each machine at most; machines that hold none of them are left out.
fn useful(mut machines: Vec<(Vec<i64>, f64)>, needs: &[(&[i64], usize)]) -> Vec<(Vec<i64>, f64)> {
    machines.retain_mut(|(room, _)| {
        let columns = room.len();
        // For each pair of columns the most that a pod which fits asks of the first for what it asks of the second.
        let mut most = vec![0.0_f64; columns * columns];
        let mut holds = false;
        for (need, _) in
            needs.iter().filter(|(need, _)| need.iter().zip(&*room).all(|(need, room)| need <= room))
        {
            holds = true;
            for (most, pair) in most.iter_mut().zip(0..) {
                let (of, by) = (need[pair / columns], need[pair % columns]);
                if of > 0 {
                    *most = most.max(if by > 0 { of as f64 / by as f64 } else { f64::INFINITY });
                }
            }
        }
        let whole = room.clone();
        for (column, room) in room.iter_mut().enumerate() {
            for (by, whole) in whole.iter().enumerate().filter(|(by, _)| *by != column) {
                let usable = most[column * columns + by] * *whole as f64;
                // Rounded up: a bound that is a hair too low is still a bound.
                if usable < *room as f64 {
                    *room = usable.ceil() as i64;
                }
            }
        }
        holds
    });
    machines
}

/// Leaves out machines that cost no less than another and hold no more.
fn undominated(mut machines: Vec<(Vec<i64>, f64)>) -> Vec<(Vec<i64>, f64)> {
    machines.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
    let mut kept: Vec<(Vec<i64>, f64)> = Vec::new();
    for machine in machines {
        let beaten =
            |other: &(Vec<i64>, f64)| other.0.iter().zip(&machine.0).all(|(other, own)| other >= own);
        if !kept.iter().any(beaten) {
            kept.push(machine);
        }
    }
    kept
}

/// The most that `demand` can be worth when no machine's room is worth more than its price.
///
/// A dense simplex on the inequality form; prices are not negative, so that the origin is a start. Steps are bounded, and
/// whatever point is reached is scaled back until it satisfies every row, so that the result is always a valid bound.
fn best_value(demand: &[f64], machines: &[(Vec<f64>, f64)]) -> f64 {
    let Some((worth, excess)) = best_worth(demand, machines) else { return 0.0 };
    let value = |(demand, worth): (&f64, &f64)| if *demand > 0.0 { demand * worth } else { 0.0 };
    demand.iter().zip(&worth).map(value).sum::<f64>() / excess
}

/// What a unit of each resource is worth, to be divided by the second number so that no machine is worth more than its price.
fn best_worth(demand: &[f64], machines: &[(Vec<f64>, f64)]) -> Option<(Vec<f64>, f64)> {
    let used: Vec<usize> = (0..demand.len()).filter(|column| demand[*column] > 0.0).collect();
    if used.is_empty() || machines.is_empty() {
        return None;
    }
    // Columns are scaled to comparable size.
    let scale: Vec<f64> = used
        .iter()
        .map(|column| machines.iter().map(|(room, _)| room[*column]).fold(0.0, f64::max))
        .collect();
    // What no machine has, no fleet holds; nothing can be said then.
    if scale.iter().any(|scale| *scale <= 0.0) {
        return None;
    }
    let (rows, unknowns) = (machines.len(), used.len());
    let width = unknowns + rows + 1;
    let mut table = vec![vec![0.0; width]; rows + 1];
    for (row, (room, price)) in table.iter_mut().zip(machines) {
        for (at, column) in used.iter().enumerate() {
            row[at] = room[*column] / scale[at];
        }
        row[width - 1] = *price;
    }
    for (at, row) in table.iter_mut().take(rows).enumerate() {
        row[unknowns + at] = 1.0;
    }
    for (at, column) in used.iter().enumerate() {
        table[rows][at] = -demand[*column] / scale[at];
    }
    let mut basis: Vec<usize> = (unknowns..unknowns + rows).collect();
    for _ in 0..50 * (rows + unknowns) {
        // The first improving column, which cannot cycle.
        let largest = table[rows][..width - 1].iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let Some(enter) = (0..width - 1).find(|at| table[rows][*at] < -1e-9 * largest) else { break };
        let ratio = |row: usize| table[row][width - 1] / table[row][enter];
        let leaving = (0..rows).filter(|row| table[*row][enter] > 1e-12);
        let Some(leave) =
            leaving.min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)).then(basis[*a].cmp(&basis[*b])))
        else {
            break;
        };
        basis[leave] = enter;
        let pivot = table[leave][enter];
        table[leave].iter_mut().for_each(|value| *value /= pivot);
        let chosen = table[leave].clone();
        for (at, row) in table.iter_mut().enumerate() {
            let factor = row[enter];
            if at != leave && factor != 0.0 {
                row.iter_mut().zip(&chosen).for_each(|(value, chosen)| *value -= factor * chosen);
            }
        }
    }
    let mut worth = vec![0.0; unknowns];
    for (row, basic) in basis.iter().enumerate().filter(|(_, basic)| **basic < unknowns) {
        worth[*basic] = table[row][width - 1].max(0.0) / scale[*basic];
    }
    let value =
        |room: &[f64]| used.iter().zip(&worth).map(|(column, worth)| room[*column] * worth).sum::<f64>();
    let excess = machines.iter().map(|(room, price)| {
        let value = value(room);
        if value <= 0.0 {
            0.0
        } else if *price > 0.0 {
            value / price
        } else {
            f64::INFINITY
        }
    });
    let excess = excess.fold(1.0, f64::max);
    let mut of_column = vec![0.0; demand.len()];
    for (column, worth) in used.iter().zip(&worth) {
        of_column[*column] = *worth;
    }
    excess.is_finite().then_some((of_column, excess))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_cheapest_mix_sets_the_price() {
        // Four cores and eight gigabytes for one dollar: eight of each need two machines' worth of cores.
        let machines = vec![(vec![4.0, 8.0], 1.0)];
        assert!((best_value(&[8.0, 8.0], &machines) - 2.0).abs() < 1e-9);
        // A machine with more memory for the same cores is worth buying for memory only.
        let machines = vec![(vec![4.0, 8.0], 1.0), (vec![4.0, 32.0], 1.5)];
        assert!((best_value(&[8.0, 40.0], &machines) - 2.5).abs() < 1e-9);
        assert!(best_value(&[-1.0, 0.0], &machines) == 0.0 && best_value(&[1.0], &[]) == 0.0);
    }

    #[test]
    fn machines_that_are_free_bound_nothing() {
        assert!(best_value(&[1.0], &[(vec![4.0], 0.0)]) == 0.0);
    }

    proptest! {
        /// Any whole number of machines that holds the demand costs at least the bound.
        #[test]
        fn no_fleet_is_cheaper(
            machines in prop::collection::vec((prop::collection::vec(1.0f64..64.0, 3), 0.1f64..10.0), 1..6),
            counts in prop::collection::vec(0u32..5, 6),
            fill in 0.1f64..1.0,
        ) {
            let fleet = machines.iter().zip(&counts);
            let cost: f64 = fleet.clone().map(|((_, price), count)| price * f64::from(*count)).sum();
            let demand: Vec<f64> = (0..3)
                .map(|d| fill * fleet.clone().map(|((room, _), count)| room[d] * f64::from(*count)).sum::<f64>())
                .collect();
            let bound = best_value(&demand, &machines);
            prop_assert!(bound <= cost * (1.0 + 1e-9), "bound {bound} cost {cost}");
        }

        /// The bound never exceeds what the cheapest fleet costs, found by trying every way to share machines.
        #[test]
        fn the_cheapest_fleet_of_all_is_no_cheaper(
            pods in prop::collection::vec((1i64..12, 1i64..12), 1..6),
            machines in prop::collection::vec((1i64..20, 1i64..20, 1u32..100), 1..4),
            free in prop::collection::vec((0i64..8, 0i64..8), 0..2),
        ) {
            let needs: Vec<Vec<i64>> = pods.iter().map(|(a, b)| vec![*a, *b]).collect();
            let machines: Vec<(Vec<i64>, f64)> =
                machines.iter().map(|(a, b, price)| (vec![*a, *b], f64::from(*price))).collect();
            let free: Vec<Vec<i64>> = free.iter().map(|(a, b)| vec![*a, *b]).collect();
            if let Some(cheapest) = cheapest(&needs, &free, &machines) {
                let needs: Vec<(&[i64], usize)> = needs.iter().map(|need| (need.as_slice(), 1)).collect();
                let free: Vec<&[i64]> = free.iter().map(Vec::as_slice).collect();
                let bound = bound(2, &needs, &free, useful(undominated(machines), &needs));
                prop_assert!(bound <= cheapest + 1e-6, "bound {bound}, cheapest {cheapest}");
            }
        }
    }

    /// What the cheapest fleet costs, if any holds the pods.
    fn cheapest(needs: &[Vec<i64>], free: &[Vec<i64>], machines: &[(Vec<i64>, f64)]) -> Option<f64> {
        fn fits(total: &[i64], room: &[i64]) -> bool {
            total.iter().zip(room).all(|(total, room)| total <= room)
        }
        fn place(
            needs: &[Vec<i64>],
            bins: &mut Vec<Vec<i64>>,
            free: &[Vec<i64>],
            machines: &[(Vec<i64>, f64)],
        ) -> Option<f64> {
            let Some((need, rest)) = needs.split_first() else {
                let (old, new) = bins.split_at(free.len());
                let price = |total: &Vec<i64>| {
                    let able = machines.iter().filter(|(room, _)| fits(total, room));
                    able.map(|(_, price)| *price).reduce(f64::min)
                };
                let held = old.iter().zip(free).all(|(total, room)| fits(total, room));
                return held.then(|| new.iter().map(price).sum::<Option<f64>>()).flatten();
            };
            let mut best: Option<f64> = None;
            for at in 0..=bins.len() {
                let opened = at == bins.len();
                if opened {
                    bins.push(vec![0; need.len()]);
                }
                bins[at].iter_mut().zip(need).for_each(|(total, need)| *total += need);
                let found = place(rest, bins, free, machines);
                bins[at].iter_mut().zip(need).for_each(|(total, need)| *total -= need);
                if opened {
                    bins.pop();
                }
                best = best.into_iter().chain(found).reduce(f64::min);
            }
            best
        }
        let mut bins = vec![vec![0; needs[0].len()]; free.len()];
        place(needs, &mut bins, free, machines)
    }

    #[test]
    fn room_that_no_pod_can_use_is_worth_nothing() {
        // Each core comes with two gigabytes at least, so that of eight cores one is of use; the third holds nobody.
        let machines = vec![(vec![8, 2], 0.1), (vec![8, 16], 1.0), (vec![8, 1], 0.01)];
        let need: &[i64] = &[1, 2];
        assert_eq!(useful(machines, &[(need, 1)]), [(vec![1, 2], 0.1), (vec![8, 16], 1.0)]);
    }

    #[test]
    fn a_pod_that_nobody_can_share_with_costs_a_machine() {
        let machines = vec![(vec![10, 10], 1.0), (vec![5, 5], 0.5)];
        let need: &[i64] = &[6, 1];
        assert!((bound(2, &[(need, 10)], &[], machines.clone()) - 10.0).abs() < 1e-6);
        // One of them finds room on a node that is there already.
        assert!((bound(2, &[(need, 10)], &[&[7, 7]], machines) - 9.0).abs() < 1e-6);
    }
}
