//! The cloud's time: real, faster than real, or moved by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

/// A clock that all parts of one cloud share.
#[derive(Clone)]
pub struct Clock(Arc<Kind>);

enum Kind {
    Running { base: Timestamp, started: Instant, scale: f64 },
    ByHand(watch::Sender<Timestamp>),
}

/// A clock that runs by itself cannot be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this cloud's clock runs by itself; start it with --clock manual to move it by hand")]
pub struct RunsByItself;

impl Clock {
    /// A clock that starts at the real time, or later if the books say so, and runs `scale` times as fast.
    pub fn running(scale: f64, not_before: Option<Timestamp>) -> Self {
        let base = Timestamp::now().max(not_before.unwrap_or(Timestamp::MIN));
        Self(Arc::new(Kind::Running { base, started: Instant::now(), scale }))
    }

    /// A clock that stands still until [`Self::advance`].
    pub fn by_hand(at: Timestamp) -> Self {
        Self(Arc::new(Kind::ByHand(watch::Sender::new(at))))
    }

    /// The time, in whole milliseconds.
    pub fn now(&self) -> Timestamp {
        let now = match &*self.0 {
            Kind::Running { base, started, scale } => later(*base, started.elapsed().mul_f64(*scale)),
            Kind::ByHand(now) => *now.borrow(),
        };
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    /// Moves a clock that stands still.
    pub fn advance(&self, by: Duration) -> Result<(), RunsByItself> {
        match &*self.0 {
            Kind::Running { .. } => Err(RunsByItself),
            Kind::ByHand(now) => {
                now.send_modify(|now| *now = later(*now, by));
                Ok(())
            }
        }
    }

    /// Waits until that time has come.
    pub async fn sleep_until(&self, at: Timestamp) {
        match &*self.0 {
            Kind::Running { scale, .. } => {
                let left = between(self.now(), at);
                tokio::time::sleep(left.div_f64(*scale)).await;
            }
            Kind::ByHand(now) => {
                // The sender lives in `self`, so waiting cannot fail.
                let _ = now.subscribe().wait_for(|now| *now >= at).await;
            }
        }
    }

    /// Waits for so long.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(later(self.now(), duration)).await;
    }
}

/// A time that much later; the end of time is late enough.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// How long it is from one time to another, zero if that has passed.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
