//! The judge: reads the books, and a cluster's objects if given, and tells what is wrong and what it cost.
//!
//! INVARIANT: nothing that Headstart decides or remembers is used here; the evidence is the cloud's own ledger.

mod evidence;
mod render;

use std::collections::{BTreeMap, BTreeSet};

use headstart_cloud::port::{OfferingKey, tag};
use jiff::Timestamp;
use serde::Serialize;

use crate::clock::between;
use crate::ledger::Contents;
use crate::record::{Cause, Fact};

pub use evidence::{Claim, Evidence, EvidenceError, NodeSeen};
pub use render::table;

/// What an audit found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Until when running instances were billed.
    pub as_of: Timestamp,
    /// What in the prices is modelled.
    pub modelled: Vec<String>,
    /// How much of a cut-off last line the ledger has.
    pub torn_bytes: u64,
    /// Whether NodeClaims were there to compare with.
    pub owners_checked: bool,
    /// Every instance that ever ran, in order of launch.
    pub instances: Vec<Bill>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// One instance and what it cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bill {
    /// Its short id.
    pub id: String,
    /// The launch token.
    pub token: String,
    /// The owner's name, from the tags.
    pub claim: Option<String>,
    /// The owner's uid, from the tags.
    pub claim_uid: Option<String>,
    /// What was bought.
    pub offering: OfferingKey,
    /// When it began.
    pub launched: Timestamp,
    /// Whether it is shutting down.
    pub ending: bool,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Why it ended.
    pub cause: Option<Cause>,
    /// How long it ran.
    pub running_ms: u64,
    /// Billionths of a dollar per hour.
    pub price_nanos: i64,
    /// Billionths of a dollar.
    pub cost_nanos: i64,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Finding {
    /// An instance runs and nobody owns it.
    Leak {
        /// The instance.
        instance: String,
        /// Why it has no owner.
        message: String,
    },
    /// Instances ran at the same time for one owner.
    DoubleLaunch {
        /// The token or uid they share.
        owner: String,
        /// The instances.
        instances: Vec<String>,
        /// How many of them still run.
        running: usize,
    },
    /// Something says alive, something else says dead.
    Zombie {
        /// The object that is wrong.
        object: String,
        /// What is wrong.
        message: String,
    },
}

/// Audits a ledger, billing running instances until some time.
pub fn audit(contents: &Contents, evidence: Option<&Evidence>, as_of: Timestamp) -> Audit {
    let (instances, modelled) = bills(contents, as_of);
    let mut findings = leaks(&instances, evidence);
    findings.extend(double_launches(&instances));
    findings.extend(evidence.iter().flat_map(|evidence| zombies(&instances, evidence)));
    Audit {
        as_of,
        modelled,
        torn_bytes: contents.torn_bytes,
        owners_checked: evidence.is_some(),
        instances,
        findings,
    }
}

/// Folds the ledger into one bill for each instance.
fn bills(contents: &Contents, as_of: Timestamp) -> (Vec<Bill>, Vec<String>) {
    let mut bills: Vec<Bill> = Vec::new();
    let mut by_id: BTreeMap<&str, usize> = BTreeMap::new();
    let mut notes = Vec::new();
    for record in &contents.records {
        let find = |id: &str| by_id.get(id).copied();
        match &record.fact {
            Fact::Opened { modelled, .. } => notes.clone_from(modelled),
            Fact::Launched(launched) => {
                by_id.insert(&launched.id, bills.len());
                bills.push(Bill {
                    id: launched.id.clone(),
                    token: launched.token.0.clone(),
                    claim: launched.tags.get(tag::CLAIM).cloned(),
                    claim_uid: launched.tags.get(tag::CLAIM_UID).cloned(),
                    offering: launched.offering.clone(),
                    launched: record.at,
                    ending: false,
                    ended: None,
                    cause: None,
                    running_ms: 0,
                    price_nanos: launched.price_nanos,
                    cost_nanos: 0,
                });
            }
            Fact::Tagged { id, tags } => {
                if let Some(index) = find(id) {
                    bills[index].claim = tags.get(tag::CLAIM).cloned();
                    bills[index].claim_uid = tags.get(tag::CLAIM_UID).cloned();
                }
            }
            Fact::Ending { id, .. } => {
                if let Some(index) = find(id) {
                    bills[index].ending = true;
                }
            }
            Fact::Ended { id, cause } => {
                if let Some(index) = find(id) {
                    bills[index].ended = Some(record.at);
                    bills[index].cause = Some(*cause);
                }
            }
            Fact::Torn { .. }
            | Fact::Joined { .. }
            | Fact::Rebooted { .. }
            | Fact::Booted { .. }
            | Fact::Noticed { .. }
            | Fact::Left { .. }
            | Fact::Set(_) => {}
        }
    }
    for bill in &mut bills {
        let running = between(bill.launched, bill.ended.unwrap_or(as_of));
        bill.running_ms = running.as_millis() as u64;
        let cost = i128::from(bill.price_nanos) * i128::from(bill.running_ms) / 3_600_000;
        bill.cost_nanos = i64::try_from(cost).unwrap_or(i64::MAX);
    }
    (bills, notes)
}

