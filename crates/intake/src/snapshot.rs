//! The solver's model of all objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_core::labels::{HOSTNAME, NODE_POOL, WellKnown};
use headstart_core::overlay::{self, Applied, Conflict, Offered};
use headstart_core::quantity::Quantity;
use headstart_core::requirements::Requirements;
use headstart_core::resources::{NODES, Resources};
use headstart_core::snapshot::{BoundPod, Daemon, Demand, Node, Pod, Pool, Shape, Snapshot, Volume};
use rustc_hash::FxHashSet;

use crate::decode::Fault;
use crate::diagnostic::Diagnostic;
use crate::kept::{KeptPod, Made};
use crate::node::{Machine, machines};
use crate::pod::PodVolume;
use crate::spread::{Defaults, controller};
use crate::storage::Claim;
use crate::world::World;
use headstart_core::types::Types;

/// A snapshot, and what did not make it in.
#[derive(Debug)]
pub struct Taken {
    /// What the solver is asked about.
    pub snapshot: Snapshot,
    /// Pods that cannot run anywhere as things are.
    pub rejected: Vec<Rejected>,
    /// Pods with a node, as if they wanted another one; only if somebody asks for them.
    pub residents: Vec<Resident>,
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

/// A pod with a node, as if it wanted another one.
#[derive(Clone, Debug)]
pub struct Resident {
    /// The index of its node in the snapshot.
    pub node: u32,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it would ask for; `None` if it could not have another node as things are.
    pub pod: Option<Pod>,
}

/// What somebody who decides over time knows about pods beyond what their objects say.
pub trait Sight {
    /// Whether missing pods of workloads want nodes as if they were there.
    fn counts_missing(&self) -> bool;

    /// Whether nodes that are going away still count against limits.
    fn counts_leaving(&self) -> bool;

    /// Whether nodes may be bought from a pool now.
    fn buys_from(&self, pool: &str) -> bool;

    /// Whether pods with a node are listed as if they wanted another one.
    fn lists_residents(&self) -> bool {
        false
    }

    /// Whether a pod is none for whoever decides: the room that it takes is free.
    fn overlooks(&self, _: &KeptPod) -> bool {
        false
    }

    /// How a pod without a node stands.
    fn standing(&self, pod: Waiting<'_>) -> Standing<'_>;
}

/// A pod without a node.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a Arc<str>,
    /// What it needs, as far as that is known.
    pub shape: Option<&'a Arc<Shape>>,
    /// Whether room is being made for it on some node.
    pub is_preempting: bool,
}

/// How a pod without a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// It wants a node.
    Wants,
    /// It wants none, or not now.
    Waits,
    /// It will be on the node of this claim.
    Promised(&'a str),
    /// It will be on this node.
    Nominated(&'a str),
}

/// The sight of whoever knows nothing but the objects: every pod wants a node, those that are missing too.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Sight for Plain {
    fn counts_missing(&self) -> bool {
        true
    }

    fn counts_leaving(&self) -> bool {
        false
    }

    fn buys_from(&self, _: &str) -> bool {
        true
    }

    fn standing(&self, pod: Waiting<'_>) -> Standing<'_> {
        if pod.is_preempting { Standing::Waits } else { Standing::Wants }
    }
}

/// Builds the snapshot bit by bit.
pub(crate) struct Builder<'a> {
    world: &'a World,
    sight: &'a dyn Sight,
    snapshot: Snapshot,
    rejected: Vec<Rejected>,
    residents: Vec<Resident>,
    conflicts: Vec<Conflict>,
    diagnostics: Vec<Diagnostic>,
    shapes: FxHashSet<Arc<Shape>>,
    defaults: Defaults<'a>,
}

/// Who wants a node.
pub(crate) struct Wanting<'a> {
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) created: i64,
    pub(crate) made: &'a Made,
    pub(crate) claims: &'a [PodVolume],
    /// Claims that are made with the pod.
    pub(crate) templates: &'a [Claim],
    pub(crate) controller: Option<(&'a str, &'a str)>,
}

/// What a pod needs, and its volumes that count against attachment limits.
pub(crate) type Needs = (Arc<Shape>, Vec<Volume>);

/// What each pool can buy.
type TypesByPool<'a> = BTreeMap<&'a str, Arc<Types>>;

