//! What the best plan for a whole fleet would be if nodes could go, and machines be bought, in part.
//!
//! It is a linear program: nodes go, and their pods need places, in the room of nodes that stay or on machines that are
//! bought. Everything is counted in dollars, a pod by what its place costs on an ideal fleet, so that all numbers are of
//! one size and a simple method comes close in a fixed number of rounds: primal-dual hybrid gradient, with steps by row and
//! column, begun anew from averages. What it says is not a plan yet, but which nodes good plans remove; and from its prices
//! follows what no plan at all can beat.

use crate::solve::sketch::Sketch;

/// How many rounds tell well enough which nodes to look at.
const ROUNDS: usize = 600;
/// After how many rounds they begin anew from their average.
const AVERAGED: usize = 200;
/// What is too small to divide by.
const TINY: f64 = 1e-12;

/// A node that may go.
pub(crate) struct Leaver<'a> {
    pub(crate) node: u32,
    pub(crate) pods: &'a [u32],
    pub(crate) price: f64,
    /// What must be saved for the evictions.
    pub(crate) least: f64,
}

/// A node or a machine. A dollar of a node is one that goes, of a machine one that is bought.
#[derive(Default)]
struct Place {
    /// What a dollar costs, and how many there may be.
    cost: f64,
    most: f64,
    /// How much of each class needs another place for each dollar.
    leaving: Vec<(usize, f64)>,
    /// The room for others in each column, and how much of it a dollar takes, or makes if below zero.
    room: Vec<f64>,
    own: Vec<f64>,
    /// Classes that fit.
    guests: Vec<usize>,
    /// How far a round goes: for its own dollars, and for the price of each column.
    step: f64,
    steps: Vec<f64>,
}

impl Place {
    /// Whether it is a machine, of which there are as many as anybody wants.
    fn is_sold(&self) -> bool {
        self.most.is_infinite()
    }
}

/// Where the rounds are.
struct State {
    /// Dollars of each place that go or are bought.
    dollars: Vec<f64>,
    /// Dollars of each class in each place, in the order of guests.
    taken: Vec<f64>,
    /// What is paid for a dollar of each class, and of each column of each place.
    classes: Vec<f64>,
    columns: Vec<f64>,
}

impl State {
    fn each(&mut self) -> [&mut Vec<f64>; 4] {
        [&mut self.dollars, &mut self.taken, &mut self.classes, &mut self.columns]
    }
}

struct Program {
    places: Vec<Place>,
    /// Of each class, how much of a dollar each column makes.
    shares: Vec<Vec<f64>>,
    /// How far a round goes for what a class takes and for its price.
    steps: Vec<(f64, f64)>,
    width: usize,
}

