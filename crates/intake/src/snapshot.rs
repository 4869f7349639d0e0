//! The solver's model of all objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_core::catalog::InstanceType;
use headstart_core::labels::{HOSTNAME, NODE_POOL, WellKnown};
use headstart_core::overlay::{self, Applied, Conflict, Offered};
use headstart_core::quantity::Quantity;
use headstart_core::requirements::Requirements;
use headstart_core::resources::NODES;
use headstart_core::snapshot::{BoundPod, Daemon, Demand, Pod, Pool, Shape, Snapshot, Volume};
use rustc_hash::FxHashSet;

use crate::decode::Fault;
use crate::diagnostic::Diagnostic;
use crate::node::machines;
use crate::pod::{Pod as KubePod, PodSpec};
use crate::spread::{Defaults, controller};
use crate::storage::Claim;
use crate::world::World;

/// A snapshot, and what did not make it in.
#[derive(Debug)]
pub struct Taken {
    /// What the solver is asked about.
    pub snapshot: Snapshot,
    /// Pods that cannot run anywhere as things are.
    pub rejected: Vec<Rejected>,
    /// Overlays that contradict others and are not applied.
    pub conflicts: Vec<Conflict>,
    /// Everything that was wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// A pod that cannot run anywhere as things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// `namespace/name`.
    pub pod: String,
    /// Why.
    pub reason: String,
}

/// Builds the snapshot bit by bit.
struct Builder<'a> {
    world: &'a World,
    snapshot: Snapshot,
    rejected: Vec<Rejected>,
    conflicts: Vec<Conflict>,
    diagnostics: Vec<Diagnostic>,
    shapes: FxHashSet<Arc<Shape>>,
    defaults: Defaults<'a>,
}

/// Who wants a node.
struct Wanting<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: String,
    created: i64,
    spec: &'a PodSpec,
    /// Claims that are made with the pod.
    templates: &'a [Claim],
    controller: Option<(&'a str, &'a str)>,
}

/// What each pool can buy.
type TypesByPool<'a> = BTreeMap<&'a str, Arc<[Arc<InstanceType>]>>;

impl World {
    /// The snapshot of all objects, with what can be bought from a catalogue.
    pub fn snapshot(&self, catalog: &[Arc<InstanceType>], well_known: &WellKnown) -> Taken {
        let mut builder = Builder {
            world: self,
            snapshot: Snapshot {
                well_known: well_known.clone(),
                namespaces: self.namespaces.clone(),
                ..Snapshot::default()
            },
            rejected: Vec::new(),
            conflicts: Vec::new(),
            diagnostics: self.diagnostics.clone(),
            shapes: FxHashSet::default(),
            defaults: Defaults::new(self),
        };
        let types: Arc<[Arc<InstanceType>]> = catalog.into();
        let by_pool = builder.pools(&types);
        let leaving = builder.nodes(&by_pool, &types);
        builder.pods(&leaving);
        builder.workloads();
        builder.daemons();
        let Builder { snapshot, rejected, conflicts, diagnostics, .. } = builder;
        Taken { snapshot, rejected, conflicts, diagnostics }
    }
}

impl<'a> Builder<'a> {
    fn fault(&mut self, object: String, fault: Fault) {
        self.diagnostics.push(Diagnostic { object, field: fault.field, message: fault.message });
    }

