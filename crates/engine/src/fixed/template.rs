//! The claim that a pool asks for when no pod has a say.

use headstart_api::NodePool;
use headstart_core::labels::NODE_POOL;
use headstart_core::plan::PlannedClaim;
use headstart_core::requirement::Requirement;
use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;

use crate::provision::ANCHOR;
use crate::store::Claim;

/// What marks anchors that are seats.
const SEAT: &str = "/seat-";

/// What a claim is named after that takes a seat of a pool with this uid.
pub(super) fn anchor(pool: &str, seat: u64) -> String {
    format!("{pool}{SEAT}{seat}")
}

/// What a claim is named after, if it has a seat.
pub(crate) fn anchor_of(claim: &Claim) -> Option<String> {
    let anchor = claim.metadata.annotations.get(ANCHOR)?;
    anchor.contains(SEAT).then(|| anchor.to_string())
}

/// What a pool asks for when no pod has a say.
///
/// COMPAT: which instance types that may become is left to the launch (v1.15, `IsStaticNodeClaim`).
pub(crate) fn template(pool: &NodePool) -> PlannedClaim {
    let spec = &pool.spec.template.spec;
    let name = pool.metadata.name.clone().unwrap_or_default();
    let mut requirements = Requirements::new();
    for written in &spec.requirements {
        // What cannot be read was refused by the API server.
        if let Ok(operator) = written.operator.as_str().parse()
            && let Ok(requirement) =
                Requirement::new(&written.key, operator, &written.values, written.min_values)
        {
            requirements.add(requirement);
        }
    }
    let class = &spec.node_class_ref;
    let class = (format!("{}/{}", class.group, class.kind.to_lowercase()), class.name.clone());
    let labels = pool.spec.template.metadata.labels.clone().unwrap_or_default();
    for (key, value) in labels.into_iter().chain([class, (NODE_POOL.to_owned(), name.clone())]) {
        requirements.add(Requirement::any_of(&key, &[value]));
    }
    PlannedClaim {
        pool: name.into(),
        pods: Vec::new(),
        requirements,
        instance_types: Vec::new(),
        zones: Vec::new(),
        capacity_types: Vec::new(),
        launch: None,
        requests: Resources::default(),
        min_values_relaxed: false,
    }
}
