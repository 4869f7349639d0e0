//! A pool that keeps a number of nodes has no more than that, those that are about to go aside.

use std::collections::BTreeMap;

use headstart_engine::Kind;
use serde_json::Value;

use super::{Broken, Check, is_going};
use crate::api::{Verb, field, text};
use crate::ground::{Fact, Ground};
use crate::timeline::Moment;

/// A number that was lowered binds what is decided after it was seen.
const NOTICED: u64 = 90_000;

#[derive(Default)]
pub(super) struct SizeKept {
    /// How many nodes each pool wanted, and since when.
    wanted: BTreeMap<String, Vec<(Moment, u64)>>,
}

impl Check for SizeKept {
    fn name(&self) -> &'static str {
        "size_kept"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        match fact {
            Fact::Changed(Kind::NodePool, index) => {
                let entry = &ground.api.log(Kind::NodePool)[*index];
                let replicas = field(&entry.object, "/spec/replicas").and_then(Value::as_u64);
                if let Some(replicas) = replicas.filter(|_| entry.verb != Verb::Removed) {
                    let name = text(&entry.object, "/metadata/name").to_owned();
                    self.wanted.entry(name).or_default().push((entry.at, replicas));
                }
                Ok(())
            }
            Fact::Launched(place) => self.launched(ground, *place),
            Fact::Changed(..) | Fact::Ended(_) | Fact::Sent(_) | Fact::Unsettled(_) => Ok(()),
        }
    }
}

impl SizeKept {
    fn launched(&self, ground: &Ground, place: usize) -> Result<(), Broken> {
        let pool = &ground.cloud.books()[place].request.pool;
        let Some(wanted) = self.wanted.get(pool) else { return Ok(()) };
        let is_kept = |claim: &Value| field(claim, "/metadata/deletionTimestamp").is_none();
        let nodes = ground.cloud.living().filter(|m| {
            m.request.pool == *pool
                && ground
                    .api
                    .get(Kind::NodeClaim, &format!("/{}", m.request.claim))
                    .is_some_and(|c| is_kept(c))
                && !is_going(ground, &m.request.claim)
        });
        let nodes = nodes.count() as u64;
        let since = ground.now().0.saturating_sub(NOTICED);
        let in_force = |at: usize| wanted.get(at + 1).is_none_or(|(until, _)| until.0 >= since);
        let most = (0..wanted.len()).filter(|at| in_force(*at)).map(|at| wanted[at].1).max().unwrap_or(0);
        if nodes <= most {
            return Ok(());
        }
        let broken = Broken::new(format!("pool {pool} wants {most} nodes and has {nodes}"));
        Err(broken.about(Kind::NodeClaim, format!("/{}", ground.cloud.books()[place].request.claim)))
    }
}
