//! What any fleet must cost at least.
//!
//! Give every unit of every resource a price, such that no instance type holds more value than it costs. Then the value of
//! what the pods ask for is a bound on the cost of any fleet that holds them. The best such prices are the solution of a
//! linear program with one unknown for each resource and one row for each kind of machine.

use crate::price::Price;
use crate::solve::problem::Problem;
use crate::solve::state::State;

/// A bound on what the placed pods cost on any fleet, the free room of existing nodes being a gift.
pub(crate) fn lower_bound(problem: &mut Problem<'_>, state: &State) -> Price {
    let columns = problem.columns.len();
    let mut demand = vec![0.0; columns];
    let placed =
        state.claims.iter().map(|claim| &claim.pods).chain(state.nodes.iter().map(|node| &node.pods));
    for pod in placed.flatten() {
        let class = problem.classes.of_pod[*pod as usize];
        for (demand, need) in demand.iter_mut().zip(&problem.classes.all[class.0 as usize].need) {
            *demand += *need as f64;
        }
    }
    for node in &problem.nodes {
        for (demand, free) in demand.iter_mut().zip(&node.free) {
            *demand -= (*free).max(0) as f64;
        }
    }
    let mut machines: Vec<(Vec<f64>, f64)> = Vec::new();
    for pool in &mut problem.pools {
        // Whatever the pods ask for can only narrow the template, so its cheapest offering is cheapest for all.
        let priced = pool.rows.priced(pool.template, &problem.reqs);
        for buy in priced.iter().filter(|buy| buy.price != Price::MAX) {
            let room = pool.rows.room(buy.row as usize).iter().map(|room| *room as f64).collect();
            machines.push((room, buy.price.dollars()));
        }
    }
    let machines = undominated(machines);
    let bound = best_value(&demand, &machines);
    // Rounded down: a bound that is a hair too low is still a bound.
    Price::from_nanos((bound * 1e9).floor().max(0.0) as i64)
}

/// Leaves out machines that cost no less than another and hold no more.
fn undominated(mut machines: Vec<(Vec<f64>, f64)>) -> Vec<(Vec<f64>, f64)> {
    machines.sort_by(|a, b| {
        a.1.total_cmp(&b.1).then_with(|| b.0.partial_cmp(&a.0).unwrap_or(std::cmp::Ordering::Equal))
    });
    let mut kept: Vec<(Vec<f64>, f64)> = Vec::new();
    for machine in machines {
        let beaten =
            |other: &(Vec<f64>, f64)| other.0.iter().zip(&machine.0).all(|(other, own)| other >= own);
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
    let used: Vec<usize> = (0..demand.len()).filter(|column| demand[*column] > 0.0).collect();
    if used.is_empty() || machines.is_empty() {
        return 0.0;
    }
    // Columns are scaled to comparable size.
    let scale: Vec<f64> = used
        .iter()
        .map(|column| machines.iter().map(|(room, _)| room[*column]).fold(0.0, f64::max))
        .collect();
    if scale.contains(&0.0) {
        return 0.0;
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
    if excess.is_finite() { value(demand) / excess } else { 0.0 }
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
            let bound = best_value(&demand, &undominated(machines.clone()));
            prop_assert!(bound <= cost * (1.0 + 1e-9), "bound {bound} cost {cost}");
        }
    }
}
