//! What was observed, and what was asked for and will soon be.
//!
//! Objects come from watches and from the answers to our own writes; versions tell which is newer, so that a watch that lags
//! never takes back what a write has told.

mod buried;
mod claim;
mod class;
mod guard;
mod index;
mod learn;
mod meta;
mod node;
mod owner;
mod pod;
mod pods;
mod table;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_api::conditions::{self, READY};
use headstart_api::nodeclaim::NodeClassReference;
use headstart_api::{CapacityBuffer, NodePool};
use headstart_core::cloud::ProviderId;
use headstart_core::repair::Rules;
use headstart_intake::{Diagnostic, World};

pub(crate) use claim::Claim;
pub(crate) use class::Class;
pub(crate) use guard::Guard;
pub(crate) use meta::{Meta, Owner as OwnerReference, texts};
pub(crate) use node::Node;
pub(crate) use owner::uid;
pub(crate) use pod::{Pod, PodKey, PodLife};

use crate::kind::Kind;
use crate::settings::ClassKind;
use buried::Buried;
use index::ByMachine;
use owner::Owner;
use table::Table;
use watch::Reading;

/// What is known about all objects.
#[derive(Debug)]
pub(crate) struct Store {
    /// The kind of node class that pools must have to be ours; none if any will do.
    class: Option<ClassKind>,
    /// When a node is sick.
    pub(crate) rules: Rules,
    /// What decides placement.
    pub(crate) world: World,
    pub(crate) nodes: Table<Node>,
    pub(crate) claims: Table<Claim>,
    pub(crate) pools: BTreeMap<String, NodePool>,
    pub(crate) classes: BTreeMap<String, Class>,
    pub(crate) buffers: BTreeMap<(String, String), CapacityBuffer>,
    /// Whether somebody looks at what makes pods.
    keeps_makers: bool,
    /// Pods that are alive and have no node.
    pub(crate) waiting: BTreeSet<PodKey>,
    /// Whether pods that only keep room count for nothing but that.
    pub(crate) sets_placeholders_apart: bool,
    /// Those pods.
    pub(crate) placeholders: BTreeSet<PodKey>,
    /// Pod disruption budgets, by namespace and name.
    pub(crate) guards: BTreeMap<(String, String), Guard>,
    /// What was wrong with objects, by kind, namespace and name.
    pub(crate) diagnostics: BTreeMap<(Kind, String, String), Diagnostic>,
    /// Node and volume of each attachment.
    attachments: BTreeMap<String, (String, String)>,
    /// The volume of each volume claim.
    volumes: BTreeMap<(String, String), String>,
    owners: BTreeMap<String, Owner>,
    /// How many pods with a node have each priority.
    priorities: BTreeMap<i32, usize>,
    live: BTreeMap<Arc<str>, usize>,
    /// How many of those are running.
    running: BTreeMap<Arc<str>, usize>,
    on_node: BTreeMap<Arc<str>, BTreeSet<PodKey>>,
    node_of: ByMachine,
    claim_of: BTreeMap<Arc<str>, Arc<str>>,
    /// Claims that a write has told of and no watch has yet.
    unwatched: BTreeSet<String>,
    /// Names of objects that have no table here.
    others: BTreeMap<Kind, BTreeSet<(String, String)>>,
    reading: BTreeMap<Kind, Reading>,
    buried: Buried,
}

/// What a change may be of interest for.
#[derive(Clone, Debug)]
pub(crate) enum Touched {
    /// A pod, and the nodes it was and is on.
    Pod {
        key: PodKey,
        uid: Arc<str>,
        was_on: Option<Arc<str>>,
        /// The node where it came, ended or began to end just now.
        stirred: Option<Arc<str>>,
    },
    Node {
        name: String,
        provider_id: Option<ProviderId>,
    },
    /// A claim, with its last state if it is gone.
    Claim {
        name: String,
        gone: Option<Box<Claim>>,
    },
    /// A claim that we made is not in a list, which may be older than the claim.
    Doubtful {
        name: String,
    },
    Pool {
        name: String,
    },
    Class {
        name: String,
    },
    Attachment {
        node: String,
    },
    Other(Kind),
}

impl Store {
    /// A store without objects, for a cloud with this kind of node class, or for any cloud; whether somebody looks at what
    /// makes pods.
    pub(crate) fn new(class: Option<ClassKind>, keeps_makers: bool, rules: Rules) -> Self {
        Self {
            class,
            rules,
            keeps_makers,
            world: World::new(),
            nodes: Table::default(),
            claims: Table::default(),
            pools: BTreeMap::new(),
            classes: BTreeMap::new(),
            buffers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            sets_placeholders_apart: false,
            placeholders: BTreeSet::new(),
            guards: BTreeMap::new(),
            diagnostics: BTreeMap::new(),
            attachments: BTreeMap::new(),
            volumes: BTreeMap::new(),
            owners: BTreeMap::new(),
            priorities: BTreeMap::new(),
            live: BTreeMap::new(),
            running: BTreeMap::new(),
            on_node: BTreeMap::new(),
            node_of: ByMachine::default(),
            claim_of: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            others: BTreeMap::new(),
            reading: BTreeMap::new(),
            buried: Buried::default(),
        }
    }

    /// Whether a pool's class is of our cloud.
    pub(crate) fn is_ours(&self, class: &NodeClassReference) -> bool {
        self.class.as_ref().is_none_or(|ours| class.group == ours.group && class.kind == ours.kind)
    }

    /// Whether nodes may be bought from a pool: it is ours and has been found in order.
    pub(crate) fn is_usable(&self, pool: &str) -> bool {
        self.pools.get(pool).is_some_and(|pool| {
            let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice());
            self.is_ours(&pool.spec.template.spec.node_class_ref)
                && conditions::is_true(conditions.unwrap_or_default(), READY)
        })
    }

    /// The only node with a provider id; `Err` if there are several.
    pub(crate) fn node_with(&self, id: &ProviderId) -> Result<Option<&Node>, ()> {
        let mut nodes = self.nodes_with(id);
        let node = nodes.next();
        if nodes.next().is_some() { Err(()) } else { Ok(node) }
    }

    /// All nodes with a provider id.
    pub(crate) fn nodes_with(&self, id: &ProviderId) -> impl Iterator<Item = &Node> {
        self.node_of.on(&id.0).filter_map(|name| self.nodes.get(name))
    }

    pub(crate) fn claim_with(&self, id: &ProviderId) -> Option<&Claim> {
        self.claims.get(self.claim_of.get(&*id.0)?)
    }

    /// The claim of a node.
    pub(crate) fn claim_of_node(&self, node: &Node) -> Option<&Claim> {
        self.claims.get(self.claim_of.get(node.machine())?)
    }

    /// Volumes attached to a node.
    pub(crate) fn attached_to<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let here = move |(_, (on, _)): &(&String, &(String, String))| on == node;
        self.attachments.iter().filter(here).map(|(name, (_, volume))| (name.as_str(), volume.as_str()))
    }

    /// Whether there is an object of a kind that has no table here.
    pub(crate) fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        self.others.get(&kind).is_some_and(|names| names.contains(&key))
    }

    /// The volume behind a volume claim.
    pub(crate) fn volume_of(&self, namespace: &str, claim: &str) -> Option<&str> {
        self.volumes.get(&(namespace.to_owned(), claim.to_owned())).map(String::as_str)
    }
}
