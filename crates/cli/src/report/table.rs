//! A report as a table.

use std::fmt::Write as _;
use std::io::Write;

use headstart_engine::observation::History;

use super::figures::{self, Figures, Sum, dollars, seconds, span};
use crate::output::Paint;
use crate::plan::columns;

/// How many decisions are shown; the rest is a number.
const MOST: usize = 20;

pub(crate) fn print(
    history: &History,
    figures: &Figures,
    paint: Paint,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    writeln!(out, "{}\n", paint.bold(figures.headline()))?;
    writeln!(out, "{}\n", scope(history, figures))?;
    columns(&sides(figures), paint, out)?;
    if !history.beliefs.is_empty() {
        writeln!(out)?;
        columns(&beliefs(history), paint, out)?;
    }
    if !history.decisions.is_empty() {
        writeln!(out)?;
        columns(&decisions(history, figures), paint, out)?;
        let hidden = history.decisions.len().saturating_sub(MOST) as u64 + history.dropped;
        if hidden > 0 {
            writeln!(out, "  {hidden} earlier decisions are not shown; all that are known: -o json")?;
        }
    }
    for modelled in &history.modelled {
        writeln!(out, "\n{modelled}")?;
    }
    Ok(())
}

/// What the figures are about.
pub(crate) fn scope(history: &History, figures: &Figures) -> String {
    let mut text = format!(
        "{} from {}: {} {} for {} pods, {} of which came to a node",
        span(figures.span),
        figures::date(history.from),
        history.decisions.len(),
        if history.decisions.len() == 1 { "decision" } else { "decisions" },
        figures.pods,
        figures.bound,
    );
    if figures.missed > 0 {
        let _ = write!(text, "; {} for pods that never came", figures.missed);
    }
    if figures.overdue > 0 {
        let _ = write!(text, "; {} with pods that found no node", figures.overdue);
    }
    if !history.catalog.is_empty() {
        let _ = write!(text, "; prices of {}", history.catalog);
    }
    text + "."
}

/// The figures of both sides below each other.
pub(crate) fn sides(figures: &Figures) -> Vec<Vec<String>> {
    let wait = |share: f64| move |sum: &Sum| sum.waits.quantile(share);
    let mut rows =
        vec![vec![String::new(), "cluster".to_owned(), "headstart".to_owned(), "apart".to_owned()]];
    if let Some(apart) = figures.median_apart() {
        rows.push(vec![
            "first node, median".to_owned(),
            format!("{}{}", if apart < 0.0 { "" } else { "+" }, seconds(apart)),
            "0.0 s".to_owned(),
            seconds(apart.abs()),
        ]);
    }
    for (name, share) in [("wait p50", 0.5), ("wait p95", 0.95), ("wait max", 1.0)] {
        if let (Some(real), Some(would)) = (wait(share)(&figures.real), wait(share)(&figures.would)) {
            rows.push(vec![name.to_owned(), seconds(real), seconds(would), seconds(real - would)]);
        }
    }
    let mut number = |name: &str, real: f64, would: f64, say: fn(f64) -> String| {
        rows.push(vec![name.to_owned(), say(real), say(would), say(real - would)]);
    };
    let an_hour = |amount: f64| format!("{}/h", dollars(amount));
    number("nodes started", f64::from(figures.real.nodes), f64::from(figures.would.nodes), |n| n.to_string());
    number("cost now", figures.real.now, figures.would.now, an_hour);
    number("cost so far", figures.real.spent, figures.would.spent, dollars);
    if !figures.compares {
        for row in &mut rows {
            row.truncate(2);
        }
        rows.remove(0);
        rows.retain(|row| row[0] != "first node, median");
    }
    rows
}

pub(crate) fn beliefs(history: &History) -> Vec<Vec<String>> {
    let head = ["belief", "expected", "arrived", "hit rate", "waiting saved", "idle", "idle cost"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for belief in &history.beliefs {
        rows.push(vec![
            belief.source.clone(),
            belief.expected.to_string(),
            belief.arrived.to_string(),
            belief.hit_rate().map_or_else(|| "–".to_owned(), |rate| format!("{:.0} %", rate * 100.0)),
            seconds(belief.saved_seconds),
            format!("{} node-s", belief.idle_node_seconds.round()),
            dollars(belief.idle_dollars),
        ]);
    }
    rows
}

fn decisions(history: &History, figures: &Figures) -> Vec<Vec<String>> {
    let head = if figures.compares {
        ["decided", "pods", "state", "theirs after", "wait p95", "would be", "$/h", "would be", "because"]
            .as_slice()
    } else {
        ["decided", "pods", "state", "wait p95", "$/h", "because"].as_slice()
    };
    let mut rows = vec![head.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()];
    let skip = history.decisions.len().saturating_sub(MOST);
    for decision in history.decisions.iter().skip(skip) {
        let some = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), seconds);
        let p95 = |waits: &headstart_engine::observation::Waits| some(waits.quantile(0.95));
        let mut row = vec![
            figures::clock(decision.at),
            decision.pods.to_string(),
            figures::state(decision.state).to_owned(),
        ];
        if figures.compares {
            row.extend([
                some(figures::apart(decision)),
                p95(&decision.real.waits),
                p95(&decision.would.waits),
            ]);
            row.extend([dollars(decision.real.dollars), dollars(decision.would.dollars)]);
        } else {
            row.extend([p95(&decision.real.waits), dollars(decision.real.dollars)]);
        }
        row.push(decision.because.clone());
        rows.push(row);
    }
    rows
}
