//! Our definitions against Karpenter's, with a real API server as the referee.
//!
//! Every manifest is sent to two API servers, one with our definitions and one with Karpenter's own. They must say the
//! same: the same verdict, the same fields at fault for the same reasons, the same object with its defaults.
//!
//! Karpenter's definition of CapacityBuffer has no `v1alpha1`. What is sent to us as `v1alpha1` is sent there as
//! `v1beta1`: in the Cluster Autoscaler, where the API comes from, the two have the same fields and rules.

mod capacitybuffer;
mod case;
mod definitions;
mod kwoknodeclass;
mod mixed;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;
mod random;
mod referee;
mod types;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use headstart_api::crds;
use headstart_testbed::{ControlPlane, Options};
use serde_json::{Value, json};

use crate::{
    case::{Action, Case, Kind},
    referee::{Answer, Referee},
};

/// How many cases are asked at once.
const AT_ONCE: usize = 8;

/// All cases, each once: some values are on several lists.
fn all_cases() -> Vec<Case> {
    let mut cases = nodepool::cases();
    cases.extend(nodeclaim::cases());
    cases.extend(nodeoverlay::cases());
    cases.extend(kwoknodeclass::cases());
    cases.extend(capacitybuffer::cases(Kind::CapacityBuffer));
    cases.extend(capacitybuffer::cases(Kind::OldCapacityBuffer));
    cases.extend(mixed::cases());
    let mut seen = BTreeSet::new();
    cases.retain(|case| seen.insert(format!("{:?} {:?}", case.kind, case.action)));
    cases
}

/// Two control planes, with our definitions and with Karpenter's. They end with the value.
struct Arena {
    ours: Referee,
    theirs: Referee,
    _planes: (ControlPlane, ControlPlane),
}

