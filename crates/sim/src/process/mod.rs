//! Processes with an engine: started, fed, listened to, paused and killed.

mod driver;
mod lease;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headstart_cloud::kwok::repair_policies;
use headstart_engine::settings::Proactive;
use headstart_engine::{
    Action, Consolidation, Effect, EffectId, Event, Kind, Now, Outcome, Report, Settings, Time, Wall,
};

pub use driver::Call;
use lease::Lease;
pub(crate) use lease::MOST_SKEW;
use watch::Watch;

use crate::brain::{Birth, Brain, Nursery};
use crate::dice::Dice;
use crate::fault::Fault;
use crate::ground::{Fact, Ground, Happening};
use crate::plan::Ahead;
use crate::timeline::Moment;
use crate::wire::Wire;

/// Every so many decisions the engine is asked again at once; it must have nothing more to say.
const ASK_AGAIN: u64 = 64;

/// All processes and what they share.
pub struct Processes<'a> {
    all: Vec<Process>,
    lease: Lease,
    nursery: Nursery<'a>,
    birth: Birth,
    wire: Wire,
    dice: Dice,
}

/// Something that is due for one process.
#[derive(Debug)]
pub enum Due {
    /// It starts.
    Start,
    /// Its engine wanted to be asked then.
    Wake(u64, Moment),
    /// It lists a kind.
    List(u64, Kind),
    /// A watch has something to tell.
    Watch(u64, Kind),
    /// It renews its lease, or tries to get it.
    Tick(u64),
    /// It goes on after a pause.
    Resume(u64),
    /// An answer arrives.
    Answer(u64, Box<Answer>),
}

/// How a request ended, as its process hears it.
#[derive(Debug)]
pub struct Answer {
    id: EffectId,
    subject: String,
    outcome: Outcome,
}

struct Process {
    number: usize,
    /// Which life of the process this is.
    epoch: u64,
    brain: Option<Box<dyn Brain>>,
    born: Moment,
    /// How wrong its wall clock is, in milliseconds.
    skew: i64,
    paused_until: Option<Moment>,
    wake: Option<Moment>,
    watches: BTreeMap<Kind, Watch>,
    queues: BTreeMap<String, VecDeque<(EffectId, Effect)>>,
    leading: bool,
    renewed: Moment,
    cut_until: Moment,
    decisions: u64,
}

impl Due {
    /// Which life of the process it belongs to.
    const fn epoch(&self) -> Option<u64> {
        match self {
            Self::Start => None,
            Self::Wake(epoch, _)
            | Self::List(epoch, _)
            | Self::Watch(epoch, _)
            | Self::Tick(epoch)
            | Self::Resume(epoch)
            | Self::Answer(epoch, _) => Some(*epoch),
        }
    }
}

impl<'a> Processes<'a> {
    /// The processes of a run.
    pub fn new(ground: &Ground, nursery: Nursery<'a>) -> Self {
        let plan = &ground.plan;
        let catalog = ground.cloud.catalog();
        let settings = Settings {
            batch_max: Duration::from_millis(plan.knobs.batch_max_ms),
            nominate: plan.knobs.nominate,
            proactive: plan.knobs.ahead.as_ref().map(proactive).unwrap_or_default(),
            consolidation: if plan.knobs.search { Consolidation::Search } else { Consolidation::Compat },
            repair: if plan.knobs.repair { repair_policies() } else { Vec::new() },
            static_capacity: true,
            seed: plan.seed,
            ..Settings::default()
        };
        Self {
            all: (0..plan.processes.max(1)).map(Process::new).collect(),
            lease: Lease::default(),
            nursery,
            birth: Birth {
                settings,
                types: Arc::clone(catalog.types()),
                well_known: catalog.well_known.clone(),
            },
            wire: Wire::new(plan.seed),
            dice: Dice::new(plan.seed, "process"),
        }
    }

    /// Lets all processes start soon.
    pub fn start(&mut self, ground: &mut Ground) {
        for process in &self.all {
            let delay = self.dice.between(0, 2_000);
            ground.time.after(delay, Happening::Process(process.number, Due::Start));
        }
    }

    /// The storm is over: clocks are right, and whoever stands still goes on.
    pub fn calm(&mut self, ground: &mut Ground) {
        for process in &mut self.all {
            process.skew = 0;
            process.cut_until = Moment(0);
            if process.paused_until.take().is_some() {
                let resume = Due::Resume(process.epoch);
                ground.time.after(0, Happening::Process(process.number, resume));
            }
        }
    }

    /// Something is due.
    pub fn on(&mut self, ground: &mut Ground, number: usize, due: Due) {
        let process = &mut self.all[number];
        if due.epoch().is_some_and(|epoch| epoch != process.epoch || process.brain.is_none()) {
            return;
        }
        if let Some(until) = process.paused_until
            && !matches!(due, Due::Resume(_))
        {
            ground.time.at(until, Happening::Process(number, due));
            return;
        }
        self.slept(ground, number);
        match due {
            Due::Start => self.birth(ground, number),
            Due::Wake(_, at) => {
                if self.all[number].wake == Some(at) {
                    self.all[number].wake = None;
                    self.think(ground, number);
                }
            }
            Due::List(_, kind) => self.list(ground, number, kind),
            Due::Watch(_, kind) => self.watch(ground, number, kind),
            Due::Tick(_) => self.tick(ground, number),
            Due::Resume(_) => self.all[number].paused_until = None,
            Due::Answer(_, answer) => self.answered(ground, number, *answer),
        }
    }

