//! Controllers, as the pods they will still make.

use std::collections::BTreeSet;
use std::sync::Arc;

use headstart_core::demand::{Owner, Wish};
use headstart_core::snapshot::{Selector, Shape};
use serde::Deserialize;

use crate::affinity::LabelSelector;
use crate::decode::{Fault, nullable};
use crate::kept::KeptPod;
use crate::meta::Meta;
use crate::pod::{Condition, PodTemplate};
use crate::storage::Claim;

/// Most pods that one workload may lack; more are taken for a slip of the pen.
const MOST: usize = 1_000_000;

/// A Deployment, ReplicaSet, replication controller, StatefulSet, Job or DaemonSet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Workload {
    #[serde(skip)]
    pub(crate) kind: String,
    pub(crate) metadata: Meta,
    pub(crate) spec: WorkloadSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: WorkloadStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkloadSpec {
    replicas: Option<i64>,
    pub(crate) selector: Option<LabelSelector>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) template: PodTemplate,
    parallelism: Option<i64>,
    completions: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    suspend: bool,
    #[serde(deserialize_with = "nullable")]
    pod_management_policy: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_claim_templates: Vec<Claim>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WorkloadStatus {
    succeeded: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

impl WorkloadStatus {
    /// Whether a job has ended, one way or the other.
    fn is_final(&self) -> bool {
        let ends = |kind: &str| ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].contains(&kind);
        self.conditions.iter().any(|condition| condition.status == "True" && ends(&condition.kind))
    }
}

impl WorkloadSpec {
    /// How many pods a job of this kind has at once when it begins.
    pub(crate) fn begins_with(&self) -> u32 {
        self.wish("Job", &WorkloadStatus::default()).pods()
    }

    fn wish(&self, kind: &str, status: &WorkloadStatus) -> Wish {
        match kind {
            "Job" => Wish::Job {
                parallelism: self.parallelism,
                completions: self.completions,
                succeeded: status.succeeded.unwrap_or(0),
                is_idle: self.suspend || status.is_final(),
            },
            "StatefulSet" if self.pod_management_policy != "Parallel" => Wish::OneByOne,
            _ => Wish::Replicas(self.replicas.unwrap_or(1)),
        }
    }

    /// How many pods it is scaled to.
    pub(crate) fn replicas(&self) -> u32 {
        u32::try_from(self.replicas.unwrap_or(1).max(0)).unwrap_or(u32::MAX)
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspend
    }
}

impl Workload {
    /// How many pods it wants to have, for whoever foresees pods; one that is being deleted wants none.
    pub(crate) fn wish(&self) -> Wish {
        if self.metadata.is_leaving() {
            return Wish::OneByOne;
        }
        self.spec.wish(&self.kind, &self.status)
    }

    /// Why it cannot make pods, in its own words.
    pub(crate) fn trouble(&self) -> Option<String> {
        let failure =
            |condition: &&Condition| condition.kind == "ReplicaFailure" && condition.status == "True";
        let condition = self.status.conditions.iter().find(failure)?;
        let said = if condition.message.is_empty() { &condition.reason } else { &condition.message };
        Some(said.clone())
    }

    /// What pods are expected of.
    pub(crate) fn owner(&self) -> Owner {
        owner(&self.kind, &self.metadata)
    }

    /// Whether a job has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.status.is_final()
    }

    /// How many pods the workload wants to have.
    fn wanted(&self) -> i64 {
        match self.kind.as_str() {
            "Job" if self.spec.suspend || self.status.is_final() => 0,
            "Job" => {
                let done = self.status.succeeded.unwrap_or(0);
                let left = self.spec.completions.map(|all| all.saturating_sub(done));
                let parallel = self.spec.parallelism.unwrap_or(1);
                left.map_or(parallel, |left| left.min(parallel))
            }
            _ => self.spec.replicas.unwrap_or(1),
        }
    }

    /// Pooled of the pods that are missing; pods that exist count by owner or, for want of one, by selector.
    pub(crate) fn missing(&self, pods: &[KeptPod], replica_sets: &[String]) -> Result<Vec<String>, Fault> {
        let selector = match &self.spec.selector {
            Some(selector) => selector.selector().map_err(|fault| fault.within("spec.selector"))?,
            None => own_labels(&self.spec.template)?,
        };
        let namespace = self.metadata.namespace();
        // A selector without conditions would claim every pod of the namespace.
        let selects = selector.keys().next().is_some();
        // Pods of a Deployment name its ReplicaSets, which need not be known.
        let owns_sets = self.kind == "Deployment" && selects;
        let mine = |pod: &&KeptPod| {
            let owned = pod.is_owned_by(&self.kind, &self.metadata.name)
                || replica_sets.iter().any(|name| pod.is_owned_by("ReplicaSet", name));
            let matches = |shape: &Arc<Shape>| selector.matches(&shape.labels);
            let foster = pod.made.owners.is_empty() || (owns_sets && pod.made.has_owner("ReplicaSet"));
            let loose = selects && foster && pod.made.shape.as_ref().is_ok_and(matches);
            *pod.made.namespace == *namespace && !pod.is_over() && !pod.is_leaving() && (owned || loose)
        };
        let existing: BTreeSet<&str> = pods.iter().filter(mine).map(|pod| &*pod.name).collect();
        let count = usize::try_from(self.wanted()).unwrap_or(0).saturating_sub(existing.len());
        if count > MOST {
            let field = if self.kind == "Job" { "spec.parallelism" } else { "spec.replicas" };
            return Err(Fault::new(field, format!("{count} pods are more than one workload can have")));
        }
        let from = usize::from(self.kind != "StatefulSet");
        let names = (from..).map(|i| format!("{}-{i}", self.metadata.name));
        Ok(names.filter(|name| !existing.contains(name.as_str())).take(count).collect())
    }
}

fn own_labels(template: &PodTemplate) -> Result<Selector, Fault> {
    let mut all = Selector::everything();
    for (key, value) in template.metadata.labels() {
        let with = all.with(key, headstart_core::requirement::Operator::In, std::slice::from_ref(value));
        all = with.ok_or_else(|| Fault::new("spec.template.metadata.labels", "cannot be selected by"))?;
    }
    Ok(all)
}

/// An object as what pods are expected of.
pub(crate) fn owner(kind: &str, meta: &Meta) -> Owner {
    Owner {
        kind: kind.into(),
        namespace: meta.namespace().into(),
        name: meta.name.as_str().into(),
        uid: meta.uid.as_str().into(),
    }
}
