//! What pods can be bought: machines by room and price, for classes whose labels and taints allow the same.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::price::Price;
use crate::solve::bits::Bits;
use crate::solve::problem::Problem;
use crate::solve::reqs::ReqId;

/// An offering of an instance type in a pool.
pub(super) struct Machine {
    pub(super) room: Vec<i64>,
    pub(super) price: f64,
    /// Which sets of offers it belongs to.
    pub(super) allows: Bits,
}

impl Machine {
    pub(super) fn holds(&self, total: &[i64]) -> bool {
        total.iter().zip(&self.room).all(|(total, room)| total <= room)
    }
}

/// Machines that some classes can use.
#[derive(Default)]
pub(super) struct Offers {
    /// Those whose room is worth most for their price.
    pub(super) best: Vec<u32>,
    /// Those that no other beats in room and price, the cheapest first.
    pub(super) all: Vec<u32>,
}

/// How many machines are filled in thought before one is chosen.
const MOST_BEST: usize = 6;

/// What tells classes apart when something is bought for them.
type Key<'p> = (ReqId, bool, Vec<bool>, &'p [ReqId]);
/// A machine by pool, row and offering.
type Name = (usize, u32, u32);

/// All machines that matter, the sets of offers, and the set of each class.
pub(super) fn offers(problem: &mut Problem<'_>, worth: &[f64]) -> (Vec<Machine>, Vec<Offers>, Vec<u32>) {
    let (asked, of_class) = signatures(problem);
    let mut machines: Vec<Machine> = Vec::new();
    let mut names: BTreeMap<Name, u32> = BTreeMap::new();
    let mut offers: Vec<Offers> = Vec::with_capacity(asked.len());
    for pools in &asked {
        let mut sold: Vec<(Name, Vec<i64>, f64)> = Vec::new();
        for (at, reqs) in pools.iter().enumerate() {
            let Some(reqs) = reqs else { continue };
            let rows = &mut problem.pools[at].rows;
            let priced = rows.priced(*reqs, &problem.reqs);
            for buy in priced.iter().filter(|buy| buy.price != Price::MAX) {
                let room = rows.room(buy.row as usize).to_vec();
                sold.push(((at, buy.row, buy.offering), room, buy.price.dollars()));
            }
        }
        // The cheapest first, and of those the roomiest, so that only what is kept can beat what comes.
        sold.sort_by(|a, b| a.2.total_cmp(&b.2).then_with(|| b.1.cmp(&a.1)).then_with(|| a.0.cmp(&b.0)));
        let mut all: Vec<u32> = Vec::new();
        for (name, room, price) in sold {
            if all.iter().any(|kept| machines[*kept as usize].holds(&room)) {
                continue;
            }
            let known = *names.entry(name).or_insert_with(|| {
                machines.push(Machine { room, price, allows: Bits::none(asked.len()) });
                machines.len() as u32 - 1
            });
            all.push(known);
        }
        let ratio = |machine: u32| {
            let Machine { room, price, .. } = &machines[machine as usize];
            room.iter().zip(worth).map(|(room, worth)| *room as f64 * worth).sum::<f64>() / price
        };
        let mut best = all.clone();
        best.sort_by(|a, b| ratio(*b).total_cmp(&ratio(*a)).then_with(|| a.cmp(b)));
        best.truncate(MOST_BEST);
        offers.push(Offers { best, all });
    }
    for (set, pools) in asked.iter().enumerate() {
        for (at, reqs) in pools.iter().enumerate() {
            let Some(reqs) = reqs else { continue };
            let rows = &mut problem.pools[at].rows;
            let usable = rows.usable(*reqs, &problem.reqs);
            let sold = rows.usable_offerings(problem.reqs.get(*reqs), &problem.reqs);
            let of_pool = names.iter().filter(|((pool, ..), _)| *pool == at);
            for ((_, row, offering), machine) in of_pool {
                if usable.rows.has(*row as usize) && sold.has(*offering as usize) {
                    machines[*machine as usize].allows.insert(set);
                }
            }
        }
    }
    (machines, offers, of_class)
}

/// For each set of offers what it asks of each pool, if the pool will do; and the set of each class.
fn signatures(problem: &mut Problem<'_>) -> (Vec<Vec<Option<ReqId>>>, Vec<u32>) {
    let mut known: FxHashMap<Key<'_>, u32> = FxHashMap::default();
    let mut asked = Vec::new();
    let mut of_class = Vec::with_capacity(problem.classes.all.len());
    for class in &problem.classes.all {
        let wishes = &class.variants[0];
        let tolerated = problem.pools.iter().map(|pool| wishes.tolerates.has(pool.taints as usize)).collect();
        let key: Key<'_> = (wishes.claim_reqs, wishes.any_host, tolerated, &class.volume_topology);
        let next = asked.len() as u32;
        let set = *known.entry(key).or_insert_with_key(|(claim_reqs, any_host, tolerated, volumes)| {
            let mut of_pool = Vec::with_capacity(tolerated.len());
            for (pool, is_tolerated) in problem.pools.iter().zip(tolerated) {
                let narrowed = problem.reqs.narrow(pool.template, *claim_reqs);
                let narrowed = narrowed.filter(|_| *is_tolerated && *any_host);
                of_pool.push(narrowed.and_then(|reqs| {
                    volumes.iter().find_map(|topology| problem.reqs.narrow(reqs, *topology))
                }));
            }
            asked.push(of_pool);
            next
        });
        of_class.push(set);
    }
    (asked, of_class)
}
