//! Fleets that were right once: bought for pods of which many are gone, and made smaller pass by pass.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headstart_cloud::catalog::{Catalog, labels_of};
use headstart_cloud::port::OfferingKey;
use headstart_core::disrupt::budget::{Budget, Limit};
use headstart_core::disrupt::{
    Consolidation, Fleet, Member, Move, Options, Policy, Reason, Resident, Search, Size, cost, decide,
    least_after,
};
use headstart_core::labels::{HOSTNAME, NODE_POOL};
use headstart_core::plan::Launch;
use headstart_core::price::Price;
use headstart_core::resources::Resources;
use headstart_core::snapshot::{BoundPod, Labels, Node, Pod, Pool, Snapshot};
use headstart_core::solve::{Packing, solve};
use serde_json::{Value, json};

use crate::judge::Case;
use crate::usage;
use crate::workload::{self, Dice};

/// A fleet and the pods on it.
#[derive(Clone)]
pub struct Churned {
    empty: Snapshot,
    pods: Vec<Pod>,
    machines: Vec<Machine>,
    catalog: Arc<Catalog>,
    next: usize,
}

#[derive(Clone)]
struct Machine {
    name: Arc<str>,
    labels: Arc<Labels>,
    capacity: Arc<Resources>,
    allocatable: Arc<Resources>,
    price: Price,
    /// Indices of its pods.
    pods: Vec<usize>,
    /// Until when it rests because it has just replaced another.
    rests_until: Option<i64>,
}

/// What became of a fleet.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub n_nodes: usize,
    pub dollars: f64,
    pub evictions: usize,
    /// Passes in which something was decided.
    pub passes: usize,
    /// Evictions so far and what the fleet cost then, after each of them.
    trail: Vec<(usize, f64)>,
    /// Processor time of all decisions, and of the longest.
    pub cpu: Duration,
    pub longest: Duration,
}

impl Outcome {
    /// What the fleet cost when there had been so many evictions; in between, pro rata.
    pub fn dollars_after(&self, evictions: usize) -> f64 {
        for pair in self.trail.windows(2) {
            let [(from, before), (to, after)] = [pair[0], pair[1]];
            if evictions < to {
                let share = (evictions - from) as f64 / (to - from) as f64;
                return before + (after - before) * share;
            }
        }
        self.dollars
    }
}

/// The share of a pool that may go at once, in percent: Karpenter's default.
const BUDGET: u8 = 10;
/// How long a pass takes in the world outside: the wait before a saving is believed, and a node's start.
const PASS_SECONDS: usize = 60;
/// A fleet that never comes to rest must fail, not hang.
const MOST_PASSES: usize = 5_000;

/// What most people allow, at prices that are real: spot prices are modelled.
fn requirements() -> Value {
    json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
    ])
}

impl Churned {
    /// Buys a fleet for so many pods, and keeps this percentage of them.
    pub fn new(catalog: &Arc<Catalog>, n_pods: usize, keep: usize, seed: u64) -> Result<Self> {
        let mut objects = workload::classes(n_pods, 100, seed);
        for pool in objects.iter_mut().filter(|object| object["kind"] == "NodePool") {
            pool["spec"]["template"]["spec"]["requirements"] = requirements();
        }
        let case = Case::of(objects);
        let snapshot = case.world().snapshot(catalog.types(), &catalog.well_known).snapshot;
        let plan = solve(&snapshot, Packing::Compat);
        ensure!(plan.unplaced.is_empty(), "some pods fit nowhere");
        let empty = Snapshot { pods: Vec::new(), ..snapshot.clone() };
        let catalog = Arc::clone(catalog);
        let mut fleet = Self { empty, pods: snapshot.pods, machines: Vec::new(), catalog, next: 0 };
        let mut dice = Dice::new(seed);
        for claim in &plan.claims {
            let launch = claim.launch.as_ref().context("a claim that cannot be launched")?;
            let kept =
                claim.pods.iter().map(|pod| *pod as usize).filter(|_| dice.below(100) < keep).collect();
            fleet.buy(&claim.pool, launch, kept, None)?;
        }
        Ok(fleet)
    }

