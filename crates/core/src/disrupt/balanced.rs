//! Whether a saving is worth the evictions.
//!
//! Both are taken as shares of what a whole pool costs, in money and in evictions: a move that saves two percent may make
//! four percent of the evictions it would take to clear the pool. That is upstream's policy `Balanced`, and with more
//! patience the threshold of our own search.

use std::collections::BTreeMap;

use crate::disrupt::Consolidation;
use crate::disrupt::pass::Pass;

/// How much larger the share of evictions may be than that of savings under the policy `Balanced`.
const BALANCED: f64 = 2.0;
/// The same for our own search under the other policies: less must be gained for each eviction only where nothing gains more.
pub(super) const PATIENCES: [f64; 4] = [2.0, 3.0, 4.5, PATIENCE];
/// The most of it.
pub(super) const PATIENCE: f64 = 6.0;

/// What a whole pool costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// In dollars per hour.
    pub(super) price: f64,
    /// To remove all its nodes.
    pub(super) cost: f64,
}

impl Totals {
    /// The least saving, in dollars per hour, that is worth an eviction.
    fn least(self, factor: f64) -> f64 {
        if self.price <= 0.0 || self.cost <= 0.0 { f64::INFINITY } else { self.price / self.cost / factor }
    }
}

impl Pass<'_> {
    /// The least that must be saved for the evictions on a member, in dollars per hour; other policies than `Balanced` have
    /// this patience, if any.
    pub(super) fn least_saving(&self, member: u32, patience: Option<f64>) -> f64 {
        let facts = &self.facts[member as usize];
        let is_balanced = facts.policy.is_some_and(|policy| policy.consolidation == Consolidation::Balanced);
        let Some(factor) = (if is_balanced { Some(BALANCED) } else { patience }) else { return 0.0 };
        let totals = self.totals.get(&*self.member(member).pool).copied().unwrap_or_default();
        facts.cost * totals.least(factor)
    }

    /// Whether every pool that loses nodes gets enough of what is saved, which is shared by what its nodes cost.
    pub(super) fn is_worth_it(&self, members: &[u32], saving: f64, patience: Option<f64>) -> bool {
        let mut by_pool: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for member in members {
            let (price, least) = by_pool.entry(&*self.member(*member).pool).or_default();
            *price += self.facts[*member as usize].price.unwrap_or_default().dollars();
            *least += self.least_saving(*member, patience);
        }
        let all: f64 = by_pool.values().map(|(price, _)| price).sum();
        by_pool.values().all(|(price, least)| {
            let share = if all > 0.0 { saving * price / all } else { saving };
            // Rounding must not decide what is exactly balanced.
            *least <= 0.0 || share * (1.0 + 1e-9) >= *least
        })
    }
}
