//! Virtual time: a heap of what is to happen, and a clock that jumps from one happening to the next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::Add;

use headstart_engine::Wall;
use jiff::Timestamp;

/// When every world begins, on the wall clock: 2 March 2026.
const BEGINNING: i64 = 1_772_409_600_000;

/// A point in virtual time, in milliseconds since the world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// What the wall clock says.
    pub fn wall(self) -> Wall {
        Wall(BEGINNING + self.0.cast_signed())
    }

    /// What the API server stamps on objects, in whole seconds.
    pub fn stamp(self) -> String {
        self.wall().stamp().to_string()
    }

    /// The moment of a stamp on an object.
    pub fn of_stamp(stamp: &str) -> Option<Self> {
        let stamp: Timestamp = stamp.parse().ok()?;
        Some(Self(u64::try_from(stamp.as_millisecond() - BEGINNING).unwrap_or(0)))
    }

    /// How many milliseconds after another moment this is.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Moment {
    type Output = Self;

    fn add(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        write!(f, "{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// What is to happen, in order of time; what is due at the same time happens in the order it was asked for.
#[derive(Debug)]
pub struct Timeline<T> {
    now: Moment,
    sequence: u64,
    heap: BinaryHeap<Due<T>>,
}

#[derive(Debug)]
struct Due<T> {
    at: Moment,
    sequence: u64,
    what: T,
}

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self { now: Moment(0), sequence: 0, heap: BinaryHeap::new() }
    }
}

impl<T> Timeline<T> {
    /// The present.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Something happens so many milliseconds from now.
    pub fn after(&mut self, millis: u64, what: T) {
        self.at(self.now + millis, what);
    }

    /// Something happens then, or now if that is past.
    pub fn at(&mut self, at: Moment, what: T) {
        self.sequence += 1;
        self.heap.push(Due { at: at.max(self.now), sequence: self.sequence, what });
    }

    /// Jumps to the next happening, unless it lies beyond `end`; then time is `end`.
    pub fn next(&mut self, end: Moment) -> Option<T> {
        match self.heap.peek() {
            Some(due) if due.at <= end => {}
            _ => {
                self.now = self.now.max(end);
                return None;
            }
        }
        let due = self.heap.pop()?;
        self.now = due.at;
        Some(due.what)
    }
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest first.
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_jumps_to_what_happens_next_and_ties_keep_their_order() {
        let mut timeline = Timeline::default();
        timeline.after(20, "c");
        timeline.after(10, "a");
        timeline.after(10, "b");
        let end = Moment(15);
        assert_eq!((timeline.next(end), timeline.now()), (Some("a"), Moment(10)));
        assert_eq!((timeline.next(end), timeline.now()), (Some("b"), Moment(10)));
        assert_eq!((timeline.next(end), timeline.now()), (None, Moment(15)));
        assert_eq!((timeline.next(Moment(99)), timeline.now()), (Some("c"), Moment(20)));
    }

    #[test]
    fn stamps_go_both_ways() {
        assert_eq!(Moment(61_500).stamp(), "2026-03-02T00:01:01Z");
        assert_eq!(Moment::of_stamp("2026-03-02T00:01:01Z"), Some(Moment(61_000)));
        assert_eq!(Moment(3_723_004).to_string(), "01:02:03.004");
    }
}
