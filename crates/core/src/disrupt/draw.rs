//! Lots: the same for the same fleet, so that it gets the same plan.

use crate::hash;

/// A source of lots.
pub(super) struct Lots(u64);

impl Lots {
    /// Lots that depend on these names alone.
    pub(super) fn new(names: &[&str]) -> Self {
        Self(hash::stable(names))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        hash::mix(self.0)
    }

    /// A number below `n`, which must not be zero.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// The least of several numbers below `n`: what stands first is drawn more often.
    pub(super) fn early(&mut self, n: usize, draws: usize) -> usize {
        (0..draws).map(|_| self.below(n)).min().unwrap_or(0)
    }

    /// A number that is mostly below one, and is never below zero.
    pub(super) fn luck(&mut self) -> f64 {
        const FINE: usize = 1 << 20;
        -((self.below(FINE) + 1) as f64 / FINE as f64).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_names_draw_the_same_and_early_ones_come_first() {
        let draw = |names: &[&str]| -> Vec<usize> {
            let mut lots = Lots::new(names);
            (0..100).map(|_| lots.early(100, 8)).collect()
        };
        assert_eq!(draw(&["a", "b"]), draw(&["a", "b"]));
        assert_ne!(draw(&["a", "b"]), draw(&["a", "c"]));
        assert!(draw(&["a"]).iter().filter(|at| **at < 30).count() > 80);
    }
}
