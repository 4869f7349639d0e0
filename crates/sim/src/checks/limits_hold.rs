//! The instances of a pool never exceed its limits.

use std::collections::BTreeMap;

use headstart_core::resources::CPU;
use headstart_engine::Kind;

use super::{Broken, Check, is_going};
use crate::amounts::{Milli, of, read};
use crate::api::{Verb, field, text};
use crate::ground::{Fact, Ground};
use crate::timeline::Moment;

/// A limit that was lowered binds what is decided after it was seen.
const NOTICED: u64 = 90_000;

#[derive(Default)]
pub(super) struct LimitsHold {
    /// The limits each pool had, and since when; no limit is the greatest number.
    limits: BTreeMap<String, Vec<(Moment, Milli)>>,
}

impl Check for LimitsHold {
    fn name(&self) -> &'static str {
        "limits_hold"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        match fact {
            Fact::Changed(Kind::NodePool, index) => {
                let entry = &ground.api.log(Kind::NodePool)[*index];
                let limit = field(&entry.object, "/spec/limits/cpu");
                let limit = if limit.is_some() { of(limit) } else { Milli::MAX };
                let known = self.limits.entry(text(&entry.object, "/metadata/name").to_owned()).or_default();
                if entry.verb != Verb::Removed && known.last().is_none_or(|(_, last)| *last != limit) {
                    known.push((entry.at, limit));
                }
                Ok(())
            }
            Fact::Launched(place) => self.launched(ground, *place),
            Fact::Changed(..) | Fact::Ended(_) | Fact::Sent(_) | Fact::Unsettled(_) => Ok(()),
        }
    }
}

impl LimitsHold {
    fn launched(&self, ground: &Ground, place: usize) -> Result<(), Broken> {
        let pool = &ground.cloud.books()[place].request.pool;
        let Some(limits) = self.limits.get(pool) else { return Ok(()) };
        // An instance whose claim is gone cannot be known to whoever counts claims. What is about to go makes room for what
        // takes its place.
        let counted: Vec<_> = ground
            .cloud
            .living()
            .filter(|m| m.request.pool == *pool && ground.api.exists(&m.claim_uid))
            .filter(|m| !is_going(ground, &m.request.claim))
            .collect();
        let used: Milli = counted.iter().map(|m| read(&m.instance.capacity.get(CPU).to_string())).sum();
        let oldest = counted.iter().map(|m| m.launched).min().unwrap_or_default();
        let in_force = |at: usize| limits.get(at + 1).is_none_or(|(until, _)| *until + NOTICED >= oldest);
        let limit = (0..limits.len()).filter(|at| in_force(*at)).map(|at| limits[at].1).max();
        let Some(limit) = limit.filter(|limit| used > *limit) else { return Ok(()) };
        let instances: Vec<String> = counted.iter().map(|m| m.instance.id.to_string()).collect();
        let message = format!(
            "pool {pool} may have {} cpu and has {} with {}",
            limit / 1000,
            used / 1000,
            instances.join(", ")
        );
        let broken = Broken::new(message).about(Kind::NodePool, format!("/{pool}"));
        Err(broken.about(Kind::NodeClaim, format!("/{}", ground.cloud.books()[place].request.claim)))
    }
}
