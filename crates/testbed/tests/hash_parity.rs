//! Our hash of a NodePool against the one Karpenter's own code gives.

#[path = "crd_parity/random.rs"]
mod random;

use std::{
    collections::BTreeSet,
    io::{Seek, Write},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use headstart_api::NodePool;
use headstart_testbed::binaries::{self, Binary};
use serde_json::{Map, Value, json};

use crate::random::Random;

const SEED: u64 = 3;
const POOLS: usize = 1000;

#[test]
fn hashes_are_karpenters() -> Result<()> {
    let mut random = Random::new(SEED);
    let pools: Vec<Value> = (0..POOLS).map(|_| pool(&mut random)).collect();
    let theirs = karpenter_hashes(&pools)?;
    assert_eq!(theirs.len(), pools.len());

    for (pool, theirs) in pools.iter().zip(&theirs) {
        let ours: NodePool = serde_json::from_value(pool.clone()).with_context(|| pool.to_string())?;
        assert_eq!(&ours.hash(), theirs, "{pool}");
    }
    let distinct: BTreeSet<_> = theirs.iter().collect();
    println!("{} NodePools, {} different hashes, all equal to Karpenter's", pools.len(), distinct.len());
    assert!(distinct.len() > POOLS / 2, "only {} different hashes prove little", distinct.len());
    Ok(())
}

/// The hashes that Karpenter's program prints, in UTC as its containers run.
fn karpenter_hashes(pools: &[Value]) -> Result<Vec<String>> {
    let mut input = tempfile::tempfile()?;
    for pool in pools {
        writeln!(input, "{pool}")?;
    }
    input.rewind()?;
    let output =
        Command::new(binaries::ensure(Binary::KarpenterHash)?).env("TZ", "UTC").stdin(input).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// A NodePool in which every field that counts may be absent, empty or filled, and some that do not count are filled.
fn pool(random: &mut Random) -> Value {
    let mut spec = Map::new();
    spec.insert(
        "nodeClassRef".to_owned(),
        json!({
            "group": text(random, &["karpenter.kwok.sh", "karpenter.k8s.aws", ""]),
            "kind": text(random, &["KWOKNodeClass", "EC2NodeClass"]),
            "name": text(random, &["default", "a", "gpu-nodes"]),
        }),
    );
    spec.insert(
        "requirements".to_owned(),
        match random.below(3) {
            0 => json!([]),
            1 => json!([{ "key": "a", "operator": "Exists" }]),
            _ => json!([{ "key": "a", "operator": "In", "values": ["b", "c"], "minValues": 2 }]),
        },
    );
    for field in ["taints", "startupTaints"] {
        optional(random, &mut spec, field, taints);
    }
    optional(random, &mut spec, "terminationGracePeriod", duration);
    optional(random, &mut spec, "expireAfter", |random| {
        if random.once_in(4) { json!("Never") } else { duration(random) }
    });

    let mut template = Map::new();
    template.insert("spec".to_owned(), spec.into());
    optional(random, &mut template, "metadata", |random| {
        let mut metadata = Map::new();
        for field in ["labels", "annotations"] {
            optional(random, &mut metadata, field, texts);
        }
        metadata.into()
    });
    let mut pool = json!({ "metadata": { "name": "a" }, "spec": { "template": template } });
    if random.once_in(2) {
        pool["spec"]["weight"] = json!(random.below(100) + 1);
        pool["spec"]["limits"] = json!({ "cpu": random.below(100) });
        pool["spec"]["disruption"] = json!({ "consolidateAfter": duration(random) });
    }
    pool
}

/// Adds a field two times out of three.
fn optional(
    random: &mut Random,
    map: &mut Map<String, Value>,
    field: &str,
    value: impl FnOnce(&mut Random) -> Value,
) {
    if !random.once_in(3) {
        let value = value(random);
        map.insert(field.to_owned(), value);
    }
}

fn text(random: &mut Random, choices: &[&str]) -> Value {
    json!(random.pick(choices))
}

fn texts(random: &mut Random) -> Value {
    let keys = ["team", "tier", "example.com/a", "example.com/b", "a b", "schlüssel"];
    let mut map = Map::new();
    for _ in 0..random.below(4) {
        let value = text(random, &["", "a", "b", "web", "ünïcödé", "a,b=c"]);
        map.insert((*random.pick(&keys)).to_owned(), value);
    }
    map.into()
}

fn taints(random: &mut Random) -> Value {
    let mut taints: Vec<Value> = (0..random.below(4)).map(|_| taint(random)).collect();
    if random.once_in(5)
        && let Some(first) = taints.first().cloned()
    {
        taints.push(first);
    }
    taints.into()
}

fn taint(random: &mut Random) -> Value {
    let mut taint = json!({
        "key": text(random, &["dedicated", "example.com/gpu", "node.cilium.io/agent-not-ready", ""]),
        "effect": text(random, &["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    });
    if random.once_in(2) {
        taint["value"] = text(random, &["", "true", "a", "b.c/d"]);
    }
    if random.once_in(2) {
        taint["timeAdded"] = text(
            random,
            &[
                "1970-01-01T00:00:00Z",
                "0001-01-01T00:00:00Z",
                "1969-12-31T23:59:59.5Z",
                "2024-02-29T12:34:56Z",
                "2024-02-29T12:34:56.789Z",
                "2024-02-29T12:34:56.123456789Z",
                "2024-02-29T14:34:56+02:00",
                "2024-02-29T07:04:56-05:30",
                "9999-12-30T00:00:00Z",
            ],
        );
    }
    taint
}

/// Durations in every notation Go reads, not only those the definitions let pass.
fn duration(random: &mut Random) -> Value {
    if random.once_in(2) {
        let unit = *random.pick(&["h", "m", "s"]);
        return json!(format!("{}{unit}", random.below(10_000)));
    }
    text(
        random,
        &[
            "0s",
            "0",
            "1h30m",
            "1h0m0s",
            "90m",
            "720h",
            "1.5h",
            "0.3s",
            "100ms",
            "7us",
            "1ns",
            "-1h",
            "2562047h47m16.854775807s",
        ],
    )
}
