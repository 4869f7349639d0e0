//! A limit on requests a second, with a burst.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headstart_engine::Time;

use crate::clock;

/// A bucket of tokens that fills steadily; tokens can be taken in advance by waiting for them.
pub(crate) struct Rate {
    per_second: f64,
    burst: f64,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    /// Negative if tokens were taken in advance.
    tokens: f64,
    at: Time,
}

impl Rate {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let bucket = Bucket { tokens: burst.into(), at: clock::now().time };
        Self { per_second: per_second.into(), burst: burst.into(), bucket: Mutex::new(bucket) }
    }

    /// Takes a token, when there is one.
    pub(crate) async fn wait(&self) {
        let wait = self.take(clock::now().time);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes a token only if there is one.
    pub(crate) fn try_take(&self, now: Time) -> bool {
        let mut bucket = self.filled(now);
        let there = bucket.tokens >= 1.0;
        if there {
            bucket.tokens -= 1.0;
        }
        there
    }

    /// Takes a token and tells how long to wait for it.
    fn take(&self, now: Time) -> Duration {
        let mut bucket = self.filled(now);
        bucket.tokens -= 1.0;
        Duration::from_secs_f64((-bucket.tokens / self.per_second).max(0.0))
    }

    fn filled(&self, now: Time) -> std::sync::MutexGuard<'_, Bucket> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let gained = (now - bucket.at).as_secs_f64() * self.per_second;
        bucket.tokens = (bucket.tokens + gained).min(self.burst);
        bucket.at = bucket.at.max(now);
        bucket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_the_rate_holds() {
        let rate = Rate::new(10, 3);
        let start = clock::now().time;
        let waits: Vec<u128> = (0..5).map(|_| rate.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = start + Duration::from_mins(1);
        assert!((0..3).all(|_| rate.try_take(later)));
        assert!(!rate.try_take(later), "a quiet minute saves up no more than a burst");
    }
}
