//! Whether one pod can go to one place, and what that place becomes.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use crate::price::Price;
use crate::snapshot::{HostPort, MinValues, Volume};
use crate::solve::amounts::fits;
use crate::solve::bits::Bits;
use crate::solve::claims::ClaimIndex;
use crate::solve::classes::{Class, ClassId, Classes};
use crate::solve::constraints::Variant;
use crate::solve::min_values::{relaxed, shortfall};
use crate::solve::problem::Problem;
use crate::solve::reqs::{ReqId, ReqSets};
use crate::solve::reservations::Withheld;
use crate::solve::state::{Narrowed, State};
use crate::solve::topology::{Choice, Counts, Group, Rule};

/// Most ways in which groups may narrow a claim that are looked at.
const MAX_WAYS: usize = 64;

/// A way in which groups may narrow a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// How many pods its domains have that the groups would rather spread.
    crowd: u32,
    reqs: ReqId,
}

/// The answer of a place.
#[derive(Debug)]
pub(crate) enum Verdict<T> {
    /// It takes the pod and becomes this.
    Yes(T),
    /// Not as things stand, but perhaps later.
    NotNow,
    /// Not now and, since places only fill up, not later.
    Never,
    /// Not while a reservation that the pod should use may become free.
    Wait,
}

/// The state of a claim, real or about to be opened.
struct Place<'a> {
    pool: usize,
    reqs: ReqId,
    rows: Option<Rc<Bits>>,
    total: &'a [i64],
    ports: &'a [HostPort],
    volumes: &'a BTreeSet<Volume>,
    held: &'a BTreeSet<Arc<str>>,
    host: usize,
    is_new: bool,
}

impl State {
    /// Whether a node takes a pod of the class.
    pub(crate) fn node_takes(
        &self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        node: usize,
    ) -> Verdict<()> {
        // The cheapest and most likely refusal comes first.
        if !self.node_suits(problem, class, variant, node) {
            return Verdict::Never;
        }
        let of = &problem.classes.all[class.0 as usize];
        let wishes = &of.variants[variant];
        let (row, state) = (&problem.nodes[node], &self.nodes[node]);
        if !of.volumes.is_empty()
            && !attachable(&of.volumes, &state.volumes, |d| row.node.volume_limits.get(d))
        {
            return Verdict::NotNow;
        }
        let labels = problem.reqs.get(row.labels);
        for (group, counts, selects) in self.groups(&problem.classes, of, wishes) {
            if group.is_by_host() {
                if !counts.host_allowed(group.rule, selects, node) {
                    return refusal(group.rule, true);
                }
                continue;
            }
            let Some(own) = labels.get(&group.key) else { return Verdict::Never };
            let strict = problem.reqs.get(wishes.strict).get(&group.key);
            if !row.allowed(group, counts, selects, strict, own) {
                return refusal(group.rule, false);
            }
        }
        Verdict::Yes(())
    }

    /// Whether a node has room for a pod of the class and the labels and taints that it wants, whoever else is there.
    pub(crate) fn node_suits(
        &self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        node: usize,
    ) -> bool {
        let of = &problem.classes.all[class.0 as usize];
        let wishes = &of.variants[variant];
        let (row, state) = (&problem.nodes[node], &self.nodes[node]);
        of.need.iter().zip(&state.free).all(|(need, free)| need <= free)
            && wishes.tolerates.has(row.taints as usize)
            && row.meets(wishes.node_reqs, &mut problem.reqs)
            && of.volume_topology.iter().any(|asked| row.meets(*asked, &mut problem.reqs))
            && !conflict(&of.shape.host_ports, &state.ports)
    }

    /// Whether a claim takes a pod of the class.
    pub(crate) fn claim_takes(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        claim: ClaimIndex,
    ) -> Verdict<Narrowed> {
        if self.pools[self.claims.get(claim).pool].barred {
            return Verdict::Never;
        }
        if let Some(verdict) = self.claim_takes_simple(problem, class, variant, claim) {
            return verdict;
        }
        let host = self.host_of(claim);
        // Taken out for the moment of asking, so that nothing is copied.
        let open = self.claims.get_mut(claim);
        let (total, ports) = (std::mem::take(&mut open.total), std::mem::take(&mut open.ports));
        let (volumes, held) = (std::mem::take(&mut open.volumes), std::mem::take(&mut open.reservations));
        let place = Place {
            pool: open.pool,
            reqs: open.reqs,
            rows: open.rows.clone(),
            total: &total,
            ports: &ports,
            volumes: &volumes,
            held: &held,
            host,
            is_new: false,
        };
        let verdict = self.takes(problem, class, variant, &place);
        let open = self.claims.get_mut(claim);
        (open.total, open.ports, open.volumes, open.reservations) = (total, ports, volumes, held);
        verdict
    }

