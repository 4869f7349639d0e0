//! Our plans against those of Karpenter's own scheduler, on random cases.

use anyhow::Result;
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testbed::cases;
use headstart_testbed::judge::{Case, Ours, Program};

const CASES: u64 = 600;
/// Karpenter breaks ties at random: a plan it makes in one of a few tries is a plan of Karpenter's.
const TRIES: usize = 30;

#[test]
fn plans_are_karpenters() -> Result<()> {
    let ours = Ours::new(Catalog::load(&Source::Kwok)?);
    let mut karpenter = Program::karpenter(None)?;
    let (mut first, mut later, mut other) = (0, 0, Vec::new());
    for seed in 0..CASES {
        let case = Case::of(cases::case(seed));
        let answer = ours.ask(&case).essence();
        let mut last = None;
        let same = (0..TRIES).position(|_| {
            let theirs = karpenter.ask(&case).map(|theirs| theirs.essence());
            let same = theirs.as_ref().is_ok_and(|theirs| *theirs == answer);
            last = Some(theirs);
            same
        });
        match same {
            Some(0) => first += 1,
            Some(_) => later += 1,
            None => other.push((seed, answer, last.unwrap()?)),
        }
    }
    println!("{CASES} cases: {first} equal, {later} equal to another try, {} different", other.len());
    for (seed, ours, theirs) in &other {
        println!(
            "== case {seed}: claims {} / {}, existing {} / {}, unschedulable {:?} / {:?}",
            ours.claims.len(),
            theirs.claims.len(),
            ours.existing.len(),
            theirs.existing.len(),
            ours.unschedulable.difference(&theirs.unschedulable).collect::<Vec<_>>(),
            theirs.unschedulable.difference(&ours.unschedulable).collect::<Vec<_>>()
        );
    }
    Ok(())
}
