//! What watches and lists tell.

use std::collections::BTreeSet;

use super::pod::{Pod, PodLife as _};
use super::{Store, Touched, owner};
use crate::event::Change;
use crate::kind::Kind;

/// How far a kind has been read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    is_listed: bool,
    is_missing: bool,
    /// What was told since a listing began.
    told: Option<BTreeSet<(String, String)>>,
}

impl Store {
    /// Takes notice of what a watch saw.
    pub(crate) fn watched(&mut self, kind: Kind, change: Change) -> Vec<Touched> {
        match change {
            Change::Relisting => {
                self.reading.entry(kind).or_default().told = Some(BTreeSet::new());
                Vec::new()
            }
            Change::Seen(value) => {
                if let Some(told) = self.reading.entry(kind).or_default().told.as_mut() {
                    told.insert(owner::names(&value));
                }
                if kind == Kind::NodeClaim {
                    self.unwatched.remove(owner::text(&value, "metadata", "name"));
                }
                if self.buried.has(owner::uid(&value)) {
                    return Vec::new();
                }
                self.learn(kind, &value)
            }
            Change::Gone(value) => {
                let (namespace, name) = owner::names(&value);
                self.buried.add(owner::uid(&value));
                self.lose(kind, &namespace, &name, Some(owner::uid(&value)))
            }
            Change::Listed => self.listed(kind),
            Change::Missing { .. } => {
                let reading = self.reading.entry(kind).or_default();
                *reading = Reading { is_missing: true, ..Reading::default() };
                let names = self.names(kind);
                names.iter().flat_map(|(namespace, name)| self.lose(kind, namespace, name, None)).collect()
            }
        }
    }

    pub(super) fn listed(&mut self, kind: Kind) -> Vec<Touched> {
        let reading = self.reading.entry(kind).or_default();
        let told = reading.told.take().unwrap_or_default();
        (reading.is_listed, reading.is_missing) = (true, false);
        let mut touched = vec![Touched::Other(kind)];
        for (namespace, name) in self.names(kind) {
            if told.contains(&(namespace.clone(), name.clone())) {
                continue;
            }
            if kind == Kind::NodeClaim {
                if self.claims.get(&name).is_some_and(|claim| claim.is_assumed) {
                    continue;
                }
                if self.unwatched.contains(&name) {
                    touched.push(Touched::Doubtful { name });
                    continue;
                }
            }
            touched.extend(self.lose(kind, &namespace, &name, None));
        }
        touched
    }

    /// Names of all objects of a kind.
    pub(super) fn names(&self, kind: Kind) -> Vec<(String, String)> {
        let alone = |name: &String| (String::new(), name.clone());
        match kind {
            Kind::Pod => {
                let names = |pod: &Pod| (pod.namespace().to_string(), pod.name().to_string());
                let mut all: Vec<_> = self.world.pods().iter().map(names).collect();
                all.sort_unstable();
                all
            }
            Kind::Node => self.nodes.keys().map(|name| (String::new(), name.to_string())).collect(),
            Kind::NodeClaim => self.claims.keys().map(|name| (String::new(), name.to_string())).collect(),
            Kind::NodePool => self.pools.keys().map(alone).collect(),
            Kind::NodeClass => self.classes.keys().map(alone).collect(),
            Kind::VolumeAttachment => self.attachments.keys().map(alone).collect(),
            Kind::CapacityBuffer => self.buffers.keys().cloned().collect(),
            other => self.others.get(&other).into_iter().flatten().cloned().collect(),
        }
    }

    /// All objects that have a life of their own.
    pub(crate) fn everything(&self) -> Vec<Touched> {
        let pools = self.pools.keys().map(|name| Touched::Pool { name: name.clone() });
        let claims = self.claims.keys().map(|name| Touched::Claim { name: name.to_string(), gone: None });
        let nodes = self
            .nodes
            .values()
            .map(|node| Touched::Node { name: node.name().to_owned(), provider_id: node.provider_id() });
        let waiting = self.waiting.iter().filter_map(|key| self.pod(key));
        let pods = waiting.map(|pod| Touched::Pod {
            key: pod.key(),
            uid: pod.uid().clone(),
            was_on: None,
            stirred: None,
        });
        pools.chain(claims).chain(nodes).chain(pods).collect()
    }

    /// Whether a kind can be read and has been.
    pub(crate) fn is_listed(&self, kind: Kind) -> bool {
        self.reading.get(&kind).is_some_and(|reading| reading.is_listed)
    }

    /// Whether everything has been read that decisions need.
    pub(crate) fn is_complete(&self) -> bool {
        let read = |kind: &Kind| self.reading.get(kind).is_some_and(|reading| reading.is_listed);
        let settled = |kind: &Kind| {
            self.reading.get(kind).is_some_and(|reading| reading.is_listed || reading.is_missing)
        };
        // Whoever does not buy nodes can do without what they are bought by.
        let is_bought_by = |kind: &Kind| matches!(kind, Kind::NodeClass | Kind::NodePool | Kind::NodeClaim);
        let is_vital = |kind: &Kind| kind.is_vital() && (self.class.is_some() || !is_bought_by(kind));
        Kind::ALL.iter().all(|kind| if is_vital(kind) { read(kind) } else { settled(kind) })
    }
}