    /// How much dearer a claim becomes by taking a pod of the class.
    pub(crate) fn dearer(
        &self,
        problem: &mut Problem<'_>,
        class: ClassId,
        claim: ClaimIndex,
        becomes: &Narrowed,
    ) -> Price {
        let open = self.claims.get(claim);
        let need = problem.classes.all[class.0 as usize].need.clone();
        let nothing = vec![0; need.len()];
        let now = cheapest(problem, open.pool, open.reqs, open.rows.as_deref(), &open.total, &nothing);
        let then = cheapest(problem, open.pool, becomes.reqs, becomes.rows.as_deref(), &open.total, &need);
        then - now
    }

    /// The answer when only taints, labels and room matter, which is nearly always.
    fn claim_takes_simple(
        &self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        claim: ClaimIndex,
    ) -> Option<Verdict<Narrowed>> {
        let of = &problem.classes.all[class.0 as usize];
        let wishes = &of.variants[variant];
        let open = self.claims.get(claim);
        let pool = &mut problem.pools[open.pool];
        let simple = !of.is_social(wishes)
            && of.shape.host_ports.is_empty()
            && of.volumes.is_empty()
            && of.volume_topology == [ReqId::NONE]
            && !pool.min_values
            && !pool.reserved;
        if !simple {
            return None;
        }
        if !wishes.tolerates.has(pool.taints as usize) || !wishes.any_host {
            return Some(Verdict::Never);
        }
        let Some(reqs) = problem.reqs.narrow(open.reqs, wishes.claim_reqs) else {
            return Some(Verdict::Never);
        };
        let usable = pool.rows.usable(reqs, &problem.reqs);
        let found = pool.rows.find(&usable, open.rows.as_deref(), &open.total, &of.need);
        Some(found.map_or(Verdict::Never, |_| {
            Verdict::Yes(Narrowed { reqs, rows: open.rows.clone(), reservations: BTreeSet::new() })
        }))
    }

    /// Whether a pool opens a claim for a pod of the class, within these rows.
    pub(crate) fn pool_takes(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        pool: usize,
        rows: Option<Rc<Bits>>,
    ) -> Verdict<Narrowed> {
        let place = Place {
            pool,
            reqs: problem.pools[pool].template,
            rows,
            total: &vec![0; problem.columns.len()],
            ports: &[],
            volumes: &BTreeSet::new(),
            held: &BTreeSet::new(),
            host: self.host_of(self.claims.len() as ClaimIndex),
            is_new: true,
        };
        self.takes(problem, class, variant, &place)
    }

    fn takes(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        place: &Place<'_>,
    ) -> Verdict<Narrowed> {
        let of = &problem.classes.all[class.0 as usize];
        let wishes = &of.variants[variant];
        if !wishes.tolerates.has(problem.pools[place.pool].taints as usize) || !wishes.any_host {
            return Verdict::Never;
        }
        let claim_reqs = wishes.claim_reqs;
        let Some(narrowed) = problem.reqs.narrow(place.reqs, claim_reqs) else { return Verdict::Never };
        if conflict(&of.shape.host_ports, place.ports) {
            return Verdict::Never;
        }
        let social = of.is_social(wishes);
        if social {
            for (group, counts, selects) in
                self.groups(&problem.classes, of, wishes).filter(|(group, ..)| group.is_by_host())
            {
                if !counts.host_allowed(group.rule, selects, place.host) {
                    return refusal(group.rule, true);
                }
            }
        }
        let rows = allowed_rows(problem, class, place);
        let mut verdict = Verdict::Never;
        for alternative in 0..problem.classes.all[class.0 as usize].volume_topology.len() {
            let asked = problem.classes.all[class.0 as usize].volume_topology[alternative];
            let Some(before) = problem.reqs.narrow(narrowed, asked) else { continue };
            if !has_room(problem, class, place, before, rows.as_deref()) {
                continue;
            }
            let ways = if social {
                let ways = self.ways(problem, class, variant, before);
                cheapest_first(problem, class, place, rows.as_deref(), &ways)
            } else {
                vec![before]
            };
            if ways.is_empty() {
                verdict = Verdict::NotNow;
            }
            for reqs in ways {
                if reqs != before && !has_room(problem, class, place, reqs, rows.as_deref()) {
                    verdict = Verdict::NotNow;
                    continue;
                }
                match self.last_checks(problem, class, place, reqs, rows.as_ref()) {
                    Verdict::Never if social => verdict = Verdict::NotNow,
                    Verdict::Never => {}
                    decided => return decided,
                }
            }
        }
        verdict
    }

