//! The lease: who may act, who believes so, and what a process does that has slept through it.

use headstart_engine::{Event, Outcome, Refusal};

use super::{Due, Processes};
use crate::fault::Fault;
use crate::ground::{Ground, Happening};
use crate::timeline::Moment;

/// How long the lease lasts without being renewed.
const LASTS: u64 = 15_000;
/// After how long without renewal its holder stops by itself.
const DEADLINE: u64 = 10_000;
/// How often it is renewed.
const RENEWS: u64 = 2_000;

/// How wrong a wall clock may be: with more, whatever the API server stamps looks as if it had timed out.
pub(crate) const MOST_SKEW: i64 = 240_000;

/// The lease as the API server has it.
#[derive(Debug, Default)]
pub(super) struct Lease {
    holder: Option<usize>,
    renewed: Moment,
}

impl Lease {
    /// Whether a process may write.
    pub(super) fn held_by(&self, number: usize, now: Moment) -> bool {
        self.holder == Some(number) && now.since(self.renewed) <= LASTS
    }
}

impl Processes<'_> {
    pub(super) fn tick(&mut self, ground: &mut Ground, number: usize) {
        let (now, who) = (ground.now(), number.to_string());
        if ground.strikes(Fault::WallJump, &who) {
            let jump = ground.severity(Fault::WallJump, (0, 240_000)).cast_signed() - 120_000;
            let process = &mut self.all[number];
            process.skew = (process.skew + jump).clamp(-MOST_SKEW, MOST_SKEW);
        }
        if ground.strikes(Fault::LeaseCut, &who) {
            self.all[number].cut_until = now + ground.severity(Fault::LeaseCut, (3_000, 40_000));
        }
        let (epoch, cut_until) = (self.all[number].epoch, self.all[number].cut_until);
        let again = RENEWS + self.dice.between(0, 200);
        ground.time.after(again, Happening::Process(number, Due::Tick(epoch)));
        if ground.strikes(Fault::Pause, &who) {
            let until = now + ground.severity(Fault::Pause, (1_000, 40_000));
            ground.trace.note(now, || format!("process {number} stands still until {until}"));
            self.all[number].paused_until = Some(until);
            ground.time.at(until, Happening::Process(number, Due::Resume(epoch)));
            return;
        }
        let free =
            self.lease.holder.is_none_or(|holder| holder == number) || now.since(self.lease.renewed) > LASTS;
        if free && cut_until <= now {
            (self.lease.holder, self.lease.renewed) = (Some(number), now);
            let process = &mut self.all[number];
            process.renewed = now;
            if !process.leading {
                process.leading = true;
                ground.trace.note(now, || format!("process {number} leads"));
                self.apply(ground, number, Event::Leading(true));
                self.think(ground, number);
            }
        }
    }

    /// Stops leading if the lease was not renewed in time, before anything else is done.
    pub(super) fn slept(&mut self, ground: &mut Ground, number: usize) {
        let process = &mut self.all[number];
        let now = ground.now();
        if process.leading && now.since(process.renewed) >= DEADLINE {
            process.leading = false;
            ground.trace.note(now, || format!("process {number} leads no more"));
            self.apply(ground, number, Event::Leading(false));
            for id in self.all[number].withdraw() {
                let message = "the lease was lost before this was sent".to_owned();
                let outcome = Outcome::Refused(Refusal::Unavailable { message });
                self.apply(ground, number, Event::Ended { id, outcome });
            }
            self.think(ground, number);
        }
    }
}
