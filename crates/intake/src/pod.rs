//! Pods and the templates they are made from.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;
use headstart_core::snapshot::{Effect, HostPort, Labels, Shape, Taint, Toleration, TolerationOperator};
use serde::Deserialize;
use serde_json::Value;

use crate::affinity::{Affinity, SpreadConstraint};
use crate::decode::{Fault, decode, nullable, some};
use crate::kept::{KeptPod, Made, More};
use crate::limit_range::DefaultRequests;
use crate::meta::{Meta, Owner};
use crate::pooled::Pooled;
use crate::requests::{Container, ContainerStatus, Parts, Wanted, not_negative, total};

/// The annotation of pods that ask not to be disturbed.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Annotations that say what evicting a pod costs, the first one counts; the second is the ReplicaSet controller's.
const COSTS: [&str; 2] = ["karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost"];
/// Priority classes of what the cluster cannot do without.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// A pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Meta,
    pub(crate) spec: PodSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: PodStatus,
}

/// A template that pods are made from.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: PodSpec,
}

/// The part of a pod's specification that decides where it can run.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    #[serde(deserialize_with = "nullable")]
    node_name: String,
    #[serde(deserialize_with = "nullable")]
    node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    affinity: Affinity,
    #[serde(deserialize_with = "nullable")]
    tolerations: Vec<TolerationSpec>,
    #[serde(deserialize_with = "nullable")]
    topology_spread_constraints: Vec<SpreadConstraint>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<Container>,
    resources: Option<Wanted>,
    #[serde(deserialize_with = "nullable")]
    overhead: Resources,
    runtime_class_name: Option<String>,
    priority: Option<i32>,
    priority_class_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    scheduler_name: String,
    termination_grace_period_seconds: Option<u32>,
    #[serde(deserialize_with = "nullable")]
    volumes: Vec<PodVolume>,
    #[serde(rename = "schedulingGates", deserialize_with = "some")]
    gated: bool,
    #[serde(rename = "resourceClaims", deserialize_with = "some")]
    wants_devices: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    #[serde(deserialize_with = "nullable")]
    phase: String,
    #[serde(deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    nominated_node_name: String,
    start_time: Option<jiff::Timestamp>,
}

/// A condition of any object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) reason: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) message: String,
}

impl PodVolume {
    fn is_claim(&self) -> bool {
        self.persistent_volume_claim.is_some() || self.ephemeral.is_some()
    }

    /// The name of the claim that a pod of this name uses.
    pub(crate) fn claim_of(&self, pod: &str) -> Option<String> {
        match &self.persistent_volume_claim {
            Some(claim) => Some(claim.claim_name.clone()),
            None => self.ephemeral.as_ref().map(|_| format!("{pod}-{}", self.name)),
        }
    }
}

