//! Default spread constraints: which pods get them, and among which pods they are spread.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_core::default_spread::{Controller, selector, spread};
use headstart_core::snapshot::{Labels, Selector, Shape, Spread};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::decode::nullable;
use crate::meta::{Meta, Owner};
use crate::workload::Workload;
use crate::world::World;

/// A service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Service {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    spec: ServiceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceSpec {
    selector: Option<Labels>,
}

impl Service {
    /// The labels of the pods it selects; without a selector it selects none.
    pub(crate) fn selector(self) -> Option<Labels> {
        self.spec.selector
    }
}

/// The selectors of services, by namespace and name.
pub(crate) type Services = BTreeMap<String, BTreeMap<String, Labels>>;

/// What a controller contributes.
enum Contribution {
    Labels(Labels),
    Selector(Selector),
}

/// Everything that default constraints depend on; nothing when there are none.
pub(crate) struct Defaults<'a> {
    constraints: &'a [Spread],
    services: &'a Services,
    controllers: FxHashMap<(&'a str, &'a str, &'a str), Contribution>,
    /// What was deduced before: pods of one template share it.
    known: FxHashMap<(*const Shape, String, String), Option<Vec<Spread>>>,
}

impl<'a> Defaults<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        let constraints = &*world.scheduler.default_spread;
        let known = world.workloads.iter().filter(|_| !constraints.is_empty());
        let controllers = known.filter_map(|workload| {
            let meta = &workload.metadata;
            let key = (workload.kind.as_str(), meta.namespace(), meta.name.as_str());
            Some((key, contribution(workload)?))
        });
        Self {
            constraints,
            services: &world.services,
            controllers: controllers.collect(),
            known: FxHashMap::default(),
        }
    }

    /// The spread of a pod that has none of its own, or `None` when it stays without.
    pub(crate) fn spread(
        &mut self,
        shape: &Arc<Shape>,
        namespace: &str,
        controller: Option<(&str, &str)>,
    ) -> Option<Vec<Spread>> {
        if self.constraints.is_empty() || !shape.spread.is_empty() {
            return None;
        }
        let owner = controller.map(|(kind, name)| format!("{kind}/{name}")).unwrap_or_default();
        let key = (Arc::as_ptr(shape), namespace.to_owned(), owner);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let services = self.services.get(namespace).into_iter().flat_map(BTreeMap::values);
        let owner = controller.and_then(|(kind, name)| self.controllers.get(&(kind, namespace, name)));
        let owner = owner.map(|contribution| match contribution {
            Contribution::Labels(labels) => Controller::Labels(labels),
            Contribution::Selector(selector) => Controller::Selector(selector),
        });
        let deduced = selector(&shape.labels, services, owner);
        let deduced = deduced.map(|selector| spread(self.constraints, &selector));
        self.known.insert(key, deduced.clone());
        deduced
    }
}

/// The kind and name of a pod's controller, if its selector counts.
pub(crate) fn controller(owners: &[Owner]) -> Option<(&str, &str)> {
    let Owner { api_version, kind, name, .. } = owners.iter().find(|owner| owner.controller == Some(true))?;
    let counts = matches!(
        (api_version.as_str(), kind.as_str()),
        ("v1", "ReplicationController") | ("apps/v1", "ReplicaSet" | "StatefulSet")
    );
    counts.then_some((kind, name))
}

/// A selector that cannot be read contributes nothing, as when it cannot be looked up.
fn contribution(workload: &Workload) -> Option<Contribution> {
    let selector = workload.spec.selector.as_ref()?;
    match workload.kind.as_str() {
        "ReplicationController" => Some(Contribution::Labels(selector.equal())),
        // A deployment selects through a replica set, which may not exist yet.
        "ReplicaSet" | "StatefulSet" | "Deployment" => {
            Some(Contribution::Selector(selector.selector().ok()?))
        }
        _ => None,
    }
}
