//! Nodes that only expected pods need cost no more than was allowed.

use std::collections::BTreeSet;

use headstart_engine::Kind;
use serde_json::Value;

use super::{BEHIND, Broken, Check, may_lag};
use crate::api::{field, text};
use crate::cloud::Machine;
use crate::ground::{Fact, Ground};
use crate::timeline::Moment;
use crate::truth::{is_spare, waits};

/// How long a watch and a write take at most where nothing is late.
const PROMPT: u64 = 2_000;

pub(super) struct SpendingCapped {
    dollars: f64,
}

impl SpendingCapped {
    pub(super) fn new(cents: u32) -> Self {
        Self { dollars: f64::from(cents) / 100.0 }
    }
}

impl Check for SpendingCapped {
    fn name(&self) -> &'static str {
        "spending_capped"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Launched(place) = fact else { return Ok(()) };
        let bought = &ground.cloud.books()[*place];
        if !is_spare(ground, bought) {
            return Ok(());
        }
        // What was decided about is what was there when the claim was made, not what is there when it is launched.
        let claim = format!("/{}", bought.request.claim);
        let made = ground
            .api
            .log(Kind::NodeClaim)
            .iter()
            .rfind(|entry| *entry.key == *claim && entry.before.is_none());
        let decided = made.map_or(ground.now(), |made| made.at);
        let behind = if may_lag(ground) { BEHIND } else { PROMPT };
        let Some(used) = used_since(ground, Moment(decided.0.saturating_sub(behind))) else {
            // While pods wait, nobody can tell from outside which nodes are for them.
            return Ok(());
        };
        let is_idle = |machine: &&Machine| is_spare(ground, machine) && !used.contains(machine.node_name());
        let sold = ground.cloud.living().filter(is_idle);
        let sold = sold.filter_map(|machine| ground.cloud.catalog().offering(&machine.instance.offering));
        let spent: f64 = sold.map(|(_, offering)| offering.price.dollars()).sum();
        if spent <= self.dollars + 1e-9 {
            return Ok(());
        }
        let message =
            format!("nodes that no pod uses cost ${spent:.4} an hour, ${} may be spent", self.dollars);
        Err(Broken::new(message).about(Kind::NodeClaim, claim))
    }
}

/// The nodes that pods were on since then, unless some pod waited for one or has to leave its own.
fn used_since(ground: &Ground, since: Moment) -> Option<BTreeSet<&str>> {
    let nodes = ground.api.all(Kind::Node).map(|(_, node)| node);
    let leaving: BTreeSet<&str> = nodes
        .filter(|node| field(node, "/metadata/deletionTimestamp").is_some())
        .map(|node| text(node, "/metadata/name"))
        .collect();
    let wants = |pod: &Value| waits(pod) || leaving.contains(text(pod, "/spec/nodeName"));
    if ground.api.all(Kind::Pod).any(|(_, pod)| wants(pod)) {
        return None;
    }
    let mut used = BTreeSet::new();
    for entry in ground.api.log(Kind::Pod).iter().rev().take_while(|entry| entry.at >= since) {
        for pod in entry.before.iter().map(|pod| &**pod).chain([&*entry.object]) {
            if waits(pod) {
                return None;
            }
            used.insert(text(pod, "/spec/nodeName"));
        }
    }
    Some(used)
}
