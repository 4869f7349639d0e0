//! Faults: lasting ones, which survive a restart, and armed ones, which fire a number of times.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use headstart_cloud::port::{OfferingKey, Taint};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::delay::Delay;

/// Everything lasting about how this cloud behaves; a fresh one is fast, endless and honest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// What all chance derives from.
    pub seed: u64,
    /// From launch to the Node's registration.
    pub join_delay: Delay,
    /// From the request to terminate to the end.
    pub end_delay: Delay,
    /// How many machines there may be.
    pub quota: Quota,
    /// What has no capacity.
    pub dry: Vec<Dry>,
    /// How many calls are answered.
    pub throttle: Option<Throttle>,
    /// How long answers take.
    pub slow: Delay,
    /// How far behind lists are.
    pub list_lag: Delay,
    /// What becomes of the Node when its instance ends.
    pub on_end: OnEnd,
    /// The machine image of new instances; older ones have drifted.
    pub image: String,
    /// Node classes that are not ready, by name, and why.
    pub unready: BTreeMap<String, String>,
}

/// How many machines there may be; nothing means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quota {
    /// Instances in all.
    pub instances: Option<u32>,
    /// CPUs in all.
    pub vcpus: Option<u32>,
    /// Instances of a type.
    pub per_type: BTreeMap<String, u32>,
}

/// Offerings without capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dry {
    /// Which.
    pub which: Pattern,
    /// Until when; without end, if absent.
    pub until: Option<Timestamp>,
}

/// Some offerings: those that agree in every part given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(rename_all = "camelCase", default)]
pub struct Pattern {
    /// The instance type.
    #[arg(long = "type", value_name = "NAME")]
    pub instance_type: Option<String>,
    /// The zone.
    #[arg(long)]
    pub zone: Option<String>,
    /// `spot`, `on-demand` or `reserved`.
    #[arg(long)]
    pub capacity_type: Option<String>,
}

/// A token bucket for calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Throttle {
    /// How many calls a second are answered in the long run.
    pub per_second: f64,
    /// How many at once.
    pub burst: u32,
    /// Which calls; all, if absent.
    pub call: Option<Call>,
}

/// What becomes of a Node when its instance ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum OnEnd {
    /// It is deleted, as a cloud controller does.
    #[default]
    Delete,
    /// It stays and turns not ready, as if its kubelet were gone.
    Dead,
}

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// Reading the catalog.
    Catalog,
    /// Launching.
    Launch,
    /// Looking at one instance.
    Get,
    /// Listing.
    List,
    /// Terminating.
    Terminate,
    /// Setting tags.
    Tag,
    /// Restarting.
    Reboot,
    /// Checking drift.
    Drift,
    /// Reading notices.
    Notices,
}

/// A fault that fires on the next calls or launches, and then no more; it does not survive a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Armed {
    /// What goes wrong.
    #[serde(flatten)]
    pub fault: Shot,
    /// How often yet.
    pub left: u32,
}

/// What an armed fault does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum Shot {
    /// The effect happens, the answer does not arrive.
    LoseAnswer {
        /// Which calls; all, if absent.
        call: Option<Call>,
    },
    /// An error before the effect.
    Fail {
        /// Which calls; all, if absent.
        call: Option<Call>,
    },
    /// Permission is denied.
    Deny {
        /// Which calls; all, if absent.
        call: Option<Call>,
    },
    /// A launched instance never registers.
    NeverJoin,
    /// A launched instance registers with a further taint.
    WrongTaint {
        /// The taint.
        taint: Taint,
    },
    /// A launched instance registers with less allocatable than promised.
    LessAllocatable {
        /// How much less, in percent.
        percent: u8,
    },
    /// The token is not looked at, so that a retry launches twice: the cloud is broken, and audit must see it.
    IgnoreToken,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            join_delay: Delay::NONE,
            end_delay: Delay::NONE,
            quota: Quota::default(),
            dry: Vec::new(),
            throttle: None,
            slow: Delay::NONE,
            list_lag: Delay::NONE,
            on_end: OnEnd::Delete,
            image: "image-1".to_owned(),
            unready: BTreeMap::new(),
        }
    }
}

impl Pattern {
    /// Whether an offering is meant.
    pub fn matches(&self, offering: &OfferingKey) -> bool {
        let agrees = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        agrees(&self.instance_type, &offering.instance_type)
            && agrees(&self.zone, &offering.zone)
            && agrees(&self.capacity_type, &offering.capacity_type)
    }
}

impl Shot {
    /// A short name, used to count how often it fired.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LoseAnswer { .. } => "lose-answer",
            Self::Fail { .. } => "fail",
            Self::Deny { .. } => "deny",
            Self::NeverJoin => "never-join",
            Self::WrongTaint { .. } => "wrong-taint",
            Self::LessAllocatable { .. } => "less-allocatable",
            Self::IgnoreToken => "ignore-token",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => Ok(()),
        }
    }
}
