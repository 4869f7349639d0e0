//! While nobody changes anything, what was bought in the place of a node is not given up for money's sake twice in an hour.

use std::collections::BTreeMap;

use headstart_engine::Kind;
use serde_json::Value;

use super::{Broken, Check};
use crate::api::{array, text};
use crate::ground::{Fact, Ground};
use crate::timeline::Moment;

/// Within how long the same must not happen twice.
const HOUR: u64 = 3_600_000;

/// How long after the storm what it left behind is still being put in order.
const SETTLES: u64 = 120_000;

/// When claims were given up although they had themselves taken the place of others, by where they come from.
#[derive(Default)]
pub(super) struct NoOscillation {
    /// The claim that each replacement goes back to, through all replacements before it.
    origin: BTreeMap<String, String>,
    given_up: BTreeMap<String, Vec<Moment>>,
}

fn reason(claim: &Value) -> Option<&str> {
    let said = array(claim, "/status/conditions").find(|c| text(c, "/type") == "DisruptionReason")?;
    Some(text(said, "/reason"))
}

impl Check for NoOscillation {
    fn name(&self) -> &'static str {
        "no_oscillation"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Changed(Kind::NodeClaim, index) = fact else { return Ok(()) };
        let entry = &ground.api.log(Kind::NodeClaim)[*index];
        let (claim, name) = (&entry.object, text(&entry.object, "/metadata/name"));
        if entry.before.is_none() {
            let replaced =
                claim.pointer("/metadata/annotations/headstart.dev~1replaces").and_then(Value::as_str);
            if let Some(first) = replaced.and_then(|names| names.split(',').next()) {
                let origin = self.origin.get(first).cloned().unwrap_or_else(|| first.to_owned());
                self.origin.insert(name.to_owned(), origin);
            }
            return Ok(());
        }
        let was_leaving = entry
            .before
            .as_ref()
            .is_some_and(|before| before.pointer("/metadata/deletionTimestamp").is_some());
        let is_leaving = claim.pointer("/metadata/deletionTimestamp").is_some();
        let saves = matches!(reason(claim), Some("Empty" | "Underutilized"));
        let Some(origin) = self.origin.get(name).filter(|_| is_leaving && !was_leaving && saves) else {
            return Ok(());
        };
        let now = ground.now();
        // People scale up and down while the storm lasts, and have good reasons for it.
        if now < Moment(ground.plan.storm_ms) + SETTLES {
            return Ok(());
        }
        let times = self.given_up.entry(origin.clone()).or_default();
        times.retain(|at| *at + HOUR >= now);
        times.push(now);
        if times.len() < 2 {
            return Ok(());
        }
        let message = format!("what replaced {origin} was given up {} times within an hour", times.len());
        Err(Broken::new(message).about(Kind::NodeClaim, entry.key.to_string()))
    }
}
