//! Runs one group of specs on a cluster made for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::group::{Group, json_report};
use super::report::{self, Spec};
use crate::binaries::{Asset, asset};
use crate::control_plane::ControlPlane;
use crate::options::{Options, Stages};
use crate::peers::{self, Peer};
use crate::process::Program;

/// Brings up a cluster with `peer` on it, runs the group and returns its specs. Logs are copied to `logs`.
pub async fn run_group(group: &Group, peer: Peer, logs: &Path) -> Result<Vec<Spec>> {
    let suite = group.suite;
    let (program, command, profiles) = tokio::task::spawn_blocking(move || -> Result<_> {
        Ok((suite.program()?, peer.command()?, scheduler_profiles()?))
    })
    .await??;
    let options = Options {
        scheduler_profiles: Some(profiles),
        stages: Stages { karpenter: true, ..Stages::default() },
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await?;
    peers::install_crds(&plane).await?;
    peers::install(&plane, &peers::Settings::upstream()).await?;

    let report = plane.dir().join(report::FILE);
    let result = tokio::select! {
        result = peers::follow(&plane, &command) => Err(result.err().context("the operator's follower ended")?),
        result = run_specs(&plane, group, &program, &report) => result,
    };
    keep_logs(&plane, logs)?;
    result?;
    let specs = report::read(&report)?;
    std::fs::copy(&report, logs.join(report::FILE))?;
    Ok(specs)
}

async fn run_specs(plane: &ControlPlane, group: &Group, program: &Path, report: &Path) -> Result<()> {
    peers::wait_for_leader(plane).await?;
    let focus = group
        .specs
        .iter()
        .map(|text| format!("--ginkgo.focus=^{} {}$", group.suite.description(), escape(text)));
    let suite = Program::new("suite", program)
        .args([
            "-test.timeout=6h",
            "--ginkgo.timeout=6h",
            "--ginkgo.v",
            "--ginkgo.no-color",
            &json_report(report),
        ])
        .args(focus)
        .env("KUBECONFIG", plane.kubeconfig())
        .in_dir(plane.dir());
    plane.spawn(suite)?;
    while plane.exited("suite")?.is_none() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// The scheduler profiles that the specs on default spread constraints expect, from upstream's own file.
fn scheduler_profiles() -> Result<Value> {
    let file = asset(Asset::SuiteSchedulerConfig)?
        .into_iter()
        .next()
        .context("upstream's scheduler configuration is missing")?;
    let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
    Ok(config["profiles"].clone())
}

fn keep_logs(plane: &ControlPlane, target: &Path) -> Result<()> {
    std::fs::create_dir_all(target)?;
    for entry in std::fs::read_dir(plane.dir().join("logs"))? {
        let file: PathBuf = entry?.path();
        std::fs::copy(&file, target.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Makes a spec's text match only itself as a regular expression.
fn escape(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn the_text_of_a_spec_matches_only_itself() {
        assert_eq!(escape("labels ([*].node/x)"), r"labels \(\[\*\]\.node/x\)");
    }
}
