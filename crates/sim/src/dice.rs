//! Repeatable chance: a generator per part, so that a new draw in one part moves no other.

use headstart_core::hash;

/// A generator of one part of the world.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl From<u64> for Dice {
    fn from(state: u64) -> Self {
        Self { state }
    }
}

impl Dice {
    /// The generator that belongs to a part, in the run with this seed.
    pub fn new(seed: u64, part: &str) -> Self {
        Self { state: hash::stable(&[&seed.to_string(), part]) }
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash::mix(self.state)
    }

    /// From zero up to, and without, one.
    pub fn share(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether something with this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// A whole number, both ends included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.any() % (most.max(least) - least + 1)
    }

    /// A number whose order of magnitude is drawn evenly.
    pub fn scaled(&mut self, least: f64, most: f64) -> f64 {
        (least.ln() + self.share() * (most.ln() - least.ln())).exp()
    }

    /// A whole number whose order of magnitude is drawn evenly.
    pub fn count(&mut self, least: u64, most: u64) -> u64 {
        (self.scaled(least.max(1) as f64, most.max(1) as f64 + 0.99) as u64).clamp(least, most)
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.any() as usize % from.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_draw_apart_and_repeatably() {
        let draw = |seed, part| (0..4).scan(Dice::new(seed, part), |d, _| Some(d.any())).collect::<Vec<_>>();
        assert_eq!(draw(1, "wire"), draw(1, "wire"));
        assert_ne!(draw(1, "wire"), draw(1, "cloud"));
        assert_ne!(draw(1, "wire"), draw(2, "wire"));
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut dice = Dice::new(3, "bounds");
        assert!((0..1000).all(|_| (2..=5).contains(&dice.between(2, 5))));
        assert!((0..1000).all(|_| (1..=30).contains(&dice.count(1, 30))));
        assert!((0..1000).all(|_| (0.001..=0.1).contains(&dice.scaled(0.001, 0.1))));
    }
}
