//! What is asked of the cloud for a claim, and what its answer adds to the claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_api::annotations::AT_MOST;
use headstart_core::catalog::{InstanceType, Offering};
use headstart_core::cloud::{Launch, LaunchRequest, NodeTemplate, OfferingKey, Taint, Token, key_of};
use headstart_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, RESERVED, WellKnown};
use headstart_core::price::Price;
use headstart_core::requirement::{Operator, Requirement};
use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;
use headstart_core::types::Types;
use k8s_openapi::api::core::v1::Taint as NodeTaint;

use crate::store::{Claim, texts};

/// Most offerings that one request lists.
const MOST: usize = 300;

/// What is asked of the cloud.
///
/// INVARIANT: it follows from the claim's immutable specification and the catalog alone, so that a second attempt with the
/// same token asks for the same.
pub(crate) fn request(claim: &Claim, types: &Arc<Types>, well_known: &WellKnown) -> LaunchRequest {
    let asked = requirements(claim);
    LaunchRequest {
        token: Token(claim.metadata.uid.clone()),
        claim: claim.name().to_owned(),
        pool: claim.pool().to_owned(),
        class: claim.class(),
        offerings: offerings(&asked, at_most(claim), types, well_known),
        node: NodeTemplate {
            labels: texts(&claim.metadata.labels),
            annotations: texts(&claim.metadata.annotations),
            taints: taints(claim.spec.taints.as_deref()),
            startup_taints: taints(claim.spec.startup_taints.as_deref()),
        },
        requests: requests(claim),
        tags: BTreeMap::new(),
    }
}

/// What the claim asks for.
pub(crate) fn requirements(claim: &Claim) -> Requirements {
    let mut all = Requirements::default();
    for one in &claim.spec.requirements {
        // What cannot be read was refused by the API server.
        if let Ok(operator) = one.operator.as_str().parse::<Operator>()
            && let Ok(requirement) = Requirement::new(&one.key, operator, &one.values, None)
        {
            all.add(requirement);
        }
    }
    all
}

/// The most that the claim's node may cost an hour.
pub(crate) fn at_most(claim: &Claim) -> Option<Price> {
    claim.metadata.annotations.get(AT_MOST)?.parse().ok()
}

/// Everything that satisfies the claim: reservations first, then by price.
fn offerings(
    asked: &Requirements,
    at_most: Option<Price>,
    types: &Arc<Types>,
    well_known: &WellKnown,
) -> Vec<OfferingKey> {
    let is_asked = |offering: &Offering| {
        at_most.is_none_or(|most| offering.price <= most)
            && asked.compatible(&offering.requirements, well_known).is_ok()
    };
    let named = asked.get(INSTANCE_TYPE);
    let mut found: Vec<(bool, _, OfferingKey)> = Vec::new();
    let mut add = |known: &InstanceType| {
        if known.requirements.intersects(asked).is_err() {
            return;
        }
        for offering in known.offerings.iter().filter(|offering| is_asked(offering)) {
            let paid =
                offering.requirements.get(CAPACITY_TYPE).and_then(Requirement::single) == Some(RESERVED);
            found.push((!paid, offering.price, key_of(known, offering)));
        }
    };
    match named.filter(|named| named.operator() == Operator::In) {
        Some(named) => named.values().filter_map(|name| types.named(name)).for_each(|known| add(known)),
        None => types.iter().for_each(|known| add(known)),
    }
    found.sort();
    found.into_iter().take(MOST).map(|(_, _, key)| key).collect()
}

fn taints(taints: Option<&[NodeTaint]>) -> Vec<Taint> {
    let one = |taint: &NodeTaint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone(),
    };
    taints.unwrap_or_default().iter().map(one).collect()
}

/// What the pods meant for the node ask for.
pub(crate) fn requests(claim: &Claim) -> Resources {
    let requests = claim.spec.resources.requests.iter().flatten();
    requests.filter_map(|(name, amount)| Some((name.as_str(), amount.0.parse().ok()?))).collect()
}

/// Labels that a launch adds to its claim; those of the claim come first.
pub(crate) fn labels(claim: &Claim, launch: Option<&Launch>) -> Option<BTreeMap<String, String>> {
    let class = &claim.spec.node_class_ref;
    let class = (format!("{}/{}", class.group, class.kind.to_lowercase()), class.name.clone());
    let of_instance = launch.into_iter().flat_map(|launch| launch.instance.labels.clone());
    let own = &claim.metadata.labels;
    let missing: BTreeMap<_, _> =
        of_instance.chain([class]).filter(|(key, _)| !own.contains_key(key)).collect();
    (!missing.is_empty()).then_some(missing)
}
