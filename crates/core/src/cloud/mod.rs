//! What is said to and by a cloud: requests, instances, notices, failures.
//!
//! The words live here, where decisions are made; whoever talks to a cloud only carries them.

mod error;
pub mod millis;
mod notice;
mod repair;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::{CloudError, Effect, Reason};
pub use notice::{Cursor, Notice, NoticeKind, Notices};
pub use repair::{RepairAction, RepairPolicy};

use crate::catalog::{InstanceType, Offering};
use crate::hash;
use crate::requirement::Requirement;
use crate::resources::Resources;

/// Which node class is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassRef {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name of the (cluster-scoped) object.
    pub name: String,
}

/// The id by which the cloud and the Node's `spec.providerID` know an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderId(pub String);

/// The idempotency token of a launch: the uid of its NodeClaim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

/// One thing that can be bought: a type in a zone, at a capacity type, perhaps from a reservation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferingKey {
    /// The instance type's name.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// The reservation it draws from, for `reserved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
}

/// A request for one instance.
///
/// INVARIANT: it depends on the NodeClaim's immutable parts alone, so that a token never carries two requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRequest {
    /// The idempotency token.
    pub token: Token,
    /// The NodeClaim's name.
    pub claim: String,
    /// The NodePool's name; empty for a NodeClaim without one.
    pub pool: String,
    /// The node class.
    pub class: ClassRef,
    /// What may be bought, the most wanted first.
    pub offerings: Vec<OfferingKey>,
    /// What the Node is to look like when it registers.
    pub node: NodeTemplate,
    /// What the pods meant for the node ask for.
    pub requests: Resources,
    /// Further tags for the instance; the cloud adds the NodeClaim's name and uid itself.
    pub tags: BTreeMap<String, String>,
}

/// The parts of a Node that its NodeClaim determines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints that stay.
    pub taints: Vec<Taint>,
    /// Taints that somebody lifts once the node is ready for use.
    pub startup_taints: Vec<Taint>,
}

/// A taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value, often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// What a launch gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// The instance, new or found again by its token.
    pub instance: Instance,
    /// Offerings that were preferred but had no capacity.
    pub dry: Vec<DryOffering>,
}

/// An offering that was tried and had no capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DryOffering {
    /// The offering.
    pub offering: OfferingKey,
    /// For how long the cloud expects that to last, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::cloud::millis::option")]
    pub lasts: Option<Duration>,
}

/// An instance as the cloud knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its id.
    pub id: ProviderId,
    /// The token it was launched with, if the cloud still knows it.
    pub token: Option<Token>,
    /// What was bought.
    pub offering: OfferingKey,
    /// Where it is in its life.
    pub state: State,
    /// The whole machine.
    pub capacity: Resources,
    /// What pods may use of it.
    pub allocatable: Resources,
    /// The labels its Node will have because of what it is: type, zone, capacity type, sizes.
    pub labels: BTreeMap<String, String>,
    /// Its tags, with the NodeClaim's name and uid among them.
    pub tags: BTreeMap<String, String>,
    /// The machine image it runs, if the cloud has images.
    pub image: Option<String>,
}

/// Where an instance is in its life; an instance that has ended is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It exists and costs money; its Node may or may not have registered.
    Running,
    /// It is shutting down.
    Ending,
}

/// Tags every cloud puts on an instance so that its owner can be found.
pub mod tag {
    /// The NodeClaim's name.
    pub const CLAIM: &str = "karpenter.sh/nodeclaim";
    /// The NodeClaim's uid, which is also the launch token.
    pub const CLAIM_UID: &str = "headstart.dev/nodeclaim-uid";
    /// The NodePool's name.
    pub const POOL: &str = "karpenter.sh/nodepool";
}

/// The key by which an offering is asked for.
pub fn key_of(instance_type: &InstanceType, offering: &Offering) -> OfferingKey {
    // Each provider has a label of its own for this, so the ending must do.
    let is_reservation = |r: &&Requirement| r.key().ends_with("reservation-id");
    let reservation = offering.requirements.iter().find(is_reservation).and_then(Requirement::single);
    OfferingKey {
        instance_type: instance_type.name.to_string(),
        zone: offering.zone().to_owned(),
        capacity_type: offering.capacity_type().to_owned(),
        reservation: reservation.map(str::to_owned),
    }
}

/// The labels a node has because of what it is: every requirement of type and offering that leaves one value.
pub fn labels_of(instance_type: &InstanceType, offering: &Offering) -> BTreeMap<String, String> {
    let both = instance_type.requirements.iter().chain(offering.requirements.iter());
    both.filter_map(|r| Some((r.key().to_owned(), r.single()?.to_owned()))).collect()
}

impl LaunchRequest {
    /// What must not change while a token is in use: the class and the ordered offerings, as one short text.
    ///
    /// Labels and tags are left out: people may edit a NodeClaim's labels between two attempts.
    pub fn digest(&self) -> String {
        let ClassRef { group, kind, name } = &self.class;
        let offerings = self.offerings.iter().flat_map(|o| {
            [&*o.instance_type, &*o.zone, &*o.capacity_type, o.reservation.as_deref().unwrap_or_default()]
        });
        let parts: Vec<&str> = [group.as_str(), kind, name].into_iter().chain(offerings).collect();
        format!("{:016x}", hash::stable(&parts))
    }

    /// The tags that the instance must bear: the caller's and those naming the owner.
    pub fn all_tags(&self) -> BTreeMap<String, String> {
        let mut tags = self.tags.clone();
        tags.insert(tag::CLAIM.into(), self.claim.clone());
        tags.insert(tag::CLAIM_UID.into(), self.token.0.clone());
        if !self.pool.is_empty() {
            tags.insert(tag::POOL.into(), self.pool.clone());
        }
        tags
    }
}

impl fmt::Display for ClassRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{}", self.kind, self.group, self.name)
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.instance_type, self.zone, self.capacity_type)?;
        self.reservation.as_ref().map_or(Ok(()), |r| write!(f, " {r}"))
    }
}
