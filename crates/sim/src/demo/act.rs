//! The acts: what happens in each, and when it has come to its end.

use std::collections::BTreeMap;

use headstart_engine::Kind;

use super::Way;
use crate::api::{field, label, text};
use crate::cloud::Drought;
use crate::ground::{Ground, Happening};
use crate::plan::{Ahead, Deed, Knobs, Pace, Plan, PoolPlan, Profile, WorkloadPlan};
use crate::timeline::Moment;
use crate::world::World;

/// The pods of the flash sale.
pub(super) const WEB: u32 = 400;
/// The pods that come when capacity is short.
pub(super) const CART: u32 = 60;

const POOL: &str = "general";
const WORKLOADS: [(&str, u64, u64); 2] = [("web", 1_000, 1_500), ("cart", 500, 900)];

/// An act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    FlashSale,
    RunsDry,
    Dies,
    Over,
}

/// The world before the first act.
pub(super) fn plan(seed: u64, way: Way) -> Plan {
    // Without room beyond the pods that are wanted, both ways buy for the same pods and can be compared.
    let ahead = (way == Way::Proactive).then_some(Ahead { threshold: 100, cents: None });
    let workload = |(name, cpu_m, memory_mi): (&str, u64, u64)| WorkloadPlan {
        name: name.to_owned(),
        cpu_m,
        memory_mi,
        grace_s: 5,
        ..WorkloadPlan::default()
    };
    Plan {
        seed,
        profile: Profile::Any,
        processes: 1,
        types: 0,
        knobs: Knobs { batch_max_ms: 10_000, nominate: true, search: false, repair: false, ahead },
        pace: Pace {
            join_ms: (20_000, 40_000),
            ready_ms: (3_000, 8_000),
            end_ms: (5_000, 15_000),
            watch_ms: (5, 20),
            wire_ms: (5, 40),
        },
        pools: vec![PoolPlan { name: POOL.to_owned(), ..PoolPlan::default() }],
        workloads: WORKLOADS.map(workload).to_vec(),
        steps: Vec::new(),
        faults: BTreeMap::new(),
        storm_ms: u64::MAX,
        drought_stays: false,
    }
}

impl Act {
    pub(super) const ALL: [Self; 4] = [Self::FlashSale, Self::RunsDry, Self::Dies, Self::Over];

    /// Lets it begin; tells what happens.
    pub(super) fn begin(self, world: &mut World<'_>) -> String {
        match self {
            Self::FlashSale => {
                world.act(&Deed::Scale { workload: 0, to: WEB });
                format!("a flash sale: web is scaled from 0 to {WEB} pods")
            }
            Self::RunsDry => {
                let zone = favorite_zone(&world.ground);
                let (zone_text, until) = (zone.clone().unwrap_or_default(), Moment(u64::MAX));
                world.ground.cloud.dry(Drought { zone, capacity_type: Some("spot".to_owned()), until });
                world.act(&Deed::Scale { workload: 1, to: CART });
                format!("spot instances in {zone_text} run out just as cart is scaled from 0 to {CART} pods")
            }
            Self::Dies => {
                let ground = &mut world.ground;
                let Some((place, pods)) = busiest(ground) else {
                    return "an instance dies, but there is none".to_owned();
                };
                ground.time.after(0, Happening::Ends(place));
                let machine = &ground.cloud.books()[place];
                let kind = &machine.instance.offering.instance_type;
                format!("{} ({kind}) dies, and {pods} pods with it", machine.node_name())
            }
            Self::Over => {
                for workload in 0..WORKLOADS.len() {
                    world.act(&Deed::Scale { workload, to: 0 });
                }
                world.act(&Deed::DeletePool { pool: 0, back_ms: u64::MAX });
                format!("the sale is over: everything is scaled to 0, and NodePool {POOL} is deleted")
            }
        }
    }

    /// Whether what it is about has come true.
    pub(super) fn is_over(self, ground: &Ground) -> bool {
        let has = |of: &str, pods: u32| running(ground, of) == pods as usize;
        match self {
            Self::FlashSale => has("web", WEB),
            Self::RunsDry => has("web", WEB) && has("cart", CART),
            Self::Dies => {
                let mut ended =
                    ground.cloud.books().iter().filter(|machine| machine.ended.is_some()).peekable();
                ended.peek().is_some()
                    && ended.all(|machine| !ground.api.exists(&machine.claim_uid))
                    && has("web", WEB)
                    && has("cart", CART)
            }
            Self::Over => {
                let kinds = [Kind::Pod, Kind::Node, Kind::NodeClaim];
                kinds.iter().all(|kind| ground.api.count(*kind) == 0)
                    && ground.cloud.living().next().is_none()
            }
        }
    }

    /// What should come true.
    pub(super) const fn expectation(self) -> &'static str {
        match self {
            Self::FlashSale | Self::RunsDry => "all pods should run",
            Self::Dies => "all pods should run again, and nothing be left of the dead node",
            Self::Over => "no pod, node, NodeClaim or instance should be left",
        }
    }
}

/// How many pods of a workload run on machines that are alive.
fn running(ground: &Ground, of: &str) -> usize {
    let runs = |pod: &serde_json::Value| {
        text(pod, "/status/phase") == "Running"
            && label(pod, "app") == Some(of)
            && field(pod, "/metadata/deletionTimestamp").is_none()
            && is_alive(ground, text(pod, "/spec/nodeName"))
    };
    ground.api.all(Kind::Pod).filter(|(_, pod)| runs(pod)).count()
}

fn is_alive(ground: &Ground, node: &str) -> bool {
    ground.cloud.living().any(|machine| machine.node_name() == node)
}

/// The zone in which most instances are.
fn favorite_zone(ground: &Ground) -> Option<String> {
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for machine in ground.cloud.living() {
        *zones.entry(&machine.instance.offering.zone).or_default() += 1;
    }
    zones.into_iter().max_by_key(|(_, count)| *count).map(|(zone, _)| zone.to_owned())
}

/// The instance with the most pods, by its place in the books, and their number.
fn busiest(ground: &Ground) -> Option<(usize, usize)> {
    let books = ground.cloud.books().iter().enumerate().filter(|(_, machine)| machine.ending.is_none());
    let pods =
        |node: &str| ground.api.all(Kind::Pod).filter(|(_, pod)| text(pod, "/spec/nodeName") == node).count();
    books.map(|(place, machine)| (place, pods(machine.node_name()))).max_by_key(|(_, pods)| *pods)
}
