//! Pods and the templates they are made from.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;
use headstart_core::snapshot::{Effect, HostPort, Labels, Shape, Taint, Toleration, TolerationOperator};
use serde::Deserialize;

use crate::affinity::{Affinity, SpreadConstraint};
use crate::decode::{Fault, nullable, some};
use crate::limit_range::DefaultRequests;
use crate::meta::{Meta, Owner};
use crate::pooled::Pooled;
use crate::requests::{Container, ContainerStatus, Parts, Wanted, not_negative, total};

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
}

/// A pod as it is kept: what pods of one template share is kept once.
#[derive(Debug)]
pub(crate) struct KeptPod {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    /// In seconds.
    pub(crate) created: i64,
    pub(crate) made: Arc<Made>,
    /// What most waiting pods do not have.
    more: Option<Box<More>>,
}

#[derive(Debug)]
struct More {
    /// The node it is on.
    node: Option<Arc<str>>,
    /// Its volumes that are claims.
    claims: Vec<PodVolume>,
    is_over: bool,
    is_leaving: bool,
    is_preempting: bool,
}

/// What pods made from one template have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Made {
    pub(crate) namespace: Arc<str>,
    pub(crate) owners: Vec<Owner>,
    /// What they need, without what classes and volumes add.
    pub(crate) shape: Result<Arc<Shape>, Fault>,
    /// The class that adds overhead, unless the pod says itself how much.
    pub(crate) runtime_class: Option<String>,
    /// The class that gives priority, empty for the default one, unless the pod says itself how much.
    pub(crate) priority_class: Option<String>,
    pub(crate) gated: bool,
    pub(crate) wants_devices: bool,
}

impl KeptPod {
    /// Whether the pod belongs to its node and goes with it.
    pub(crate) fn is_of_node(&self) -> bool {
        self.has_owner("DaemonSet") || self.has_owner("Node")
    }

    pub(crate) fn has_owner(&self, kind: &str) -> bool {
        self.made.owners.iter().any(|owner| owner.kind == kind)
    }

    /// The node it is on.
    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        self.more.as_ref()?.node.as_ref()
    }

    /// Its volumes that are claims.
    pub(crate) fn claims(&self) -> &[PodVolume] {
        self.more.as_ref().map(|more| more.claims.as_slice()).unwrap_or_default()
    }

    /// Whether the pod has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.is_over)
    }

    /// Whether room is being made for the pod on some node.
    pub(crate) fn is_preempting(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.is_preempting)
    }

    /// Whether the pod is being deleted.
    pub(crate) fn is_leaving(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.is_leaving)
    }

    /// Namespace and name.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.made.namespace, &self.name)
    }

    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.made.namespace, self.name)
    }

    pub(crate) fn is_owned_by(&self, kind: &str, name: &str) -> bool {
        self.made.owners.iter().any(|owner| owner.kind == kind && owner.name == name)
    }
}

impl PodVolume {
    fn is_claim(&self) -> bool {
        self.persistent_volume_claim.is_some() || self.ephemeral.is_some()
    }
}

/// A volume that may be a claim.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodVolume {
    pub(crate) name: String,
    pub(crate) persistent_volume_claim: Option<ClaimSource>,
    pub(crate) ephemeral: Option<EphemeralSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSource {
    pub(crate) claim_name: String,
}

#[derive(Debug, Default, Deserialize)]
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
pub(crate) struct TaintSpec {
    key: String,
    #[serde(deserialize_with = "nullable")]
    value: String,
    effect: String,
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

impl Pod {
    /// Whether the pod has ended.
    pub(crate) fn is_over(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.status.phase.as_str())
    }

    fn resize_infeasible(&self) -> bool {
        self.status.conditions.iter().any(|condition| {
            condition.kind == "PodResizePending"
                && condition.status == "True"
                && condition.reason == "Infeasible"
        })
    }

    /// The pod as it is kept.
    pub(crate) fn kept(mut self, pooled: &mut Pooled) -> KeptPod {
        if self.metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet") {
            // Its controller has chosen the node, and says so by a field that nobody else asks for.
            self.spec.affinity.forget_nodes();
        }
        let statuses = (self.status.container_statuses.as_slice(), self.resize_infeasible());
        // What the API server adds to requests is in them already.
        let shape = self
            .spec
            .shape(self.metadata.labels(), &Resources::new(), statuses)
            .map_err(|fault| fault.within("spec"));
        let (is_over, is_leaving) = (self.is_over(), self.metadata.is_leaving());
        let is_preempting = !self.status.nominated_node_name.is_empty();
        let made =
            self.spec.made(pooled.name(self.metadata.namespace()), self.metadata.owner_references, shape);
        let PodSpec { node_name, volumes, .. } = self.spec;
        let claims: Vec<_> = volumes.into_iter().filter(PodVolume::is_claim).collect();
        let node = (!node_name.is_empty()).then(|| pooled.name(&node_name));
        let waits = node.is_none() && claims.is_empty() && !is_over && !is_leaving && !is_preempting;
        KeptPod {
            name: self.metadata.name.into(),
            uid: self.metadata.uid.into(),
            created: self.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second),
            made: pooled.made(made),
            more: (!waits).then(|| Box::new(More { node, claims, is_over, is_leaving, is_preempting })),
        }
    }
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
            gated: self.gated,
            wants_devices: self.wants_devices,
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