    pub fn n_nodes(&self) -> usize {
        self.machines.len()
    }

    pub fn dollars(&self) -> f64 {
        self.machines.iter().map(|machine| machine.price.dollars()).sum()
    }

    /// What any fleet for the pods that are left costs at least.
    pub fn bound(&self) -> f64 {
        let left = self.machines.iter().flat_map(|machine| &machine.pods);
        let pods = left.map(|pod| self.pods[*pod].clone()).collect();
        solve(&Snapshot { pods, ..self.empty.clone() }, Packing::Compat).lower_bound.dollars()
    }

    /// What it costs at least after so many evictions, whichever nodes go.
    pub fn least_after(&self, evictions: usize) -> f64 {
        least_after(&self.fleet(Search::Wide, 0), evictions).dollars()
    }

    /// Takes nodes away until nothing is left to gain.
    pub fn consolidate(mut self, search: Search) -> Result<Outcome> {
        let (mut evictions, mut passes) = (0, 0);
        let (mut cpu, mut longest) = (Duration::ZERO, Duration::ZERO);
        let (mut idle, mut trail) = (0, vec![(0, self.dollars())]);
        for now in (0..).step_by(PASS_SECONDS) {
            ensure!(passes < MOST_PASSES, "the fleet never comes to rest");
            let fleet = self.fleet(search, now);
            let began = usage::own_cpu_time();
            let decision = decide(&fleet);
            let taken = usage::own_cpu_time().saturating_sub(began);
            (cpu, longest) = (cpu + taken, longest.max(taken));
            if decision.moves.is_empty() {
                // Those that rest get another chance.
                idle += 1;
                if idle > 11 {
                    break;
                }
                continue;
            }
            (idle, passes) = (0, passes + 1);
            evictions += decision.moves.iter().map(|chosen| chosen.evictions).sum::<usize>();
            let residents = self.residents();
            self.carry_out(&decision.moves, &residents, now)?;
            trail.push((evictions, self.dollars()));
        }
        let (n_nodes, dollars) = (self.n_nodes(), self.dollars());
        Ok(Outcome { n_nodes, dollars, evictions, passes, trail, cpu, longest })
    }

    /// The pods on machines, in the order in which snapshots list them.
    fn residents(&self) -> Vec<usize> {
        self.machines.iter().flat_map(|machine| machine.pods.iter().copied()).collect()
    }

    fn fleet(&self, search: Search, now: i64) -> Fleet {
        let mut snapshot = self.empty.clone();
        let mut members = Vec::new();
        for (index, machine) in (0..).zip(&self.machines) {
            let mut requested = Resources::default();
            let mut residents = Vec::new();
            for pod in &machine.pods {
                let pod = &self.pods[*pod];
                requested.add(&pod.shape.requests);
                residents.push(Resident {
                    pod: Some(snapshot.pods.len() as u32),
                    cost: cost::eviction(None, 0),
                    block: None,
                });
                let (namespace, shape) = (pod.namespace.clone(), pod.shape.clone());
                snapshot.bound.push(BoundPod { namespace, shape, node: index });
                snapshot.pods.push(pod.clone());
            }
            for pool in &mut snapshot.pools {
                pool.used.add(&machine.capacity);
            }
            snapshot.nodes.push(Node {
                name: machine.name.clone(),
                labels: machine.labels.clone(),
                allocatable: machine.allocatable.clone(),
                requested,
                initialized: true,
                ..Node::default()
            });
            members.push(Member {
                node: index,
                pool: self.pool().name.clone(),
                capacity: machine.capacity.clone(),
                is_initialized: true,
                is_nominated: false,
                do_not_disrupt: false,
                has_grace_period: false,
                is_consolidatable: true,
                is_restless: false,
                rests_until: machine.rests_until,
                drifted: None,
                sick: None,
                residents,
            });
        }
        let policy = Policy {
            pool: self.pool().name.clone(),
            consolidation: Consolidation::WhenEmptyOrUnderutilized,
            consolidates: true,
            is_in_vain: false,
            size: Size::ByNeed,
            known: self.machines.len() as u32,
            budgets: vec![Budget { reasons: None, nodes: Limit::Percent(BUDGET), window: None }],
            nodes: self.machines.len() as u32,
            going: 0,
            unready: 0,
            sick: 0,
        };
        Fleet {
            snapshot,
            waiting: 0,
            members,
            pools: vec![policy],
            now,
            options: Options { search, spot_to_spot: true, ..Options::default() },
            ideas: Vec::new(),
        }
    }

