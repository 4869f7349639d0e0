//! How a process sees the API server: lists and watches, each kind at its own pace.

use std::sync::Arc;

use headstart_engine::{Change, Event, Kind};

use super::{Due, Processes};
use crate::api::Verb;
use crate::fault::Fault;
use crate::ground::{Ground, Happening};

/// A watch of one kind.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// How much of the log it has told; nothing before the first list.
    told: Option<usize>,
    /// How much of the log it has ever told.
    seen: usize,
    /// Whether it is about to tell something.
    due: bool,
}

impl Processes<'_> {
    /// An object changed.
    pub fn changed(&mut self, ground: &mut Ground, kind: Kind) {
        for number in 0..self.all.len() {
            let process = &mut self.all[number];
            if process.brain.is_none() {
                continue;
            }
            let epoch = process.epoch;
            let Some(watch) = process.watches.get_mut(&kind).filter(|w| w.told.is_some() && !w.due) else {
                continue;
            };
            if ground.strikes(Fault::WatchDropped, "watch") {
                watch.told = None;
                let delay = ground.severity(Fault::WatchDropped, (100, 15_000));
                ground.time.after(delay, Happening::Process(number, Due::List(epoch, kind)));
                continue;
            }
            watch.due = true;
            let (least, most) = ground.plan.pace.watch_ms;
            let mut delay = self.dice.between(least, most);
            if ground.strikes(Fault::WatchLag, "watch") {
                delay += ground.severity(Fault::WatchLag, (500, 30_000));
            }
            ground.time.after(delay, Happening::Process(number, Due::Watch(epoch, kind)));
        }
    }

    pub(super) fn list(&mut self, ground: &mut Ground, number: usize, kind: Kind) {
        // A kind of its own feature gate, which not every cluster has.
        if kind == Kind::NodeOverlay && ground.plan.seed.is_multiple_of(3) {
            let why = "the server could not find the requested resource".to_owned();
            self.apply(ground, number, Event::Watched { kind, change: Change::Missing { why } });
            self.think(ground, number);
            return;
        }
        let mut length = ground.api.log(kind).len();
        if length > 0 && ground.strikes(Fault::ListStale, "list") {
            // It is as old as the request for it at most, and never older than what was told before.
            let lag = ground.severity(Fault::ListStale, (500, 20_000));
            let process = &self.all[number];
            let then = ground.now().0.saturating_sub(lag).max(process.born.0);
            let seen = process.watches.get(&kind).map_or(0, |watch| watch.seen);
            length = ground.api.log(kind).partition_point(|entry| entry.at.0 <= then).max(seen);
        }
        let objects = ground.api.at(kind, length);
        self.apply(ground, number, Event::Watched { kind, change: Change::Relisting });
        for object in objects.into_values() {
            self.apply(ground, number, Event::Watched { kind, change: Change::Seen(object) });
        }
        self.apply(ground, number, Event::Watched { kind, change: Change::Listed });
        let behind = length < ground.api.log(kind).len();
        let process = &mut self.all[number];
        process.watches.insert(kind, Watch { told: Some(length), seen: length, due: behind });
        if behind {
            let due = Due::Watch(process.epoch, kind);
            ground.time.after(self.dice.between(50, 5_000), Happening::Process(number, due));
        }
        self.think(ground, number);
    }

    pub(super) fn watch(&mut self, ground: &mut Ground, number: usize, kind: Kind) {
        let Some(watch) = self.all[number].watches.get_mut(&kind) else { return };
        watch.due = false;
        let Some(from) = watch.told else { return };
        let to = ground.api.log(kind).len();
        (watch.told, watch.seen) = (Some(to), to);
        for index in from..to {
            let entry = &ground.api.log(kind)[index];
            let object = Arc::clone(&entry.object);
            let change = match entry.verb {
                Verb::Added | Verb::Modified => Change::Seen(object),
                Verb::Removed => Change::Gone(object),
            };
            self.apply(ground, number, Event::Watched { kind, change });
        }
        self.think(ground, number);
    }
}
