//! What a report says, and that its page is well-formed and needs nothing else.

use headstart_engine::observation::{Belief, Decision, History, Nodes, Sample, Side, State, Waits};
use headstart_engine::{Mode, Wall};

use super::figures::Figures;
use super::{page, table};
use crate::output::Paint;

const START: i64 = 1_790_000_000_000;

fn waits(millis: impl IntoIterator<Item = u64>) -> Waits {
    let mut waits = Waits::default();
    millis.into_iter().for_each(|millis| waits.add(millis));
    waits
}

fn side(after: i64, kind: &str, dollars: f64, waits: Waits) -> Side {
    let at = Some(Wall(START + after));
    let nodes =
        vec![Nodes { instance_type: kind.to_owned(), count: 2, dollars: dollars / 2.0, ..Nodes::default() }];
    Side { first: at, last: at, nodes, dollars, waits }
}

/// Twenty minutes in which one burst was compared.
fn history() -> History {
    let decision = Decision {
        id: 1,
        mode: Mode::Observe,
        at: Wall(START + 60_000),
        because: "gap: ReplicaSet shop/<script>alert(1)</script> wants 300 pods and has 0".to_owned(),
        sources: vec!["gap".to_owned()],
        pods: 300,
        expected: 300,
        bound: 300,
        state: State::Done,
        would: side(60_000, "m-32x", 3.0, waits((0..300).map(|n| n * 5))),
        real: side(70_000, "c-16x", 2.0, waits((0..300).map(|n| 5_000 + n * 50))),
        lead: 1.5,
        lead_of: 4,
        ..Decision::default()
    };
    let sample = |second: i64| Sample {
        at: Wall(START + second * 1000),
        bound: if second < 80 { 10 } else { 310 },
        waiting: if (60..80).contains(&second) { 300 } else { 0 },
        would_waiting: if (60..62).contains(&second) { 300 } else { 0 },
        types: [("c-16x".to_owned(), if second < 72 { 1 } else { 3 })].into(),
        would_types: [("c-16x".to_owned(), 1), ("m-32x".to_owned(), if second < 60 { 0 } else { 2 })].into(),
        dollars: if second < 72 { 1.0 } else { 3.0 },
        would_dollars: if second < 60 { 1.0 } else { 4.0 },
        wanted_cpus: if second < 60 { 10.0 } else { 310.0 },
        cpus: if second < 72 { 16.0 } else { 320.0 },
        ..Sample::default()
    };
    History {
        mode: Mode::Observe,
        catalog: "kwok".to_owned(),
        modelled: vec!["Spot prices are modelled.".to_owned()],
        from: Wall(START),
        to: Wall(START + 1_200_000),
        decisions: [decision].into(),
        samples: (0..600).map(|n| sample(n * 2)).collect(),
        beliefs: vec![Belief {
            source: "gap".to_owned(),
            expected: 300,
            arrived: 297,
            saved_seconds: 2_400.0,
            idle_node_seconds: 12.0,
            idle_dollars: 0.01,
        }],
        ..History::default()
    }
}

#[test]
fn the_table_says_the_answer_first() {
    let (history, mut out) = (history(), Vec::new());
    table::print(&history, &Figures::of(&history), Paint::PLAIN, &mut out).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"");
}

#[test]
fn a_provisioner_tells_of_itself_alone() {
    let history = History { mode: Mode::Provisioner, ..history() };
    let mut out = Vec::new();
    table::print(&history, &Figures::of(&history), Paint::PLAIN, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("Pods that needed a new node waited 19.3 s at p95."), "{text}");
    assert!(!text.contains("would be") && !text.contains("cluster"), "{text}");
}

#[test]
fn nothing_observed_is_said_and_no_error() {
    let history = History { mode: Mode::Observe, ..History::default() };
    let figures = Figures::of(&history);
    assert_eq!(figures.headline(), "No pod has needed a new node yet.");
    assert!(page::render(&history, &figures).contains("Nothing was observed yet"));
}

/// Every element that is opened is closed, in order.
fn is_well_formed(page: &str) -> Result<(), String> {
    const ALONE: [&str; 4] = ["meta", "link", "path", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if matches!(open.last(), Some(&"script" | &"style")) && !rest.starts_with('/') {
            continue;
        }
        let end = rest.find('>').ok_or("an element does not end")?;
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            let last = open.pop();
            if last != Some(closed) {
                return Err(format!("{closed} closes {last:?}"));
            }
        } else if !ALONE.contains(&name) {
            open.push(name);
        }
        rest = after;
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} stay open")) }
}

#[test]
fn the_page_is_well_formed_needs_nothing_else_and_escapes_what_others_wrote() {
    let history = history();
    let page = page::render(&history, &Figures::of(&history));
    assert_eq!(is_well_formed(&page), Ok(()));
    for foreign in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert(1)"));
    for name in
        ["demand", "waiting", "money", "waits", "nodes", "nodes-with-headstart", "beliefs", "decisions"]
    {
        assert!(page.contains(&format!("download=\"{name}.csv\"")), "{name}");
    }
    assert_eq!(page.matches("data-copy>").count(), 8);
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
    assert!(
        page.contains("1.5 s, the median of the last 4 nodes") && page.contains("Spot prices are modelled.")
    );
}