    fn pool(&self) -> &Pool {
        &self.empty.pools[0]
    }

    fn carry_out(&mut self, moves: &[Move], residents: &[usize], now: i64) -> Result<()> {
        let mut gone = vec![false; self.machines.len()];
        for chosen in moves {
            ensure!(matches!(chosen.reason, Reason::Empty | Reason::Underutilized), "nothing else is wrong");
            for member in &chosen.members {
                gone[*member as usize] = true;
            }
            for taker in &chosen.existing {
                let pods = taker.pods.iter().map(|pod| residents[*pod as usize]);
                self.machines[taker.node as usize].pods.extend(pods);
            }
            for claim in &chosen.replacements {
                let launch = claim.launch.as_ref().context("a replacement that cannot be launched")?;
                let pods = claim.pods.iter().map(|pod| residents[*pod as usize]).collect();
                self.buy(&claim.pool, launch, pods, Some(now + 600))?;
                gone.push(false);
            }
        }
        let mut is_gone = gone.into_iter();
        self.machines.retain(|_| !is_gone.next().unwrap_or_default());
        Ok(())
    }

    fn buy(&mut self, pool: &str, launch: &Launch, pods: Vec<usize>, rests_until: Option<i64>) -> Result<()> {
        let key = OfferingKey {
            instance_type: launch.instance_type.to_string(),
            zone: launch.zone.to_string(),
            capacity_type: launch.capacity_type.to_string(),
            reservation: None,
        };
        let (of, offering) = self.catalog.offering(&key).context("a launch that the catalog has not")?;
        let name: Arc<str> = format!("n{:05}", self.next).into();
        self.next += 1;
        let mut labels = Labels::default();
        for (label, value) in labels_of(of, offering) {
            labels.insert(label.into(), value.into());
        }
        labels.insert(NODE_POOL.into(), pool.into());
        labels.insert(HOSTNAME.into(), name.clone());
        self.machines.push(Machine {
            name,
            labels: Arc::new(labels),
            capacity: Arc::new(of.capacity.clone()),
            allocatable: Arc::new(of.allocatable_with(offering)),
            price: offering.price,
            pods,
            rests_until,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use headstart_cloud::catalog::Source;

    use super::*;

    #[test]
    fn every_pass_makes_a_fleet_cheaper_until_it_comes_to_rest() {
        let catalog = Arc::new(Catalog::load(&Source::Aws).unwrap());
        for (seed, keep) in [(1, 60), (2, 85), (3, 95), (4, 30)] {
            let fleet = Churned::new(&catalog, 3_000, keep, seed).unwrap();
            let (most, first) = (2 * fleet.n_nodes(), fleet.clone());
            // It ends when nothing was proposed for as long as anybody rests.
            let outcome = fleet.consolidate(Search::Wide).unwrap();
            let is_cheaper = outcome.trail.windows(2).all(|pair| pair[1].1 < pair[0].1);
            assert!(is_cheaper, "seed {seed}: {:?}", outcome.trail);
            assert!((1..most).contains(&outcome.passes), "seed {seed}: {outcome:?}");
            let least = first.least_after(outcome.evictions);
            assert!(least <= outcome.dollars, "seed {seed}: at least {least}, but {outcome:?}");
        }
    }
}
