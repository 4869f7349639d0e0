//! What a plan says, as objects for a real cluster.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use headstart_cloud::catalog::{Catalog, labels_of};
use headstart_cloud::port::OfferingKey;
use headstart_core::labels::{HOSTNAME, NODE_POOL};
use headstart_core::plan::{Plan, PlannedClaim};
use headstart_core::resources::{CPU, MEMORY, PODS, Resources};
use headstart_core::snapshot::{Daemon, Effect, Labels, Snapshot, Taint};
use headstart_core::solve::{Packing, solve};
use headstart_testbed::judge::Case;
use serde_json::{Value, json};

use crate::arena::Verdict;

/// A planned cluster: its nodes, what already runs on them, and the pods that were given a place.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Value>,
    pub(crate) running: Vec<Value>,
    pub(crate) planned: Vec<Planned>,
    /// How many pods the solver found no place for.
    pub(crate) unplaced: usize,
}

/// A pod and the node that the plan gives it.
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) pod: Value,
    pub(crate) node: String,
}

impl Planned {
    /// What kube-scheduler should say.
    pub(crate) fn as_planned(&self) -> Verdict {
        Verdict::Bound(self.node.clone())
    }

    /// Whether two pods differ in nothing but their names.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.pod["spec"] == other.pod["spec"]
            && self.pod["metadata"]["labels"] == other.pod["metadata"]["labels"]
    }
}

impl Fleet {
    /// Solves a case, and turns the plan into objects.
    pub(crate) fn plan(case: &Case, catalog: &Catalog) -> Result<Self> {
        let objects = &case.objects;
        let taken = case.world().snapshot(catalog.types(), &catalog.well_known);
        anyhow::ensure!(taken.diagnostics.is_empty(), "the case is malformed: {:?}", taken.diagnostics);
        let snapshot = taken.snapshot;
        let plan = solve(&snapshot, Packing::Compat);

        let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let mut fleet = Self {
            nodes: of_kind("Node").cloned().collect(),
            running: of_kind("Pod").filter(|pod| !pod["spec"]["nodeName"].is_null()).cloned().collect(),
            planned: Vec::new(),
            unplaced: plan.unplaced.len(),
        };
        for node in &snapshot.nodes {
            fleet.run_daemons(&snapshot.daemons, &node.name, &node.labels, &node.taints);
        }
        for (index, claim) in plan.claims.iter().enumerate() {
            fleet.buy(&snapshot, catalog, claim, &format!("new-{index}"))?;
        }
        let pods: BTreeMap<&str, &Value> =
            of_kind("Pod").filter_map(|pod| Some((pod["metadata"]["name"].as_str()?, pod))).collect();
        for (pod, node) in placements(&snapshot, &plan) {
            let name = snapshot.pods[pod as usize].name.to_string();
            let object = pods.get(name.as_str()).context("the plan has a pod that the case has not")?;
            fleet.planned.push(Planned { pod: (*object).clone(), name, node });
        }
        Ok(fleet)
    }

    /// Adds the node that the cheapest launch of a claim gives.
    fn buy(
        &mut self,
        snapshot: &Snapshot,
        catalog: &Catalog,
        claim: &PlannedClaim,
        name: &str,
    ) -> Result<()> {
        let launch = claim.launch.as_ref().context("a claim that cannot be launched")?;
        let key = OfferingKey {
            instance_type: launch.instance_type.to_string(),
            zone: launch.zone.to_string(),
            capacity_type: launch.capacity_type.to_string(),
            reservation: None,
        };
        let (instance_type, offering) =
            catalog.offering(&key).context("a launch that the catalog has not")?;
        let pool = snapshot.pools.iter().find(|pool| pool.name == claim.pool).context("no such pool")?;

        let mut labels: Labels = pool.labels.clone();
        labels.insert(NODE_POOL.into(), pool.name.clone());
        labels.insert(HOSTNAME.into(), name.into());
        for requirement in claim.requirements.iter() {
            if let Some(value) = requirement.single() {
                if !labels.contains_key(requirement.key()) {
                    labels.insert(requirement.key().into(), value.into());
                }
            }
        }
        for (label, value) in labels_of(instance_type, offering) {
            labels.insert(label.into(), value.into());
        }
        let taints: Vec<Value> = pool
            .taints
            .iter()
            .map(|taint| json!({"key": &*taint.key, "value": &*taint.value, "effect": taint.effect.as_str()}))
            .collect();
        self.nodes.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": format!("test:///{name}"), "taints": taints},
            "status": {
                "capacity": amounts(&instance_type.capacity),
                "allocatable": amounts(&instance_type.allocatable_with(offering)),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }));
        self.run_daemons(&snapshot.daemons, name, &labels, &pool.taints);
        Ok(())
    }

    /// Adds a pod for each daemon that a node runs, as the controller manager would.
    fn run_daemons(&mut self, daemons: &[Daemon], node: &str, labels: &Labels, taints: &[Taint]) {
        for daemon in daemons {
            let selected = daemon
                .shape
                .node_selector
                .iter()
                .all(|wanted| labels.get(wanted.key()).is_some_and(|value| wanted.has(value)));
            let refused = taints.iter().any(|taint| {
                taint.effect != Effect::PreferNoSchedule
                    && !daemon.shape.tolerations.iter().any(|toleration| toleration.tolerates(taint))
            });
            if selected && !refused {
                let mut requests = amounts(&daemon.shape.requests);
                requests.remove(PODS);
                let name = format!("{}-{node}", daemon.name.replace('/', "-"));
                self.running.push(json!({
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"nodeName": node, "containers": [{
                        "name": "c", "image": "none", "resources": {"requests": requests},
                    }]},
                }));
            }
        }
    }
}

/// Who goes where, the largest first as the solver takes them.
fn placements(snapshot: &Snapshot, plan: &Plan) -> Vec<(u32, String)> {
    let old = plan.existing.iter().flat_map(|node| {
        node.pods.iter().map(|pod| (*pod, snapshot.nodes[node.node as usize].name.to_string()))
    });
    let new = plan
        .claims
        .iter()
        .enumerate()
        .flat_map(|(index, claim)| claim.pods.iter().map(move |pod| (*pod, format!("new-{index}"))));
    let mut all: Vec<(u32, String)> = old.chain(new).collect();
    all.sort_by_key(|(pod, _)| {
        let pod = &snapshot.pods[*pod as usize];
        (-pod.shape.requests.get(CPU), -pod.shape.requests.get(MEMORY), pod.uid.clone())
    });
    all
}

fn amounts(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect()
}
