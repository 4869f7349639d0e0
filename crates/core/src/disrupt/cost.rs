//! What it costs to make pods move.

/// What removing any node costs at least.
pub const OF_NODE: f64 = 1.0;
/// Most that one pod counts for, either way.
const MOST: f64 = 10.0;

/// What evicting a pod costs: 1 unless its owner or its priority says otherwise.
///
/// COMPAT: the scales are upstream's `EvictionCost` (v1.15): the whole range of an annotation is worth about 16 pods, that
/// of priorities 64, before both are cut off.
pub fn eviction(annotated: Option<i32>, priority: i32) -> f64 {
    let annotated = f64::from(annotated.unwrap_or(0)) / f64::from(1u32 << 27);
    let priority = f64::from(priority) / f64::from(1u32 << 25);
    (1.0 + annotated + priority).clamp(-MOST, MOST)
}

/// What removing a node costs whose pods cost so much each; a pod that is glad to go makes no other cheaper.
pub fn removal(evictions: impl Iterator<Item = f64>) -> f64 {
    OF_NODE + evictions.map(|cost| cost.max(0.0)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_and_priorities_count() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(eviction(None, 0), 1.0));
        assert!(near(eviction(Some(1 << 27), 0), 2.0));
        assert!(near(eviction(None, 1 << 25), 2.0));
        assert!(near(eviction(Some(i32::MIN), 0), -10.0) && near(eviction(None, 2_000_000_000), 10.0));
        assert!(near(removal([1.0, -5.0, 2.0].into_iter()), 4.0));
    }
}
