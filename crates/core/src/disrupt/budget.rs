//! How many nodes of a pool may be going at once.

use crate::cron::Cron;
use crate::disrupt::Reason;

/// A limit on how many nodes of a pool may be going at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What it is about; everything if left out.
    pub reasons: Option<Vec<Reason>>,
    /// How many nodes.
    pub nodes: Limit,
    /// When it applies; always if left out.
    pub window: Option<Window>,
}

/// How many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many.
    Count(u32),
    /// This share of all, in percent, rounded up.
    Percent(u8),
    /// Nobody knows, so none.
    Unreadable,
}

/// When a budget applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it opens, in universal time; `None` if that cannot be read.
    pub opens: Option<Cron>,
    /// For how many seconds it stays open.
    pub seconds: i64,
}

impl Budget {
    /// Whether the budget can be understood; one that cannot lets no node go.
    pub fn is_readable(&self) -> bool {
        self.nodes != Limit::Unreadable && self.window.as_ref().is_none_or(|window| window.opens.is_some())
    }

    /// How many of so many nodes may be going at once; `None` if the budget does not apply now.
    fn allowed(&self, reason: Reason, now: i64, nodes: u32) -> Option<u32> {
        if self.reasons.as_ref().is_some_and(|reasons| !reasons.contains(&reason)) {
            return None;
        }
        let is_open = match &self.window {
            None => true,
            Some(Window { opens: Some(cron), seconds }) => cron.is_open(now, *seconds),
            Some(Window { opens: None, .. }) => return Some(0),
        };
        match self.nodes {
            Limit::Unreadable => Some(0),
            _ if !is_open => None,
            Limit::Count(count) => Some(count),
            Limit::Percent(percent) => {
                let share = (u64::from(nodes) * u64::from(percent)).div_ceil(100);
                Some(u32::try_from(share).unwrap_or(nodes))
            }
        }
    }
}

/// How many nodes of a pool that has so many may be going at once: the strictest budget that applies, else all.
///
/// COMPAT: a budget that cannot be read allows nothing, even while it would not apply (v1.15, `MustGetAllowedDisruptions`).
pub fn allowed(budgets: &[Budget], reason: Reason, now: i64, nodes: u32) -> u32 {
    budgets.iter().filter_map(|budget| budget.allowed(reason, now, nodes)).min().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(nodes: Limit) -> Budget {
        Budget { reasons: None, nodes, window: None }
    }

    #[test]
    fn the_strictest_budget_that_applies_counts() {
        let drifted = Budget { reasons: Some(vec![Reason::Drifted]), ..budget(Limit::Count(1)) };
        let all = [budget(Limit::Percent(10)), drifted];
        assert_eq!(allowed(&all, Reason::Empty, 0, 95), 10);
        assert_eq!(allowed(&all, Reason::Drifted, 0, 95), 1);
        assert_eq!(allowed(&[], Reason::Empty, 0, 95), u32::MAX);
        assert_eq!(allowed(&[budget(Limit::Percent(10))], Reason::Empty, 0, 0), 0);
    }

    #[test]
    fn outside_its_window_a_budget_does_not_apply() {
        let window = Window { opens: Cron::parse("0 9 * * *").ok(), seconds: 3600 };
        let frozen = Budget { window: Some(window), ..budget(Limit::Count(0)) };
        let all = [frozen, budget(Limit::Count(5))];
        assert_eq!(allowed(&all, Reason::Empty, 9 * 3600 + 60, 100), 0);
        assert_eq!(allowed(&all, Reason::Empty, 10 * 3600, 100), 5);
    }

    #[test]
    fn what_cannot_be_read_allows_nothing() {
        assert_eq!(allowed(&[budget(Limit::Unreadable)], Reason::Empty, 0, 10), 0);
        let window = Some(Window { opens: None, seconds: 60 });
        let unreadable = Budget { window, ..budget(Limit::Count(5)) };
        assert!(!unreadable.is_readable());
        assert_eq!(allowed(&[unreadable], Reason::Empty, 0, 10), 0);
    }
}
