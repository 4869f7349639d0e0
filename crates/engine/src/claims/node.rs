//! What a claim does to its node.

use headstart_api::annotations::TERMINATION_FINALIZER;
use headstart_api::conditions::nodeclaim as condition;
use headstart_api::{labels, taints};
use headstart_core::snapshot::{Effect, Taint as CoreTaint};
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Map, Value, json};

use crate::claims::launch::requests;
use crate::store::{Claim, Node, OwnerReference};

/// Whether the node carries the taint that keeps pods away until it is registered.
pub(crate) fn has_gate(node: &Node) -> bool {
    node.has_taint(taints::UNREGISTERED, taints::NO_EXECUTE)
}

/// Whether the node has everything from its claim.
pub(crate) fn is_registered(node: &Node) -> bool {
    node.has_mark(labels::REGISTERED) && !has_gate(node) && node.is_held()
}

/// The change that registers a node, if it is not.
pub(crate) fn register(claim: &Claim, node: &Node) -> Option<Value> {
    if is_registered(node) {
        return None;
    }
    let mut finalizers = node.metadata.finalizers.clone();
    if !node.is_held() {
        finalizers.push(TERMINATION_FINALIZER.to_owned());
    }
    let mut owners = node.metadata.owner_references.clone();
    let owner = OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodeClaim".to_owned(),
        name: claim.name().to_owned(),
        uid: claim.metadata.uid.clone(),
        controller: None,
        block_owner_deletion: Some(true),
    };
    if !owners.iter().any(|known| known.uid == owner.uid) {
        owners.push(owner);
    }
    let mut wanted: Vec<Taint> = node.taints().iter().filter(|taint| !is_gate(taint)).cloned().collect();
    if !node.has_mark(labels::DO_NOT_SYNC_TAINTS) {
        let given = [&claim.spec.taints, &claim.spec.startup_taints];
        for taint in given.into_iter().flatten().flatten() {
            if !wanted.iter().any(|known| known.key == taint.key && known.effect == taint.effect) {
                wanted.push(taint.clone());
            }
        }
    }
    let mut labels: Map<String, Value> =
        claim.metadata.labels.iter().map(|(key, value)| (key.to_string(), json!(&**value))).collect();
    labels.insert(labels::REGISTERED.to_owned(), json!("true"));
    Some(json!({
        "metadata": {
            "resourceVersion": node.metadata.version(),
            "labels": labels,
            "annotations": claim.metadata.annotations,
            "finalizers": finalizers,
            "ownerReferences": owners,
        },
        "spec": { "taints": wanted },
    }))
}

fn is_gate(taint: &Taint) -> bool {
    taint.key == taints::UNREGISTERED && taint.effect == taints::NO_EXECUTE
}

/// Whether pods can come to the node of a claim.
pub(crate) fn is_open(claim: &Claim, node: &Node) -> bool {
    !node.taints().iter().any(is_gate) && obstacle(claim, node).is_none()
}

/// Why a registered node cannot be used yet, as reason and message.
pub(crate) fn obstacle(claim: &Claim, node: &Node) -> Option<(&'static str, String)> {
    if !node.is_ready() {
        return Some(("NodeNotReady", "Node status is NotReady".to_owned()));
    }
    let startup = claim.spec.startup_taints.as_deref().unwrap_or_default();
    for taint in node.taints() {
        if startup.iter().any(|own| own.key == taint.key && own.effect == taint.effect) {
            return Some(("StartupTaintsExist", format!("StartupTaint \"{}\" still exists", written(taint))));
        }
    }
    if let Some(taint) = node.taints().iter().find(|taint| is_ephemeral(taint)) {
        let message = format!("KnownEphemeralTaint \"{}\" still exists", written(taint));
        return Some(("KnownEphemeralTaintsExist", message));
    }
    let asked = requests(claim);
    let lacking =
        asked.iter().find(|(name, amount)| !amount.is_zero() && node.allocatable().get(name).is_zero());
    lacking.map(|(name, _)| {
        ("ResourceNotRegistered", format!("Resource \"{name}\" was requested but not registered"))
    })
}

fn is_ephemeral(taint: &Taint) -> bool {
    let effect = match taint.effect.as_str() {
        taints::NO_EXECUTE => Effect::NoExecute,
        taints::PREFER_NO_SCHEDULE => Effect::PreferNoSchedule,
        _ => Effect::NoSchedule,
    };
    CoreTaint { key: taint.key.as_str().into(), value: "".into(), effect }.is_ephemeral()
}

fn written(taint: &Taint) -> String {
    match taint.value.as_deref() {
        None | Some("") => format!("{}:{}", taint.key, taint.effect),
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

/// The change that marks a node as usable, if it is and is not marked.
pub(crate) fn initialize(claim: &Claim, node: &Node) -> Option<Value> {
    let is_asked = !claim.is_initialized() && !node.is_initialized() && !claim.is(condition::REBOOTING);
    let is_due = is_asked && obstacle(claim, node).is_none();
    is_due.then(|| json!({ "metadata": { "labels": { (labels::INITIALIZED): "true" } } }))
}
