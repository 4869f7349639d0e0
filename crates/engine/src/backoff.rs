//! How long to wait before trying again.

use std::time::Duration;

use headstart_core::hash;

/// How waiting times grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) most: Duration,
}

impl Backoff {
    pub(crate) const fn millis(first: u64, most: u64) -> Self {
        Self { first: Duration::from_millis(first), most: Duration::from_millis(most) }
    }

    /// How long to wait after so many failures, at least one.
    ///
    /// It is spread by up to a quarter, by what is waited for rather than by chance, so that one more caller shifts nobody.
    pub(crate) fn after(self, failures: u32, seed: u64, what: &str) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let plain = self.first.saturating_mul(1 << doublings).min(self.most);
        let spread = hash::stable(&[what, &failures.to_string(), &seed.to_string()]) % 1000;
        plain.mul_f64(1.0 - spread as f64 / 4000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_repeat() {
        let backoff = Backoff::millis(1000, 60_000);
        let waits: Vec<_> = (1..=9).map(|n| backoff.after(n, 7, "claim")).collect();
        assert!(waits[..6].windows(2).all(|pair| pair[1] > pair[0] + pair[0] / 4), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(750)));
        assert!(waits[8] <= Duration::from_mins(1) && waits[8] >= Duration::from_secs(45));
        assert_eq!(backoff.after(3, 7, "claim"), backoff.after(3, 7, "claim"));
        assert_ne!(backoff.after(3, 7, "claim"), backoff.after(3, 7, "other"));
    }
}
