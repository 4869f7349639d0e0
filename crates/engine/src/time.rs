//! Time as the driver tells it; the engine never asks.

use std::ops::{Add, Sub};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A point on a clock that never goes back, in milliseconds since some start; for timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A point in time as people and other machines tell it, in milliseconds since 1970; for stamps and schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wall(pub i64);

/// What both clocks say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// For timers.
    pub time: Time,
    /// For stamps and schedules.
    pub wall: Wall,
}

impl Now {
    /// When a point on the wall clock will come, or that it has passed.
    pub fn until(self, wall: Wall) -> Time {
        Time(self.time.0 + u64::try_from(wall.0 - self.wall.0).unwrap_or(0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_millis() as u64))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Wall {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_millis() as i64))
    }
}

impl Sub for Wall {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl From<Timestamp> for Wall {
    fn from(stamp: Timestamp) -> Self {
        Self(stamp.as_millisecond())
    }
}

impl Wall {
    /// The stamp as API objects write it, in whole seconds.
    pub fn stamp(self) -> Timestamp {
        Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or_default()
    }
}