impl World {
    /// The snapshot of all objects, with what can be bought from a catalogue.
    pub fn snapshot(&self, types: &Arc<Types>, well_known: &WellKnown) -> Taken {
        self.snapshot_seen(types, well_known, &Plain)
    }

    /// The snapshot of all objects, as somebody sees them.
    pub fn snapshot_seen(&self, types: &Arc<Types>, well_known: &WellKnown, sight: &dyn Sight) -> Taken {
        let mut builder = Builder::new(self, well_known, sight);
        let by_pool = builder.pools(types);
        let leaving = builder.nodes(&by_pool, types);
        builder.pods(&leaving);
        if sight.counts_missing() {
            builder.workloads();
        }
        builder.daemons();
        let Builder { snapshot, rejected, residents, conflicts, diagnostics, .. } = builder;
        Taken { snapshot, rejected, residents, conflicts, diagnostics }
    }
}

impl<'a> Builder<'a> {
    pub(crate) fn new(world: &'a World, well_known: &WellKnown, sight: &'a dyn Sight) -> Self {
        Self {
            world,
            sight,
            snapshot: Snapshot {
                well_known: well_known.clone(),
                namespaces: world.namespaces.clone(),
                ..Snapshot::default()
            },
            rejected: Vec::new(),
            residents: Vec::new(),
            conflicts: Vec::new(),
            diagnostics: world.diagnostics.clone(),
            shapes: FxHashSet::default(),
            defaults: Defaults::new(world),
        }
    }

    fn fault(&mut self, object: String, fault: Fault) {
        self.diagnostics.push(Diagnostic { object, field: fault.field, message: fault.message });
    }

