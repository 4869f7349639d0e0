//! The one place that reads clocks.

use std::time::Instant;

use headstart_engine::{Now, Time, Wall};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clock for timers also counts while the machine sleeps, or a leader would oversleep its lease without noticing.
#[cfg(target_os = "linux")]
const TIMERS: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const TIMERS: ClockId = ClockId::Monotonic;

/// What both clocks say.
pub(crate) fn now() -> Now {
    let (timer, wall) = (clock_gettime(TIMERS), clock_gettime(ClockId::Realtime));
    Now { time: Time(millis(timer) as u64), wall: Wall(millis(wall)) }
}

/// The start of something that is over soon, measured finer than by [`now`].
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}

fn millis(at: Timespec) -> i64 {
    at.tv_sec * 1_000 + at.tv_nsec / 1_000_000
}
