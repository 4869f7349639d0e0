//! Who may hold the lease, decided from what was read and how long ago; it has no clock and sends nothing.
//!
//! COMPAT: client-go's `leaderelection` with controller-runtime's durations, so that either side respects the other's lease.
//! A lease counts as held until nothing has changed in it for as long as it says, measured by our own clock: clocks of
//! other machines are never compared with ours.

use std::time::Duration;

use headstart_engine::{Now, Time};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

/// How long others wait after the last renewal that they saw.
pub(super) const DURATION: Duration = Duration::from_secs(15);
/// How long the holder goes on without a renewal.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is renewed, or tried for.
pub(super) const PERIOD: Duration = Duration::from_secs(2);

/// A candidate for the lease.
#[derive(Debug)]
pub(super) struct Elector {
    identity: String,
    /// The lease as it was when it last changed, and when that was noticed.
    seen: Option<(LeaseSpec, Time)>,
}

/// What a candidate does next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Writes this, on condition that nobody was faster.
    Write(Box<LeaseSpec>),
    /// Lets the holder be.
    Wait {
        /// Who holds it.
        holder: String,
    },
}

impl Elector {
    pub(super) fn new(identity: String) -> Self {
        Self { identity, seen: None }
    }

    /// What to do about the lease as it was just read, or about there being none.
    pub(super) fn step(&mut self, lease: Option<&LeaseSpec>, now: Now) -> Step {
        let Some(lease) = lease else { return Step::Write(Box::new(self.record(None, now))) };
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != lease) {
            self.seen = Some((lease.clone(), now.time));
        }
        let holder = lease.holder_identity.as_deref().unwrap_or_default();
        let since = self.seen.as_ref().map_or(now.time, |(_, at)| *at);
        let lasts = lease.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
        let expired = now.time >= since + lasts.unwrap_or(DURATION);
        if holder.is_empty() || holder == self.identity || expired {
            Step::Write(Box::new(self.record(Some(lease), now)))
        } else {
            Step::Wait { holder: holder.to_owned() }
        }
    }

    /// The lease as it must be written when it is given up, if it is ours.
    pub(super) fn release(&self, lease: &LeaseSpec, now: Now) -> Option<LeaseSpec> {
        let ours = lease.holder_identity.as_ref() == Some(&self.identity);
        ours.then(|| LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(stamp(now)),
            renew_time: Some(stamp(now)),
            ..lease.clone()
        })
    }

    /// The lease as it is when it is ours.
    fn record(&self, before: Option<&LeaseSpec>, now: Now) -> LeaseSpec {
        let before = before.cloned().unwrap_or_default();
        let renews = before.holder_identity.as_ref() == Some(&self.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        let held_before = before.holder_identity.is_some();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs() as i32),
            acquire_time: if renews { before.acquire_time.clone() } else { Some(stamp(now)) },
            renew_time: Some(stamp(now)),
            lease_transitions: Some(if renews || !held_before { transitions } else { transitions + 1 }),
            ..before
        }
    }
}

fn stamp(now: Now) -> MicroTime {
    MicroTime(Timestamp::from_millisecond(now.wall.0).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use headstart_engine::Wall;

    use super::*;

    fn at(second: u64) -> Now {
        Now { time: Time(second * 1000), wall: Wall(1_800_000_000_000 + second.cast_signed() * 1000) }
    }

    fn held_by(holder: &str, renewed: u64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            renew_time: Some(stamp(at(renewed))),
            acquire_time: Some(stamp(at(0))),
            lease_transitions: Some(4),
            ..LeaseSpec::default()
        }
    }

    fn us() -> Elector {
        Elector::new("us".into())
    }

    fn written(step: Step) -> LeaseSpec {
        match step {
            Step::Write(lease) => *lease,
            Step::Wait { holder } => panic!("it waits for {holder}"),
        }
    }

    #[test]
    fn a_lease_that_is_not_there_is_made() {
        let lease = written(us().step(None, at(7)));
        assert_eq!((lease.holder_identity.as_deref(), lease.lease_transitions), (Some("us"), Some(0)));
        assert_eq!((lease.acquire_time, lease.renew_time), (Some(stamp(at(7))), Some(stamp(at(7)))));
    }

    #[test]
    fn our_own_lease_is_renewed_and_stays_acquired() {
        let lease = written(us().step(Some(&held_by("us", 5)), at(7)));
        assert_eq!((lease.acquire_time, lease.lease_transitions), (Some(stamp(at(0))), Some(4)));
        assert_eq!(lease.renew_time, Some(stamp(at(7))));
    }

    #[test]
    fn a_holder_that_renews_is_let_be_whatever_its_clock_says() {
        let mut us = us();
        // Its stamps are an hour old by our clock, but they move.
        for second in (3600..3700).step_by(5) {
            let lease = held_by("other", second - 3600);
            assert_eq!(us.step(Some(&lease), at(second)), Step::Wait { holder: "other".into() });
        }
    }

    #[test]
    fn a_lease_is_taken_once_it_has_not_moved_for_its_whole_duration() {
        let (mut us, lease) = (us(), held_by("other", 0));
        assert_eq!(us.step(Some(&lease), at(100)), Step::Wait { holder: "other".into() });
        assert_eq!(us.step(Some(&lease), at(114)), Step::Wait { holder: "other".into() });
        let taken = written(us.step(Some(&lease), at(115)));
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("us"), Some(5)));
        assert_eq!(taken.acquire_time, Some(stamp(at(115))));
    }

    #[test]
    fn a_lease_that_was_given_up_is_taken_at_once() {
        let given_up = Elector::new("other".into()).release(&held_by("other", 3), at(4)).unwrap();
        assert_eq!(
            (given_up.holder_identity.as_deref(), given_up.lease_duration_seconds),
            (Some(""), Some(1))
        );
        let taken = written(us().step(Some(&given_up), at(5)));
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("us"), Some(5)));
    }

    #[test]
    fn what_is_not_ours_cannot_be_given_up() {
        assert_eq!(us().release(&held_by("other", 3), at(4)), None);
    }

    #[test]
    fn the_holder_stops_long_before_others_may_begin() {
        assert!(DEADLINE + PERIOD < DURATION);
    }
}
