//! Pools that keep a number of nodes, whatever the pods need: what is missing, and what is too much.

use std::sync::Arc;

/// How many nodes a pool should have, may have, and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many it should have.
    pub replicas: u64,
    /// Most that it may have at any time, those that go included.
    pub limit: Option<u64>,
    /// Claims that stay, and those that will be asked for to replace others.
    pub kept: u64,
    /// Claims that go, now or when they are replaced.
    pub going: u64,
}

impl Count {
    /// How many more claims there may be.
    pub fn room(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.kept + self.going))
    }

    /// Whether the limit never leaves room for a node beside the one that it replaces.
    pub fn is_tight(&self) -> bool {
        self.limit.is_some_and(|limit| limit <= self.replicas)
    }

    /// How many claims there are too few.
    pub const fn missing(&self) -> u64 {
        self.replicas.saturating_sub(self.kept)
    }

    /// How many claims there are too many.
    pub const fn surplus(&self) -> u64 {
        self.kept.saturating_sub(self.replicas)
    }
}

/// A claim that stays unless it is one too many.
#[derive(Clone, Debug, PartialEq)]
pub struct Seat {
    /// Its name.
    pub name: Arc<str>,
    /// Who would miss it.
    pub missed: Missed,
}

/// Who would miss a node; what comes first goes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Missed {
    /// It has no instance yet.
    Unlaunched,
    /// Nothing runs there that other nodes do not run as well.
    Empty,
    /// Its pods must move, which costs so much for the time that it has left.
    Busy(f64),
    /// The same, and somebody does not want one of them to be disrupted.
    Protected(f64),
}

/// What to do about a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Settled,
    /// Ask for so many claims.
    Make(u64),
    /// Wait: claims are missing, and there may not be more.
    Full,
    /// Remove these: indices of seats.
    Remove(Vec<u32>),
}

/// What to do about a pool with these claims.
///
/// COMPAT: who goes first is upstream's order (v1.15, `getDeprovisioningCandidates`); where that leaves it open, names decide.
pub fn step(count: &Count, seats: &[Seat]) -> Step {
    if count.surplus() > 0 {
        let mut order: Vec<u32> = (0..seats.len() as u32).collect();
        let seat = |at: u32| &seats[at as usize];
        order.sort_by(|a, b| {
            let ((first, cost), (second, other)) = (seat(*a).missed.rank(), seat(*b).missed.rank());
            first
                .cmp(&second)
                .then_with(|| cost.total_cmp(&other))
                .then_with(|| seat(*a).name.cmp(&seat(*b).name))
        });
        order.truncate(usize::try_from(count.surplus()).unwrap_or(usize::MAX));
        return Step::Remove(order);
    }
    match (count.missing(), count.room()) {
        (0, _) => Step::Settled,
        (_, 0) => Step::Full,
        (missing, room) => Step::Make(missing.min(room)),
    }
}

impl Missed {
    const fn rank(self) -> (u8, f64) {
        match self {
            Self::Unlaunched => (0, 0.0),
            Self::Empty => (1, 0.0),
            Self::Busy(cost) => (2, cost),
            Self::Protected(cost) => (3, cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(replicas: u64, kept: u64, going: u64, limit: Option<u64>) -> Count {
        Count { replicas, limit, kept, going }
    }

    #[test]
    fn what_is_missing_is_made_at_once_as_far_as_the_limit_allows() {
        assert_eq!(step(&count(5, 0, 0, None), &[]), Step::Make(5));
        assert_eq!(step(&count(5, 5, 9, None), &[]), Step::Settled);
        assert_eq!(step(&count(10, 0, 0, Some(5)), &[]), Step::Make(5));
        assert_eq!(step(&count(10, 5, 0, Some(5)), &[]), Step::Full);
        assert_eq!(
            step(&count(5, 3, 2, Some(5)), &[]),
            Step::Full,
            "those that go count until they are gone"
        );
        assert_eq!(step(&count(5, 3, 1, Some(5)), &[]), Step::Make(1));
        assert_eq!(step(&count(0, 0, 0, Some(0)), &[]), Step::Settled);
    }

    #[test]
    fn whoever_is_missed_least_goes_first() {
        let seat = |name: &str, missed| Seat { name: name.into(), missed };
        let seats = [
            seat("a", Missed::Protected(1.0)),
            seat("b", Missed::Busy(3.0)),
            seat("c", Missed::Empty),
            seat("d", Missed::Busy(2.0)),
            seat("f", Missed::Unlaunched),
            seat("e", Missed::Unlaunched),
        ];
        let removed = |replicas| step(&count(replicas, 6, 0, None), &seats);
        assert_eq!(removed(6), Step::Settled);
        assert_eq!(removed(5), Step::Remove(vec![5]));
        assert_eq!(removed(3), Step::Remove(vec![5, 4, 2]));
        assert_eq!(removed(1), Step::Remove(vec![5, 4, 2, 3, 1]));
        assert_eq!(removed(0), Step::Remove(vec![5, 4, 2, 3, 1, 0]));
    }
}