    /// Adds the pools that nodes may come from and returns what each one can buy, the others included.
    fn pools(&mut self, types: &Arc<Types>) -> TypesByPool<'a> {
        let Applied { pools: overlaid, conflicts } = self.overlays(types);
        let mut by_pool = TypesByPool::new();
        for (pool, overlaid) in self.world.pools.iter().zip(overlaid) {
            match pool.pool() {
                Ok(Some(pool)) if !self.sight.buys_from(&pool.name) => {}
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
    fn overlays(&mut self, types: &Arc<Types>) -> Applied {
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
    fn nodes(&mut self, by_pool: &TypesByPool<'_>, catalog: &Arc<Types>) -> BTreeSet<Arc<str>> {
        let mut leaving = BTreeSet::new();
        for machine in machines(&self.world.nodes, &self.world.claims) {
            let Some(described) = machine.described() else { continue };
            let of = described.labels.get(NODE_POOL).cloned();
            let types = of.as_ref().and_then(|pool| by_pool.get(&**pool)).unwrap_or(catalog);
            if machine.is_leaving() {
                leaving.extend(machine.node.map(|node| node.name.clone()));
                if self.sight.counts_leaving() {
                    let used = self.most_used(&machine, types);
                    self.count(of.as_ref(), &used);
                }
                continue;
            }
            let csi = machine.node.and_then(|node| self.world.csi_nodes.get(&*node.name));
            match machine.node(types, csi) {
                Ok(node) => {
                    self.count(of.as_ref(), &machine.capacity());
                    self.snapshot.nodes.push(node);
                }
                Err(fault) => self.fault(format!("Node {}", described.name), fault),
            }
        }
        leaving
    }

    /// What a machine has, or the most that it may have if nobody has told yet.
    ///
    /// The solver does this for machines that stay; it never sees those that leave.
    fn most_used(&self, machine: &Machine<'_>, types: &Arc<Types>) -> Arc<Resources> {
        let told = machine.capacity();
        if !told.is_empty() {
            return told;
        }
        let Ok(Node { launching: Some(launching), labels, .. }) = machine.node(types, None) else {
            return told;
        };
        Arc::new(launching.most(&labels, &self.snapshot.well_known))
    }

    /// Counts a machine against the limits of its pool.
    fn count(&mut self, pool: Option<&Arc<str>>, capacity: &Resources) {
        if let Some(pool) = self.snapshot.pools.iter_mut().find(|known| Some(&known.name) == pool) {
            pool.used.add(capacity);
            pool.used.add(&Resources::from_iter([(NODES, Quantity::from_units(1))]));
        }
    }

    fn pods(&mut self, leaving: &BTreeSet<Arc<str>>) {
        let nodes = self.snapshot.nodes.iter().zip(0..);
        let at: BTreeMap<Arc<str>, u32> = nodes.map(|(node, at)| (node.name.clone(), at)).collect();
        let mut by_node: BTreeMap<&str, u32> = BTreeMap::new();
        let mut by_claim: BTreeMap<&str, u32> = BTreeMap::new();
        for machine in machines(&self.world.nodes, &self.world.claims) {
            let Some(at) = machine.described().and_then(|described| at.get(&described.name)) else {
                continue;
            };
            if let Some(node) = machine.node {
                by_node.insert(&node.name, *at);
            }
            if let Some(claim) = machine.claim {
                by_claim.insert(&claim.of_node.name, *at);
            }
        }
        let waiting = self.world.pods.iter().filter(|pod| pod.node().is_none()).count();
        self.snapshot.pods.reserve_exact(waiting);
        for pod in &self.world.pods {
            let moving = pod.node().is_some_and(|node| leaving.contains(node)) && !pod.is_of_node();
            let is_going = pod.is_leaving() && (moving || pod.node().is_none());
            if pod.is_over() || is_going || self.sight.overlooks(pod) {
                continue;
            }
            let done = match pod.node() {
                Some(node) if !moving => match by_node.get(&**node) {
                    Some(node) => self.bound(pod, *node).and_then(|()| self.resident(pod, *node)),
                    None => Ok(()),
                },
                _ if pod.is_of_node() || pod.made.gated => Ok(()),
                Some(_) => self.pending(pod),
                None => {
                    let waiting = Waiting {
                        namespace: &pod.made.namespace,
                        name: &pod.name,
                        uid: &pod.uid,
                        shape: pod.made.shape.as_ref().ok(),
                        is_preempting: pod.nominated().is_some(),
                    };
                    let promised = match self.sight.standing(waiting) {
                        Standing::Wants => None,
                        Standing::Waits => continue,
                        Standing::Promised(claim) => by_claim.get(claim),
                        Standing::Nominated(node) => by_node.get(node),
                    };
                    match promised {
                        Some(node) => self.bound(pod, *node),
                        None => self.pending(pod),
                    }
                }
            };
            if let Err(fault) = done {
                self.fault(format!("Pod {}", pod.key()), fault);
            }
        }
    }

    fn bound(&mut self, pod: &KeptPod, node: u32) -> Result<(), Fault> {
        let shape = self.shape(&pod.made)?;
        let volumes = self.volumes(&pod.name, &pod.made.namespace, pod.claims(), &[]).unwrap_or_default();
        let of_node = pod.is_daemon();
        let on = &mut self.snapshot.nodes[node as usize];
        on.requested.add(&shape.requests);
        if of_node {
            on.daemon_requested.add(&shape.requests);
        }
        on.host_ports.extend(shape.host_ports.iter().cloned());
        on.volumes.extend(volumes.1);
        if !pod.is_leaving() {
            self.snapshot.bound.push(BoundPod { namespace: pod.made.namespace.clone(), shape, node });
        }
        Ok(())
    }

    /// Lists a pod with a node as if it wanted another one, if somebody asks for that.
    fn resident(&mut self, pod: &KeptPod, node: u32) -> Result<(), Fault> {
        if !self.sight.lists_residents() || pod.is_of_node() || pod.is_leaving() {
            return Ok(());
        }
        let (waiting, rejected) = (self.snapshot.pods.len(), self.rejected.len());
        self.pending(pod)?;
        self.rejected.truncate(rejected);
        let wanted = if self.snapshot.pods.len() > waiting { self.snapshot.pods.pop() } else { None };
        self.residents.push(Resident {
            node,
            namespace: pod.made.namespace.clone(),
            name: pod.name.clone(),
            pod: wanted,
        });
        Ok(())
    }

    fn pending(&mut self, pod: &KeptPod) -> Result<(), Fault> {
        let uid = if pod.uid.is_empty() {
            format!("Pod/{}/{}", pod.made.namespace, pod.name).into()
        } else {
            pod.uid.clone()
        };
        self.demand(Wanting {
            name: pod.name.clone(),
            namespace: pod.made.namespace.clone(),
            uid,
            created: pod.created.div_euclid(1000),
            made: &pod.made,
            claims: pod.claims(),
            templates: &[],
            controller: controller(&pod.made.owners),
        })
    }

    /// Adds a pod that wants a node, unless it cannot have one.
    fn demand(&mut self, wanting: Wanting<'_>) -> Result<(), Fault> {
        let (namespace, name) = (wanting.namespace.clone(), wanting.name.clone());
        match self.needs(&wanting)? {
            Ok((shape, volumes)) => {
                let Wanting { uid, created, .. } = wanting;
                let (demand, volumes) = (Demand::Real, volumes.into());
                self.snapshot.pods.push(Pod { namespace, name, uid, created, demand, shape, volumes });
            }
            Err(reason) => self.rejected.push(Rejected { pod: format!("{namespace}/{name}"), reason }),
        }
        Ok(())
    }

    /// Everything that a pod needs, or why it cannot run anywhere.
    pub(crate) fn needs(&mut self, wanting: &Wanting<'_>) -> Result<Result<Needs, String>, Fault> {
        let Wanting { name, namespace, made, claims, templates, controller, .. } = wanting;
        let mut shape = self.shape(made)?;
        if made.wants_devices {
            return Ok(Err("asks for devices through resource claims, which are not supported".to_owned()));
        }
        Ok(self.volumes(name, namespace, claims, templates).map(|(volume_topology, volumes)| {
            if !volume_topology.is_empty() {
                shape = self.interned(Shape { volume_topology, ..Shape::clone(&shape) });
            }
            if let Some(spread) = self.defaults.spread(&shape, namespace, *controller) {
                shape = self.interned(Shape { spread, ..Shape::clone(&shape) });
            }
            (shape, volumes)
        }))
    }

    /// Where the pod's volumes are and what they attach.
    fn volumes(
        &self,
        name: &str,
        namespace: &str,
        claims: &[PodVolume],
        templates: &[Claim],
    ) -> Result<(Vec<Requirements>, Vec<Volume>), String> {
        if claims.is_empty() && templates.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let own = claims.iter().filter_map(|volume| {
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

    /// What pods of a template need, with what classes add.
    pub(crate) fn shape(&mut self, made: &Made) -> Result<Arc<Shape>, Fault> {
        let plain = made.shape.clone()?;
        let overhead = made.runtime_class.as_ref().and_then(|name| self.world.overheads.get(name));
        let priority = made.priority_class.as_ref().map(|name| {
            let default = || self.world.priorities.values().find(|class| class.global_default);
            self.world.priorities.get(name).or_else(default).map_or(0, |class| class.value)
        });
        if overhead.is_none() && priority.is_none_or(|priority| priority == plain.priority) {
            return Ok(plain);
        }
        let mut shape = Shape::clone(&plain);
        shape.priority = priority.unwrap_or(plain.priority);
        if let Some(overhead) = overhead {
            shape.requests.add(overhead);
        }
        Ok(self.interned(shape))
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
            let made = workload.spec.template.made(meta.namespace(), &self.world.default_requests);
            let created = meta.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
            let added = workload.missing(&self.world.pods, &sets).and_then(|names| {
                names.into_iter().try_for_each(|name| {
                    self.demand(Wanting {
                        uid: format!("Pod/{}/{name}", meta.namespace()).into(),
                        name: name.into(),
                        namespace: made.namespace.clone(),
                        created,
                        made: &made,
                        claims: workload.spec.template.volumes(),
                        templates: &workload.spec.volume_claim_templates,
                        controller: Some((&workload.kind, &meta.name)),
                    })
                })
            });
            if let Err(fault) = added {
                self.fault(format!("{} {}", workload.kind, meta.key()), fault);
            }
        }
    }

    fn daemons(&mut self) {
        for daemon in &self.world.daemons {
            let made = daemon.spec.template.made(daemon.metadata.namespace(), &self.world.default_requests);
            match self.shape(&made) {
                Ok(shape) => {
                    // Other pods and host names do not keep a daemon from its node.
                    let mut shape = Shape::clone(&shape);
                    shape.required.iter_mut().for_each(|term| term.remove(HOSTNAME));
                    let shape = self.interned(shape);
                    self.snapshot.daemons.push(Daemon { name: daemon.metadata.key().into(), shape });
                }
                Err(fault) => self.fault(format!("DaemonSet {}", daemon.metadata.key()), fault),
            }
        }
    }
}