/// A volume that may be a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodVolume {
    pub(crate) name: String,
    pub(crate) persistent_volume_claim: Option<ClaimSource>,
    pub(crate) ephemeral: Option<EphemeralSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSource {
    pub(crate) claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EphemeralSource {
    pub(crate) volume_claim_template: Option<crate::storage::Claim>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TolerationSpec {
    #[serde(deserialize_with = "nullable")]
    key: String,
    #[serde(deserialize_with = "nullable")]
    operator: String,
    #[serde(deserialize_with = "nullable")]
    value: String,
    #[serde(deserialize_with = "nullable")]
    effect: String,
}

/// A taint as manifests write it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaintSpec {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// What it does to pods.
    pub effect: String,
}

pub(crate) fn effect(name: &str) -> Result<Effect, Fault> {
    match name {
        "NoSchedule" => Ok(Effect::NoSchedule),
        "PreferNoSchedule" => Ok(Effect::PreferNoSchedule),
        "NoExecute" => Ok(Effect::NoExecute),
        other => Err(Fault::new("effect", format!("unknown taint effect {other:?}"))),
    }
}

impl TaintSpec {
    pub(crate) fn taint(&self) -> Result<Taint, Fault> {
        let (key, value) = (self.key.as_str().into(), self.value.as_str().into());
        Ok(Taint { key, value, effect: effect(&self.effect)? })
    }
}

impl TolerationSpec {
    fn toleration(&self) -> Result<Toleration, Fault> {
        let operator = match self.operator.as_str() {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            "Lt" => TolerationOperator::Lt,
            "Gt" => TolerationOperator::Gt,
            other => return Err(Fault::new("operator", format!("unknown toleration operator {other:?}"))),
        };
        Ok(Toleration {
            key: self.key.as_str().into(),
            operator,
            value: self.value.as_str().into(),
            effect: if self.effect.is_empty() { None } else { Some(effect(&self.effect)?) },
        })
    }
}

/// A pod of which only what every pod has can be read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Outline {
    metadata: Meta,
    spec: OutlineSpec,
    #[serde(deserialize_with = "nullable")]
    status: OutlineStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OutlineSpec {
    #[serde(deserialize_with = "nullable")]
    node_name: String,
    #[serde(deserialize_with = "nullable")]
    scheduler_name: String,
    priority: Option<i32>,
    termination_grace_period_seconds: Option<u32>,
    #[serde(rename = "schedulingGates", deserialize_with = "some")]
    gated: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutlineStatus {
    #[serde(deserialize_with = "nullable")]
    phase: String,
}

impl From<Outline> for Pod {
    fn from(outline: Outline) -> Self {
        let Outline { metadata, spec, status } = outline;
        let OutlineSpec { node_name, scheduler_name, priority, termination_grace_period_seconds, gated } =
            spec;
        let spec = PodSpec {
            node_name,
            priority,
            scheduler_name,
            termination_grace_period_seconds,
            gated,
            ..PodSpec::default()
        };
        Self { metadata, spec, status: PodStatus { phase: status.phase, ..PodStatus::default() } }
    }
}

impl Pod {
    fn is_over(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.status.phase.as_str())
    }

    fn has(&self, kind: &str, status: &str, reason: &str) -> bool {
        let said = |condition: &Condition| {
            condition.kind == kind && condition.status == status && condition.reason == reason
        };
        self.status.conditions.iter().any(said)
    }

    /// Reads a pod, to be kept.
    ///
    /// One whose needs cannot be read is there nevertheless: it may run on a node, and be in the way when that goes.
    pub(crate) fn read(value: &Value, pooled: &mut Pooled) -> Result<(KeptPod, Option<Fault>), Fault> {
        match decode::<Self>(value) {
            Ok(pod) => Ok((pod.kept(pooled), None)),
            Err(fault) => {
                let Ok(outline) = decode::<Outline>(value) else { return Err(fault) };
                Ok((Self::from(outline).kept_with(Err(fault.clone()), pooled), Some(fault)))
            }
        }
    }

    fn kept(mut self, pooled: &mut Pooled) -> KeptPod {
        if self.metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet") {
            // Its controller has chosen the node, and says so by a field that nobody else asks for.
            self.spec.affinity.forget_nodes();
        }
        let resize_infeasible = self.has("PodResizePending", "True", "Infeasible");
        let statuses = (self.status.container_statuses.as_slice(), resize_infeasible);
        // What the API server adds to requests is in them already.
        let shape = self
            .spec
            .shape(self.metadata.labels(), &Resources::new(), statuses)
            .map_err(|fault| fault.within("spec"));
        self.kept_with(shape, pooled)
    }

    fn kept_with(self, shape: Result<Shape, Fault>, pooled: &mut Pooled) -> KeptPod {
        let (is_over, is_unschedulable) =
            (self.is_over(), self.has("PodScheduled", "False", "Unschedulable"));
        let is_running = self.status.phase == "Running";
        let is_unready =
            self.status.conditions.iter().any(|said| said.kind == "Ready" && said.status == "False");
        let Self { metadata, spec, status } = self;
        // COMPAT: what cannot be read counts for nothing, even if the other annotation could be.
        let cost = COSTS.iter().find_map(|key| metadata.annotations.get(*key));
        let millis = |time: jiff::Timestamp| time.as_millisecond();
        let created = metadata.creation_timestamp.map_or(0, millis);
        let protection = metadata.annotations.get(DO_NOT_DISRUPT).map(|text| text.as_str().into());
        let more = More {
            nominated: text(&status.nominated_node_name, pooled),
            // A filtered list would keep the room of what it was made from.
            claims: spec.volumes.iter().filter(|volume| volume.is_claim()).cloned().collect(),
            // One that cannot be read says as much.
            deleted: metadata.deletion_timestamp.as_ref().map(|text| text.parse().map_or(created, millis)),
            granted: metadata.deletion_grace_period_seconds,
            started: status.start_time.filter(|_| protection.is_some()).map(millis),
            cost: cost.and_then(|text| text.parse().ok()),
        };
        let namespace = pooled.name(metadata.namespace());
        let made = Made { protection, ..spec.made(namespace, metadata.owner_references, shape) };
        KeptPod {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            created,
            version: metadata.resource_version.parse().unwrap_or(0),
            made: pooled.made(made),
            node: text(&spec.node_name, pooled),
            is_over,
            is_unschedulable,
            is_running,
            is_unready,
            more: (!more.is_nothing()).then(|| Box::new(more)),
        }
    }
}

fn text(text: &str, pooled: &mut Pooled) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| pooled.name(text))
}

