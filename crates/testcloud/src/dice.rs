//! Repeatable chance: a value depends on the seed, on what it is for, and on how often that was asked before.

/// A number in the half-open range from zero to one.
pub(crate) fn uniform(seed: u64, what: &str, n: u64) -> f64 {
    let name = what.bytes().fold(seed ^ 0x9e37_79b9_7f4a_7c15, |h, b| mix(h ^ u64::from(b)));
    (mix(name ^ mix(n)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A number from the standard normal distribution.
pub(crate) fn normal(seed: u64, what: &str, n: u64) -> f64 {
    let radius = (1.0 - uniform(seed, what, n.wrapping_mul(2))).ln().mul_add(-2.0, 0.0).sqrt();
    radius * (std::f64::consts::TAU * uniform(seed, what, n.wrapping_mul(2).wrapping_add(1))).cos()
}

fn mix(mut hash: u64) -> u64 {
    hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_repeat_and_are_spread() {
        assert_eq!(uniform(7, "delay", 3).to_bits(), uniform(7, "delay", 3).to_bits());
        assert_ne!(uniform(7, "delay", 3).to_bits(), uniform(8, "delay", 3).to_bits());
        let n = 10_000;
        let mean = (0..n).map(|i| uniform(1, "u", i)).sum::<f64>() / n as f64;
        assert!((0.48..0.52).contains(&mean), "{mean}");
        let draws: Vec<f64> = (0..n).map(|i| normal(1, "n", i)).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.05 && (0.9..1.1).contains(&variance), "{mean} {variance}");
    }
}
