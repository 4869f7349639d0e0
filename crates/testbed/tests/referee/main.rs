//! kube-scheduler as referee: what we plan, the real scheduler must accept.
//!
//! Each seeded workload is solved, the planned nodes are created as the cheapest launch gives them, and kube-scheduler
//! binds the pods. It does so three times:
//!
//! - *in order*: pods come one after another and each nominates its planned node. All of them must be bound to it.
//! - *nominated*: all pods come at once, and each nominates its planned node.
//! - *free*: all pods come at once, and kube-scheduler spreads them as it likes.
//!
//! Only the first can be complete. kube-scheduler checks a pod that nominates a node together with the pods that nominate the
//! same node, but without those that nominate others; so pods that are spread over nodes keep each other out if all
//! come at once. And pods that go where they like may take the only place of another.
//!
//! No controller manager runs: no pods but those made here, no taints but those of pools and nodes.

mod arena;
mod fleet;

use std::cell::Cell;
use std::collections::VecDeque;

use anyhow::{Result, ensure};
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testbed::cases;
use headstart_testbed::judge::Case;

use crate::arena::{Arena, Start, Verdict};
use crate::fleet::{Fleet, Planned};

const WORKLOADS: u64 = 200;
/// Clusters that work through them side by side; what one waits for, another uses.
const ARENAS: usize = 3;
/// Orders that are tried for the pods of a workload.
const ORDERS: usize = 3;

/// What kube-scheduler did, over all workloads.
#[derive(Default)]
struct Tally {
    workloads: usize,
    planned: usize,
    unplaced: usize,
    /// Workloads whose pods had to come in another order than the first.
    reordered: usize,
    nominated: usize,
    nominated_as_planned: usize,
    free: usize,
    misses: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_binds_every_planned_pod_to_its_planned_node() -> Result<()> {
    let (catalog, next) = (Catalog::load(&Source::Kwok)?, Cell::new(0));
    let mut all = Tally::default();
    for tally in futures::future::try_join_all((0..ARENAS).map(|_| judge_all(&catalog, &next))).await? {
        all.add(tally);
    }
    let Tally { workloads, planned, unplaced, reordered, nominated, nominated_as_planned, free, misses } =
        &all;
    let kept = planned - misses.len();
    println!("{workloads} workloads, {planned} pods planned, {unplaced} fit nowhere");
    println!("in order:  {kept} bound as planned ({reordered} workloads in another order than by size)");
    println!("nominated: {nominated} bound, {nominated_as_planned} as planned");
    println!("free:      {free} bound");
    ensure!(misses.is_empty(), "kube-scheduler disagrees with the plan:\n{}", misses.join("\n"));
    assert_eq!(*workloads as u64, WORKLOADS);
    assert!(*planned > 10 * workloads, "so few pods prove little");
    assert!(100 * nominated >= 90 * planned, "nominations help most pods");
    assert!(100 * free >= 85 * planned, "most pods find a place by themselves");
    Ok(())
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.workloads += other.workloads;
        self.planned += other.planned;
        self.unplaced += other.unplaced;
        self.reordered += other.reordered;
        self.nominated += other.nominated;
        self.nominated_as_planned += other.nominated_as_planned;
        self.free += other.free;
        self.misses.extend(other.misses);
    }
}

/// Works through workloads until none is left.
async fn judge_all(catalog: &Catalog, next: &Cell<u64>) -> Result<Tally> {
    let mut arena = Arena::start().await?;
    let mut tally = Tally::default();
    loop {
        let seed = next.replace(next.get() + 1);
        if seed >= WORKLOADS {
            return Ok(tally);
        }
        let fleet = Fleet::plan(&Case::of(cases::case(seed)), catalog)?;
        arena.set_up(&fleet).await?;
        tally.add(judge(&mut arena, seed, &fleet).await?);
        arena.clear().await?;
    }
}

async fn judge(arena: &mut Arena, seed: u64, fleet: &Fleet) -> Result<Tally> {
    let pods = &fleet.planned;
    let mut tally = Tally { workloads: 1, planned: pods.len(), unplaced: fleet.unplaced, ..Tally::default() };

    let (misses, orders) = in_order(arena, pods).await?;
    tally.reordered = usize::from(orders > 1);
    tally.misses = misses.into_iter().map(|miss| format!("workload {seed}: {miss}")).collect();

    let verdicts = arena.all_at_once(pods, Start::Nominated).await?;
    let is_bound = |verdict: &Verdict| matches!(verdict, Verdict::Bound(_));
    tally.nominated = verdicts.values().filter(|verdict| is_bound(verdict)).count();
    tally.nominated_as_planned = pods.iter().filter(|pod| verdicts[&pod.name] == pod.as_planned()).count();
    arena.remove(pods).await?;

    let verdicts = arena.all_at_once(pods, Start::Free).await?;
    tally.free = verdicts.values().filter(|verdict| is_bound(verdict)).count();
    arena.remove(pods).await?;
    Ok(tally)
}

/// Lets the pods come one after another; returns those not bound as planned, and how many orders were tried.
///
/// As Karpenter does, the solver counts a pod for spreading only if it knows the pod's zone at that moment, and
/// kube-scheduler always knows it. So pods that are spread may have to come before pods that they count; each further
/// order begins with the kinds of pods that were refused in the one before.
async fn in_order(arena: &mut Arena, pods: &[Planned]) -> Result<(Vec<String>, usize)> {
    let mut order: Vec<&Planned> = pods.iter().collect();
    let mut retry = Retry::Late;
    for orders in 1.. {
        let misses = one_by_one(arena, &order, retry).await?;
        arena.remove(pods).await?;
        if misses.is_empty() || orders == ORDERS {
            let said = |(pod, verdict): &(&Planned, Verdict)| {
                format!("{} was planned for {}, but: {verdict:?}", pod.name, pod.node)
            };
            return Ok((misses.iter().map(said).collect(), orders));
        }
        let refused = |pod: &&Planned| misses.iter().any(|(miss, _)| miss.is_like(pod));
        let (first, then): (Vec<_>, Vec<_>) = order.into_iter().partition(refused);
        order = [first, then].concat();
        retry = Retry::Soon;
    }
    unreachable!("the last order returns");
}

/// When a pod that was refused comes again: it may have to wait for pods to be near to, or to be spread with.
#[derive(Clone, Copy)]
enum Retry {
    /// After all others.
    Late,
    /// After the next pod that is bound.
    Soon,
}

/// As [`in_order`] for one order.
async fn one_by_one<'a>(
    arena: &mut Arena,
    order: &[&'a Planned],
    retry: Retry,
) -> Result<Vec<(&'a Planned, Verdict)>> {
    let mut queue: VecDeque<&Planned> = order.iter().copied().collect();
    let mut misses: Vec<(&Planned, Verdict)> = Vec::new();
    while let Some(pod) = queue.pop_front() {
        let verdict = arena.nominate_alone(pod).await?;
        if verdict != pod.as_planned() {
            arena.remove(std::slice::from_ref(pod)).await?;
            misses.push((pod, verdict));
            continue;
        }
        let again = misses.drain(..).map(|(pod, _)| pod);
        match retry {
            Retry::Late => queue.extend(again),
            Retry::Soon => again.rev().for_each(|pod| queue.push_front(pod)),
        }
    }
    Ok(misses)
}
