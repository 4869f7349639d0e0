//! The same burst with and without expectations, for people: a line for each while it lasts, a table afterwards.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use headstart_sim::demo::{Comparison, Side, Way};

use crate::output::Paint;
use crate::plan::{columns, dollars};
use crate::screen::{bar, number};

/// A line for each side, with a bar for those who watch it grow.
pub(super) fn bars(comparison: &Comparison) -> Vec<String> {
    let line = |(way, side): (Way, &Side)| {
        let share = side.running as f64 / side.pods.max(1) as f64;
        format!("{way:<9}  {}  {}", bar(share, '▇', '▁'), progress(side))
    };
    comparison.sides().map(line).to_vec()
}

/// A line for each side.
pub(super) fn lines(comparison: &Comparison) -> [String; 2] {
    comparison.sides().map(|(way, side)| format!("{way:<9}  {}", progress(side)))
}

/// The figures of both sides next to each other.
pub(super) fn table(comparison: &Comparison, out: &mut impl io::Write) -> anyhow::Result<()> {
    let sides = comparison.sides();
    let row = |name: &str, of: &dyn Fn(&Side) -> String| {
        let figures = sides.iter().map(|(_, side)| of(side));
        std::iter::once(name.to_owned()).chain(figures).collect()
    };
    let heads = std::iter::once(String::new()).chain(sides.iter().map(|(way, _)| way.to_string()));
    let wait = |side: &Side, share| side.waits.quantile(share).map(Duration::from_secs_f64);
    let rows = [
        heads.collect(),
        row("first NodeClaim", &|side| after(side.first_claim)),
        row("last NodeClaim", &|side| after(side.last_claim)),
        row("last pod running", &|side| after(side.last_start)),
        row("wait p50", &|side| after(wait(side, 0.5))),
        row("wait p95", &|side| after(wait(side, 0.95))),
        row("nodes", &|side| side.nodes.to_string()),
        row("price", &|side| dollars(side.per_hour)),
    ];
    columns(&rows, Paint::PLAIN, out)
}

/// How far a side is.
fn progress(side: &Side) -> String {
    let mut text = format!("{} of {} pods run", number(side.running), number(side.pods));
    if let Some(last) = side.last_claim {
        let _ = write!(text, " · last NodeClaim after {}", after(Some(last)));
        let _ = write!(text, " · {} nodes · {}", side.nodes, dollars(side.per_hour));
    }
    if let Some(p95) = side.waits.quantile(0.95).filter(|_| side.is_done()) {
        let _ = write!(text, " · wait p95 {p95:.1} s");
    }
    text
}

fn after(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "–".to_owned(), |duration| format!("{:.1} s", duration.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use headstart_core::price::Price;

    use super::*;

    fn side(running: usize, claims: Option<(u64, u64)>) -> Side {
        let mut side = Side {
            pods: 400,
            running,
            first_claim: claims.map(|(first, _)| Duration::from_millis(first)),
            last_claim: claims.map(|(_, last)| Duration::from_millis(last)),
            last_start: (running > 0).then_some(Duration::from_secs(44)),
            waits: headstart_engine::observation::Waits::default(),
            nodes: 14,
            per_hour: Price::from_dollars(5.25),
        };
        (1..=running).for_each(|nth| side.waits.add(nth as u64 * 100));
        side
    }

    #[test]
    fn both_sides_are_told_as_far_as_they_are() {
        let comparison = Comparison { reactive: side(0, None), proactive: side(100, Some((200, 300))) };
        let expected = [
            "reactive   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  0 of 400 pods run",
            "proactive  ▇▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  100 of 400 pods run · last NodeClaim after 0.3 s · 14 nodes · $5.250/h",
        ];
        assert_eq!(bars(&comparison), expected);
    }

    #[test]
    fn a_side_that_is_done_tells_how_long_pods_waited() {
        let side = side(400, Some((9_000, 19_000)));
        let expected =
            "400 of 400 pods run · last NodeClaim after 19.0 s · 14 nodes · $5.250/h · wait p95 38.0 s";
        assert_eq!(progress(&side), expected);
    }

    #[test]
    fn what_became_of_both_is_a_table() {
        let comparison =
            Comparison { reactive: side(400, Some((9_000, 19_000))), proactive: side(300, Some((200, 300))) };
        let mut out = Vec::new();
        table(&comparison, &mut out).unwrap();
        let expected = [
            "                    reactive  proactive",
            "  first NodeClaim   9.0 s     0.2 s",
            "  last NodeClaim    19.0 s    0.3 s",
            "  last pod running  44.0 s    44.0 s",
            "  wait p50          20.0 s    15.0 s",
            "  wait p95          38.0 s    28.5 s",
            "  nodes             14        14",
            "  price             $5.250/h  $5.250/h",
        ];
        assert_eq!(String::from_utf8(out).unwrap().lines().collect::<Vec<_>>(), expected);
    }
}