impl PodTemplate {
    /// What its pods have in common.
    pub(crate) fn made(&self, namespace: &str, defaults: &DefaultRequests) -> Made {
        let mut requests = Resources::new();
        // Where two set a default, the first to be asked has filled it in.
        for range in defaults.get(namespace).into_iter().flatten().rev() {
            requests.merge(range.1);
        }
        let shape = self.spec.shape(self.metadata.labels(), &requests, (&[], false));
        let shape = shape.map_err(|fault| fault.within("spec.template.spec"));
        self.spec.made(namespace.into(), Vec::new(), shape)
    }

    /// Volumes that may be claims.
    pub(crate) fn volumes(&self) -> &[PodVolume] {
        &self.spec.volumes
    }
}

impl PodSpec {
    fn made(&self, namespace: Arc<str>, owners: Vec<Owner>, shape: Result<Shape, Fault>) -> Made {
        Made {
            namespace,
            owners,
            shape: shape.map(Arc::new),
            runtime_class: self.runtime_class_name.clone().filter(|_| self.overhead.is_empty()),
            priority_class: self
                .priority
                .is_none()
                .then(|| self.priority_class_name.clone().unwrap_or_default()),
            priority: self.priority.unwrap_or(0),
            gated: self.gated,
            wants_devices: self.wants_devices,
            is_critical: self.priority_class_name.as_deref().is_some_and(|name| CRITICAL.contains(&name)),
            is_default_scheduled: ["", "default-scheduler"].contains(&self.scheduler_name.as_str()),
            grace: self.termination_grace_period_seconds,
            protection: None,
        }
    }

    /// What the pod needs, volumes and what classes add apart.
    fn shape(
        &self,
        labels: &Labels,
        default_requests: &Resources,
        (statuses, resize_infeasible): (&[ContainerStatus], bool),
    ) -> Result<Shape, Fault> {
        self.check_requests()?;
        let (required, preferred) = self.affinity.nodes().map_err(|fault| fault.within("affinity"))?;
        let tolerations = self.tolerations.iter().enumerate().map(|(i, toleration)| {
            toleration.toleration().map_err(|fault| fault.within(&format!("tolerations[{i}]")))
        });
        let spread = self.topology_spread_constraints.iter().enumerate().map(|(i, constraint)| {
            constraint
                .spread(labels)
                .map_err(|fault| fault.within(&format!("topologySpreadConstraints[{i}]")))
        });
        Ok(Shape {
            requests: total(&Parts {
                containers: &self.containers,
                init_containers: &self.init_containers,
                default_requests,
                statuses,
                pod_level: self.resources.as_ref(),
                overhead: &self.overhead,
                resize_infeasible,
            }),
            labels: labels.clone(),
            node_selector: Requirements::from_labels(
                self.node_selector.iter().map(|(k, v)| (k.as_str(), v.as_str())),
            ),
            required,
            preferred,
            tolerations: tolerations.collect::<Result<_, _>>()?,
            spread: spread.collect::<Result<_, _>>()?,
            affinity: self.affinity.near(labels).map_err(|fault| fault.within("affinity"))?,
            anti_affinity: self.affinity.apart(labels).map_err(|fault| fault.within("affinity"))?,
            host_ports: self.host_ports()?,
            volume_topology: Vec::new(),
            priority: self.priority.unwrap_or(0),
        })
    }

    fn check_requests(&self) -> Result<(), Fault> {
        for (field, containers) in
            [("containers", &self.containers), ("initContainers", &self.init_containers)]
        {
            for (i, container) in containers.iter().enumerate() {
                container.check().map_err(|fault| fault.within(&format!("{field}[{i}]")))?;
            }
        }
        self.resources.as_ref().map_or(Ok(()), Wanted::check)?;
        not_negative(&self.overhead).map_err(|fault| fault.within("overhead"))
    }

    fn host_ports(&self) -> Result<Vec<HostPort>, Fault> {
        let mut ports = Vec::new();
        for (i, container) in self.containers.iter().enumerate() {
            for (j, port) in container.ports.iter().enumerate() {
                let at = |field: &str| format!("containers[{i}].ports[{j}].{field}");
                let Some(number) = port.on_host.filter(|number| *number != 0) else { continue };
                let number = u16::try_from(number)
                    .map_err(|_| Fault::new(at("hostPort"), "must be between 1 and 65535"))?;
                let ip = match port.host_ip.as_deref() {
                    None | Some("") => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    Some(ip) => ip.parse().map_err(|_| Fault::new(at("hostIP"), "is no address"))?,
                };
                let protocol = port.protocol.as_deref().unwrap_or("TCP").into();
                ports.push(HostPort { ip, port: number, protocol });
            }
        }
        Ok(ports)
    }
}
