//! What a report says in a few numbers.

use std::time::Duration;

use headstart_engine::observation::{Decision, History, State, Waits};
use headstart_engine::{Mode, Wall};

/// Differences of money below this share are none.
const ALIKE: f64 = 0.005;

/// What a report says in a few numbers.
pub(crate) struct Figures {
    /// Whether there are two sides to be compared.
    pub(crate) compares: bool,
    /// How long was observed.
    pub(crate) span: Duration,
    pub(crate) pods: u32,
    pub(crate) bound: u32,
    pub(crate) missed: usize,
    pub(crate) overdue: usize,
    pub(crate) real: Sum,
    pub(crate) would: Sum,
    /// Seconds from our first node to the cluster's, of each decision that both have an answer to, the smallest first.
    pub(crate) apart: Vec<f64>,
    /// For how long the two sides cost differently.
    pub(crate) differs: Duration,
}

/// One side of all decisions.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) waits: Waits,
    /// What its nodes cost an hour now.
    pub(crate) now: f64,
    /// What was spent while it was observed.
    pub(crate) spent: f64,
    /// What was spent while the two sides cost differently.
    pub(crate) spent_apart: f64,
    /// Nodes that were started.
    pub(crate) nodes: u32,
}

impl Figures {
    pub(crate) fn of(history: &History) -> Self {
        let decisions = &history.decisions;
        let (mut real, mut would) = (Sum::default(), Sum::default());
        for decision in decisions {
            real.waits.join(&decision.real.waits);
            would.waits.join(&decision.would.waits);
            real.nodes += decision.real.nodes.iter().map(|nodes| nodes.count).sum::<u32>();
            would.nodes += decision.would.nodes.iter().map(|nodes| nodes.count).sum::<u32>();
        }
        let ends = history.samples.iter().skip(1).map(|sample| sample.at).chain([history.to]);
        let mut differs = Duration::ZERO;
        for (sample, end) in history.samples.iter().zip(ends) {
            let lasts = end - sample.at;
            let hours = lasts.as_secs_f64() / 3600.0;
            real.spent += sample.dollars * hours;
            would.spent += sample.would_dollars * hours;
            if (sample.dollars - sample.would_dollars).abs()
                > ALIKE * sample.dollars.max(sample.would_dollars)
            {
                differs += lasts;
                real.spent_apart += sample.dollars * hours;
                would.spent_apart += sample.would_dollars * hours;
            }
        }
        if let Some(last) = history.samples.last() {
            (real.now, would.now) = (last.dollars, last.would_dollars);
        }
        let mut apart: Vec<f64> = decisions.iter().filter_map(apart).collect();
        apart.sort_by(f64::total_cmp);
        let count = |state| decisions.iter().filter(|decision| decision.state == state).count();
        Self {
            compares: history.mode == Mode::Observe,
            span: history.to - history.from,
            pods: decisions.iter().map(|decision| decision.pods).sum(),
            bound: decisions.iter().map(|decision| decision.bound).sum(),
            missed: count(State::Missed),
            overdue: count(State::Overdue),
            real,
            would,
            apart,
            differs,
        }
    }

    /// The whole report in a sentence.
    pub(crate) fn headline(&self) -> String {
        let p95 = |sum: &Sum| sum.waits.quantile(0.95).map(seconds);
        let Some(real) = p95(&self.real) else {
            return "No pod has needed a new node yet.".to_owned();
        };
        if !self.compares {
            return format!("Pods that needed a new node waited {real} at p95.");
        }
        let would = p95(&self.would).unwrap_or_default();
        let money = if self.differs.is_zero() {
            "at the same price".to_owned()
        } else {
            let hours = self.differs.as_secs_f64() / 3600.0;
            let more = (self.would.spent_apart - self.real.spent_apart) / hours;
            let word = if more < 0.0 { "less" } else { "more" };
            format!("for {}/h {word} during {}", dollars(more.abs()), span(self.differs))
        };
        format!("Pods waited {real} at p95 for the cluster's autoscaler; with Headstart {would}, {money}.")
    }

    /// The middle of the seconds by which Headstart was earlier.
    pub(crate) fn median_apart(&self) -> Option<f64> {
        self.apart.get(self.apart.len() / 2).copied()
    }
}

/// Seconds from our first node to the cluster's.
pub(crate) fn apart(decision: &Decision) -> Option<f64> {
    let (real, would) = (decision.real.first?, decision.would.first?);
    Some((real.0 - would.0) as f64 / 1000.0)
}

pub(crate) fn seconds(seconds: f64) -> String {
    if seconds.abs() < 100.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

/// Money, precise enough to tell two amounts apart.
pub(crate) fn dollars(dollars: f64) -> String {
    let (sign, amount) = (if dollars < 0.0 { "−" } else { "" }, dollars.abs());
    if amount < 1.0 { format!("{sign}${amount:.4}") } else { format!("{sign}${amount:.2}") }
}

pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} seconds"),
        120..7200 => format!("{} minutes", (seconds + 30) / 60),
        _ => format!("{:.1} hours", seconds as f64 / 3600.0),
    }
}

/// Date and time as people read it.
pub(crate) fn date(wall: Wall) -> String {
    let text = wall.stamp().to_string();
    format!("{} {} UTC", text.get(..10).unwrap_or_default(), text.get(11..19).unwrap_or_default())
}

pub(crate) fn clock(wall: Wall) -> String {
    wall.stamp().to_string().get(11..19).unwrap_or_default().to_owned()
}

pub(crate) fn state(state: State) -> &'static str {
    match state {
        State::Open => "open",
        State::Done => "done",
        State::Missed => "missed",
        State::Overdue => "overdue",
    }
}

/// Nodes in a few words.
pub(crate) fn nodes(nodes: &[headstart_engine::observation::Nodes]) -> String {
    let words: Vec<String> =
        nodes.iter().map(|nodes| format!("{} × {}", nodes.count, nodes.instance_type)).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
