//! What the suites said about both operators, one row a spec.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;

use super::report::{Spec, Verdict, known_failure, read_all};

/// A page with one row for each spec that ran against either operator, from the reports below their directories.
pub fn compare(theirs: &Path, ours: &Path) -> Result<String> {
    Ok(page(&read_all(theirs)?, &read_all(ours)?))
}

fn page(theirs: &[Spec], ours: &[Spec]) -> String {
    let mut rows: BTreeMap<String, [Option<&Spec>; 2]> = BTreeMap::new();
    for (side, specs) in [theirs, ours].into_iter().enumerate() {
        for spec in specs {
            rows.entry(spec.text()).or_default()[side] = Some(spec);
        }
    }
    let passed = |specs: &[Spec]| specs.iter().filter(|spec| spec.verdict == Verdict::Pass).count();
    let seconds = |specs: &[Spec]| specs.iter().map(|spec| spec.duration.as_secs()).sum::<u64>();
    let mut page = format!(
        "# Upstream's own specs, one by one\n\n\
        `make suites-table` wrote this file from what `make suites PEER=karpenter` and `make suites PEER=headstart` left behind: the\n\
        end-to-end suites of Karpenter 1.15.0, unchanged, on the testbed, against Karpenter itself and against Headstart. Specs mostly wait, for\n\
        minutes that they prescribe themselves, so seconds say little about speed.\n\n\
        Karpenter passed {} of {} specs in {} s of their own time, Headstart {} of {} in {} s.\n\n\
        | spec | Karpenter | s | Headstart | s |\n|---|---|--:|---|--:|\n",
        passed(theirs),
        theirs.len(),
        seconds(theirs),
        passed(ours),
        ours.len(),
        seconds(ours),
    );
    for (text, sides) in &rows {
        let [theirs, ours] = sides.map(cells);
        let _ = writeln!(page, "| {} | {theirs} | {ours} |", text.replace('|', "\\|"));
    }
    let known =
        rows.iter().filter(|(_, [theirs, _])| theirs.is_some_and(|spec| spec.verdict == Verdict::Fail));
    let reasons: Vec<_> = known.filter_map(|(text, _)| Some((text, known_failure(text)?))).collect();
    if !reasons.is_empty() {
        page.push('\n');
    }
    for (text, why) in reasons {
        let _ = writeln!(page, "Karpenter fails *{text}*: {why}.");
    }
    page
}

/// The verdict and the seconds of a spec.
fn cells(spec: Option<&Spec>) -> String {
    let Some(spec) = spec else { return "not run |".to_owned() };
    let verdict = match spec.verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "**fail**",
        Verdict::Skip => "skip",
    };
    format!("{verdict} | {}", spec.duration.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_spec_has_a_row_with_both_verdicts() {
        let spec =
            |leaf: &str, verdict, seconds| Spec::new(&["Drift"], leaf, verdict, Duration::from_secs(seconds));
        let theirs = [spec("is slow", Verdict::Pass, 20), spec("is hard", Verdict::Fail, 5)];
        let ours = [spec("is slow", Verdict::Pass, 3), spec("is new", Verdict::Skip, 0)];
        let page = page(&theirs, &ours);
        assert!(
            page.contains(
                "Karpenter passed 1 of 2 specs in 25 s of their own time, Headstart 1 of 2 in 3 s."
            ),
            "{page}"
        );
        assert!(page.contains("| Drift is slow | pass | 20 | pass | 3 |"), "{page}");
        assert!(page.contains("| Drift is hard | **fail** | 5 | not run | |"), "{page}");
        assert!(page.contains("| Drift is new | not run | | skip | 0 |"), "{page}");
    }
}
