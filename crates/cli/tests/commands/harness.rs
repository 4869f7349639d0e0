//! Runs the real binary on files written for the occasion.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// What a run printed and how it ended.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: i32,
}

/// Two types in two zones, cheap and round: 4 cores for $0.20, 16 for $0.80; spot at half.
const CATALOG: &str = r#"[
  {"name": "small", "architecture": "amd64", "operatingSystems": ["linux"],
   "resources": {"cpu": "4", "memory": "16Gi", "pods": "110"},
   "offerings": [
     {"Price": 0.2, "Available": true, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z-a"]}]},
     {"Price": 0.2, "Available": true, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z-b"]}]}]},
  {"name": "large", "architecture": "amd64", "operatingSystems": ["linux"],
   "resources": {"cpu": "16", "memory": "64Gi", "pods": "110"},
   "offerings": [
     {"Price": 0.8, "Available": true, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z-a"]}]}]}
]"#;

/// Runs `headstart` in a directory with these files; a catalog `catalog.json` is there too.
pub(crate) fn run(files: &[(&str, &str)], stdin: &str, args: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("catalog.json"), CATALOG).unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    run_in(dir.path(), stdin, args)
}

/// Runs `headstart` in a directory.
pub(crate) fn run_in(dir: &Path, stdin: &str, args: &[&str]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_headstart"))
        .current_dir(dir)
        .args(args)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that ends early closes its input, which is no failure of the test.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code().unwrap(),
    }
}

/// A pool, a node with room for one small pod, and pods of the given sizes named `web-1`, `web-2`, …
pub(crate) fn world(cores: &[&str]) -> String {
    let mut text = String::from(
        r"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec: {limits: {cpu: 40}, template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: z-a}}
spec: {providerID: fake/n1}
status: {capacity: {cpu: 2, memory: 4Gi, pods: 10}, allocatable: {cpu: 2, memory: 4Gi, pods: 10}}
",
    );
    for (i, cores) in (1..).zip(cores) {
        text += &pod(&format!("web-{i}"), cores, "");
    }
    text
}

/// A pod in the namespace `shop`.
pub(crate) fn pod(name: &str, cores: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{containers: [{{name: a, resources: {{requests: {{cpu: {cores}, memory: 1Gi}}}}}}]{more}}}\n"
    )
}
