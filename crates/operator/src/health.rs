//! Whether the process is well, and whether it knows what it must know.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use headstart_engine::{Kind, Time};

/// A decision that takes longer than this will not end.
const STUCK: Duration = Duration::from_mins(2);

/// Whether the process is well, and whether it knows what it must know.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// A bit for each kind that has been read.
    listed: AtomicU32,
    /// A bit for each kind that nobody waits for.
    unneeded: AtomicU32,
    /// Since when the engine has been thinking; zero if it rests.
    thinking: AtomicU64,
}

impl Health {
    /// A kind has been read, or cannot be.
    pub(crate) fn listed(&self, kind: Kind, listed: bool) {
        let bit = 1 << kind as u32;
        if listed {
            self.listed.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.listed.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Nobody waits for a kind.
    pub(crate) fn does_without(&self, kind: Kind) {
        self.unneeded.fetch_or(1 << kind as u32, Ordering::Relaxed);
    }

    /// The kinds without which nothing is decided and that have not been read.
    pub(crate) fn unread(&self) -> Vec<Kind> {
        let listed = self.listed.load(Ordering::Relaxed) | self.unneeded.load(Ordering::Relaxed);
        Kind::ALL.into_iter().filter(|kind| kind.is_vital() && listed & 1 << *kind as u32 == 0).collect()
    }

    /// The engine begins to think.
    pub(crate) fn thinks(&self, now: Time) {
        self.thinking.store(now.0.max(1), Ordering::Relaxed);
    }

    /// The engine rests.
    pub(crate) fn rests(&self) {
        self.thinking.store(0, Ordering::Relaxed);
    }

    /// Whether the engine has been thinking for so long that something must be wrong.
    pub(crate) fn is_stuck(&self, now: Time) -> bool {
        match self.thinking.load(Ordering::Relaxed) {
            0 => false,
            since => now - Time(since) > STUCK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_all_vital_kinds_were_read() {
        let health = Health::default();
        let vital: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is_vital()).collect();
        assert_eq!(health.unread(), vital);
        for kind in Kind::ALL {
            health.listed(kind, true);
        }
        assert_eq!(health.unread(), []);
        health.listed(Kind::NodeClaim, false);
        assert_eq!(health.unread(), [Kind::NodeClaim]);
    }

    #[test]
    fn long_thinking_is_noticed() {
        let health = Health::default();
        health.thinks(Time(5));
        assert!(!health.is_stuck(Time(60_000)));
        assert!(health.is_stuck(Time(300_000)));
        health.rests();
        assert!(!health.is_stuck(Time(300_000)));
    }
}
