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

/// When claims were given up although they had themselves taken the place of others.
#[derive(Default)]
pub(super) struct NoOscillation {
    /// The claim whose place each replacement took.
    before: BTreeMap<String, String>,
    given_up: BTreeMap<String, Moment>,
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
                self.before.insert(name.to_owned(), first.to_owned());
            }
            return Ok(());
        }
        let was_leaving = entry
            .before
            .as_ref()
            .is_some_and(|before| before.pointer("/metadata/deletionTimestamp").is_some());
        let is_leaving = claim.pointer("/metadata/deletionTimestamp").is_some();
        let saves = matches!(reason(claim), Some("Empty" | "Underutilized"));
        let now = ground.now();
        // People scale up and down while the storm lasts, and have good reasons for it.
        let is_calm = now >= Moment(ground.plan.storm_ms) + SETTLES;
        let is_replacement = self.before.contains_key(name);
        if !is_calm || !is_replacement || !is_leaving || was_leaving || !saves {
            return Ok(());
        }
        self.given_up.insert(name.to_owned(), now);
        let mut ancestors = std::iter::successors(self.before.get(name), |name| self.before.get(*name));
        let is_recent = |name: &&String| self.given_up.get(*name).is_some_and(|at| *at + HOUR >= now);
        let Some(ancestor) = ancestors.find(is_recent) else { return Ok(()) };
        let message = format!("it took the place of {ancestor}, which was given up within the same hour");
        Err(Broken::new(message).about(Kind::NodeClaim, entry.key.to_string()))
    }
}
