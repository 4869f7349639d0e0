//! The lines of the ledger: everything that ever happened in this cloud, one JSON object each.

use std::collections::BTreeMap;

use headstart_cloud::notice::Notice;
use headstart_cloud::port::{DryOffering, OfferingKey, Taint, Token};
use headstart_core::resources::Resources;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// What the first line of a ledger calls itself.
pub const FORMAT: &str = "headstart-testcloud";
/// The version of the lines written and understood here.
pub const VERSION: u32 = 1;

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When it happened, by the cloud's clock.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Fact {
    /// The ledger was begun; always the first line.
    Opened {
        /// [`FORMAT`].
        format: String,
        /// [`VERSION`].
        version: u32,
        /// The catalog in use.
        catalog: String,
        /// What in its prices is modelled.
        #[serde(default)]
        modelled: Vec<String>,
    },
    /// The last line had been cut off by a crash and was dropped.
    Torn {
        /// How much of it there was.
        bytes: u64,
    },
    /// An instance began, and with it the bill.
    Launched(Box<Launched>),
    /// Its Node is in the cluster (or would be, without a cluster).
    Joined {
        /// The instance.
        id: String,
    },
    /// Its tags were replaced.
    Tagged {
        /// The instance.
        id: String,
        /// All of them.
        tags: BTreeMap<String, String>,
    },
    /// A restart in place was asked for.
    Rebooted {
        /// The instance.
        id: String,
        /// The operation's id.
        operation: String,
    },
    /// The Node shows that it was restarted.
    Booted {
        /// The instance.
        id: String,
    },
    /// Something was announced.
    Noticed {
        /// The instance.
        id: String,
        /// The announcement.
        notice: Notice,
        /// When the instance will be taken back because of it.
        dies_at: Option<Timestamp>,
    },
    /// An instance began to shut down.
    Ending {
        /// The instance.
        id: String,
        /// Why.
        cause: Cause,
        /// When it will be gone.
        ends_at: Timestamp,
    },
    /// An instance is gone, and the bill with it.
    Ended {
        /// The instance.
        id: String,
        /// Why.
        cause: Cause,
    },
    /// Its Node was removed from the cluster, or left there dead.
    Left {
        /// The instance.
        id: String,
    },
    /// Lasting faults and settings were changed.
    Set(Box<Settings>),
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launched {
    /// The short id, `i-…`.
    pub id: String,
    /// The client's token.
    pub token: Token,
    /// What must be the same when the token comes again.
    pub digest: String,
    /// What was bought.
    pub offering: OfferingKey,
    /// Preferred offerings without capacity.
    pub dry: Vec<DryOffering>,
    /// Billionths of a dollar per hour.
    pub price_nanos: i64,
    /// Tags, with the owner's name and uid.
    pub tags: BTreeMap<String, String>,
    /// The machine image.
    pub image: String,
    /// The whole machine.
    pub capacity: Resources,
    /// What was promised to be usable by pods.
    pub allocatable: Resources,
    /// The labels the instance has because of what it is.
    pub labels: BTreeMap<String, String>,
    /// The Node it will register.
    pub node: NodeRecord,
    /// When it registers; never, if absent.
    pub joins_at: Option<Timestamp>,
}

/// A Node to be registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What it will say is usable, which may be less than promised.
    pub allocatable: Resources,
}

/// Why an instance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A client asked for it.
    Terminated,
    /// The cloud took it back.
    Interrupted,
    /// It broke.
    Died,
}