impl Sketch {
    /// Which share of each node goes in the best plan of parts, roughly.
    pub(crate) fn relax(&self, leavers: &[Leaver<'_>]) -> Vec<f64> {
        let State { dollars, .. } = self.program(leavers).solve(ROUNDS);
        leavers.iter().map(|of| dollars[of.node as usize] / of.price.max(TINY)).collect()
    }

    /// The least that any plan comes to: what it buys and what its evictions must save, less what goes.
    pub(crate) fn least(&self, leavers: &[Leaver<'_>], rounds: usize) -> f64 {
        let program = self.program(leavers);
        let State { classes, columns, .. } = program.solve(rounds);
        program.least(classes, columns)
    }

    fn program(&self, leavers: &[Leaver<'_>]) -> Program {
        let columns: Vec<usize> = (0..self.worth.len()).filter(|column| self.worth[*column] > 0.0).collect();
        let dollars = |amounts: &[i64], of: f64| -> Vec<f64> {
            let dollars =
                |column: &usize| (amounts[*column] as f64 * self.worth[*column]).max(0.0) / of.max(TINY);
            columns.iter().map(dollars).collect()
        };
        let fitting = |fits: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (0..self.kinds.len()).filter(|kind| self.kinds[*kind].value > 0.0 && fits(*kind)).collect()
        };
        let mut places = Vec::with_capacity(self.nodes.len() + self.machines.len());
        for (at, node) in self.nodes.iter().enumerate() {
            places.push(Place {
                room: dollars(&node.free, 1.0),
                own: vec![0.0; columns.len()],
                guests: fitting(&|kind| self.takes(at, kind)),
                ..Place::default()
            });
        }
        for leaver in leavers {
            let place = &mut places[leaver.node as usize];
            let price = leaver.price.max(TINY);
            let mut kinds: Vec<u32> = leaver.pods.iter().map(|pod| self.of_pod[*pod as usize]).collect();
            kinds.sort_unstable();
            let dollars = |same: &[u32]| {
                let kind = same[0] as usize;
                (kind, self.kinds[kind].value * same.len() as f64 / price)
            };
            place.leaving = kinds.chunk_by(|a, b| a == b).map(dollars).collect();
            place.own = place.room.iter().map(|room| room / price).collect();
            (place.cost, place.most) = (leaver.least / price - 1.0, leaver.price);
        }
        for machine in &self.machines {
            let takes = |kind: usize| {
                let kind = &self.kinds[kind];
                machine.allows.has(kind.offers as usize) && machine.holds(&kind.need)
            };
            places.push(Place {
                cost: 1.0,
                most: f64::INFINITY,
                room: vec![0.0; columns.len()],
                own: dollars(&machine.room, machine.price).into_iter().map(|room| -room).collect(),
                guests: fitting(&takes),
                ..Place::default()
            });
        }
        let shares = self.kinds.iter().map(|kind| dollars(&kind.need, kind.value)).collect();
        Program::new(places, shares, columns.len())
    }
}

impl Program {
    /// Steps are the inverse of what stands in a row or a column, so that none overshoots.
    fn new(mut places: Vec<Place>, shares: Vec<Vec<f64>>, width: usize) -> Self {
        let inverse = |sum: f64| 1.0 / sum.max(1e-9);
        let mut classes = vec![0.0; shares.len()];
        for place in &mut places {
            let mut columns: Vec<f64> = place.own.iter().map(|own| own.abs()).collect();
            place.step = inverse(
                columns.iter().sum::<f64>() + place.leaving.iter().map(|(_, dollars)| dollars).sum::<f64>(),
            );
            for (class, dollars) in &place.leaving {
                classes[*class] += dollars;
            }
            for class in &place.guests {
                classes[*class] += 1.0;
                for (sum, share) in columns.iter_mut().zip(&shares[*class]) {
                    *sum += share;
                }
            }
            place.steps = columns.into_iter().map(inverse).collect();
        }
        let steps = classes.into_iter().zip(&shares);
        let steps =
            steps.map(|(sum, share)| (inverse(1.0 + share.iter().sum::<f64>()), inverse(sum))).collect();
        Self { places, shares, steps, width }
    }

    fn solve(&self, rounds: usize) -> State {
        let (mut state, mut sum) = (self.begin(), self.nothing());
        for round in 1..=rounds {
            self.round(&mut state);
            let is_last = round % AVERAGED == 0;
            for (sum, now) in sum.each().into_iter().zip(state.each()) {
                for (sum, now) in sum.iter_mut().zip(now) {
                    *sum += *now;
                    if is_last {
                        *now = std::mem::take(sum) / AVERAGED as f64;
                    }
                }
            }
        }
        state
    }

    /// What no plan comes below at these prices, once they are made such that nobody gains from a place or a machine.
    fn least(&self, mut classes: Vec<f64>, mut columns: Vec<f64>) -> f64 {
        for (machine, prices) in self.priced(&mut columns).filter(|(place, _)| place.is_sold()) {
            let gained = (-paid(&machine.own, prices)).max(1.0);
            for price in prices.iter_mut() {
                *price /= gained;
            }
            for class in &machine.guests {
                classes[*class] = classes[*class].min(paid(&self.shares[*class], prices));
            }
        }
        let mut least = 0.0;
        for (node, prices) in self.priced(&mut columns).filter(|(place, _)| !place.is_sold()) {
            // The columns' shares of a class make one.
            let lacking = |class: &usize| classes[*class] - paid(&self.shares[*class], prices);
            let lacking = node.guests.iter().map(lacking).fold(0.0, f64::max);
            for price in prices.iter_mut() {
                *price += lacking;
            }
            let leaving: f64 = node.leaving.iter().map(|(class, of)| of * classes[*class]).sum();
            let slope = node.cost + leaving + paid(&node.own, prices);
            least += slope.min(0.0) * node.most - paid(&node.room, prices);
        }
        least
    }

    /// Places with the prices of their columns.
    fn priced<'a>(&'a self, columns: &'a mut [f64]) -> impl Iterator<Item = (&'a Place, &'a mut [f64])> {
        self.places.iter().zip(columns.chunks_exact_mut(self.width.max(1)))
    }

    fn nothing(&self) -> State {
        State {
            dollars: vec![0.0; self.places.len()],
            taken: vec![0.0; self.places.iter().map(|place| place.guests.len()).sum()],
            classes: vec![0.0; self.shares.len()],
            columns: vec![0.0; self.places.len() * self.width],
        }
    }

    /// Nothing goes, room on nodes costs nothing, and a dollar's worth costs a dollar elsewhere.
    fn begin(&self) -> State {
        let mut state = self.nothing();
        state.classes.fill(1.0);
        for (_, prices) in self.priced(&mut state.columns).filter(|(place, _)| place.is_sold()) {
            prices.fill(1.0);
        }
        state
    }

    fn round(&self, state: &mut State) {
        let State { dollars, taken, classes, columns } = state;
        let mut wanted = vec![0.0; classes.len()];
        let mut used = vec![0.0; self.width];
        let mut at = 0;
        for ((place, prices), dollars) in self.priced(columns).zip(dollars) {
            let leaving: f64 = place.leaving.iter().map(|(class, of)| of * classes[*class]).sum();
            let slope = place.cost + leaving + paid(&place.own, prices);
            let next = (*dollars - place.step * slope).clamp(0.0, place.most);
            let ahead = 2.0 * next - std::mem::replace(dollars, next);
            for (class, of) in &place.leaving {
                wanted[*class] += of * ahead;
            }
            for ((used, own), room) in used.iter_mut().zip(&place.own).zip(&place.room) {
                *used = own * ahead - room;
            }
            for class in &place.guests {
                let share = &self.shares[*class];
                let slope = paid(share, prices) - classes[*class];
                let next = (taken[at] - self.steps[*class].0 * slope).max(0.0);
                let ahead = 2.0 * next - std::mem::replace(&mut taken[at], next);
                at += 1;
                wanted[*class] -= ahead;
                for (used, share) in used.iter_mut().zip(share) {
                    *used += share * ahead;
                }
            }
            for ((price, used), step) in prices.iter_mut().zip(&used).zip(&place.steps) {
                *price = (*price + step * used).max(0.0);
            }
        }
        for ((price, wanted), (_, step)) in classes.iter_mut().zip(&wanted).zip(&self.steps) {
            *price = (*price + step * wanted).max(0.0);
        }
    }
}

/// What amounts cost at these prices.
fn paid(amounts: &[f64], prices: &[f64]) -> f64 {
    amounts.iter().zip(prices).map(|(amount, price)| amount * price).sum()
}
