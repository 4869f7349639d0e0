//! Pages of the documentation that are written from the code, and that fail the build when they fall behind it.
//!
//! `make reference` writes them anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Command};

use crate::metrics::table::{Kind, OURS, ROWS};
use crate::options::Options;

/// Compares a page with what the code says, or writes it if that is asked for.
fn is_current(page: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    if std::env::var_os("HEADSTART_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, text).expect("the page cannot be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, text, "docs/{page} is not what the code says: run `make reference`");
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn flags() {
    let command = Options::augment_args(Command::new("run"));
    let mut page = String::from(
        "# Flags of `headstart run`\n\n`make reference` writes this page from the code. Every flag is also an environment \
         variable, where one is named.\n",
    );
    let mut heading = None;
    for argument in command.get_arguments() {
        let Some(long) = argument.get_long() else { continue };
        if argument.get_help_heading() != heading {
            heading = argument.get_help_heading();
            let heading = heading.unwrap_or("Other");
            write!(page, "\n## {heading}\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n")
                .unwrap();
        }
        let variable = argument.get_env().map_or_else(String::new, |name| format!("`{}`", name.display()));
        let defaults: Vec<String> =
            argument.get_default_values().iter().map(|value| value.display().to_string()).collect();
        let default = defaults.join(",");
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let choices: Vec<String> =
            argument.get_possible_values().iter().map(|choice| choice.get_name().to_owned()).collect();
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        if !choices.is_empty() && choices != ["true", "false"] {
            write!(help, " ({})", choices.join(", ")).unwrap();
        }
        writeln!(page, "| `--{long}` | {variable} | {default} | {} |", cell(&help)).unwrap();
    }
    is_current("flags.md", &page);
}

#[test]
fn metrics() {
    let mut page = String::from(
        "# Metrics\n\n`make reference` writes this page from the code. Names with `karpenter_` are Karpenter 1.15's, so that \
         dashboards and alerts keep working.\n\n| name | type | meaning |\n|---|---|---|\n",
    );
    let ours = OURS.iter().map(|row| ("headstart", row));
    for (prefix, row) in ROWS.iter().map(|row| ("karpenter", row)).chain(ours) {
        let kind = match row.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Durations | Kind::Lifetimes | Kind::Scores => "histogram",
        };
        writeln!(page, "| `{prefix}_{}` | {kind} | {} |", row.name, cell(row.help)).unwrap();
    }
    is_current("metrics.md", &page);
}

/// Every metric that an alert or the dashboard asks for exists.
#[test]
fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let texts = [
        include_str!("../../../charts/headstart/files/alerts.yaml"),
        include_str!("../../../charts/headstart/files/dashboard.json"),
    ];
    let mut asked = 0;
    for text in texts {
        for (at, _) in text.match_indices("karpenter_") {
            let name = text[at + "karpenter_".len()..].split(|c: char| !c.is_ascii_lowercase() && c != '_');
            let name = name.into_iter().next().unwrap_or_default();
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(ROWS.iter().any(|row| row.name == name), "there is no metric karpenter_{name}");
            asked += 1;
        }
    }
    assert!(asked > 10, "the texts ask for {asked} metrics only");
}
