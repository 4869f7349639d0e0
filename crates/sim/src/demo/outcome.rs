//! What became of a story, by the API server's and the cloud's own books rather than by the engine's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headstart_core::price::Price;
use headstart_engine::Kind;

use super::{Comparison, Ended};
use crate::api::{text, uid};
use crate::ground::Ground;
use crate::timeline::Moment;

const HOUR: f64 = 3_600_000.0;

/// What became of a story.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it took in simulated time.
    pub took: Duration,
    /// How many pods there ever were.
    pub pods: usize,
    /// How many of them ever ran.
    pub ran: usize,
    /// The longest time from a pod's creation until it ran.
    pub slowest: Duration,
    /// How long it took for half of the pods.
    pub median: Duration,
    /// How many instances were bought.
    pub bought: usize,
    /// How many of them were bought in another offering than the first wish, which had run dry.
    pub fell_through: usize,
    /// The most that an hour of all instances cost.
    pub most_per_hour: Price,
    /// What all instances together cost.
    pub spent: Price,
    /// How many instances are left.
    pub left: usize,
    /// What should have come true and did not.
    pub failure: Option<String>,
    /// Whether the audience left before the end.
    pub is_unfinished: bool,
    /// What became of the same burst in two worlds, if it came to its end in both.
    pub comparison: Option<Comparison>,
}

impl Outcome {
    /// Whether the story came to its end and everything was as it should be.
    pub fn is_good(&self) -> bool {
        self.failure.is_none() && !self.is_unfinished
    }

    pub(super) fn of(ground: &Ground, ended: Option<Ended>, comparison: Option<Comparison>) -> Self {
        let mut waits: Vec<Duration> = starts(ground).into_iter().map(|(_, wait)| wait).collect();
        waits.sort_unstable();
        let mut outcome = Self {
            took: Duration::from_millis(ground.now().0),
            pods: pods(ground),
            ran: waits.len(),
            slowest: waits.last().copied().unwrap_or_default(),
            median: waits.get(waits.len() / 2).copied().unwrap_or_default(),
            bought: ground.cloud.books().len(),
            fell_through: ground.cloud.books().iter().filter(|machine| machine.fell_through()).count(),
            most_per_hour: most_per_hour(ground),
            spent: spent(ground),
            left: ground.cloud.living().count(),
            failure: None,
            is_unfinished: false,
            comparison,
        };
        match ended {
            Some(Ended::Left) => outcome.is_unfinished = true,
            Some(Ended::Failed(why)) => outcome.failure = Some(why),
            None => outcome.failure = outcome.shortcoming(),
        }
        outcome
    }

    /// What a story that was played to its end must show, and does not.
    fn shortcoming(&self) -> Option<String> {
        let Self { pods, ran, left, fell_through, .. } = self;
        if ran < pods {
            Some(format!("all {pods} pods should run, but {} never did", pods - ran))
        } else if *left > 0 {
            Some(format!("no instance should be left, but {left} are"))
        } else if *fell_through == 0 {
            Some("the next offering should be taken when one runs dry, but none was".to_owned())
        } else {
            None
        }
    }
}

fn pods(ground: &Ground) -> usize {
    ground.api.log(Kind::Pod).iter().filter(|entry| entry.before.is_none()).count()
}

/// When each pod that ever ran began to, and how long it had waited, the earliest first.
pub(super) fn starts(ground: &Ground) -> Vec<(Moment, Duration)> {
    let mut created: BTreeMap<&str, Moment> = BTreeMap::new();
    let (mut ran, mut starts) = (BTreeSet::new(), Vec::new());
    for entry in ground.api.log(Kind::Pod) {
        let pod = uid(&entry.object);
        let since = *created.entry(pod).or_insert(entry.at);
        if text(&entry.object, "/status/phase") == "Running" && ran.insert(pod) {
            starts.push((entry.at, Duration::from_millis(entry.at.since(since))));
        }
    }
    starts
}

pub(super) fn price(ground: &Ground, machine: &crate::cloud::Machine) -> Price {
    let sold = ground.cloud.catalog().offering(&machine.instance.offering);
    sold.map(|(_, offering)| offering.price).unwrap_or_default()
}

fn most_per_hour(ground: &Ground) -> Price {
    let mut changes: Vec<(Moment, Price)> = Vec::new();
    for machine in ground.cloud.books() {
        let price = price(ground, machine);
        changes.push((machine.launched, price));
        changes.extend(machine.ended.map(|ended| (ended, Price::ZERO - price)));
    }
    // What ends at the moment in which another begins ends first.
    changes.sort_unstable();
    let mut now = Price::ZERO;
    changes.into_iter().fold(Price::ZERO, |most, (_, change)| {
        now += change;
        most.max(now)
    })
}

fn spent(ground: &Ground) -> Price {
    let own = |machine: &crate::cloud::Machine| {
        let until = machine.ended.unwrap_or_else(|| ground.now());
        Price::from_dollars(price(ground, machine).dollars() * until.since(machine.launched) as f64 / HOUR)
    };
    ground.cloud.books().iter().map(own).sum()
}
