//! Volumes: where they are, and which driver attaches them.

use std::collections::BTreeMap;

use headstart_core::labels::HOSTNAME;
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;
use headstart_core::snapshot::Volume;
use serde::Deserialize;

use crate::affinity::NodeSelector;
use crate::decode::{Fault, nullable, requirements};
use crate::meta::Meta;

/// A persistent volume claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Claim {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    spec: ClaimSpec,
    #[serde(deserialize_with = "nullable")]
    status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    #[serde(deserialize_with = "nullable")]
    volume_name: String,
    storage_class_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    #[serde(deserialize_with = "nullable")]
    phase: String,
}

/// A persistent volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolume {
    pub(crate) metadata: Meta,
    spec: VolumeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    csi: Option<Csi>,
    aws_elastic_block_store: Option<serde::de::IgnoredAny>,
    local: Option<serde::de::IgnoredAny>,
    host_path: Option<serde::de::IgnoredAny>,
    node_affinity: Option<VolumeAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Csi {
    driver: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeAffinity {
    required: Option<NodeSelector>,
}

/// A storage class.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StorageClass {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    provisioner: String,
    volume_binding_mode: Option<String>,
    #[serde(deserialize_with = "nullable")]
    allowed_topologies: Vec<TopologyTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TopologyTerm {
    #[serde(deserialize_with = "nullable")]
    match_label_expressions: Vec<TopologyExpression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TopologyExpression {
    key: String,
    #[serde(deserialize_with = "nullable")]
    values: Vec<String>,
}

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Drivers that took over from plugins once built into Kubernetes.
const SUCCESSORS: [(&str, &str); 6] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// All storage objects.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    pub(crate) claims: BTreeMap<String, Claim>,
    pub(crate) volumes: BTreeMap<String, PersistentVolume>,
    pub(crate) classes: BTreeMap<String, StorageClass>,
}

/// What a pod's volumes demand.
#[derive(Debug, Default)]
pub(crate) struct Demands {
    pub(crate) topology: Vec<Requirements>,
    pub(crate) attached: Vec<Volume>,
}

impl Storage {
    /// What the claims of a pod demand together, or why the pod cannot run.
    pub(crate) fn demands<'a>(
        &self,
        claims: impl Iterator<Item = (String, Option<&'a Claim>)>,
    ) -> Result<Demands, String> {
        let mut demands = Demands { topology: vec![Requirements::new()], attached: Vec::new() };
        for (key, template) in claims {
            let Some(claim) = self.claims.get(&key).or(template) else {
                return Err(format!("volume claim {key} does not exist"));
            };
            let (terms, driver) = self.one(&key, claim)?;
            if !terms.is_empty() {
                demands.topology = product(&demands.topology, &terms);
            }
            if let Some(driver) = driver {
                demands.attached.push(Volume { driver: driver.into(), id: key.as_str().into() });
            }
        }
        demands.topology.retain(|alternative| !alternative.is_empty());
        Ok(demands)
    }

    fn one(&self, key: &str, claim: &Claim) -> Result<(Vec<Requirements>, Option<String>), String> {
        if claim.metadata.is_leaving() {
            return Err(format!("volume claim {key} is being deleted"));
        }
        if claim.status.phase == "Lost" {
            return Err(format!("volume claim {key} has lost its volume"));
        }
        if !claim.spec.volume_name.is_empty() {
            let name = &claim.spec.volume_name;
            let volume = self.volumes.get(name).ok_or_else(|| format!("volume {name} does not exist"))?;
            if volume.metadata.is_leaving() {
                return Err(format!("volume {name} is being deleted"));
            }
            if !claim.metadata.annotations.contains_key(BIND_COMPLETED) {
                return Err(format!("volume claim {key} is not bound yet: it lacks {BIND_COMPLETED}"));
            }
            let terms = volume
                .topology()
                .map_err(|fault| format!("volume {name}: {}: {}", fault.field, fault.message))?;
            return Ok((terms, volume.driver()));
        }
        let default = || {
            let is_default = |class: &&StorageClass| {
                class.metadata.annotations.get(DEFAULT_CLASS).is_some_and(|v| v == "true")
            };
            self.classes.values().find(is_default).map(|class| class.metadata.name.clone())
        };
        let class = claim.spec.storage_class_name.clone().or_else(default).unwrap_or_default();
        if class.is_empty() {
            return Err(format!("volume claim {key} is unbound and names no storage class"));
        }
        let Some(class) = self.classes.get(&class) else {
            return Err(format!("storage class {class} of volume claim {key} does not exist"));
        };
        if class.volume_binding_mode.as_deref().unwrap_or("Immediate") == "Immediate" {
            return Err(format!("volume claim {key} is unbound, but its storage class binds immediately"));
        }
        Ok((class.topology(), Some(class.driver())))
    }
}

impl PersistentVolume {
    fn driver(&self) -> Option<String> {
        let built_in = self.spec.aws_elastic_block_store.map(|_| SUCCESSORS[0].1.to_owned());
        self.spec.csi.as_ref().map(|csi| csi.driver.clone()).or(built_in)
    }

    fn topology(&self) -> Result<Vec<Requirements>, Fault> {
        let required = self.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let on_host = self.spec.local.is_some() || self.spec.host_path.is_some();
        let mut alternatives = Vec::new();
        for (i, term) in required.iter().flat_map(|required| &required.node_selector_terms).enumerate() {
            let at = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}]");
            let mut asked = requirements(&term.match_expressions, "matchExpressions")
                .map_err(|fault| fault.within(&at))?;
            if on_host {
                // The pod would not find its old host again on a new node anyway.
                asked.remove(HOSTNAME);
            }
            if !term.match_expressions.is_empty() {
                alternatives.push(asked);
            }
        }
        Ok(alternatives)
    }
}

impl StorageClass {
    fn driver(&self) -> String {
        let successor = SUCCESSORS.iter().find(|(plugin, _)| *plugin == self.provisioner);
        successor.map_or_else(|| self.provisioner.clone(), |(_, driver)| (*driver).to_owned())
    }

    fn topology(&self) -> Vec<Requirements> {
        let terms = self.allowed_topologies.iter().filter(|term| !term.match_label_expressions.is_empty());
        let asked = |term: &TopologyTerm| {
            term.match_label_expressions
                .iter()
                .map(|one| Requirement::any_of(&one.key, &one.values))
                .collect()
        };
        terms.map(asked).collect()
    }
}

/// Every combination of two lists of alternatives that is possible, or all of them if none is.
fn product(ours: &[Requirements], theirs: &[Requirements]) -> Vec<Requirements> {
    let pairs = || ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b)));
    let both = |(a, b): (&Requirements, &Requirements)| {
        let mut all = a.clone();
        all.add_all(b);
        all
    };
    let possible: Vec<_> = pairs().filter(|(a, b)| a.intersects(b).is_ok()).map(both).collect();
    if possible.is_empty() { pairs().map(both).collect() } else { possible }
}
