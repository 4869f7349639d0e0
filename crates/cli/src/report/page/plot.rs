//! Plots as scalable graphics; labels are text beside them, so that they stay readable on a phone.

use std::fmt::Write as _;

use headstart_engine::Wall;

use super::{csv, escape, tools};
use crate::report::figures;

/// The size of the drawing; it is stretched to the room there is.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 300.0;
/// How many lines a scale has at most.
const LINES: f64 = 7.0;

/// A plot of some series over time or seconds.
pub(super) struct Plot {
    pub(super) name: &'static str,
    pub(super) title: String,
    /// What the values are, for those who see only the data.
    pub(super) unit: &'static str,
    pub(super) axis: Axis,
    pub(super) series: Vec<Series>,
    /// Whether series are areas on top of each other.
    pub(super) is_stacked: bool,
    /// How a value is said.
    pub(super) say: fn(f64) -> String,
}

/// What is on the horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// Milliseconds since 1970.
    Time,
    Seconds,
}

/// Values, each of which lasts until the next.
pub(super) struct Series {
    pub(super) name: String,
    /// The name of its color in the style sheet.
    pub(super) color: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Plot {
    pub(super) fn write(&self, page: &mut String) {
        let (first, last) = self.range();
        let top = self.top();
        let _ = write!(page, "<figure class=\"card\">\n<figcaption><h2>{}</h2>", escape(&self.title));
        page.push_str("<ul class=\"legend\">");
        for series in &self.series {
            let _ = write!(page, "<li class=\"{}\"><i></i>{}</li>", series.color, escape(&series.name));
        }
        page.push_str("</ul></figcaption>\n");
        if self.series.iter().all(|series| series.points.is_empty()) {
            page.push_str("<p class=\"empty\">Nothing was observed yet.</p>\n</figure>\n");
            return;
        }
        page.push_str("<div class=\"frame\">\n<div class=\"y\">");
        let step = nice(top / LINES);
        let lines: Vec<f64> =
            (0..=16).map(|n| f64::from(n) * step).take_while(|value| *value <= top * 1.0001).collect();
        for value in &lines {
            let at = 100.0 * value / top;
            let _ = write!(page, "<span style=\"bottom:{at:.2}%\">{}</span>", escape(&(self.say)(*value)));
        }
        page.push_str("</div>\n");
        let _ = writeln!(
            page,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        for value in &lines {
            let y = HEIGHT * (1.0 - value / top);
            let _ = writeln!(page, "<path class=\"grid\" d=\"M0 {y:.1}H{WIDTH}\"/>");
        }
        let x = |value: f64| WIDTH * (value - first) / (last - first).max(f64::EPSILON);
        let y = |value: f64| HEIGHT * (1.0 - value / top);
        let mut floor: Vec<(f64, f64)> = Vec::new();
        for series in &self.series {
            if self.is_stacked {
                let sum: Vec<(f64, f64)> = series
                    .points
                    .iter()
                    .enumerate()
                    .map(|(at, (when, value))| (*when, value + floor.get(at).map_or(0.0, |below| below.1)))
                    .collect();
                let mut path = steps(&sum, last, x, y);
                for (when, value) in backwards(&floor, &sum, last) {
                    let _ = write!(path, "L{:.1} {:.1}", x(when), y(value));
                }
                let _ = writeln!(page, "<path class=\"area {}\" d=\"{path}Z\"/>", series.color);
                floor = sum;
            } else {
                let path = steps(&series.points, last, x, y);
                let _ = writeln!(page, "<path class=\"line {}\" d=\"{path}\"/>", series.color);
            }
        }
        page.push_str("</svg>\n<div class=\"x\">");
        for (at, text) in self.ticks(first, last) {
            let _ = write!(page, "<span style=\"left:{at:.2}%\">{}</span>", escape(&text));
        }
        page.push_str("</div>\n</div>\n");
        tools(page, self.name, &csv(&self.rows()));
        page.push_str("</figure>\n");
    }

    fn range(&self) -> (f64, f64) {
        let all = self.series.iter().flat_map(|series| &series.points).map(|(x, _)| *x);
        let (first, last) = all.fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
        let first = if self.axis == Axis::Seconds { 0.0 } else { first };
        if last > first { (first, last) } else { (first, first + 1.0) }
    }

    /// The greatest value there is room for.
    fn top(&self) -> f64 {
        let length = self.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
        let value = |series: &Series, at: usize| series.points.get(at).map_or(0.0, |(_, value)| *value);
        let most = if self.is_stacked {
            let sums = (0..length).map(|at| self.series.iter().map(|series| value(series, at)).sum());
            sums.fold(0.0, f64::max)
        } else {
            self.series.iter().flat_map(|series| &series.points).map(|(_, value)| *value).fold(0.0, f64::max)
        };
        if most <= 0.0 { 1.0 } else { most * 1.05 }
    }

    /// Where the horizontal axis says what, in percent.
    fn ticks(&self, first: f64, last: f64) -> Vec<(f64, String)> {
        let step = match self.axis {
            Axis::Seconds => nice((last - first) / LINES),
            Axis::Time => steady(((last - first) / 1000.0 / LINES).max(1.0)) * 1000.0,
        };
        let start = (first / step).ceil() * step;
        let values = (0..12).map(|n| start + f64::from(n) * step).take_while(|value| *value <= last);
        let text = |value: f64| match self.axis {
            Axis::Seconds => format!("{} s", (value * 10.0).round() / 10.0),
            Axis::Time => {
                let clock = figures::clock(Wall(value as i64));
                if step < 60_000.0 { clock } else { clock.get(..5).unwrap_or_default().to_owned() }
            }
        };
        values.map(|value| (100.0 * (value - first) / (last - first), text(value))).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let along = if self.axis == Axis::Time { "time" } else { "seconds" };
        let names = self.series.iter().map(|series| format!("{} ({})", series.name, self.unit));
        let mut rows = vec![[along.to_owned()].into_iter().chain(names).collect::<Vec<_>>()];
        let mut all: Vec<f64> =
            self.series.iter().flat_map(|series| &series.points).map(|(x, _)| *x).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        for x in all {
            let head = if self.axis == Axis::Time { (x / 1000.0).to_string() } else { x.to_string() };
            let value = |series: &Series| {
                let at = series.points.partition_point(|(known, _)| *known <= x);
                at.checked_sub(1).map(|at| series.points[at].1.to_string()).unwrap_or_default()
            };
            rows.push([head].into_iter().chain(self.series.iter().map(value)).collect());
        }
        rows
    }
}

/// A line that keeps each value until the next.
fn steps(points: &[(f64, f64)], last: f64, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    for (at, (when, value)) in points.iter().enumerate() {
        if at == 0 {
            let _ = write!(path, "M{:.1} {:.1}", x(*when), y(*value));
        } else {
            let _ = write!(path, "H{:.1}V{:.1}", x(*when), y(*value));
        }
    }
    if !points.is_empty() {
        let _ = write!(path, "H{:.1}", x(last));
    }
    path
}

/// The lower edge of an area from right to left.
fn backwards(floor: &[(f64, f64)], sum: &[(f64, f64)], last: f64) -> Vec<(f64, f64)> {
    if floor.is_empty() {
        return vec![(last, 0.0), (sum.first().map_or(0.0, |(x, _)| *x), 0.0)];
    }
    let mut edge = Vec::new();
    let mut until = last;
    for (when, value) in floor.iter().rev() {
        edge.push((until, *value));
        edge.push((*when, *value));
        until = *when;
    }
    edge
}

/// The next number above that people like: 1, 2 or 5 and zeros.
fn nice(value: f64) -> f64 {
    let value = value.max(1e-9);
    let base = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * base).find(|nice| *nice >= value * 0.999).unwrap_or(base)
}

/// The next number of seconds above that clocks like.
fn steady(seconds: f64) -> f64 {
    let known =
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
    known
        .into_iter()
        .map(f64::from)
        .find(|step| *step >= seconds)
        .unwrap_or_else(|| (seconds / 86_400.0).ceil() * 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_what_people_like() {
        let said = |all: &[f64], like: fn(f64) -> f64| -> Vec<String> {
            all.iter().map(|value| format!("{:.2}", like(*value))).collect()
        };
        assert_eq!(said(&[0.9, 1.1, 3.0, 70.0, 0.012], nice), ["1.00", "2.00", "5.00", "100.00", "0.02"]);
        assert_eq!(said(&[0.5, 7.0, 200.0, 100_000.0], steady), ["1.00", "10.00", "300.00", "172800.00"]);
    }

    #[test]
    fn data_has_a_row_for_each_moment_and_values_last_until_the_next() {
        let series = |name: &str, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            color: "ours".to_owned(),
            points: points.to_vec(),
        };
        let plot = Plot {
            name: "x",
            title: "X".to_owned(),
            unit: "pods",
            axis: Axis::Seconds,
            series: vec![series("a", &[(0.0, 1.0), (2.0, 3.0)]), series("b", &[(1.0, 5.0)])],
            is_stacked: false,
            say: |value| value.to_string(),
        };
        assert_eq!(csv(&plot.rows()), "seconds,a (pods),b (pods)\n0,1,\n1,1,5\n2,3,5\n");
    }
}
