//! The orders that make the cloud misbehave, as the admin endpoint and the command line take them.

use std::time::Duration;

use headstart_cloud::port::Taint;
use headstart_core::cloud::millis;
use serde::{Deserialize, Serialize};

use crate::delay::{Delay, parse_duration};
use crate::settings::{Call, OnEnd, Pattern};

/// An order to the cloud.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Subcommand)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Order {
    /// Some offerings have no capacity, for a while or until `wet`
    Dry {
        /// Which offerings: those that agree in every part given
        #[command(flatten)]
        #[serde(flatten)]
        which: Pattern,
        /// For how long (90s, 5m); without end if left out
        #[arg(long = "for", value_parser = parse_duration)]
        #[serde(default, with = "millis::option")]
        lasts: Option<Duration>,
    },
    /// Lifts every `dry` that was given exactly so
    Wet {
        /// Which offerings
        #[command(flatten)]
        #[serde(flatten)]
        which: Pattern,
    },
    /// Limits how many machines there may be; what is left out has no limit
    Quota {
        /// Instances in all
        #[arg(long)]
        instances: Option<u32>,
        /// CPUs in all
        #[arg(long)]
        vcpus: Option<u32>,
        /// Instances of one type, as NAME=COUNT; may be repeated
        #[arg(long, value_name = "NAME=COUNT", value_parser = type_count)]
        #[serde(default)]
        per_type: Vec<(String, u32)>,
    },
    /// How long new instances take to register their Node: 30s, 10s..90s or "lognormal(40s, 0.5)"
    JoinDelay {
        /// The delay
        delay: Delay,
    },
    /// How long instances take to end
    EndDelay {
        /// The delay
        delay: Delay,
    },
    /// How long every answer takes
    Slow {
        /// The delay; 0s lifts it
        delay: Delay,
    },
    /// Lists show how things were so long ago
    StaleList {
        /// How long ago; 0s lifts it
        lag: Delay,
    },
    /// Answers only so many calls a second, others are told when to come back; 0 lifts it
    Throttle {
        /// How many a second in the long run
        per_second: f64,
        /// How many at once
        #[arg(long, default_value_t = 1)]
        burst: u32,
        /// Only this kind of call
        #[arg(long)]
        call: Option<Call>,
    },
    /// Performs the next calls but loses the answers
    LoseAnswers {
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Only this kind of call
        #[arg(long)]
        call: Option<Call>,
    },
    /// Fails the next calls before they have any effect
    Fail {
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Only this kind of call
        #[arg(long)]
        call: Option<Call>,
    },
    /// Denies the next calls
    Deny {
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Only this kind of call
        #[arg(long)]
        call: Option<Call>,
    },
    /// The next instances never register
    NeverJoin {
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
    },
    /// The next instances register with a further taint
    WrongTaint {
        /// The taint, as KEY=VALUE:EFFECT or KEY:EFFECT
        #[arg(value_parser = taint)]
        taint: Taint,
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
    },
    /// The next instances register with less allocatable than promised
    LessAllocatable {
        /// How much less, in percent
        #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
        percent: u8,
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
    },
    /// The next launches ignore their token: a broken cloud that launches twice, for trying the audit
    IgnoreTokens {
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
    },
    /// Announces that an instance is taken back, and does it
    Interrupt {
        /// The instance, i-… or its provider id
        id: String,
        /// How long it has left
        #[arg(long, default_value = "2m", value_parser = parse_duration)]
        #[serde(with = "millis")]
        left: Duration,
    },
    /// Announces that an instance is at risk
    Rebalance {
        /// The instance, i-… or its provider id
        id: String,
    },
    /// An instance ends without being asked to
    Kill {
        /// The instance, i-… or its provider id
        id: String,
    },
    /// What becomes of Nodes when their instance ends
    OnEnd {
        /// Deleted, or left there dead
        what: OnEnd,
    },
    /// The machine image of new instances; those with another one have drifted
    Image {
        /// Its name
        name: String,
    },
    /// A node class is not ready
    Unready {
        /// Its name
        class: String,
        /// What it says
        #[arg(long, default_value = "made unready on purpose")]
        message: String,
    },
    /// A node class is ready again
    Ready {
        /// Its name
        class: String,
    },
    /// Another seed for all chance
    Seed {
        /// The seed
        seed: u64,
    },
    /// Moves a clock that is moved by hand
    Advance {
        /// By how much
        #[arg(value_parser = parse_duration)]
        #[serde(with = "millis")]
        by: Duration,
    },
    /// Lifts every fault
    Clear,
}

fn type_count(text: &str) -> Result<(String, u32), String> {
    let parsed = text.split_once('=').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is not NAME=COUNT"))
}

fn taint(text: &str) -> Result<Taint, String> {
    let parsed = text
        .rsplit_once(':')
        .filter(|(_, effect)| ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(effect));
    let (rest, effect) = parsed.ok_or_else(|| format!("{text:?} is not KEY=VALUE:EFFECT"))?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}