    /// What needs the rows written out: distinct values and reservations.
    fn last_checks(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        place: &Place<'_>,
        mut reqs: ReqId,
        rows: Option<&Rc<Bits>>,
    ) -> Verdict<Narrowed> {
        let pool = &mut problem.pools[place.pool];
        let (min_values, reserved) = (pool.min_values, pool.reserved);
        let mut reservations = BTreeSet::new();
        if min_values || reserved {
            let usable = pool.rows.usable(reqs, &problem.reqs);
            let need = &problem.classes.all[class.0 as usize].need;
            let total: Vec<i64> = place.total.iter().zip(need).map(|(total, need)| total + need).collect();
            let holding: Vec<usize> = pool.rows.holding(&usable, rows.map(|rows| &**rows), &total).collect();
            if min_values {
                let short = shortfall(problem, place.pool, reqs, &holding);
                if !short.is_empty() {
                    let lenient = problem.snapshot.options.min_values == MinValues::BestEffort;
                    if !(lenient && place.is_new) {
                        return Verdict::Never;
                    }
                    reqs = relaxed(problem, reqs, short);
                }
            }
            if reserved {
                let mut left = Bits::none(problem.pools[place.pool].rows.len());
                for row in &holding {
                    left.insert(*row);
                }
                match self.reservations.wanted(problem, place.pool, reqs, &left, place.held) {
                    Ok(wanted) => reservations = wanted,
                    Err(Withheld::Wait) => return Verdict::Wait,
                    Err(Withheld::Full) => return Verdict::Never,
                }
            }
        }
        Verdict::Yes(Narrowed { reqs, rows: rows.cloned(), reservations })
    }

    /// What the groups that a variant obeys narrow a requirement set to, the least crowded first.
    pub(crate) fn ways(
        &mut self,
        problem: &mut Problem<'_>,
        class: ClassId,
        variant: usize,
        reqs: ReqId,
    ) -> Rc<[Way]> {
        let of = &problem.classes.all[class.0 as usize];
        let version = self.counts_version(of, &of.variants[variant]);
        let progress = of.first_variant + variant;
        let known = &self.progress[progress].ways;
        if let Some((_, ways)) = known.get(&reqs).filter(|(at, _)| *at == version) {
            return ways.clone();
        }
        let groups: Vec<_> = self
            .groups(&problem.classes, of, &of.variants[variant])
            .filter(|(group, ..)| !group.is_by_host())
            .map(|(group, counts, selects)| (group.clone(), counts, selects))
            .collect();
        let strict = of.variants[variant].strict;
        let mut ways = Vec::new();
        expand(&mut problem.reqs, &groups, strict, Way { crowd: 0, reqs }, &mut ways);
        ways.sort_by_key(|way| way.crowd);
        let ways: Rc<[Way]> = ways.into();
        self.progress[progress].ways.insert(reqs, (version, ways.clone()));
        ways
    }

    /// The groups that bind a variant, with their counts and whether they count the class itself.
    pub(crate) fn groups<'a>(
        &'a self,
        classes: &'a Classes,
        class: &'a Class,
        variant: &'a Variant,
    ) -> impl Iterator<Item = (&'a Rc<Group>, &'a Counts, bool)> {
        let obeyed = variant
            .obeys
            .iter()
            .map(|(id, selects)| (classes.groups.get(*id), &self.counts[id.0 as usize], *selects));
        let shunned = class
            .shunned_by
            .iter()
            .map(|id| (classes.reverse.get(*id), &self.reverse_counts[id.0 as usize], true));
        obeyed.chain(shunned)
    }
}

/// Hosts only fill up, so that apart and spread stay refused; being near may become possible.
fn refusal<T>(rule: Rule, by_host: bool) -> Verdict<T> {
    match rule {
        Rule::Apart => Verdict::Never,
        Rule::Spread { .. } if by_host => Verdict::Never,
        Rule::Spread { .. } | Rule::Near => Verdict::NotNow,
    }
}

