//! Our plans against those of Karpenter's own scheduler, on random cases.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testbed::cases;
use headstart_testbed::judge::{Case, Essence, Ours, Program};

const CASES: u64 = 600;

/// Karpenter breaks ties at random: a plan that it makes in one of a few tries is one of its plans.
const TRIES: usize = 60;

/// The cases in which we differ, by the numbers of the reasons in docs/compatibility.md.
const DIFFERENT: [(&[u32], &[u64]); 9] = [
    (&[1], &[158, 258, 274, 279, 300, 307, 357, 359, 479, 485, 524, 534, 560]),
    (&[1, 5], &[193]),
    (&[2], &[122, 161, 163, 172, 239]),
    (&[2, 5], &[264]),
    (&[3], &[27, 83, 104]),
    (&[3, 5], &[432]),
    (&[4], &[50, 133, 141, 302, 419, 475, 498, 577]),
    (&[5], &[75, 77, 88, 131, 134, 150, 157, 186, 250, 299, 375, 397, 450, 462, 539]),
    (&[TIES], &[4, 211, 369]),
];

/// The reason whose cases may also come out equal.
const TIES: u32 = 6;

#[test]
fn plans_are_karpenters_or_differ_for_a_reason() -> Result<()> {
    let reasons: BTreeMap<u64, &[u32]> = DIFFERENT
        .iter()
        .flat_map(|(reasons, seeds)| seeds.iter().map(move |seed| (*seed, *reasons)))
        .collect();
    let ours = Ours::new(Catalog::load(&Source::Kwok)?);
    let mut karpenter = Program::karpenter(None)?;
    let (mut first, mut later, mut wrong) = (0, 0, Vec::new());
    for seed in 0..CASES {
        let case = Case::of(cases::case(seed));
        let mine = ours.ask(&case).essence();
        let tries = if reasons.contains_key(&seed) { 1 } else { TRIES };
        let mut theirs = None;
        for attempt in 0..tries {
            let essence = karpenter.ask(&case).with_context(|| format!("case {seed}"))?.essence();
            let same = essence == mine;
            theirs = Some(essence);
            if same {
                if attempt == 0 {
                    first += 1;
                } else {
                    later += 1;
                }
                break;
            }
        }
        match theirs.filter(|theirs| *theirs != mine) {
            Some(theirs) if !reasons.contains_key(&seed) => wrong.push(difference(seed, &mine, &theirs)),
            None if reasons.get(&seed).is_some_and(|reasons| !reasons.contains(&TIES)) => {
                wrong.push(format!("case {seed} is in the table but does not differ any more"));
            }
            _ => {}
        }
    }
    println!(
        "{CASES} cases: {first} equal, {later} equal to another try, {} different for reasons in docs/compatibility.md",
        CASES - first - later - wrong.len() as u64
    );
    for (reasons, seeds) in DIFFERENT {
        println!("  for reason {reasons:?}: {}", seeds.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn difference(seed: u64, ours: &Essence, theirs: &Essence) -> String {
    format!(
        "case {seed} differs\n  only ours: {:?} {:?} {:?}\n  only theirs: {:?} {:?} {:?}",
        ours.claims.difference(&theirs.claims).map(|(pods, pool, _)| (pool, pods)).collect::<Vec<_>>(),
        ours.existing.difference(&theirs.existing).collect::<Vec<_>>(),
        ours.unschedulable.difference(&theirs.unschedulable).collect::<Vec<_>>(),
        theirs.claims.difference(&ours.claims).map(|(pods, pool, _)| (pool, pods)).collect::<Vec<_>>(),
        theirs.existing.difference(&ours.existing).collect::<Vec<_>>(),
        theirs.unschedulable.difference(&ours.unschedulable).collect::<Vec<_>>(),
    )
}