fn leaks(bills: &[Bill], evidence: Option<&Evidence>) -> Vec<Finding> {
    let uids: Option<BTreeSet<&str>> =
        evidence.map(|evidence| evidence.claims.iter().map(|claim| claim.uid.as_str()).collect());
    let leak = |bill: &Bill| {
        let message = match (&bill.claim_uid, &uids) {
            (None, _) => "it has no tag that names an owner".to_owned(),
            (Some(uid), Some(uids)) if !uids.contains(uid.as_str()) => {
                format!("its NodeClaim {} (uid {uid}) does not exist", bill.claim.as_deref().unwrap_or("?"))
            }
            _ => return None,
        };
        Some(Finding::Leak { instance: bill.id.clone(), message })
    };
    bills.iter().filter(|bill| bill.runs()).filter_map(leak).collect()
}

/// Instances of one owner whose lives overlap. A token is an owner, and so is a uid, should they differ.
fn double_launches(bills: &[Bill]) -> Vec<Finding> {
    let mut owners: BTreeMap<&str, Vec<&Bill>> = BTreeMap::new();
    for bill in bills {
        let uid = bill.claim_uid.as_deref().filter(|uid| *uid != bill.token);
        for owner in [Some(bill.token.as_str()), uid].into_iter().flatten() {
            owners.entry(owner).or_default().push(bill);
        }
    }
    let double = |(owner, bills): (&str, Vec<&Bill>)| {
        let overlapping =
            |bill: &&&Bill| bills.iter().any(|other| other.id != bill.id && other.overlaps(bill));
        let double: Vec<&&Bill> = bills.iter().filter(overlapping).collect();
        (!double.is_empty()).then(|| Finding::DoubleLaunch {
            owner: owner.to_owned(),
            instances: double.iter().map(|bill| bill.id.clone()).collect(),
            running: double.iter().filter(|bill| bill.ended.is_none()).count(),
        })
    };
    owners.into_iter().filter_map(double).collect()
}

fn zombies(bills: &[Bill], evidence: &Evidence) -> Vec<Finding> {
    let by_id: BTreeMap<&str, &Bill> = bills.iter().map(|bill| (bill.id.as_str(), bill)).collect();
    let gone = |id: &str| match by_id.get(id) {
        None => Some(format!("instance {id}, which this cloud never launched")),
        Some(Bill { ended: Some(ended), .. }) => Some(format!("instance {id}, which ended at {ended}")),
        Some(_) => None,
    };
    let dead_node = |node: &NodeSeen| {
        let message = format!("it stands for {}", gone(&node.instance)?);
        Some(Finding::Zombie { object: format!("Node {}", node.name), message })
    };
    let dead_claim = |claim: &Claim| {
        let object = format!("NodeClaim {}", claim.name);
        if claim.says_terminated {
            let running = bills.iter().find(|b| b.runs() && b.claim_uid.as_deref() == Some(&claim.uid))?;
            let message = format!("it says that its instance is terminated, but {} runs", running.id);
            return Some(Finding::Zombie { object, message });
        }
        let instance = claim.instance.as_deref().filter(|_| !claim.deleting)?;
        Some(Finding::Zombie { object, message: format!("it names {}", gone(instance)?) })
    };
    let nodes = evidence.nodes.iter().filter_map(dead_node);
    nodes.chain(evidence.claims.iter().filter_map(dead_claim)).collect()
}

impl Bill {
    /// Whether it runs and nobody has asked it to end.
    pub fn runs(&self) -> bool {
        self.ended.is_none() && !self.ending
    }

    fn overlaps(&self, other: &Self) -> bool {
        let before = |a: &Self, b: &Self| a.ended.is_some_and(|ended| ended <= b.launched);
        !before(self, other) && !before(other, self)
    }
}

impl Audit {
    /// What everything cost together, in billionths of a dollar.
    pub fn total_nanos(&self) -> i64 {
        self.instances.iter().map(|bill| bill.cost_nanos).fold(0, i64::saturating_add)
    }
}

impl Finding {
    /// A short name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Leak { .. } => "leak",
            Self::DoubleLaunch { .. } => "double launch",
            Self::Zombie { .. } => "zombie",
        }
    }
}
