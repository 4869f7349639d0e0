//! The screen that `demo` and `top` share: numbers on top, what was decided below. Pure; a terminal shows it.

mod line;
mod terminal;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use headstart_core::price::Price;
use headstart_engine::Wall;
use headstart_engine::overview::{Early, Overview, Phase};

use crate::output::Paint;
use crate::plan::dollars;

pub(crate) use line::{Said, decision};
pub(crate) use terminal::{Key, Terminal};

/// How wide bars are.
const BAR: usize = 32;
/// What is alike and this close together is one line.
const TOGETHER: Duration = Duration::from_secs(2);
/// How many things a log remembers.
const REMEMBERED: usize = 500;

/// What a screen shows.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// Left on the first line.
    pub(crate) title: &'a str,
    /// Right on the first line.
    pub(crate) status: &'a str,
    /// What else is told above the numbers.
    pub(crate) bars: &'a [String],
    /// The numbers.
    pub(crate) overview: &'a Overview,
    /// What has to be said about the numbers.
    pub(crate) remarks: &'a [String],
    /// What happened.
    pub(crate) log: &'a Log,
}

/// How many characters fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// What happened lately, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
}

/// Something that happened, perhaps several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    at: Wall,
    mark: Mark,
    said: Said,
    count: usize,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Something new begins.
    Heading,
    Ordinary,
    Warning,
    Error,
}

