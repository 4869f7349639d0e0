use headstart_engine::overview::Group;
use insta::assert_snapshot;

use super::*;

const NOON: Wall = Wall(1_772_452_800_000);

fn group(instance_type: &str, capacity_type: &str, phase: Phase, count: usize) -> Group {
    Group {
        pool: "general".to_owned(),
        instance_type: instance_type.to_owned(),
        capacity_type: capacity_type.to_owned(),
        phase,
        count,
        price: Price::from_dollars(0.5),
    }
}

fn busy() -> Overview {
    Overview {
        bound: 1812,
        waiting: 188,
        oldest: Some(Duration::from_secs(74)),
        fleet: vec![
            group("c7i.8xlarge", "spot", Phase::Ready, 31),
            group("m7i.4xlarge", "on-demand", Phase::Ready, 12),
            group("m7i.4xlarge", "on-demand", Phase::Leaving, 1),
            group("c7i.8xlarge", "spot", Phase::Starting, 3),
            group("", "", Phase::Starting, 2),
        ],
        price: Price::from_dollars(61.2),
        requested: 0.857,
        early: vec![
            Early { source: "cronjob".to_owned(), nodes: 1, used: 1, idle: Price::ZERO },
            Early { source: "gap".to_owned(), nodes: 12, used: 11, idle: Price::from_dollars(0.5) },
        ],
    }
}

fn log() -> Log {
    let mut log = Log::default();
    let kinds = [
        (Mark::Heading, "act 1 of 4: a flash sale"),
        (Mark::Ordinary, "200 pods need a place"),
        (Mark::Warning, "c7i.8xlarge ran dry"),
        (Mark::Error, "cannot make a NodeClaim"),
    ];
    for (seconds, (mark, text)) in (0..).zip(kinds) {
        log.push(Entry::new(Wall(NOON.0 + seconds * 1000), mark, text.to_owned()));
    }
    log
}

fn shown(overview: &Overview, remarks: &[String], columns: usize, rows: usize) -> String {
    let log = log();
    let frame = Frame {
        title: "headstart demo · act 1 of 4",
        status: "simulated 12:00:03 · 30× · q quit",
        bars: &[],
        overview,
        remarks,
        log: &log,
    };
    render(&frame, Size { columns, rows }, Paint::PLAIN).join("\n")
}

#[test]
fn a_screen_has_the_numbers_first_and_then_the_decisions() {
    assert_snapshot!(shown(&busy(), &["Nodes may not be read".to_owned()], 90, 20), @r"
    headstart demo · act 1 of 4                              simulated 12:00:03 · 30× · q quit
    pods   ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁  1,812 running, 188 waiting (oldest 1 min 14 s)
    nodes  c7i.8xlarge spot ×34  m7i.4xlarge on-demand ×13 (5 starting, 1 leaving)
    fleet  ███████████████████████████░░░░░  86 % of processors requested · $61.200/h
    ahead  cronjob 1 node started early, 1 used (100 %) · gap 12 nodes started early, 11 used…
    ! Nodes may not be read

    12:00:00  ── act 1 of 4: a flash sale
    12:00:01  200 pods need a place
    12:00:02  ! c7i.8xlarge ran dry
    12:00:03  ✗ cannot make a NodeClaim
    ");
}

#[test]
fn a_small_screen_keeps_the_newest_and_cuts_what_is_long() {
    assert_snapshot!(shown(&busy(), &[], 48, 7), @r"
    headstart demo · act 1 of 4  simulated 12:00:03…
    pods   ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁  1,812 …
    nodes  c7i.8xlarge spot ×34  and 1 more type (5…
    fleet  ███████████████████████████░░░░░  86 % o…
    ahead  cronjob 1 node started early, 1 used (10…

    12:00:03  ✗ cannot make a NodeClaim
    ");
}

#[test]
fn an_empty_cluster_is_shown_as_such() {
    assert_snapshot!(shown(&Overview::default(), &[], 80, 4), @r"
    headstart demo · act 1 of 4                    simulated 12:00:03 · 30× · q quit
    pods   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  0 running, 0 waiting
    nodes  none
    fleet  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  0 % of processors requested · $0.000/h
    ");
    assert_snapshot!(summary(&Overview::default()), @"pods 0 running, 0 waiting · nodes 0 · 0 % of processors requested · $0.000/h");
}

#[test]
fn the_numbers_fit_on_a_line() {
    assert_snapshot!(summary(&busy()), @"pods 1,812 running, 188 waiting (oldest 1 min 14 s) · nodes 49 (5 starting, 1 leaving) · 86 % of processors requested · $61.200/h");
}

#[test]
fn what_the_engine_says_reads_like_a_sentence() {
    let said = |message: &str, fields: &[(&str, &str)]| {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        decision(message, &fields).text
    };
    assert_snapshot!(said("ready", &[]), @"ready");
    let claim = [("NodeClaim", "general-x"), ("NodePool", "general")];
    assert_snapshot!(said("registered nodeclaim", &claim), @"registered nodeclaim · general-x");
    let made = [
        claim[0],
        claim[1],
        ("cheapest", "c7i.4xlarge us-east-1a spot"),
        ("price", "0.2142/h"),
        ("types", "14"),
    ];
    assert_snapshot!(said("created NodeClaim for 12 pods", &made), @"created NodeClaim for 12 pods · general-x · cheapest as c7i.4xlarge us-east-1a spot · $0.214/h · 14 types could serve");
    let plan = [("price", "1.613/h"), ("atLeast", "1.5/h")];
    assert_snapshot!(said("12 pods need a place", &plan), @"12 pods need a place · $1.613/h · $1.500/h at the very least");
    let gone = [claim[0], claim[1], ("reason", "garbage_collected")];
    assert_snapshot!(said("deleting nodeclaim", &gone), @"deleting nodeclaim · general-x · because of garbage collected");
}

#[test]
fn what_is_alike_is_one_line() {
    let mut log = Log::default();
    let made = |claim: &str, price: &str| {
        decision(
            "created",
            &[("NodeClaim", claim), ("price", price)].map(|(n, v)| (n.to_owned(), v.to_owned())),
        )
    };
    for (millis, claim, price) in [(0, "a", "1/h"), (900, "b", "1/h"), (950, "c", "2/h"), (5_000, "d", "2/h")]
    {
        log.push(Entry::new(Wall(NOON.0 + millis), Mark::Ordinary, made(claim, price)));
    }
    for (pod, world) in [("pod/web-1", "a"), ("pod/web-2", "a"), ("pod/web-1", "b"), ("pod/web-3", "a")] {
        let said = Said::about(pod, "Nominated: to a node").labelled(world);
        log.push(Entry::new(Wall(NOON.0 + 9_000), Mark::Ordinary, said));
    }
    let lines: Vec<String> = log.take().iter().map(|entry| entry.line(Paint::PLAIN)).collect();
    assert_snapshot!(lines.join("\n"), @r"
    12:00:00  2 × created · $1.000/h
    12:00:00  created · c · $2.000/h
    12:00:05  created · d · $2.000/h
    12:00:09  a  3 × pod Nominated: to a node
    12:00:09  b  pod/web-1 Nominated: to a node
    ");
}

#[test]
fn numbers_and_durations_are_easy_to_read() {
    assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    let durations = [4, 60, 74, 3_700].map(|seconds| duration(Duration::from_secs(seconds)));
    assert_eq!(durations, ["4 s", "1 min", "1 min 14 s", "1 h 1 min"]);
}
