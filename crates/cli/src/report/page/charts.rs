//! Which plots a page has.

use std::collections::BTreeMap;

use headstart_engine::observation::{History, Sample, Waits};

use super::plot::{Axis, Plot, Series};
use crate::report::figures::{Figures, dollars};

/// How many types of nodes have a color of their own.
const TYPES: usize = 6;

pub(super) fn all(history: &History, figures: &Figures) -> Vec<Plot> {
    let mut all = vec![
        over_time(
            history,
            "demand",
            "Demand and capacity",
            "processors",
            short,
            &[
                ("asked for by pods", "theirs", |sample| sample.wanted_cpus),
                ("given by nodes", "plain", |sample| sample.cpus),
            ],
        ),
        over_time(
            history,
            "waiting",
            "Pods that wait for a node",
            "pods",
            short,
            if figures.compares {
                &[
                    ("cluster", "theirs", |sample| f64::from(sample.waiting)),
                    ("with Headstart", "ours", |sample| f64::from(sample.would_waiting)),
                ]
            } else {
                &[("waiting", "ours", |sample| f64::from(sample.waiting))]
            },
        ),
        over_time(
            history,
            "money",
            "What all nodes cost",
            "dollars an hour",
            an_hour,
            if figures.compares {
                &[
                    ("cluster", "theirs", |sample| sample.dollars),
                    ("with Headstart", "ours", |sample| sample.would_dollars),
                ]
            } else {
                &[("cost", "ours", |sample| sample.dollars)]
            },
        ),
        waits(figures),
        types(
            history,
            "nodes",
            if figures.compares { "Nodes by type: cluster" } else { "Nodes by type" },
            |sample| &sample.types,
        ),
    ];
    if figures.compares {
        all.push(types(history, "nodes-with-headstart", "Nodes by type: with Headstart", |sample| {
            &sample.would_types
        }));
    }
    all
}

fn short(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{}k", value / 1000.0)
    } else {
        ((value * 100.0).round() / 100.0).to_string()
    }
}

fn an_hour(value: f64) -> String {
    format!("{}/h", if value == 0.0 { "$0".to_owned() } else { dollars(value) })
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

/// A name, a color and a value of the state of affairs.
type Value = (&'static str, &'static str, fn(&Sample) -> f64);

fn over_time(
    history: &History,
    name: &'static str,
    title: &str,
    unit: &'static str,
    say: fn(f64) -> String,
    values: &[Value],
) -> Plot {
    let series = values.iter().map(|(name, color, value)| Series {
        name: (*name).to_owned(),
        color: (*color).to_owned(),
        points: along(history, value),
    });
    let series = series.collect();
    Plot { name, title: title.to_owned(), unit, axis: Axis::Time, series, is_stacked: false, say }
}

/// A value over time, up to when somebody asked.
fn along(history: &History, value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        history.samples.iter().map(|sample| (sample.at.0 as f64, value(sample))).collect();
    if let Some((at, last)) = points.last().copied()
        && history.to.0 as f64 > at
    {
        points.push((history.to.0 as f64, last));
    }
    points
}

/// How many pods waited at most how long.
fn waits(figures: &Figures) -> Plot {
    let most = [&figures.real.waits, &figures.would.waits]
        .iter()
        .filter_map(|waits| waits.quantile(1.0))
        .fold(0.0, f64::max);
    let curve = |waits: &Waits| {
        let (all, mut passed) = (f64::from(waits.len().max(1)), 0.0);
        let mut points = Vec::new();
        if !waits.is_empty() {
            points.push((0.0, 0.0));
        }
        for (seconds, count) in waits.iter() {
            passed += f64::from(count);
            points.push((seconds, 100.0 * passed / all));
        }
        if points.last().is_some_and(|(last, _)| *last < most) {
            points.push((most, 100.0));
        }
        points
    };
    let series = |name: &str, color: &str, waits| Series {
        name: name.to_owned(),
        color: color.to_owned(),
        points: curve(waits),
    };
    let mut all = vec![series("cluster", "theirs", &figures.real.waits)];
    if figures.compares {
        all.push(series("with Headstart", "ours", &figures.would.waits));
    } else {
        all[0] = series("pods", "ours", &figures.real.waits);
    }
    Plot {
        name: "waits",
        title: "Share of pods that waited at most so long".to_owned(),
        unit: "percent of pods",
        axis: Axis::Seconds,
        series: all,
        is_stacked: false,
        say: percent,
    }
}

/// Nodes by type, the most numerous types first; the rest is one color.
fn types(
    history: &History,
    name: &'static str,
    title: &str,
    of: impl Fn(&Sample) -> &BTreeMap<String, u32>,
) -> Plot {
    let mut most: BTreeMap<&str, u32> = BTreeMap::new();
    for (kind, count) in history.samples.iter().flat_map(&of) {
        let known = most.entry(kind).or_default();
        *known = (*known).max(*count);
    }
    let mut names: Vec<(&str, u32)> = most.into_iter().collect();
    names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let shown: Vec<&str> = names.iter().take(TYPES).map(|(name, _)| *name).collect();
    let value = |sample: &Sample, kind: &str| f64::from(of(sample).get(kind).copied().unwrap_or(0));
    let mut series: Vec<Series> = shown
        .iter()
        .enumerate()
        .map(|(at, kind)| Series {
            name: if kind.is_empty() { "unknown".to_owned() } else { (*kind).to_owned() },
            color: format!("t{at}"),
            points: along(history, |sample| value(sample, kind)),
        })
        .collect();
    if names.len() > TYPES {
        let rest = |sample: &Sample| -> f64 {
            let others = of(sample).iter().filter(|(kind, _)| !shown.contains(&kind.as_str()));
            others.map(|(_, count)| f64::from(*count)).sum()
        };
        series.push(Series {
            name: format!("{} other types", names.len() - TYPES),
            color: "plain".to_owned(),
            points: along(history, rest),
        });
    }
    let title = title.to_owned();
    Plot { name, title, unit: "nodes", axis: Axis::Time, series, is_stacked: true, say: short }
}
