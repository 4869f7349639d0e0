//! Our plans against those of Karpenter's own scheduler, on random cases.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testbed::cases;
use headstart_testbed::judge::{Case, Essence, Ours, Program};

/// Karpenter breaks ties at random: a plan that it makes in one of a few tries is one of its plans.
const TRIES: usize = 60;

/// Cases by the numbers of the reasons, in docs/compatibility.md, for which we differ in them.
type Different = &'static [(&'static [u32], &'static [u64])];

/// The reason whose cases may also come out equal.
const TIES: u32 = 6;

#[test]
fn plans_are_karpenters_or_differ_for_a_reason() -> Result<()> {
    const DIFFERENT: Different = &[
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
    println!("{}", compare(600, |seed| Case::of(cases::case(seed)), DIFFERENT)?);
    Ok(())
}

#[test]
fn policies_are_karpenters() -> Result<()> {
    const DIFFERENT: Different = &[
        (&[1], &[158, 258, 274, 279]),
        (&[1, 5], &[193]),
        (&[2], &[122, 161, 163, 172, 239]),
        (&[2, 5], &[264]),
        (&[3], &[83, 104]),
        (&[4], &[50, 141]),
        (&[5], &[77, 88, 131, 150, 157, 250]),
        (&[TIES], &[5, 10, 72, 110, 211]),
    ];
    println!("{}", compare(300, cases::case_with_policies, DIFFERENT)?);
    Ok(())
}

/// Asks both and says how often they agreed; fails if they differ where they should not.
fn compare(count: u64, case: impl Fn(u64) -> Case, different: Different) -> Result<String> {
    let reasons: BTreeMap<u64, &[u32]> = different
        .iter()
        .flat_map(|(reasons, seeds)| seeds.iter().map(move |seed| (*seed, *reasons)))
        .collect();
    let ours = Ours::new(Catalog::load(&Source::Kwok)?);
    let mut karpenter = Program::karpenter(None)?;
    let (mut first, mut later, mut explained, mut wrong) = (0, 0, 0, Vec::new());
    for seed in 0..count {
        let case = case(seed);
        let mine = ours.ask(&case).essence();
        let reasons = reasons.get(&seed);
        let mut tries = 0;
        let theirs = loop {
            tries += 1;
            let theirs = karpenter.ask(&case).with_context(|| format!("case {seed}"))?.essence();
            // Chance can make a plan equal that mostly differs, as it can make one differ that is mostly equal.
            let expected = match reasons {
                None => theirs == mine,
                Some(reasons) if reasons.contains(&TIES) => as_many(&theirs, &mine),
                Some(_) => theirs != mine,
            };
            if expected || tries == TRIES {
                break theirs;
            }
        };
        match reasons {
            None if theirs != mine => wrong.push(difference(seed, &mine, &theirs)),
            None if tries == 1 => first += 1,
            None => later += 1,
            Some(reasons) if reasons.contains(&TIES) => {
                explained += 1;
                if !as_many(&theirs, &mine) {
                    wrong.push(difference(seed, &mine, &theirs));
                }
            }
            Some(_) if theirs == mine => {
                wrong.push(format!("case {seed} is in the table but does not differ any more"));
            }
            Some(_) => explained += 1,
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(format!(
        "{count} cases: {first} equal, {later} equal to another try, {explained} different for reasons in \
         docs/compatibility.md"
    ))
}

/// Whether both need as many nodes and leave out the same pods.
fn as_many(a: &Essence, b: &Essence) -> bool {
    a.claims.len() == b.claims.len() && a.unschedulable == b.unschedulable
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
