//! How long this process may act, looked at before every act.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use headstart_engine::Now;

/// How long this process may act.
///
/// Both clocks are kept. One may stand still while the world goes on: that for timers when a machine is restored from an image,
/// that on the wall when somebody sets it back. Whichever says that the time is over is believed.
#[derive(Debug, Default)]
pub(crate) struct Tenure {
    time: AtomicU64,
    wall: AtomicI64,
}

impl Tenure {
    /// May act until so long after a moment.
    pub(crate) fn extend(&self, from: Now, by: Duration) {
        self.time.store((from.time + by).0, Ordering::SeqCst);
        self.wall.store((from.wall + by).0, Ordering::SeqCst);
    }

    /// May act as long as the process lives.
    pub(crate) fn extend_for_good(&self) {
        self.time.store(u64::MAX, Ordering::SeqCst);
        self.wall.store(i64::MAX, Ordering::SeqCst);
    }

    /// May act no more.
    pub(crate) fn end(&self) {
        self.time.store(0, Ordering::SeqCst);
    }

    /// Whether this process may act now.
    pub(crate) fn holds(&self, now: Now) -> bool {
        now.time.0 < self.time.load(Ordering::SeqCst) && now.wall.0 < self.wall.load(Ordering::SeqCst)
    }

    /// Whether the time is over by the clock that cannot be set.
    pub(crate) fn is_over(&self, now: Now) -> bool {
        now.time.0 >= self.time.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use headstart_engine::{Time, Wall};

    use super::*;

    const START: Now = Now { time: Time(1_000), wall: Wall(1_000_000) };

    #[test]
    fn nobody_acts_before_being_elected() {
        assert!(!Tenure::default().holds(START));
    }

    #[test]
    fn either_clock_ends_it() {
        let tenure = Tenure::default();
        tenure.extend(START, Duration::from_secs(10));
        let after = |time: u64, wall: i64| Now { time: Time(1_000 + time), wall: Wall(1_000_000 + wall) };
        assert!(tenure.holds(after(9_999, 9_999)));
        assert!(!tenure.holds(after(10_000, 9_000)), "it slept");
        assert!(!tenure.holds(after(9_000, 10_000)), "it was restored from an image");
        assert!(tenure.is_over(after(10_000, 0)) && !tenure.is_over(after(9_000, 10_000)));
        tenure.end();
        assert!(!tenure.holds(START));
    }
}
