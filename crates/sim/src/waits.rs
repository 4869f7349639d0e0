//! How long pods waited for a node, and who waits still.

use std::collections::BTreeMap;

use headstart_engine::Kind;
use serde_json::Value;

use crate::api::{Verb, array, label, text};
use crate::ground::Ground;
use crate::plan::WorkloadKind;
use crate::timeline::Moment;
use crate::truth::waits;

/// Where nodes expire or run dry, some pod always waits for a moment.
const A_WHILE: u64 = 5 * 60_000;

/// How long pods waited for a node, and who waits still.
#[derive(Debug, Default)]
pub struct Waits {
    /// How long each pod that got a node waited for it, in milliseconds.
    pub millis: Vec<u64>,
    /// How many pods of each workload wait still, and have for a while.
    pub still: BTreeMap<String, usize>,
}

impl Waits {
    /// What became of all pods that somebody should have found a node for, daemons aside.
    pub fn of(ground: &Ground) -> Self {
        let daemons: Vec<&str> = ground
            .plan
            .workloads
            .iter()
            .filter(|workload| workload.kind == WorkloadKind::Daemon)
            .map(|workload| workload.name.as_str())
            .collect();
        let counts = |pod: &Value| {
            text(pod, "/spec/schedulerName") == "default-scheduler"
                && array(pod, "/spec/schedulingGates").next().is_none()
                && label(pod, "app").is_some_and(|app| !daemons.contains(&app))
        };
        let mut all = Self::default();
        let is_late = |pod: &Value| {
            let made = Moment::of_stamp(text(pod, "/metadata/creationTimestamp")).unwrap_or_default();
            ground.now().since(made) >= A_WHILE
        };
        let mut since = BTreeMap::new();
        for entry in ground.api.log(Kind::Pod).iter().filter(|entry| counts(&entry.object)) {
            if entry.before.is_none() {
                since.insert(&entry.key, entry.at);
            }
            let is_bound = !text(&entry.object, "/spec/nodeName").is_empty();
            if (is_bound || entry.verb == Verb::Removed)
                && let Some(since) = since.remove(&entry.key).filter(|_| is_bound)
            {
                all.millis.push(entry.at.since(since));
            }
        }
        for (_, pod) in ground.api.all(Kind::Pod).filter(|(_, pod)| counts(pod) && waits(pod) && is_late(pod))
        {
            *all.still.entry(label(pod, "app").unwrap_or_default().to_owned()).or_default() += 1;
        }
        all
    }
}