impl Log {
    /// Takes in something new; what is like something that happened just before, but for names, only counts.
    pub(crate) fn push(&mut self, entry: Entry) {
        let mut before = self.entries.iter_mut().rev().take_while(|before| entry.at - before.at < TOGETHER);
        if let Some(like) = before.find(|before| before.is_like(&entry)) {
            like.count += 1;
            return;
        }
        if self.entries.len() == REMEMBERED {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Takes out everything, the oldest first.
    pub(crate) fn take(&mut self) -> VecDeque<Entry> {
        std::mem::take(&mut self.entries)
    }
}

impl Entry {
    pub(crate) fn new(at: Wall, mark: Mark, said: impl Into<Said>) -> Self {
        Self { at, mark, said: said.into(), count: 1 }
    }

    /// Whether something new begins with it.
    pub(crate) fn is_heading(&self) -> bool {
        self.mark == Mark::Heading
    }

    fn is_like(&self, next: &Self) -> bool {
        let (said, next_said) = (&self.said, &next.said);
        self.mark == next.mark && said.label == next_said.label && said.nameless == next_said.nameless
    }

    /// The entry on a line of its own.
    pub(crate) fn line(&self, paint: Paint) -> String {
        paint_entry(self.mark, &self.plain(), paint)
    }

    fn plain(&self) -> String {
        let time = clock(self.at);
        let Said { label, text, nameless } = &self.said;
        let text = match self.count {
            1 => format!("{label}{text}"),
            count => format!("{label}{count} × {nameless}"),
        };
        match self.mark {
            Mark::Heading => format!("{time}  ── {text}"),
            Mark::Ordinary => format!("{time}  {text}"),
            Mark::Warning => format!("{time}  ! {text}"),
            Mark::Error => format!("{time}  ✗ {text}"),
        }
    }
}

fn paint_entry(mark: Mark, line: &str, paint: Paint) -> String {
    match mark {
        Mark::Heading => paint.bold(line),
        Mark::Ordinary => line.to_owned(),
        Mark::Warning => paint.yellow(line),
        Mark::Error => paint.red(line),
    }
}

/// The lines of a screen, as many as it has and none too long.
pub(crate) fn render(frame: &Frame<'_>, size: Size, paint: Paint) -> Vec<String> {
    let Size { columns, rows } = size;
    let overview = frame.overview;
    let mut lines = vec![paint.bold(cut(&spread(frame.title, frame.status, columns), columns))];
    lines.extend(frame.bars.iter().map(|bar| cut(bar, columns)));
    lines.push(cut(&format!("pods   {}  {}", bar(placed(overview), '▇', '▁'), pods(overview)), columns));
    lines.push(cut(&format!("nodes  {}", nodes(overview, columns.saturating_sub(7))), columns));
    let share = overview.requested;
    lines.push(cut(&format!("fleet  {}  {}", bar(share, '█', '░'), fleet(overview)), columns));
    lines.extend(ahead(overview).map(|text| cut(&format!("ahead  {text}"), columns)));
    lines.extend(frame.remarks.iter().map(|remark| paint.yellow(cut(&format!("! {remark}"), columns))));
    lines.push(String::new());
    let room = rows.saturating_sub(lines.len());
    let entries = &frame.log.entries;
    for entry in entries.iter().skip(entries.len().saturating_sub(room)) {
        lines.push(paint_entry(entry.mark, &cut(&entry.plain(), columns), paint));
    }
    lines.truncate(rows);
    lines
}

/// The numbers on one line.
pub(crate) fn summary(overview: &Overview) -> String {
    let count: usize = overview.fleet.iter().map(|group| group.count).sum();
    format!("pods {} · nodes {count}{} · {}", pods(overview), progress(overview), fleet(overview))
}

/// The time of day, in UTC.
pub(crate) fn clock(at: Wall) -> String {
    let stamp = at.stamp().to_string();
    stamp.get(11..19).unwrap_or(&stamp).to_owned()
}

/// A duration as people say it.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// A number with its thousands apart.
pub(crate) fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn pods(overview: &Overview) -> String {
    let oldest = overview.oldest.map(|oldest| format!(" (oldest {})", duration(oldest)));
    let (running, waiting) = (number(overview.bound), number(overview.waiting));
    format!("{running} running, {waiting} waiting{}", oldest.unwrap_or_default())
}

fn fleet(overview: &Overview) -> String {
    // A sum of nothing is a negative zero.
    let share = overview.requested * 100.0 + 0.0;
    format!("{share:.0} % of processors requested · {}", dollars(overview.price))
}

/// What was started for pods that were expected, if anything was.
fn ahead(overview: &Overview) -> Option<String> {
    let one = |early: &Early| {
        let nodes = if early.nodes == 1 { "node" } else { "nodes" };
        let share = 100 * early.used / early.nodes.max(1);
        let used = format!(
            "{} {} {nodes} started early, {} used ({share} %)",
            early.source, early.nodes, early.used
        );
        if early.idle == Price::ZERO { used } else { format!("{used}, {} idle", dollars(early.idle)) }
    };
    let all: Vec<String> = overview.early.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(" · "))
}

/// What share of all pods has a node.
fn placed(overview: &Overview) -> f64 {
    let all = overview.bound + overview.waiting;
    if all == 0 { 0.0 } else { overview.bound as f64 / all as f64 }
}

/// Nodes by type, the most numerous first, as far as there is room.
fn nodes(overview: &Overview, columns: usize) -> String {
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for group in overview.fleet.iter().filter(|group| !group.instance_type.is_empty()) {
        *kinds.entry((&group.instance_type, &group.capacity_type)).or_default() += group.count;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let progress = progress(overview);
    if kinds.is_empty() {
        return if progress.is_empty() { "none".to_owned() } else { progress.trim_start().to_owned() };
    }
    let more = |left: usize| match left {
        0 => String::new(),
        1 => "  and 1 more type".to_owned(),
        _ => format!("  and {left} more types"),
    };
    let mut text = String::new();
    for (at, ((name, capacity_type), count)) in kinds.iter().enumerate() {
        let next = format!("{}{name} {capacity_type} ×{count}", if at == 0 { "" } else { "  " });
        let after = more(kinds.len() - at - 1).len() + progress.len();
        if at > 0 && text.chars().count() + next.chars().count() + after > columns {
            text += &more(kinds.len() - at);
            break;
        }
        text += &next;
    }
    text + &progress
}

/// How many nodes come and go.
fn progress(overview: &Overview) -> String {
    let count = |phase| -> usize {
        overview.fleet.iter().filter(|group| group.phase == phase).map(|group| group.count).sum()
    };
    match (count(Phase::Starting), count(Phase::Leaving)) {
        (0, 0) => String::new(),
        (starting, 0) => format!(" ({starting} starting)"),
        (0, leaving) => format!(" ({leaving} leaving)"),
        (starting, leaving) => format!(" ({starting} starting, {leaving} leaving)"),
    }
}

/// A bar of which a share, from 0 to 1, is full.
pub(crate) fn bar(share: f64, full: char, empty: char) -> String {
    let filled = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let cell = |at| if at < filled { full } else { empty };
    (0..BAR).map(cell).collect()
}

/// One text left and one right.
fn spread(left: &str, right: &str, columns: usize) -> String {
    let taken = left.chars().count() + right.chars().count();
    format!("{left}{}{right}", " ".repeat(columns.saturating_sub(taken).max(2)))
}

/// As much of a text as there is room for.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    kept + "…"
}
