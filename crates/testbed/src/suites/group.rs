//! Which specs there are, and which of them share a cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::report::{self, Spec};
use crate::binaries::{Binary, ensure};

/// One of upstream's test programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    Regression,
    Disruption,
}

impl Suite {
    const ALL: [Self; 2] = [Self::Regression, Self::Disruption];

    /// As the suite describes itself; it is part of what a focus matches.
    pub fn description(self) -> &'static str {
        match self {
            Self::Regression => "Regression",
            Self::Disruption => "Disruption",
        }
    }

    /// The compiled suite, built now if it has to be. Blocks.
    pub fn program(self) -> Result<PathBuf> {
        ensure(match self {
            Self::Regression => Binary::RegressionSuite,
            Self::Disruption => Binary::DisruptionSuite,
        })
    }
}

/// Specs that run one after the other on one cluster.
#[derive(Debug, Clone)]
pub struct Group {
    pub suite: Suite,
    pub name: String,
    /// The full texts of the specs.
    pub specs: Vec<String>,
}

/// Containers whose specs keep the processors busy rather than wait; beside others they would cost them their leases.
const BUSY: [&str; 2] = ["Performance", "Integration Utilization"];

/// Containers whose specs need a cluster each: the suite cleans up by waiting for nodes to end, and where none is left the next
/// spec finds pods of the last. They all listen on the same port, so that they cannot run at once either.
const APART: [&str; 1] = ["Chaos"];

impl Group {
    /// Whether the group should have the machine to itself.
    pub fn is_loner(&self) -> bool {
        BUSY.contains(&self.name.as_str()) || APART.iter().any(|name| self.name.starts_with(name))
    }
}

/// The outermost container, or a busy one inside it, or a spec by itself.
fn group_of(spec: &Spec) -> String {
    let text = spec.text();
    if APART.contains(&spec.group()) {
        return text;
    }
    BUSY.iter()
        .find(|name| text.starts_with(*name))
        .map_or_else(|| spec.group().to_owned(), |name| (*name).to_owned())
}

/// All specs whose text contains `focus`, by their outermost container, the longest-running first. Blocks.
pub fn groups(focus: &str) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for suite in Suite::ALL {
        for spec in specs(suite)? {
            if !spec.text().to_lowercase().contains(&focus.to_lowercase()) {
                continue;
            }
            let name = group_of(&spec);
            match groups.iter_mut().find(|group| group.suite == suite && group.name == name) {
                Some(group) => group.specs.push(spec.text()),
                None => groups.push(Group { suite, name, specs: vec![spec.text()] }),
            }
        }
    }
    if groups.is_empty() {
        bail!(
            "no spec of the suites contains {focus:?}; FOCUS is a part of a spec's text, such as \"Termination\""
        );
    }
    groups.sort_by_key(|group| std::cmp::Reverse(rough_seconds(&group.name)));
    Ok(groups)
}

/// What a group takes against Karpenter, to start the long ones first.
fn rough_seconds(group: &str) -> u32 {
    match group {
        "Drift" => 1914,
        "Repair" => 1780,
        "CapacityBuffer" => 1492,
        "NodeClaim" => 1081,
        "StaticCapacity" => 670,
        "Integration" => 546,
        "Termination" => 500,
        "Reboot" => 400,
        _ => 300,
    }
}

fn specs(suite: Suite) -> Result<Vec<Spec>> {
    let dir = tempfile::tempdir()?;
    let list = dir.path().join("specs.json");
    let status = Command::new(suite.program()?)
        .args(["--ginkgo.dry-run", &json_report(&list)])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("cannot list the specs of {}", suite.description()))?;
    if !status.success() {
        bail!("listing the specs of {} failed ({status})", suite.description());
    }
    report::read(&list)
}

pub(super) fn json_report(path: &Path) -> String {
    format!("--ginkgo.json-report={}", path.display())
}
