//! What no plan can beat: a yardstick for searches.

use crate::disrupt::Fleet;
use crate::disrupt::pass::Pass;
use crate::disrupt::plan::{Item, Plan};
use crate::price::Price;

/// How many rounds come close enough to tell searches apart.
const ROUNDS: usize = 3_000;
/// How often the price of an eviction is narrowed down.
const NARROWED: usize = 10;

/// What a fleet costs at least after so many evictions, whichever nodes go and whatever is bought instead; unless pods give up
/// preferences, which are taken for demands here.
pub fn least_after(fleet: &Fleet, evictions: usize) -> Price {
    let mut pass = Pass::new(fleet);
    let members: Vec<u32> = pass.members().collect();
    let plan = pass.plan(&members);
    let price: f64 = plan.items.iter().map(|item| item.price).sum();
    Price::from_dollars(price - most_saved(&plan, price, evictions))
}

/// Whatever an eviction must save, the best that is possible then is a limit; the lowest of those says most.
fn most_saved(plan: &Plan, price: f64, evictions: usize) -> f64 {
    let pods: usize = plan.items.iter().map(|item| item.pods.len()).sum();
    let usual = price / pods.max(1) as f64;
    let limit = |share: f64| {
        let each = usual * share;
        let leavers = plan.leavers(|item: &Item| each * item.pods.len() as f64);
        each * evictions as f64 - plan.sketch.least(&leavers, ROUNDS)
    };
    let (mut from, mut to, mut lowest) = (0.0, 1.0, f64::INFINITY);
    for _ in 0..NARROWED {
        let third = (to - from) / 3.0;
        let (low, high) = (limit(from + third), limit(to - third));
        if low < high {
            to -= third;
        } else {
            from += third;
        }
        lowest = low.min(high).min(lowest);
    }
    lowest
}