    fn birth(&mut self, ground: &mut Ground, number: usize) {
        let process = &mut self.all[number];
        if process.brain.is_some() {
            return;
        }
        ground.trace.note(ground.time.now(), || format!("process {number} starts"));
        let epoch = process.epoch + 1;
        *process = Process { epoch, born: ground.now(), skew: process.skew, ..Process::new(number) };
        process.brain = Some((self.nursery)(&self.birth));
        for kind in Kind::ALL {
            process.watches.insert(kind, Watch::default());
            let delay = self.dice.between(10, 800);
            ground.time.after(delay, Happening::Process(number, Due::List(epoch, kind)));
        }
        ground.time.after(self.dice.between(5, 500), Happening::Process(number, Due::Tick(epoch)));
    }

    /// Ends a process at once; what it sent may still arrive.
    fn kill(&mut self, ground: &mut Ground, number: usize) {
        let process = &mut self.all[number];
        if process.brain.take().is_none() {
            return;
        }
        ground.trace.note(ground.time.now(), || format!("process {number} is killed"));
        process.queues.clear();
        process.paused_until = None;
        let delay = self.dice.count(300, 20_000);
        ground.time.after(delay, Happening::Process(number, Due::Start));
    }

    fn apply(&mut self, ground: &mut Ground, number: usize, event: Event) {
        let process = &mut self.all[number];
        let now = process.now(ground.now());
        if let Some(brain) = &mut process.brain {
            brain.apply(now, event);
        }
    }

    /// Lets the engine decide, and does what it wants.
    fn think(&mut self, ground: &mut Ground, number: usize) {
        let process = &mut self.all[number];
        let now = process.now(ground.now());
        let Some(brain) = &mut process.brain else { return };
        process.decisions += 1;
        let mut actions = brain.decide(now);
        if process.decisions.is_multiple_of(ASK_AGAIN) {
            let more = brain.decide(now);
            if let Some(action) = more.first() {
                ground.facts.push(Fact::Unsettled(format!("asked twice, the second answer was {action:?}")));
            }
            actions.extend(more);
        }
        let wake = brain.next_wake();
        if let Some(at) = wake.filter(|at| *at <= now.time) {
            ground.facts.push(Fact::Unsettled(format!(
                "wants to be woken at {} ms of its life, which is not after {} ms",
                at.0, now.time.0
            )));
        }
        self.wind(ground, number, wake);
        for action in actions {
            match action {
                Action::Do { id, effect } => self.enqueue(ground, number, id, effect),
                Action::Tell(report) => tell(ground, number, &report),
            }
        }
    }

    fn wind(&mut self, ground: &mut Ground, number: usize, wake: Option<Time>) {
        let process = &self.all[number];
        let at = wake.map(|wake| (process.born + wake.0).max(ground.now() + 1));
        if let Some(at) = at
            && process.wake.is_none_or(|known| at < known)
        {
            let mut at = at;
            if ground.strikes(Fault::LateWake, &number.to_string()) {
                at = at + ground.severity(Fault::LateWake, (50, 10_000));
            }
            let process = &mut self.all[number];
            process.wake = Some(at);
            ground.time.at(at, Happening::Process(number, Due::Wake(process.epoch, at)));
        }
    }
}

fn proactive(ahead: &Ahead) -> Proactive {
    Proactive {
        enabled: true,
        threshold: f64::from(ahead.threshold) / 100.0,
        most_dollars: ahead.cents.map(|cents| f64::from(cents) / 100.0),
        ..Proactive::default()
    }
}

impl Process {
    fn new(number: usize) -> Self {
        Self {
            number,
            epoch: 0,
            brain: None,
            born: Moment(0),
            skew: 0,
            paused_until: None,
            wake: None,
            watches: BTreeMap::new(),
            queues: BTreeMap::new(),
            leading: false,
            renewed: Moment(0),
            cut_until: Moment(0),
            decisions: 0,
        }
    }

    /// What the process's own clocks say.
    fn now(&self, now: Moment) -> Now {
        Now { time: Time(now.since(self.born)), wall: Wall(now.wall().0 + self.skew) }
    }
}

fn tell(ground: &mut Ground, number: usize, report: &Report) {
    let now = ground.now();
    match report {
        Report::Event { about, reason, message, .. } => {
            ground.trace.note(now, || format!("process {number} tells {about}: {reason}: {message}"));
        }
        Report::Line { message, fields, .. } => ground.trace.note(now, || {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("process {number} says: {message} {}", fields.join(" "))
        }),
        Report::Measure(_) | Report::Observed(_) => {}
    }
}
