//! Of a pool's nodes no more are taken away at once by our own will than its budget allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_engine::Kind;
use serde_json::Value;

use super::{Broken, Check};
use crate::api::{Verb, array, label, text};
use crate::ground::{Fact, Ground};
use crate::timeline::Moment;

/// For how long a decision may rest on a number of nodes that is no longer true.
const NOTICED: u64 = 90_000;

#[derive(Default)]
pub(super) struct BudgetsHold {
    /// The nodes of each pool, by claim, and whether they are going.
    nodes: BTreeMap<String, BTreeMap<Arc<str>, bool>>,
    /// The most nodes that each pool had, and when.
    sizes: BTreeMap<String, Vec<(Moment, usize)>>,
}

fn is(claim: &Value, kind: &str) -> bool {
    array(claim, "/status/conditions").any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
}

impl Check for BudgetsHold {
    fn name(&self) -> &'static str {
        "budgets_hold"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Changed(Kind::NodeClaim, index) = fact else { return Ok(()) };
        let entry = &ground.api.log(Kind::NodeClaim)[*index];
        let Some(pool) = label(&entry.object, "karpenter.sh/nodepool") else { return Ok(()) };
        let nodes = self.nodes.entry(pool.to_owned()).or_default();
        let is_counted = entry.verb != Verb::Removed
            && is(&entry.object, "Initialized")
            && !is(&entry.object, "InstanceTerminating");
        if is_counted {
            nodes.insert(Arc::clone(&entry.key), is(&entry.object, "DisruptionReason"));
        } else {
            nodes.remove(&entry.key);
        }
        let (all, going) = (nodes.len(), nodes.values().filter(|goes| **goes).count());
        let now = ground.now();
        let known = self.sizes.entry(pool.to_owned()).or_default();
        known.retain(|(at, _)| *at + NOTICED >= now);
        known.push((now, all));
        let is_new = is(&entry.object, "DisruptionReason")
            && entry.before.as_ref().is_none_or(|before| !is(before, "DisruptionReason"));
        let Some(plan) = ground.plan.pools.iter().find(|plan| plan.name == pool).filter(|_| is_new) else {
            return Ok(());
        };
        let most = known.iter().map(|(_, size)| *size).max().unwrap_or(0);
        let allowed = plan.budget.map_or(most.div_ceil(10), |count| count as usize);
        if going <= allowed {
            return Ok(());
        }
        let message = format!("{going} of {all} nodes of pool {pool} are going, {allowed} may");
        Err(Broken::new(message).about(Kind::NodeClaim, entry.key.to_string()))
    }
}
