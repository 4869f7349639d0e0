//! What becomes of a node by our own will as things are, for people who ask.

use headstart_api::NodePool;
use headstart_api::conditions::nodeclaim::{DISRUPTION_REASON, REBOOTING};
use headstart_core::disrupt::{Decision, Move, Reason, decide};
use headstart_core::plan::Launch;
use headstart_core::price::Price;

use crate::capacity::{Capacity, Mood};
use crate::disrupt::{Disrupt, is_tainted};
use crate::provision::Provision;
use crate::store::{Claim, Node, Store};
use crate::time::Now;

/// What becomes of a node as things are.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// Its claim.
    pub claim: String,
    /// Its pool.
    pub pool: String,
    /// What it costs an hour; nothing if that is not known.
    pub price: Price,
    /// How many pods would have to move.
    pub pods: usize,
    /// How it would go, if it may.
    pub goes: Option<Going>,
    /// Why it stays, or what keeps it from going for other reasons.
    pub stays: Vec<String>,
}

/// How a node would go.
#[derive(Clone, Debug, PartialEq)]
pub struct Going {
    /// Why.
    pub reason: Reason,
    /// Nodes that would go together with it.
    pub with: Vec<String>,
    /// What would be bought first: instance type, zone and capacity type of each.
    pub replacements: Vec<String>,
    /// Nodes that would take its pods.
    pub takers: Vec<String>,
    /// What would be saved an hour by all of that; negative if it costs.
    pub saving: Price,
    /// How many pods would be evicted by all of that.
    pub evictions: usize,
}

/// Why nothing can be said about a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOutlook {
    /// There is none of that name.
    #[error("there is no node of that name")]
    Unknown,
    /// Nobody here made it.
    #[error("it has no NodeClaim, so that it is left alone")]
    NotOurs,
    /// Its claim is not registered.
    #[error("its NodeClaim {0} is not registered yet")]
    NotRegistered(String),
    /// Its pool is gone, or another autoscaler's.
    #[error("its NodePool {0:?} is gone or has another kind of NodeClass, so that it is left alone")]
    NoPool(String),
    /// It is being restarted.
    #[error("it is being restarted where it is")]
    Reboots,
    /// It goes already.
    #[error("it is going already{0}")]
    Goes(String),
}

impl Disrupt {
    /// What becomes of a node as things are.
    pub(crate) fn outlook(
        &self,
        name: &str,
        store: &Store,
        capacity: &mut Capacity,
        provision: &Provision,
        now: Now,
    ) -> Result<Outlook, NoOutlook> {
        let node = store.nodes.get(name).ok_or(NoOutlook::Unknown)?;
        let claim = store.claim_of_node(node).ok_or(NoOutlook::NotOurs)?;
        let price = capacity.price(claim);
        let types = capacity.types(now.time, Mood::Picky);
        let taken = provision.with_residents(store, &types, now.time);
        let (fleet, names) = self.fleet(store, provision, taken, &types, now);
        let Some(at) = names.iter().position(|known| known == claim.name()) else {
            return Err(absence(claim, node, store));
        };
        let Decision { moves, blocked, .. } = decide(&fleet);
        let of_member = |member: u32| {
            let node = fleet.members[member as usize].node;
            fleet.snapshot.nodes[node as usize].name.to_string()
        };
        let going = |chosen: &Move| Going {
            reason: chosen.reason,
            with: chosen.members.iter().filter(|m| **m as usize != at).map(|m| of_member(*m)).collect(),
            replacements: chosen.replacements.iter().map(|claim| launched(claim.launch.as_ref())).collect(),
            takers: chosen
                .existing
                .iter()
                .map(|on| fleet.snapshot.nodes[on.node as usize].name.to_string())
                .collect(),
            saving: chosen.saving,
            evictions: chosen.evictions,
        };
        let is_member = |chosen: &&Move| chosen.members.iter().any(|member| *member as usize == at);
        let of_it = blocked.iter().filter(|(member, _)| *member as usize == at);
        Ok(Outlook {
            claim: claim.name().to_owned(),
            pool: claim.pool().to_owned(),
            price,
            pods: fleet.members[at].residents.iter().filter(|resident| resident.pod.is_some()).count(),
            goes: moves.iter().find(is_member).map(going),
            stays: of_it.map(|(_, why)| why.to_string()).collect(),
        })
    }
}

fn launched(launch: Option<&Launch>) -> String {
    launch.map_or_else(
        || "a node of unknown type".to_owned(),
        |launch| format!("{} {} {}", launch.instance_type, launch.zone, launch.capacity_type),
    )
}

/// Why a node is none of those that decisions are about.
fn absence(claim: &Claim, node: &Node, store: &Store) -> NoOutlook {
    let is_ours = |pool: &NodePool| store.is_ours(&pool.spec.template.spec.node_class_ref);
    if claim.is_leaving() || node.is_leaving() || is_tainted(node) {
        let said = claim.condition(DISRUPTION_REASON).map(|said| format!(" ({})", said.reason));
        return NoOutlook::Goes(said.unwrap_or_default());
    }
    if claim.is(REBOOTING) {
        return NoOutlook::Reboots;
    }
    if !store.pools.get(claim.pool()).is_some_and(is_ours) {
        return NoOutlook::NoPool(claim.pool().to_owned());
    }
    NoOutlook::NotRegistered(claim.name().to_owned())
}
