//! Pods as they are kept: in few bytes, since there are so many.

use std::sync::Arc;

use headstart_core::snapshot::{Shape, Toleration};

use crate::decode::Fault;
use crate::meta::Owner;
use crate::pod::PodVolume;

/// A pod as it is kept: what pods of one template share is kept once.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts that do not exclude each other")]
pub struct KeptPod {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    /// In milliseconds.
    pub(crate) created: i64,
    pub(crate) version: u64,
    pub(crate) made: Arc<Made>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) is_over: bool,
    pub(crate) is_unschedulable: bool,
    pub(crate) is_running: bool,
    pub(crate) is_unready: bool,
    /// What most pods do not have.
    pub(crate) more: Option<Box<More>>,
}

/// What most pods do not have.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub(crate) nominated: Option<Arc<str>>,
    /// Its volumes that are claims.
    pub(crate) claims: Box<[PodVolume]>,
    /// In milliseconds.
    pub(crate) deleted: Option<i64>,
    pub(crate) granted: Option<u32>,
    /// In milliseconds; only for pods that ask not to be disturbed.
    pub(crate) started: Option<i64>,
    pub(crate) cost: Option<i32>,
}

impl More {
    pub(crate) fn is_nothing(&self) -> bool {
        self.nominated.is_none()
            && self.claims.is_empty()
            && self.deleted.is_none()
            && self.granted.is_none()
            && self.started.is_none()
            && self.cost.is_none()
    }
}

/// What pods made from one template have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts that do not exclude each other")]
pub(crate) struct Made {
    pub(crate) namespace: Arc<str>,
    pub(crate) owners: Vec<Owner>,
    /// What they need, without what classes and volumes add.
    pub(crate) shape: Result<Arc<Shape>, Fault>,
    /// The class that adds overhead, unless the pod says itself how much.
    pub(crate) runtime_class: Option<String>,
    /// The class that gives priority, empty for the default one, unless the pod says itself how much.
    pub(crate) priority_class: Option<String>,
    pub(crate) priority: i32,
    pub(crate) gated: bool,
    pub(crate) wants_devices: bool,
    pub(crate) is_critical: bool,
    pub(crate) is_default_scheduled: bool,
    /// Seconds they have to end.
    pub(crate) grace: Option<u32>,
    /// What they say about being disturbed.
    pub(crate) protection: Option<Box<str>>,
}

impl Made {
    pub(crate) fn has_owner(&self, kind: &str) -> bool {
        self.owners.iter().any(|owner| owner.kind == kind)
    }
}

impl KeptPod {
    /// Its namespace.
    pub fn namespace(&self) -> &Arc<str> {
        &self.made.namespace
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its uid.
    pub fn uid(&self) -> &Arc<str> {
        &self.uid
    }

    /// Its version, which grows with every change; zero if that is no number.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// When it was created, in milliseconds.
    pub fn created(&self) -> i64 {
        self.created
    }

    /// The node it is on.
    pub fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref()
    }

    /// The uid of what made it.
    pub fn owner(&self) -> Option<&Arc<str>> {
        let controls = |owner: &&Owner| owner.controller == Some(true);
        self.made.owners.iter().find(controls).map(|owner| &owner.uid)
    }

    /// The node that is being cleared for it.
    pub fn nominated(&self) -> Option<&Arc<str>> {
        self.more.as_ref()?.nominated.as_ref()
    }

    /// When it is deleted, in milliseconds.
    pub fn deleted(&self) -> Option<i64> {
        self.more.as_ref()?.deleted
    }

    /// Seconds that it was given to end when it was last asked to.
    pub fn granted(&self) -> Option<u32> {
        self.more.as_ref()?.granted
    }

    /// Seconds it has to end.
    pub fn grace(&self) -> Option<u32> {
        self.made.grace
    }

    /// When it was started, in milliseconds; not known of pods that say nothing about being disturbed.
    pub fn started(&self) -> Option<i64> {
        self.more.as_ref()?.started
    }

    /// What it says about being disturbed.
    pub fn protection(&self) -> Option<&str> {
        self.made.protection.as_deref()
    }

    /// The priority it has itself.
    pub fn priority(&self) -> i32 {
        self.made.priority
    }

    /// What it needs, without what classes and volumes add.
    pub fn shape(&self) -> Option<&Arc<Shape>> {
        self.made.shape.as_ref().ok()
    }

    /// What it puts up with.
    pub fn tolerations(&self) -> &[Toleration] {
        self.shape().map(|shape| shape.tolerations.as_slice()).unwrap_or_default()
    }

    /// Names of the volume claims it uses.
    pub fn volumes(&self) -> impl Iterator<Item = String> {
        self.claims().iter().filter_map(|volume| volume.claim_of(&self.name))
    }

    /// What its owner says that evicting it costs.
    pub fn cost(&self) -> Option<i32> {
        self.more.as_ref()?.cost
    }

    /// Whether its containers have been started.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Whether it says that it is not ready.
    pub fn is_unready(&self) -> bool {
        self.is_unready
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether it is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.deleted().is_some()
    }

    /// Whether it is alive and has no node.
    pub fn is_waiting(&self) -> bool {
        self.node.is_none() && !self.is_over && !self.is_leaving()
    }

    /// Whether somebody does not want it to be scheduled yet.
    pub fn is_gated(&self) -> bool {
        self.made.gated
    }

    /// Whether a daemon set made it: it belongs to its node and goes with it.
    pub fn is_daemon(&self) -> bool {
        self.made.has_owner("DaemonSet")
    }

    /// Whether its node made it.
    pub fn is_mirror(&self) -> bool {
        self.made.has_owner("Node")
    }

    /// Whether kube-scheduler has said that it fits nowhere.
    pub fn is_unschedulable(&self) -> bool {
        self.is_unschedulable
    }

    /// Whether the default scheduler looks after it.
    pub fn is_default_scheduled(&self) -> bool {
        self.made.is_default_scheduled
    }

    /// Whether the cluster cannot do without it.
    pub fn is_critical(&self) -> bool {
        self.made.is_critical
    }

    /// Its volumes that are claims.
    pub(crate) fn claims(&self) -> &[PodVolume] {
        self.more.as_ref().map(|more| &*more.claims).unwrap_or_default()
    }

    /// Whether it belongs to its node and goes with it.
    pub(crate) fn is_of_node(&self) -> bool {
        self.is_daemon() || self.is_mirror()
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
