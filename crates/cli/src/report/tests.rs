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
    let mut history = History::default();
    history.mode = Mode::Observe;
    history.catalog = "kwok".to_owned();
    history.modelled = vec!["Spot prices are modelled.".to_owned()];
    (history.from, history.to) = (Wall(START), Wall(START + 1_200_000));
    history.decisions = [decision].into();
    history.samples = (0..600).map(|n| sample(n * 2)).collect();
    history.beliefs = vec![Belief {
        source: "gap".to_owned(),
        expected: 300,
        arrived: 297,
        saved_seconds: 2_400.0,
        idle_node_seconds: 12.0,
        idle_dollars: 0.01,
    }];
    history
}

#[test]
fn the_table_says_the_answer_first() {
    let (history, mut out) = (history(), Vec::new());
    table::print(&history, &Figures::of(&history), Paint::PLAIN, &mut out).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    Pods waited 19.2 s at p95 for the cluster's autoscaler; with Headstart 1.5 s, for $1.02/h more during 19 minutes.

    20 minutes from 2026-09-21 14:13:20 UTC: 1 decision for 300 pods, 300 of which came to a node; prices of kwok.

                          cluster  headstart  apart
      first node, median  +10.0 s  0.0 s      10.0 s
      wait p50            12.5 s   0.8 s      11.7 s
      wait p95            19.2 s   1.5 s      17.7 s
      wait max            20.0 s   1.5 s      18.5 s
      nodes started       2        2          0
      cost now            $3.00/h  $4.00/h    −$1.00/h
      cost so far         $0.9600  $1.28      −$0.3233

      belief  expected  arrived  hit rate  waiting saved  idle       idle cost
      gap     300       297      99 %      2400 s         12 node-s  $0.0100

      decided   pods  state  theirs after  wait p95  would be  $/h    would be  because
      14:14:20  300   done   10.0 s        19.2 s    1.5 s     $2.00  $3.00     gap: ReplicaSet shop/<script>alert(1)</script> wants 300 pods and has 0

    Spot prices are modelled.
    ");
}

#[test]
fn a_provisioner_tells_of_itself_alone() {
    let mut history = history();
    history.mode = Mode::Provisioner;
    let mut out = Vec::new();
    table::print(&history, &Figures::of(&history), Paint::PLAIN, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("Pods that needed a new node waited 19.2 s at p95."), "{text}");
    assert!(!text.contains("would be") && !text.contains("cluster"), "{text}");
}

#[test]
fn nothing_observed_is_said_and_no_error() {
    let mut history = History::default();
    history.mode = Mode::Observe;
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