    /// Adds the pools that nodes may come from and returns what each one can buy, the others included.
    fn pools(&mut self, types: &Arc<[Arc<InstanceType>]>) -> TypesByPool<'a> {
        let Applied { pools: overlaid, conflicts } = self.overlays(types);
        let mut by_pool = TypesByPool::new();
        for (pool, overlaid) in self.world.pools.iter().zip(overlaid) {
            match pool.pool() {
                Ok(Some(pool)) => self.snapshot.pools.push(Pool { types: overlaid.types.clone(), ..pool }),
                Ok(None) => {}
                Err(fault) => self.fault(format!("NodePool {}", pool.metadata.name), fault),
            }
            by_pool.insert(&pool.metadata.name, overlaid.types);
        }
        self.conflicts = conflicts;
        by_pool
    }

    /// What every pool can buy; overlays look at pools that nothing is bought from now as well.
    fn overlays(&mut self, types: &Arc<[Arc<InstanceType>]>) -> Applied {
        let mut overlays = Vec::new();
        for overlay in &self.world.overlays {
            match overlay.overlay(&self.snapshot.well_known) {
                Ok(overlay) => overlays.push(overlay),
                Err(fault) => self.fault(format!("NodeOverlay {}", overlay.metadata.name), fault),
            }
        }
        let pools = self.world.pools.iter().map(|pool| Offered {
            pool: &pool.metadata.name,
            labels: pool.template_labels(),
            types: types.clone(),
        });
        let applied = overlay::apply(&pools.collect::<Vec<_>>(), &overlays, &self.snapshot.well_known);
        for conflict in &applied.conflicts {
            let Conflict { overlay, with, pool, instance_type, over } = conflict;
            let message = format!(
                "not applied: NodeOverlay {with} has the same weight and also sets {over} of {instance_type} for \
                 NodePool {pool}"
            );
            self.fault(format!("NodeOverlay {overlay}"), Fault::new("spec.weight", message));
        }
        applied
    }

    /// Adds the nodes that stay and returns the names of those that go.
    fn nodes(&mut self, by_pool: &TypesByPool<'_>, catalog: &Arc<[Arc<InstanceType>]>) -> Vec<String> {
        let mut leaving = Vec::new();
        for machine in machines(&self.world.nodes, &self.world.claims) {
            let Some(meta) = machine.meta() else { continue };
            if machine.is_leaving() {
                leaving.extend(machine.node.map(|node| node.metadata.name.clone()));
                continue;
            }
            let csi = machine.node.and_then(|node| self.world.csi_nodes.get(&node.metadata.name));
            let pool = meta.labels.get(NODE_POOL).and_then(|pool| by_pool.get(&**pool));
            match machine.node(pool.unwrap_or(catalog), csi) {
                Ok(node) => {
                    let mut used = machine.capacity();
                    used.set(NODES, Quantity::from_units(1));
                    let of = node.labels.get(NODE_POOL).cloned();
                    if let Some(pool) =
                        self.snapshot.pools.iter_mut().find(|pool| Some(&pool.name) == of.as_ref())
                    {
                        pool.used.add(&used);
                    }
                    self.snapshot.nodes.push(node);
                }
                Err(fault) => self.fault(format!("Node {}", meta.name), fault),
            }
        }
        leaving
    }

    fn pods(&mut self, leaving: &[String]) {
        let mut by_node: BTreeMap<&str, u32> = BTreeMap::new();
        for machine in machines(&self.world.nodes, &self.world.claims) {
            let at = machine.meta().and_then(|meta| {
                self.snapshot.nodes.iter().position(|node| *node.name == *meta.name).map(|at| at as u32)
            });
            if let (Some(node), Some(at)) = (machine.node, at) {
                by_node.insert(&node.metadata.name, at);
            }
        }
        for pod in &self.world.pods {
            let moving = leaving.contains(&pod.spec.node_name) && !pod.is_of_node();
            if pod.is_over() || (pod.metadata.is_leaving() && (moving || pod.spec.node_name.is_empty())) {
                continue;
            }
            let object = format!("Pod {}", pod.metadata.key());
            if !pod.spec.node_name.is_empty() && !moving {
                if let Some(&node) = by_node.get(pod.spec.node_name.as_str())
                    && let Err(fault) = self.bound(pod, node)
                {
                    self.fault(object, fault);
                }
            } else if !pod.is_of_node()
                && (moving || !pod.is_preempting())
                && pod.spec.scheduling_gates.is_empty()
                && let Err(fault) = self.pending(pod)
            {
                self.fault(object, fault);
            }
        }
    }

    fn bound(&mut self, pod: &KubePod, node: u32) -> Result<(), Fault> {
        let shape = self.shape(pod.shape(self.overhead(&pod.spec))?, &pod.spec);
        let volumes =
            self.volumes(&pod.metadata.name, pod.metadata.namespace(), &pod.spec, &[]).unwrap_or_default();
        let of_node = pod.metadata.has_owner("DaemonSet");
        let on = &mut self.snapshot.nodes[node as usize];
        on.requested.add(&shape.requests);
        if of_node {
            on.daemon_requested.add(&shape.requests);
        }
        on.host_ports.extend(shape.host_ports.iter().cloned());
        on.volumes.extend(volumes.1);
        if !pod.metadata.is_leaving() {
            self.snapshot.bound.push(BoundPod { namespace: pod.metadata.namespace().into(), shape, node });
        }
        Ok(())
    }

    fn pending(&mut self, pod: &KubePod) -> Result<(), Fault> {
        let shape = pod.shape(self.overhead(&pod.spec))?;
        let meta = &pod.metadata;
        let created = meta.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
        let uid = if meta.uid.is_empty() {
            format!("Pod/{}/{}", meta.namespace, meta.name)
        } else {
            meta.uid.clone()
        };
        let wanting = Wanting {
            name: &meta.name,
            namespace: meta.namespace(),
            uid,
            created,
            spec: &pod.spec,
            templates: &[],
            controller: controller(meta),
        };
        self.demand(&wanting, shape);
        Ok(())
    }

    /// Adds a pod that wants a node, unless it cannot have one.
    fn demand(&mut self, wanting: &Wanting<'_>, mut shape: Shape) {
        let Wanting { name, namespace, uid, created, spec, templates, controller } = wanting;
        let rejected = if spec.resource_claims.is_empty() {
            match self.volumes(name, namespace, spec, templates) {
                Ok((topology, volumes)) => {
                    shape.volume_topology = topology;
                    let mut shape = self.shape(shape, spec);
                    if let Some(spread) = self.defaults.spread(&shape, namespace, *controller) {
                        shape = self.interned(Shape { spread, ..Shape::clone(&shape) });
                    }
                    self.snapshot.pods.push(Pod {
                        namespace: (*namespace).into(),
                        name: (*name).into(),
                        uid: uid.as_str().into(),
                        created: *created,
                        demand: Demand::Real,
                        shape,
                        volumes,
                    });
                    return;
                }
                Err(reason) => reason,
            }
        } else {
            "asks for devices through resource claims, which are not supported".to_owned()
        };
        self.rejected.push(Rejected { pod: format!("{namespace}/{name}"), reason: rejected });
    }

    /// Where the pod's volumes are and what they attach.
    fn volumes(
        &self,
        name: &str,
        namespace: &str,
        spec: &PodSpec,
        templates: &[Claim],
    ) -> Result<(Vec<Requirements>, Vec<Volume>), String> {
        let own = spec.volumes.iter().filter_map(|volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                return Some((format!("{namespace}/{}", claim.claim_name), None));
            }
            let ephemeral = volume.ephemeral.as_ref()?;
            Some((format!("{namespace}/{name}-{}", volume.name), ephemeral.volume_claim_template.as_ref()))
        });
        let made = templates
            .iter()
            .map(|template| (format!("{namespace}/{}-{name}", template.metadata.name), Some(template)));
        let demands = self.world.storage.demands(own.chain(made))?;
        Ok((demands.topology, demands.attached))
    }

    fn overhead(&self, spec: &PodSpec) -> Option<&headstart_core::resources::Resources> {
        self.world.overheads.get(spec.runtime_class_name.as_ref()?)
    }

    /// The shape with its priority, kept once however many pods have it.
    fn shape(&mut self, mut shape: Shape, spec: &PodSpec) -> Arc<Shape> {
        if spec.priority.is_none() {
            let named = spec.priority_class_name.as_ref().and_then(|name| self.world.priorities.get(name));
            let default = || self.world.priorities.values().find(|class| class.global_default);
            shape.priority = named.or_else(default).map_or(0, |class| class.value);
        }
        self.interned(shape)
    }

    fn interned(&mut self, shape: Shape) -> Arc<Shape> {
        if let Some(known) = self.shapes.get(&shape) {
            return known.clone();
        }
        let shape = Arc::new(shape);
        self.shapes.insert(shape.clone());
        shape
    }

    fn workloads(&mut self) {
        let deployments: Vec<(&str, &str)> = self
            .world
            .workloads
            .iter()
            .filter(|workload| workload.kind == "Deployment")
            .map(|workload| (workload.metadata.namespace(), workload.metadata.name.as_str()))
            .collect();
        for workload in &self.world.workloads {
            let meta = &workload.metadata;
            let parents = deployments.iter().filter(|(namespace, _)| *namespace == meta.namespace());
            let follows = |(_, name): &(&str, &str)| meta.is_owned_by("Deployment", name);
            if meta.is_leaving()
                || (workload.kind == "ReplicaSet" && parents.copied().any(|parent| follows(&parent)))
            {
                continue;
            }
            let sets = self.world.workloads.iter().filter(|set| {
                set.kind == "ReplicaSet"
                    && set.metadata.namespace() == meta.namespace()
                    && set.metadata.is_owned_by("Deployment", &meta.name)
            });
            let sets: Vec<String> = if workload.kind == "Deployment" {
                sets.map(|set| set.metadata.name.clone()).collect()
            } else {
                Vec::new()
            };
            let template = &workload.spec.template;
            let made = workload.missing(&self.world.pods, &sets).and_then(|names| {
                let shape = if names.is_empty() {
                    Shape::default()
                } else {
                    template.shape(self.overhead(&template.spec))?
                };
                Ok((names, shape))
            });
            let created = meta.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
            match made {
                Ok((names, shape)) => {
                    for name in names {
                        let wanting = Wanting {
                            name: &name,
                            namespace: meta.namespace(),
                            uid: format!("Pod/{}/{name}", meta.namespace()),
                            created,
                            spec: &template.spec,
                            templates: &workload.spec.volume_claim_templates,
                            controller: Some((&workload.kind, &meta.name)),
                        };
                        self.demand(&wanting, shape.clone());
                    }
                }
                Err(fault) => self.fault(format!("{} {}", workload.kind, meta.key()), fault),
            }
        }
    }

    fn daemons(&mut self) {
        for daemon in &self.world.daemons {
            let template = &daemon.spec.template;
            match template.shape(self.overhead(&template.spec)) {
                Ok(mut shape) => {
                    // Other pods and host names do not keep a daemon from its node.
                    shape.required.iter_mut().for_each(|term| term.remove(HOSTNAME));
                    let shape = self.shape(shape, &template.spec);
                    self.snapshot.daemons.push(Daemon { name: daemon.metadata.key().into(), shape });
                }
                Err(fault) => self.fault(format!("DaemonSet {}", daemon.metadata.key()), fault),
            }
        }
    }
}
