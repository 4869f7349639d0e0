//! What the suites reported, as a table of specs.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

/// What a group's report is called.
pub(super) const FILE: &str = "report.json";

/// How a spec ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail,
    Skip,
}

/// One spec of upstream's suites and what became of it.
#[derive(Debug, Clone)]
pub struct Spec {
    containers: Vec<String>,
    leaf: String,
    pub verdict: Verdict,
    pub duration: Duration,
    /// Why it failed.
    pub message: String,
}

impl Spec {
    #[cfg(test)]
    pub(super) fn new(containers: &[&str], leaf: &str, verdict: Verdict, duration: Duration) -> Self {
        let containers = containers.iter().map(|&text| text.to_owned()).collect();
        Self { containers, leaf: leaf.to_owned(), verdict, duration, message: String::new() }
    }

    /// Containers and leaf in one line, which is what a focus matches.
    pub fn text(&self) -> String {
        self.containers.iter().chain([&self.leaf]).cloned().collect::<Vec<_>>().join(" ")
    }

    /// The outermost container.
    pub fn group(&self) -> &str {
        self.containers.first().map_or("", String::as_str)
    }
}

/// Why a spec fails against Karpenter 1.15.0 itself, for the two that do.
pub fn known_failure(text: &str) -> Option<&'static str> {
    match text {
        "CapacityBuffer NodePool Limits should not provision buffer capacity beyond NodePool CPU limit" => {
            Some(
                "Karpenter's KWOK provider gives a node its claim's requests as capacity, so limits count too low",
            )
        }
        "StaticCapacity Drift should handle drift with node limits when budget restricts" => {
            Some("two of Karpenter's controllers race past the limit, about once in six runs")
        }
        _ => None,
    }
}

/// Reads a report that ginkgo wrote; specs that were filtered out are left away.
pub(super) fn read(path: &Path) -> Result<Vec<Spec>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the suite wrote no report to {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is no report of ginkgo", path.display()))
}

/// What the last run of every group said that left its report below a directory, by group.
pub(super) fn read_all(dir: &Path) -> Result<Vec<Spec>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut groups = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    groups.sort();
    let reports = groups.into_iter().map(|group| group.join(FILE)).filter(|report| report.exists());
    let specs = reports.map(|report| read(&report)).collect::<Result<Vec<_>>>()?;
    Ok(specs.into_iter().flatten().collect())
}

fn parse(text: &str) -> Result<Vec<Spec>> {
    let suites: Vec<SuiteReport> = serde_json::from_str(text)?;
    let reports = suites.into_iter().flat_map(|suite| suite.spec_reports.unwrap_or_default());
    Ok(reports.filter(|report| report.leaf_node_type == "It").filter_map(SpecReport::into_spec).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SuiteReport {
    spec_reports: Option<Vec<SpecReport>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpecReport {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    run_time: u64,
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    message: Option<String>,
}

impl SpecReport {
    fn into_spec(self) -> Option<Spec> {
        let message = self.failure.and_then(|failure| failure.message).unwrap_or_default();
        let verdict = match self.state.as_str() {
            "passed" => Verdict::Pass,
            // A spec that a focus left out is skipped without a word; one that skips itself says why.
            "skipped" | "pending" if message.is_empty() => return None,
            "skipped" | "pending" => Verdict::Skip,
            _ => Verdict::Fail,
        };
        let containers = self.container_hierarchy_texts.unwrap_or_default();
        Some(Spec {
            containers,
            leaf: self.leaf_node_text,
            verdict,
            duration: Duration::from_nanos(self.run_time),
            message,
        })
    }
}

/// A line per spec, a line per group and a last line that counts.
pub fn table(results: &[(String, Vec<Spec>)]) -> String {
    let mut out = String::new();
    let count = |specs: &[Spec], verdict| specs.iter().filter(|spec| spec.verdict == verdict).count();
    for (group, specs) in results {
        let seconds: u64 = specs.iter().map(|spec| spec.duration.as_secs()).sum();
        let _ = writeln!(
            out,
            "\n{group}: {} passed, {} failed, {} skipped in {seconds} s",
            count(specs, Verdict::Pass),
            count(specs, Verdict::Fail),
            count(specs, Verdict::Skip)
        );
        for spec in specs {
            let text = spec.text();
            let verdict = match (spec.verdict, known_failure(&text)) {
                (Verdict::Pass, _) => "pass",
                (Verdict::Skip, _) => "skip",
                (Verdict::Fail, None) => "FAIL",
                (Verdict::Fail, Some(_)) => "known",
            };
            let _ = writeln!(out, "  {verdict:5} {:>5} s  {text}", spec.duration.as_secs());
            if spec.verdict == Verdict::Fail {
                let why = known_failure(&text).map_or_else(|| shorten(&spec.message), str::to_owned);
                let _ = writeln!(
                    out,
                    "                 {}",
                    why.lines().take(6).collect::<Vec<_>>().join("\n                 ")
                );
            }
        }
    }
    let all: Vec<Spec> = results.iter().flat_map(|(_, specs)| specs.clone()).collect();
    let (pass, fail, skip) =
        (count(&all, Verdict::Pass), count(&all, Verdict::Fail), count(&all, Verdict::Skip));
    let known = all
        .iter()
        .filter(|spec| spec.verdict == Verdict::Fail && known_failure(&spec.text()).is_some())
        .count();
    let _ = writeln!(
        out,
        "\n{pass} of {} specs passed, {fail} failed ({known} of them fail upstream too), {skip} skipped",
        all.len()
    );
    out
}

/// Some specs list every node in their message.
fn shorten(message: &str) -> String {
    const LIMIT: usize = 400;
    match message.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{} …", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"[{"SuiteDescription": "Regression", "SpecReports": [
        {"ContainerHierarchyTexts": null, "LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed", "RunTime": 1},
        {"ContainerHierarchyTexts": ["Chaos", "Runaway"], "LeafNodeType": "It", "LeafNodeText": "stays calm", "State": "passed", "RunTime": 2000000000},
        {"ContainerHierarchyTexts": ["Chaos"], "LeafNodeType": "It", "LeafNodeText": "was not asked for", "State": "skipped", "RunTime": 0},
        {"ContainerHierarchyTexts": ["Chaos"], "LeafNodeType": "It", "LeafNodeText": "needs more", "State": "skipped", "RunTime": 0, "Failure": {"Message": "no scheduler config"}},
        {"ContainerHierarchyTexts": ["Drift"], "LeafNodeType": "It", "LeafNodeText": "times out", "State": "timedout", "RunTime": 5000000000, "Failure": {"Message": "took too long"}}
    ]}]"#;

    #[test]
    fn a_report_becomes_specs_without_those_that_were_filtered_out() {
        let specs = parse(REPORT).unwrap();
        let seen: Vec<_> = specs.iter().map(|spec| (spec.text(), spec.verdict)).collect();
        assert_eq!(
            seen,
            [
                ("Chaos Runaway stays calm".to_owned(), Verdict::Pass),
                ("Chaos needs more".to_owned(), Verdict::Skip),
                ("Drift times out".to_owned(), Verdict::Fail),
            ]
        );
    }

    #[test]
    fn the_table_names_the_failure_and_counts() {
        let table = table(&[("Chaos".to_owned(), parse(REPORT).unwrap())]);
        assert!(table.contains("FAIL      5 s  Drift times out\n                 took too long"), "{table}");
        assert!(
            table.ends_with("1 of 3 specs passed, 1 failed (0 of them fail upstream too), 1 skipped\n"),
            "{table}"
        );
    }
}
