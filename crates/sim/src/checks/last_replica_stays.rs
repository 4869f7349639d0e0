//! Of several running pods of a workload not all are evicted before another one runs.

use std::collections::BTreeMap;

use headstart_engine::Kind;

use super::{BEHIND, Broken, Check, may_lag};
use crate::api::{Actor, label, number, text};
use crate::controllers::NAMESPACE;
use crate::fault::Fault;
use crate::ground::{Fact, Ground};
use crate::plan::WorkloadKind;
use crate::process::MOST_SKEW;
use crate::timeline::Moment;

/// How long the last one waits for another at least, from the beginning of its node's drain on; stamps are in whole seconds.
const LAST_STAYS: u64 = 5 * 60_000 - 10_000;

/// Apps with at least two running pods, of which none was taken away by anybody but us since.
#[derive(Default)]
pub(super) struct LastReplicaStays {
    several: BTreeMap<String, Moment>,
}

impl Check for LastReplicaStays {
    fn name(&self) -> &'static str {
        "last_replica_stays"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Changed(Kind::Pod, index) = fact else { return Ok(()) };
        let entry = &ground.api.log(Kind::Pod)[*index];
        let Some(app) = label(&entry.object, "app") else { return Ok(()) };
        let is_replicated = |kind: WorkloadKind| kind == WorkloadKind::Replicas;
        if !ground.plan.workloads.iter().any(|w| w.name == app && is_replicated(w.kind)) {
            return Ok(());
        }
        let runs = |pod: &serde_json::Value| {
            text(pod, "/status/phase") == "Running" && text(pod, "/metadata/deletionTimestamp").is_empty()
        };
        let was_running = entry.before.as_ref().is_some_and(|pod| runs(pod));
        let running = ground.api.running(app);
        if running >= 2 {
            self.several.insert(app.to_owned(), ground.now());
            return Ok(());
        }
        if !was_running || runs(&entry.object) {
            return Ok(());
        }
        if !matches!(entry.by, Actor::Process(_)) {
            // Somebody else took a pod away, which we may not have known.
            self.several.remove(app);
            return Ok(());
        }
        let Some(since) = self.several.get(app).copied().filter(|_| running == 0) else { return Ok(()) };
        // Whoever wants none is not robbed of any.
        let owner = ground.api.get(Kind::ReplicaSet, &format!("{NAMESPACE}/{app}"));
        if owner.is_none_or(|owner| number(owner, "/spec/replicas") < 2) {
            return Ok(());
        }
        let on_node = text(&entry.object, "/spec/nodeName");
        let drains = ground
            .api
            .get(Kind::Node, &format!("/{on_node}"))
            .map(|node| text(node, "/metadata/deletionTimestamp"));
        let Some(drains) = drains.and_then(Moment::of_stamp) else { return Ok(()) };
        let forced = ground.api.all(Kind::NodeClaim).any(|(_, claim)| {
            text(claim, "/status/nodeName") == on_node
                && claim
                    .pointer("/metadata/annotations/karpenter.sh~1nodeclaim-termination-timestamp")
                    .is_some()
        });
        // Who measures by a clock that jumps measures wrongly.
        let jumps = ground.plan.faults.contains_key(&Fault::WallJump);
        let wrong = if jumps { MOST_SKEW.unsigned_abs() } else { 0 };
        let is_late = ground.now().since(since.min(drains)) + wrong >= LAST_STAYS;
        // Whoever is told late, or heard late, acts on what was true a while ago.
        let is_behind = may_lag(ground) && ground.now().since(since) <= BEHIND;
        if forced || is_late || is_behind {
            return Ok(());
        }
        let message = format!("the last running pod of {app} was evicted, {since} it had several");
        Err(Broken::new(message).about(Kind::Pod, entry.key.to_string()))
    }
}
