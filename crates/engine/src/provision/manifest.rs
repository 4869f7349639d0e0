//! The claim that a planned node becomes.

use std::collections::BTreeMap;

use headstart_api::annotations::{
    MIN_VALUES_RELAXED, NODEPOOL_HASH, NODEPOOL_HASH_VERSION, TERMINATION_FINALIZER,
};
use headstart_api::{NODEPOOL_HASH_VERSION as HASH_VERSION, NodePool};
use headstart_core::hash;
use headstart_core::labels::{
    CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODE_POOL, REGISTERED, WellKnown,
};
use headstart_core::plan::PlannedClaim;
use headstart_core::requirement::{Expression, Operator, Requirement};
use serde_json::{Value, json};

use crate::store::{Claim, Store};

/// What a claim was made for, often its first pod by uid, so that the claim's name can be found again.
pub(crate) const ANCHOR: &str = "headstart.dev/anchor";

/// Labels that only a plan looks at.
const OF_PLANS: [&str; 3] = [REGISTERED, INITIALIZED, HOSTNAME];

/// How many characters of a name say which claim it is.
const MARK: usize = 10;
/// The longest name that is also fit for a label.
const LONGEST: usize = 63;

/// The name of a claim: the same for the same pod of the same pool, as long as that name is not taken.
pub(crate) fn name(store: &Store, pool: &NodePool, anchor: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let pool_name = pool.metadata.name.as_deref().unwrap_or_default();
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let stem: String = pool_name.chars().take(LONGEST - MARK - 1).collect();
    let anchored =
        |claim: &&Claim| claim.metadata.annotations.get(ANCHOR).is_some_and(|own| **own == *anchor);
    let known = store.claims.values().filter(anchored).count();
    let named = |n: usize| format!("{stem}-{}", mark(&[uid, anchor, &n.to_string()]));
    (known..=usize::MAX).map(named).find(|name| !is_taken(name)).unwrap_or_default()
}

/// A few characters, by which to tell things apart that are made from different texts.
fn mark(parts: &[&str]) -> String {
    const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz0123456789ae";
    let mut bits = u128::from(hash::stable(parts)) | (u128::from(hash::mix(hash::stable(parts))) << 64);
    let letter = |_| {
        let letter = LETTERS[(bits % 32) as usize] as char;
        bits /= 32;
        letter
    };
    (0..MARK).map(letter).collect()
}

/// The claim that a planned node becomes, with these annotations.
pub(crate) fn claim(
    pool: &NodePool,
    planned: &PlannedClaim,
    name: &str,
    anchor: &str,
    notes: &[(&str, String)],
    well_known: &WellKnown,
) -> Value {
    let template = &pool.spec.template;
    let class = &template.spec.node_class_ref;
    let pool_name = pool.metadata.name.clone().unwrap_or_default();

    let mut labels: BTreeMap<String, String> = template.metadata.labels.clone().unwrap_or_default();
    for requirement in planned.requirements.iter() {
        let key = requirement.key();
        let custom = !well_known.has(key) && !OF_PLANS.contains(&key) && !is_restricted(key);
        if let Some(value) = custom.then(|| any(requirement)).flatten() {
            labels.entry(key.to_owned()).or_insert(value);
        }
    }
    labels.insert(NODE_POOL.into(), pool_name.clone());
    labels.insert(format!("{}/{}", class.group, class.kind.to_lowercase()), class.name.clone());

    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(NODEPOOL_HASH.into(), pool.hash());
    annotations.insert(NODEPOOL_HASH_VERSION.into(), HASH_VERSION.into());
    annotations.insert(ANCHOR.into(), anchor.to_owned());
    annotations.extend(notes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    if planned.min_values_relaxed {
        annotations.insert(MIN_VALUES_RELAXED.into(), "true".into());
    }

    let mut spec = json!({
        "requirements": requirements(planned),
        "nodeClassRef": class,
        "resources": { "requests": planned.requests },
    });
    let template = serde_json::to_value(&template.spec).unwrap_or_default();
    for field in ["taints", "startupTaints", "terminationGracePeriod", "expireAfter"] {
        if let Some(value) = template.get(field) {
            spec[field] = value.clone();
        }
    }
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations,
            // Without it a claim that is deleted at once would leave its instance behind.
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodePool",
                "name": pool_name,
                "uid": pool.metadata.uid,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

fn requirements(planned: &PlannedClaim) -> Vec<Value> {
    let mut all = planned.requirements.clone();
    for key in OF_PLANS {
        all.remove(key);
    }
    let least = all.get(INSTANCE_TYPE).map(Requirement::expressions).unwrap_or_default();
    let least = least.into_iter().find_map(|expression| expression.min_values);
    let types = Requirement::new(INSTANCE_TYPE, Operator::In, &planned.instance_types, least);
    // A claim that names no types leaves it to the launch which of its pool's it becomes.
    if let Some(types) = types.ok().filter(|_| !planned.instance_types.is_empty()) {
        all.replace(types);
    }
    if !planned.capacity_types.is_empty() {
        all.add(Requirement::any_of(CAPACITY_TYPE, &planned.capacity_types));
    }
    all.expressions().iter().map(expression).collect()
}

fn expression(expression: &Expression) -> Value {
    let Expression { key, operator, values, min_values } = expression;
    let mut written = json!({ "key": key, "operator": operator.as_str() });
    if !values.is_empty() {
        written["values"] = json!(values);
    }
    if let Some(least) = min_values {
        written["minValues"] = json!(least);
    }
    written
}

/// Keys that nobody but the cluster may give values to.
fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    key == NODE_POOL || domain.ends_with("karpenter.sh")
}

/// Some value that a label may have.
fn any(requirement: &Requirement) -> Option<String> {
    match requirement.operator() {
        Operator::In => requirement.values().next().map(str::to_owned),
        Operator::DoesNotExist => None,
        _ => (0..u32::MAX).map(|n| n.to_string()).find(|value| requirement.has(value)),
    }
}