fn expand(
    all: &mut ReqSets,
    groups: &[(Rc<Group>, &Counts, bool)],
    strict: ReqId,
    so_far: Way,
    ways: &mut Vec<Way>,
) {
    let Some(((group, counts, selects), rest)) = groups.split_first() else {
        if ways.iter().all(|known| known.reqs != so_far.reqs) {
            ways.push(so_far);
        }
        return;
    };
    let (pod, node) = (all.get(strict).clone(), all.get(so_far.reqs).clone());
    match counts.choose(group.rule, *selects, pod.get(&group.key), node.get(&group.key)) {
        Choice::Nowhere => {}
        Choice::Within(domains) => {
            if let Some(reqs) = all.narrow_to(so_far.reqs, &group.key, &domains) {
                expand(all, rest, strict, Way { reqs, ..so_far }, ways);
            }
        }
        Choice::OneOf(domains) => {
            for (domain, count) in domains {
                if ways.len() >= MAX_WAYS {
                    return;
                }
                if let Some(reqs) = all.narrow_to(so_far.reqs, &group.key, &[domain]) {
                    expand(all, rest, strict, Way { crowd: so_far.crowd + count, reqs }, ways);
                }
            }
        }
    }
}

/// The ways in the order in which they are tried: among equally crowded ones that where the place costs least.
fn cheapest_first(
    problem: &mut Problem<'_>,
    class: ClassId,
    place: &Place<'_>,
    rows: Option<&Bits>,
    ways: &[Way],
) -> Vec<ReqId> {
    let mut ordered = Vec::with_capacity(ways.len());
    for equal in ways.chunk_by(|a, b| a.crowd == b.crowd) {
        let from = ordered.len();
        ordered.extend(equal.iter().map(|way| way.reqs));
        if equal.len() > 1 {
            let need = problem.classes.all[class.0 as usize].need.clone();
            ordered[from..]
                .sort_by_cached_key(|reqs| cheapest(problem, place.pool, *reqs, rows, place.total, &need));
        }
    }
    ordered
}

/// The least that a place in the pool costs that holds so much.
fn cheapest(
    problem: &mut Problem<'_>,
    pool: usize,
    reqs: ReqId,
    rows: Option<&Bits>,
    total: &[i64],
    more: &[i64],
) -> Price {
    let pool = &mut problem.pools[pool];
    let priced = pool.rows.priced(reqs, &problem.reqs);
    let mut holding = priced.iter().filter(|buy| {
        let row = buy.row as usize;
        rows.is_none_or(|rows| rows.has(row)) && fits(total, more, pool.rows.room(row))
    });
    holding.next().map_or(Price::MAX, |buy| buy.price)
}

fn has_room(
    problem: &mut Problem<'_>,
    class: ClassId,
    place: &Place<'_>,
    reqs: ReqId,
    rows: Option<&Bits>,
) -> bool {
    let pool = &mut problem.pools[place.pool];
    let usable = pool.rows.usable(reqs, &problem.reqs);
    let need = &problem.classes.all[class.0 as usize].need;
    pool.rows.find(&usable, rows, place.total, need).is_some()
}

/// The rows of a place that its ports and volumes leave once the pod is there.
fn allowed_rows(problem: &Problem<'_>, class: ClassId, place: &Place<'_>) -> Option<Rc<Bits>> {
    let of = &problem.classes.all[class.0 as usize];
    let rows = &problem.pools[place.pool].rows;
    let ports = !of.shape.host_ports.is_empty() && rows.daemon_sets.iter().any(|set| !set.ports.is_empty());
    if !ports && of.volumes.is_empty() {
        return place.rows.clone();
    }
    let mut allowed = place.rows.as_deref().cloned().unwrap_or_else(|| Bits::all(rows.len()));
    for row in 0..rows.len() {
        let limits = &rows.instance_type(row).volume_limits;
        if conflict(&of.shape.host_ports, &rows.daemons(row).ports)
            || (!of.volumes.is_empty()
                && !attachable(&of.volumes, place.volumes, |driver| limits.get(driver)))
        {
            allowed.remove(row);
        }
    }
    Some(Rc::new(allowed))
}

pub(crate) fn conflict(wanted: &[HostPort], taken: &[HostPort]) -> bool {
    wanted.iter().any(|port| taken.iter().any(|other| port.conflicts(other)))
}

/// Whether all volumes together stay within the limits of their drivers.
pub(crate) fn attachable<'a>(
    more: &[Volume],
    there: &BTreeSet<Volume>,
    limit: impl Fn(&Arc<str>) -> Option<&'a u32>,
) -> bool {
    let all: BTreeSet<&Volume> = there.iter().chain(more).collect();
    more.iter().all(|volume| {
        limit(&volume.driver).is_none_or(|limit| {
            all.iter().filter(|other| other.driver == volume.driver).count() <= *limit as usize
        })
    })
}
