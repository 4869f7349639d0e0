//! The state of affairs in numbers: metrics that go up and down, and an overview for a screen.

use std::collections::BTreeMap;

use headstart_core::disrupt::Reason;
use headstart_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use headstart_core::price::Price;
use headstart_core::resources::{CPU, Resources};

use crate::demand::early;
use crate::engine::Engine;
use crate::overview::{Group, Overview, Phase};
use crate::pools;
use crate::report::Gauge;
use crate::store::PodLife as _;
use crate::time::Now;

impl Engine {
    /// The present values of metrics that go up and down.
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut gauges = Vec::new();
        let mut gauge = |name, labels, value| gauges.push(Gauge { name, labels, value });
        gauge("cluster_state_node_count", Vec::new(), self.store.nodes.len() as f64);
        gauge("cluster_state_synced", Vec::new(), f64::from(u8::from(self.store.is_complete())));
        gauge("scheduler_queue_depth", Vec::new(), self.store.waiting.len() as f64);
        gauge("scheduler_unschedulable_pods_count", Vec::new(), self.provision.unplaced() as f64);
        let reasoned = |reason: Reason| ("reason", reason.as_str().to_lowercase());
        for (reason, count) in &self.disrupt.eligible {
            gauge("voluntary_disruption_eligible_nodes", vec![reasoned(*reason)], *count as f64);
        }
        for (pool, reason, allowed) in &self.disrupt.allowed {
            let labels = vec![("nodepool", pool.to_string()), reasoned(*reason)];
            gauge("nodepools_allowed_disruptions", labels, f64::from(*allowed));
        }
        gauges.extend(self.provision.demand.gauges());
        gauges.extend(self.shadow.gauges());
        let mut gauge = |name, labels, value| gauges.push(Gauge { name, labels, value });
        for (name, pool) in &self.store.pools {
            let mut used = Resources::default();
            let mut cost = 0.0;
            for claim in self.store.claims.values().filter(|claim| claim.pool() == name) {
                used.add(&pools::capacity(claim, &self.store));
                cost += self.capacity.price(claim).dollars();
            }
            let labels =
                |resource: &str| vec![("nodepool", name.clone()), ("resource_type", resource.to_owned())];
            for (resource, amount) in used.iter() {
                gauge("nodepools_usage", labels(resource), amount.as_f64());
            }
            for (resource, amount) in pool.spec.limits.iter().flatten() {
                if let Ok(amount) = amount.0.parse::<headstart_core::quantity::Quantity>() {
                    gauge("nodepools_limit", labels(resource), amount.as_f64());
                }
            }
            gauge("nodepools_cost_total", vec![("nodepool", name.clone())], cost);
        }
        gauges
    }

    /// The state of affairs in a few numbers.
    pub fn overview(&self, now: Now) -> Overview {
        let store = &self.store;
        let mut groups: BTreeMap<(String, String, String, Phase), (usize, Price)> = BTreeMap::new();
        let mut price = Price::default();
        for claim in store.claims.values() {
            let phase = match (claim.is_leaving(), claim.is_initialized()) {
                (true, _) => Phase::Leaving,
                (false, true) => Phase::Ready,
                (false, false) => Phase::Starting,
            };
            let text = |label| claim.metadata.label(label).to_owned();
            let key = (claim.pool().to_owned(), text(INSTANCE_TYPE), text(CAPACITY_TYPE), phase);
            let own = self.capacity.price(claim);
            price += own;
            groups.entry(key).or_insert((0, own)).0 += 1;
        }
        let mut fleet: Vec<Group> = groups
            .into_iter()
            .map(|((pool, instance_type, capacity_type, phase), (count, price))| Group {
                pool,
                instance_type,
                capacity_type,
                phase,
                count,
                price,
            })
            .collect();
        fleet.sort_by_key(|group| std::cmp::Reverse(group.count));
        let waiting = store.waiting.iter().filter_map(|key| store.pod(key)).filter(|pod| !pod.is_gated());
        let oldest = waiting.clone().map(|pod| now.wall - pod.since()).max();
        let allocatable: f64 = store
            .nodes
            .values()
            .filter(|node| node.is_ready())
            .map(|node| node.allocatable().get(CPU).as_f64())
            .sum();
        let bound = store.world.pods().iter().filter(|pod| pod.node().is_some() && !pod.is_over());
        let requested: f64 =
            bound.clone().filter_map(|pod| pod.shape()).map(|shape| shape.requests.get(CPU).as_f64()).sum();
        Overview {
            bound: bound.count(),
            waiting: waiting.count(),
            oldest,
            fleet,
            price,
            requested: if allocatable > 0.0 { requested / allocatable } else { 0.0 },
            early: early(store, |claim| self.capacity.price(claim)),
        }
    }
}