impl Arena {
    async fn open() -> Result<Self> {
        let start = || ControlPlane::start(Options::api_only());
        let planes = futures::future::try_join(start(), start()).await?;
        Ok(Self {
            ours: Referee::new(planes.0.client(), &crds::all()).await?,
            theirs: Referee::new(planes.1.client(), &definitions::upstream().await?).await?,
            _planes: planes,
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_manifest_gets_the_same_answer() -> Result<()> {
    let arena = Arena::open().await?;
    let cases = all_cases();
    let ask = |(i, case): (usize, Case)| {
        let arena = &arena;
        async move {
            let name = format!("case-{i}");
            let ours = arena.ours.ask(&case, &name).await?;
            let theirs = arena.theirs.ask(&case, &name).await?;
            anyhow::Ok((case, ours, theirs))
        }
    };
    let answers: Vec<_> =
        stream::iter(cases.into_iter().enumerate()).map(ask).buffered(AT_ONCE).try_collect().await?;

    let mut wrong = Vec::new();
    let mut tally: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
    for (case, ours, theirs) in &answers {
        let (accepted, refused) = tally.entry(case.kind).or_default();
        *if theirs.accepted() { accepted } else { refused } += 1;
        wrong.extend(complaint(case, ours, theirs));
    }
    println!("{}", table(&tally));
    assert!(wrong.is_empty(), "{} answers differ:\n\n{}", wrong.len(), wrong.join("\n\n"));

    assert!(answers.len() >= 300, "only {} manifests", answers.len());
    for kind in Kind::ALL {
        let (accepted, refused) = tally[&kind];
        assert!(
            accepted >= 20 && refused >= 20,
            "{kind:?}: {accepted} accepted, {refused} refused prove little"
        );
    }
    Ok(())
}

/// What is wrong with our answer, if anything.
fn complaint(case: &Case, ours: &Answer, theirs: &Answer) -> Option<String> {
    if ours != theirs {
        return Some(format!("{} {:?}\n  ours:    {ours:?}\n  theirs:  {theirs:?}", case.name, case.action));
    }
    let (Action::Create(sent), Some(stored)) = (&case.action, &ours.object) else { return None };
    types::disagreement(case.kind, sent, stored).map(|what| format!("{}: our types {what}", case.name))
}

/// A table of how many manifests were accepted and refused.
fn table(tally: &BTreeMap<Kind, (usize, usize)>) -> String {
    let row = |name: &str, (accepted, refused): (usize, usize)| {
        format!("{name:<18} {:>9} {accepted:>9} {refused:>9}\n", accepted + refused)
    };
    let sum = tally.values().fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
    let mut table = format!("{:<18} {:>9} {:>9} {:>9}\n", "manifests", "sent", "accepted", "refused");
    table.extend(tally.iter().map(|(kind, counts)| row(&format!("{kind:?}"), *counts)));
    table + &row("all", sum)
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_sees_the_same_resources_and_columns() -> Result<()> {
    let arena = Arena::open().await?;
    for kind in
        [Kind::NodePool, Kind::NodeClaim, Kind::NodeOverlay, Kind::KwokNodeClass, Kind::CapacityBuffer]
    {
        let discovery = format!("/apis/{}", kind.api_version());
        let mut resources = Vec::new();
        let mut tables = Vec::new();
        for referee in [&arena.ours, &arena.theirs] {
            let list = referee.get(&discovery, "application/json").await?["resources"].take();
            resources.push(by_name(list));
            let mut object = base(kind);
            object["metadata"] = json!({
                "name": "a",
                "labels": {
                    "node.kubernetes.io/instance-type": "c-4x",
                    "karpenter.sh/capacity-type": "spot",
                    "topology.kubernetes.io/zone": "zone-1",
                    "karpenter.sh/nodepool": "pool"
                }
            });
            referee.create(&kind.path(), &object).await?;
            let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
            tables.push(columns(&referee.get(&kind.path(), table).await?));
        }
        assert!(resources[0].len() >= 2, "the resource and its status");
        assert_eq!(resources[0], resources[1], "{discovery}");
        assert_eq!(tables[0], tables[1], "{kind:?}");
    }
    Ok(())
}

/// Resources in the order of their names, since discovery lists them in the order they were installed.
fn by_name(mut resources: Value) -> BTreeMap<String, Value> {
    let resources = resources.as_array_mut().expect("a list of resources");
    resources.drain(..).map(|resource| (resource["name"].to_string(), resource)).collect()
}

fn base(kind: Kind) -> Value {
    match kind {
        Kind::NodePool => nodepool::base(),
        Kind::NodeClaim => nodeclaim::base(),
        Kind::NodeOverlay => nodeoverlay::base(),
        Kind::KwokNodeClass => kwoknodeclass::base(),
        Kind::CapacityBuffer | Kind::OldCapacityBuffer => capacitybuffer::base(kind),
    }
}

/// The columns `kubectl get` prints and what the one object has in them, but for ages and descriptions.
fn columns(table: &Value) -> Vec<Value> {
    let definitions = table["columnDefinitions"].as_array().expect("columns");
    let cells = table["rows"][0]["cells"].as_array().expect("one object");
    assert_eq!(definitions.len(), cells.len());
    definitions
        .iter()
        .zip(cells)
        .map(|(column, cell)| {
            let cell = if column["name"] == "Age" { &Value::Null } else { cell };
            json!([column["name"], column["type"], column["format"], column["priority"], cell])
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_differ_in_words_only() -> Result<()> {
    let upstream = definitions::upstream().await?;
    let ours = crds::all();
    assert_eq!(ours.len(), upstream.len());
    for (mut ours, mut upstream) in ours.into_iter().zip(upstream) {
        let name = ours.metadata.name.clone();
        assert_eq!(name, upstream.metadata.name);
        // Karpenter's name the tool that wrote them; its buffers have no older version.
        upstream.metadata.annotations = None;
        ours.spec.versions.retain(|version| version.storage);
        let found = definitions::differences(&crds::manifest(&ours)?, &crds::manifest(&upstream)?);
        assert!(found.is_empty(), "{}:\n{}", name.unwrap_or_default(), found.join("\n"));
    }
    Ok(())
}
