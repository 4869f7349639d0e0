//! What CapacityBuffers say about themselves.
//!
//! COMPAT: types, reasons and meaning of the conditions are Karpenter 1.15's, `LimitedByQuotas` is Cluster Autoscaler's.
//! `Provisioning` is stricter than both: it is true only while every pod has room on a node that is ready, and a buffer
//! that fits nowhere says so with a reason of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_api::CapacityBuffer;
use headstart_api::capacitybuffer::CapacityBufferStatus;
use headstart_api::conditions::{ConditionSet, Status, capacitybuffer as condition, reasons};
use headstart_core::demand::buffer::{NAME, Sizing, sizes};
use headstart_core::demand::{Expected, Facts};
use headstart_core::plan::Plan;
use headstart_core::snapshot::Snapshot;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Stamp;
use serde_json::{Value, json};

use crate::action::{Effect, ObjectRef, Part};
use crate::demand::Injected;
use crate::errands::Errand;
use crate::kind::Kind;
use crate::out::Out;
use crate::store::Store;

/// Provisioning: some of the buffer fits nowhere.
const INFEASIBLE: &str = "Infeasible";
/// `LimitedByQuotas`: quotas were looked at.
const QUOTAS_ALLOCATED: &str = "ResourceQuotasAllocated";

/// How large buffers are.
#[derive(Debug, Default)]
pub(crate) struct BufferStatus {
    sizes: BTreeMap<Arc<str>, Sizing>,
}

/// Where the pods of a buffer are.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    ready: u32,
    coming: u32,
    nowhere: u32,
}

impl BufferStatus {
    /// Takes notice of how large buffers are.
    pub(crate) fn sized(&mut self, facts: &Facts) {
        let sizes = sizes(&facts.buffers, &facts.quotas);
        self.sizes = facts.buffers.iter().map(|buffer| buffer.owner.uid.clone()).zip(sizes).collect();
    }

    /// Writes what has changed.
    pub(crate) fn write(
        &self,
        expected: &[Expected],
        store: &Store,
        snapshot: &Snapshot,
        plan: &Plan,
        injected: &Injected,
        out: &mut Out<'_>,
    ) {
        if store.buffers.is_empty() {
            return;
        }
        let places = places(expected, snapshot, plan, injected);
        for buffer in store.buffers.values() {
            let uid = buffer.metadata.uid.as_deref().unwrap_or_default();
            let Some(sizing) = self.sizes.get(uid) else { continue };
            let places = places.get(uid).copied().unwrap_or_default();
            let Some(patch) = changed(buffer, sizing, places, store, out) else { continue };
            let object = ObjectRef {
                kind: Kind::CapacityBuffer,
                namespace: buffer.metadata.namespace.clone().unwrap_or_default(),
                name: buffer.metadata.name.clone().unwrap_or_default(),
                uid: uid.to_owned(),
            };
            let errand = Errand::Buffer(object.namespace.clone(), object.name.clone());
            out.ask(errand, Effect::Patch { object, part: Part::Status, patch });
        }
    }
}

/// Where the pods of each buffer are, by its uid.
fn places<'a>(
    expected: &'a [Expected],
    snapshot: &Snapshot,
    plan: &Plan,
    injected: &Injected,
) -> BTreeMap<&'a str, Places> {
    let mut all: BTreeMap<&str, Places> = BTreeMap::new();
    let mut count = |pods: &[u32], add: fn(&mut Places)| {
        for belief in pods.iter().filter_map(|pod| injected.belief(*pod)) {
            let Expected { source, owner, .. } = &expected[belief];
            if *source == NAME {
                add(all.entry(&owner.uid).or_default());
            }
        }
    };
    for node in &plan.existing {
        let is_ready = snapshot.nodes[node.node as usize].initialized;
        count(&node.pods, if is_ready { |places| places.ready += 1 } else { |places| places.coming += 1 });
    }
    for claim in &plan.claims {
        count(&claim.pods, |places| places.coming += 1);
    }
    for unplaced in &plan.unplaced {
        count(&[unplaced.pod], |places| places.nowhere += 1);
    }
    all
}

/// The change to what a buffer says about itself, if any.
fn changed(
    buffer: &CapacityBuffer,
    sizing: &Sizing,
    places: Places,
    store: &Store,
    out: &Out<'_>,
) -> Option<Value> {
    let old = buffer.status.clone().unwrap_or_default();
    let mut new = CapacityBufferStatus {
        provisioning_strategy: Some(buffer.spec.provisioning_strategy().to_owned()),
        ..old.clone()
    };
    let mut said = std::mem::take(&mut new.conditions);
    let now = Stamp(out.now.wall.stamp());
    let mut set = ConditionSet {
        conditions: &mut said,
        ready_when: &[],
        generation: buffer.metadata.generation,
        created: buffer.metadata.creation_timestamp.clone().unwrap_or_else(|| now.clone()),
        now,
    };
    match &sizing.replicas {
        Ok(replicas) => {
            let replicas = i32::try_from(*replicas).unwrap_or(i32::MAX);
            new.replicas = Some(replicas);
            new.pod_template_ref.clone_from(&buffer.spec.pod_template_ref);
            new.pod_template_generation = new.pod_template_ref.as_ref().and_then(|named| {
                let namespace = buffer.metadata.namespace.as_deref().unwrap_or_default();
                store.world.generation_of_template(namespace, &named.name)
            });
            set.set(
                condition::READY_FOR_PROVISIONING,
                Status::True,
                reasons::RESOLVED,
                "shape and size are known",
            );
            let (status, message) = match &sizing.limited_by {
                Some((quota, wanted)) => {
                    (Status::True, format!("ResourceQuota {quota} allows {replicas} of {wanted} pods"))
                }
                None => (Status::False, String::new()),
            };
            set.set(condition::LIMITED_BY_QUOTAS, status, QUOTAS_ALLOCATED, &message);
        }
        Err(unready) => {
            set.set(condition::READY_FOR_PROVISIONING, Status::False, unready.reason, &unready.message);
        }
    }
    let (status, reason, message) = provisioning(sizing, places);
    set.set(condition::PROVISIONING, status, reason, &message);
    new.conditions = said;
    if new == old {
        return None;
    }
    let version = buffer.metadata.resource_version.as_deref().unwrap_or_default();
    let mut status = serde_json::to_value(&new).unwrap_or_default();
    // A merge patch takes away only what it names.
    for field in ["podTemplateRef", "podTemplateGeneration"] {
        if status.get(field).is_none() {
            status[field] = Value::Null;
        }
    }
    Some(json!({ "metadata": { "resourceVersion": version }, "status": status }))
}

/// Whether the room is there.
fn provisioning(sizing: &Sizing, places: Places) -> (Status, &'static str, String) {
    let Places { ready, coming, nowhere } = places;
    match &sizing.replicas {
        Err(_) => {
            let message = "shape or size are not known".to_owned();
            (Status::False, reasons::NOT_READY_FOR_PROVISIONING, message)
        }
        Ok(0) => (Status::False, reasons::BUFFER_EMPTY, "there is nothing to keep room for".to_owned()),
        Ok(all) if ready >= *all => (
            Status::True,
            reasons::FITS_EXISTING_CAPACITY,
            format!("{all} pods have room on nodes that are ready"),
        ),
        Ok(all) => {
            let reason = if nowhere > 0 { INFEASIBLE } else { reasons::REQUIRES_NEW_CAPACITY };
            let message = format!(
                "of {all} pods {ready} have room on nodes that are ready, {coming} on nodes that are coming, and \
                 {nowhere} nowhere"
            );
            (Status::False, reason, message)
        }
    }
}
