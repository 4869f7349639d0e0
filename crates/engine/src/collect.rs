//! Claims without instances, and instances without claims.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headstart_core::cloud::{Instance, ProviderId, State, tag};

use crate::action::{Effect, ObjectRef};
use crate::claims;
use crate::errands::Errand;
use crate::kind::Kind;
use crate::machines::Machines;
use crate::out::Out;
use crate::report::Level;
use crate::store::{Claim, Node, Store};
use crate::time::Time;

/// How often instances are listed.
const EVERY: Duration = Duration::from_mins(2);
/// How soon a suspicion is looked at again.
const SOON: Duration = Duration::from_secs(10);
/// How long to wait for the effect of what was asked.
const AGAIN: Duration = Duration::from_secs(5);
/// How long an instance without a claim is left alone: what is known of claims may be behind.
const GRACE: Duration = Duration::from_secs(30);

/// Looks after what crashes and other people leave behind.
#[derive(Debug, Default)]
pub(crate) struct Collect {
    /// Whether instances have been listed since this process leads.
    is_listed: bool,
    next: Option<Time>,
    /// Instances without a claim.
    orphans: BTreeMap<ProviderId, Orphan>,
    /// Claims whose instance was not in a list.
    missing: BTreeSet<String>,
}

#[derive(Debug)]
struct Orphan {
    /// When to look at it.
    due: Time,
    /// The claim that it says it belongs to, and its uid.
    claim: String,
    uid: String,
    /// Whether the API server has confirmed that there is no such claim.
    is_proven: bool,
}

impl Collect {
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.next
    }

    /// Lists instances at once, before anything is decided.
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
        self.next = Some(Time(0));
    }

    pub(crate) fn poll(&mut self, store: &Store, machines: &Machines, out: &mut Out<'_>) {
        let now = out.now.time;
        if self.next.is_some_and(|next| next <= now) {
            out.ask(Errand::Instances, Effect::Instances);
            self.next = Some(now + if self.is_listed { EVERY } else { Duration::from_secs(1) });
        }
        if !self.is_listed {
            return;
        }
        let missing: Vec<String> = self.missing.iter().cloned().collect();
        for name in missing {
            self.look_for(&name, store, machines, out);
        }
        let due: Vec<ProviderId> =
            self.orphans.iter().filter(|(_, orphan)| now >= orphan.due).map(|(id, _)| id.clone()).collect();
        for id in due {
            self.end(&id, store, machines, out);
        }
    }

    /// Deletes a claim whose instance is gone for certain.
    fn look_for(&mut self, name: &str, store: &Store, machines: &Machines, out: &mut Out<'_>) {
        let claim = store.claims.get(name).filter(|claim| !claim.is_leaving());
        let Some((claim, id)) = claim.and_then(|claim| Some((claim, claim.provider_id()?))) else {
            self.missing.remove(name);
            return;
        };
        if store.nodes_with(&id).any(Node::is_ready) {
            self.missing.remove(name);
        } else if machines.gone.contains(&id) {
            self.missing.remove(name);
            claims::remove(claim, "garbage_collected", out);
        } else {
            out.ask(Errand::Instance(id.clone()), Effect::Inspect(id));
        }
    }

    /// Ends an instance that belongs to nobody for certain.
    fn end(&mut self, id: &ProviderId, store: &Store, machines: &Machines, out: &mut Out<'_>) {
        let Some(orphan) = self.orphans.get_mut(id) else { return };
        orphan.due = out.now.time + AGAIN;
        let is_claimed = store.claim_with(id).is_some()
            || store.claims.values().any(|claim| {
                machines.launched.get(&claim.metadata.uid).is_some_and(|launch| launch.instance.id == *id)
            });
        if is_claimed || machines.gone.contains(id) {
            self.orphans.remove(id);
        } else if orphan.is_proven || orphan.claim.is_empty() {
            out.line(
                Level::Warning,
                "ending an instance that no claim has",
                &[("provider-id", &id.0), ("NodeClaim", &orphan.claim)],
            );
            out.ask(Errand::Instance(id.clone()), Effect::Terminate(id.clone()));
        } else {
            let object = ObjectRef {
                kind: Kind::NodeClaim,
                namespace: String::new(),
                name: orphan.claim.clone(),
                uid: String::new(),
            };
            out.ask(Errand::Doubt(orphan.claim.clone()), Effect::Read { object });
        }
    }

    /// Takes notice of what a claim of that name is: nothing, or one with this uid.
    pub(crate) fn read(&mut self, name: &str, uid: Option<&str>) {
        for orphan in self.orphans.values_mut().filter(|orphan| orphan.claim == name) {
            orphan.is_proven |= uid.is_none_or(|uid| uid != orphan.uid);
        }
    }

    /// Takes notice that an instance is gone.
    pub(crate) fn gone(&mut self, id: &ProviderId) {
        self.orphans.remove(id);
    }

    /// Takes notice that a claim's instance is there after all; the next list tells if it still is missing.
    pub(crate) fn found(&mut self, claim: &str) {
        self.missing.remove(claim);
    }

    /// Takes notice of all instances.
    pub(crate) fn listed(&mut self, instances: &[Instance], store: &Store, machines: &Machines, now: Time) {
        self.is_listed = true;
        let mut next = now + EVERY;
        let ids: BTreeSet<&ProviderId> = instances
            .iter()
            .filter(|instance| instance.state == State::Running)
            .map(|instance| &instance.id)
            .collect();
        let is_lost = |claim: &&Claim| {
            claim.is_registered()
                && !claim.is_leaving()
                && claim.provider_id().is_some_and(|id| !ids.contains(&id))
        };
        self.missing = store.claims.values().filter(is_lost).map(|claim| claim.name().to_owned()).collect();
        let uids: BTreeSet<&str> = store.claims.values().map(|claim| claim.metadata.uid.as_str()).collect();
        let mut orphans = BTreeMap::new();
        for instance in instances.iter().filter(|instance| instance.state == State::Running) {
            let of_claim = instance.token.as_ref().is_some_and(|token| uids.contains(token.0.as_str()));
            if of_claim || store.claim_with(&instance.id).is_some() || machines.gone.contains(&instance.id) {
                continue;
            }
            let claim = instance.tags.get(tag::CLAIM).cloned().unwrap_or_default();
            let orphan = self.orphans.remove(&instance.id);
            let uid = instance.token.as_ref().map(|token| token.0.clone()).unwrap_or_default();
            let orphan = orphan.unwrap_or(Orphan { due: now + GRACE, claim, uid, is_proven: false });
            orphans.insert(instance.id.clone(), orphan);
        }
        if !orphans.is_empty() || !self.missing.is_empty() {
            next = now + SOON;
        }
        self.orphans = orphans;
        self.next = Some(next);
    }
}
