//! What an operator asks of the API server, by the API server's own books.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

/// Who operators are on the testbed. Whoever watches them, and kwok, must be somebody else.
const OPERATOR: &str = "admin";

/// The audit log of an API server: a line for each request of an operator, leases left out.
pub(crate) struct Audit {
    dir: TempDir,
}

impl Audit {
    pub(crate) fn new() -> Result<Self> {
        let audit = Self { dir: tempfile::Builder::new().prefix("headstart-audit-").tempdir()? };
        let leases = json!([{"group": "coordination.k8s.io", "resources": ["leases"]}]);
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                // Who leads is renewed every few seconds whatever happens.
                {"level": "None", "resources": leases},
                {"level": "Metadata", "users": [OPERATOR]},
                {"level": "None"},
            ],
        });
        std::fs::write(audit.file("policy.yaml"), policy.to_string())?;
        Ok(audit)
    }

    /// What the API server must be told.
    pub(crate) fn args(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.file("policy.yaml").display()),
            format!("--audit-log-path={}", self.file("log").display()),
            // In MB: a log that is turned over would be counted in part.
            "--audit-log-maxsize=100000".to_owned(),
        ]
    }

    /// The requests that came between two times.
    pub(crate) fn calls(&self, from: Timestamp, to: Timestamp) -> Result<Calls> {
        let log = std::fs::read_to_string(self.file("log")).context("the API server keeps no audit log")?;
        Calls::count(&log, from, to)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

/// How many requests there were, by verb and resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls(BTreeMap<String, usize>);

impl Calls {
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Those that change something, or try to.
    pub fn writes(&self) -> usize {
        let reads = ["get ", "list ", "watch "];
        let is_write = |what: &&String| !reads.iter().any(|verb| what.starts_with(verb));
        self.0.iter().filter(|(what, _)| is_write(what)).map(|(_, n)| n).sum()
    }

    /// A request may have several lines: a watch has one for its beginning and one for its end.
    fn count(log: &str, from: Timestamp, to: Timestamp) -> Result<Self> {
        let mut calls = BTreeMap::new();
        for line in log.lines() {
            let entry: Entry =
                serde_json::from_str(line).with_context(|| format!("not a line of an audit log: {line}"))?;
            if (from..=to).contains(&entry.request_received_timestamp.0) {
                let object = entry.object_ref.unwrap_or_default();
                let slash = if object.subresource.is_empty() { "" } else { "/" };
                let what = format!("{} {}{slash}{}", entry.verb, object.resource, object.subresource);
                calls.insert(entry.audit_id, what);
            }
        }
        let mut by_kind = BTreeMap::new();
        for what in calls.into_values() {
            *by_kind.entry(what).or_insert(0) += 1;
        }
        Ok(Self(by_kind))
    }
}

impl std::fmt::Display for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut by_number: Vec<(&String, &usize)> = self.0.iter().collect();
        by_number.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let parts: Vec<String> = by_number.iter().map(|(what, n)| format!("{n} {what}")).collect();
        f.write_str(&parts.join(", "))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "auditID")]
    audit_id: String,
    verb: String,
    object_ref: Option<Object>,
    request_received_timestamp: MicroTime,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    resource: String,
    subresource: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, stage: &str, verb: &str, resource: &str, second: u8) -> String {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{id}","stage":"{stage}","requestURI":"/x","verb":"{verb}","user":{{"username":"admin"}},"objectRef":{{"resource":"{resource}","apiVersion":"v1"}},"requestReceivedTimestamp":"2026-01-01T00:00:{second:02}.500000Z","stageTimestamp":"2026-01-01T00:00:59.000000Z"}}"#
        )
    }

    fn at(second: u8) -> Timestamp {
        format!("2026-01-01T00:00:{second:02}Z").parse().unwrap()
    }

    #[test]
    fn requests_of_the_time_count_once() {
        let log = [
            line("a", "ResponseComplete", "create", "nodeclaims", 1),
            line("b", "ResponseStarted", "watch", "pods", 2),
            line("c", "ResponseComplete", "create", "nodeclaims", 2),
            line("b", "ResponseComplete", "watch", "pods", 2),
            line("d", "ResponseComplete", "get", "nodes", 2),
            line("e", "ResponseComplete", "patch", "pods", 3),
        ]
        .join("\n");
        let calls = Calls::count(&log, at(2), at(3)).unwrap();
        assert_eq!((calls.total(), calls.writes()), (3, 1));
        assert_eq!(calls.to_string(), "1 create nodeclaims, 1 get nodes, 1 watch pods");
        assert_eq!(Calls::count(&log, at(0), at(9)).unwrap().writes(), 3);
    }

    #[test]
    fn requests_for_no_resource_count() {
        let log = r#"{"auditID":"a","verb":"get","requestURI":"/version","requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z"}"#;
        assert_eq!(Calls::count(log, at(0), at(2)).unwrap().total(), 1);
        assert!(Calls::count("half a li", at(0), at(2)).is_err());
    }
}
