//! A fleet large enough to notice work that grows too fast; nothing asserts a time.

use std::fmt::Write;

use headstart_core::disrupt::{Decision, Fleet, decide};

use crate::disruption::fleet;

fn large(nodes: usize, pods_each: usize, words: &str) -> Fleet {
    let mut text = format!("types 30\npool default req=capacity:In:on-demand\npolicy default\n{words}\n");
    for node in 0..nodes {
        let of_type = 7 + node % 9;
        writeln!(text, "member n{node:04} type=fake-it-{of_type} zone=zone-{}", 1 + node % 3).unwrap();
        for pod in 0..pods_each {
            let cpu = 100 + 50 * ((node * 7 + pod * 3) % 11);
            writeln!(text, "resident p{node:04}-x{pod} on=n{node:04} cpu={cpu}m memory={}Mi", 2 * cpu)
                .unwrap();
        }
    }
    fleet(&text)
}

fn removed(decision: &Decision) -> usize {
    decision.moves.iter().map(|chosen| chosen.members.len()).sum()
}

#[test]
fn a_thousand_nodes_shrink_in_one_pass() {
    let fleet = large(1000, 10, "");
    let decision = decide(&fleet);
    let saved: f64 = decision.moves.iter().map(|chosen| chosen.saving.dollars()).sum();
    assert!(removed(&decision) > 200, "only {} nodes go", removed(&decision));
    assert!(saved > 0.0);
}

#[test]
fn the_same_fleet_gives_the_same_decision() {
    let shown = |fleet: &Fleet| format!("{:?}", decide(fleet).moves);
    assert_eq!(shown(&large(60, 8, "")), shown(&large(60, 8, "")));
}
