//! Pools that keep a number of nodes: what is missing is made, what is too much is removed.
//!
//! `core::fixed` decides. Every claim has a seat, a number below the pool's replicas that its name is made from: whoever
//! decides again, after a restart or with an old list, asks for the same claim and finds it made.

mod count;
mod template;

use std::collections::BTreeSet;
use std::time::Duration;

use headstart_api::NodePool;
use headstart_core::fixed::{Step, step};

use crate::agenda::Agenda;
use crate::backoff::Backoff;
use crate::claims;
use crate::disrupt::{Disrupt, Swaps};
use crate::errands::Errand;
use crate::out::Out;
use crate::provision::{Provision, Strikes};
use crate::report::Level;
use crate::settings::Settings;
use crate::store::{Claim, Store, Touched};
use crate::time::Time;
pub(crate) use count::count;
pub(crate) use template::{anchor_of, template};

/// How often a pool is looked at when nothing happens, and how often when it has no room for what is missing.
const LOOK: Duration = Duration::from_mins(1);
const LOOK_FULL: Duration = Duration::from_secs(30);
/// How long a pool is left alone from which nothing could be launched.
const PAUSES: Backoff = Backoff::millis(1_000, 60_000);

/// Pools that keep a number of nodes.
#[derive(Debug)]
pub(crate) struct Fixed {
    is_on: bool,
    agenda: Agenda<String>,
    /// Claims that are one too many, until they are on their way out.
    doomed: BTreeSet<String>,
    /// Pools from which nothing could be launched.
    failures: Strikes<String>,
    /// Pools of which it was said that their limit is reached.
    full: BTreeSet<String>,
}

impl Fixed {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            is_on: settings.static_capacity,
            agenda: Agenda::default(),
            doomed: BTreeSet::new(),
            failures: Strikes::new(PAUSES, settings.seed),
            full: BTreeSet::new(),
        }
    }

    pub(crate) fn on(&mut self, touched: &Touched, store: &Store) {
        if !self.is_on {
            return;
        }
        match touched {
            Touched::Pool { name } => self.agenda.mark(name.clone()),
            Touched::Claim { name, gone } => {
                let claim = store.claims.get(name).or(gone.as_deref());
                if store.claims.get(name).is_none_or(Claim::is_leaving) {
                    self.doomed.remove(name);
                }
                if let Some(pool) = claim.map(Claim::pool).filter(|pool| is_fixed(store, pool)) {
                    self.agenda.mark(pool.to_owned());
                }
            }
            _ => {}
        }
    }

    /// Takes notice that nothing could be launched for a claim of a pool.
    pub(crate) fn failed(&mut self, now: Time, pool: &str) {
        if self.is_on {
            self.failures.failed(now, pool.to_owned());
        }
    }

    /// Forgets what only this process knows.
    pub(crate) fn forget(&mut self) {
        self.doomed.clear();
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.agenda.wake()
    }

    pub(crate) fn poll(
        &mut self,
        store: &mut Store,
        disrupt: &Disrupt,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        for name in self.agenda.take(out.now.time) {
            let is_kept = |pool: &&NodePool| {
                pool.spec.replicas.is_some()
                    && pool.metadata.deletion_timestamp.is_none()
                    && store.is_ours(&pool.spec.template.spec.node_class_ref)
            };
            if let Some(pool) = store.pools.get(&name).filter(is_kept).cloned() {
                let pause = self.look(&name, &pool, store, &disrupt.swaps(), provision, out);
                self.agenda.at(out.now.time + pause, name);
            }
        }
    }

    /// Makes what is missing or removes what is too much; how long until the next look.
    fn look(
        &mut self,
        name: &str,
        pool: &NodePool,
        store: &mut Store,
        swaps: &Swaps,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) -> Duration {
        let Some(count) = count(name, pool, store, swaps, &self.doomed) else { return LOOK };
        let seats = if count.surplus() > 0 {
            count::seats(name, store, swaps, &self.doomed, out.now.wall)
        } else {
            Vec::new()
        };
        let step = step(&count, &seats);
        if step != Step::Full {
            self.full.remove(name);
        }
        match step {
            Step::Settled => {}
            Step::Full => {
                if self.full.insert(name.to_owned()) {
                    tell(name, "no room for more nodes within limits.nodes", count.kept, count.replicas, out);
                }
                return LOOK_FULL;
            }
            // COMPAT: scaling down waits for nothing, scaling up for the pool to be ready (v1.15, `static.provisioning`).
            Step::Make(_) if !store.is_usable(name) => {}
            Step::Make(_) if self.failures.is_out(out.now.time, &name.to_owned()) => {
                let next = self.failures.next(out.now.time).map_or(LOOK, |next| next - out.now.time);
                return next.min(LOOK);
            }
            Step::Make(missing) => {
                tell(name, "making NodeClaims for static NodePool", count.kept, count.replicas, out);
                let planned = template(pool);
                for anchor in
                    count::free(pool, name, store).take(usize::try_from(missing).unwrap_or(usize::MAX))
                {
                    provision.buy(store, &planned, &anchor, &[], "provisioned", out);
                }
            }
            Step::Remove(surplus) => {
                tell(name, "removing NodeClaims of static NodePool", count.kept, count.replicas, out);
                self.doomed.extend(surplus.iter().map(|seat| seats[*seat as usize].name.to_string()));
            }
        }
        self.remove_doomed(name, store, out).unwrap_or(LOOK).min(LOOK)
    }

    /// Removes what is too much; how long until it can be tried again, if it could not be asked for.
    fn remove_doomed(&self, pool: &str, store: &Store, out: &mut Out<'_>) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        let doomed = self.doomed.iter().filter_map(|name| store.claims.get(name));
        for claim in doomed.filter(|claim| claim.pool() == pool && !claim.is_assumed) {
            if !claims::remove(claim, "overprovisioned", out)
                && let Some(until) = out.errands.until(&Errand::Remove(claim.name().to_owned()))
            {
                let pause = until - out.now.time;
                again = Some(again.map_or(pause, |known| known.min(pause)));
            }
        }
        again
    }
}

fn is_fixed(store: &Store, pool: &str) -> bool {
    store.pools.get(pool).is_some_and(|pool| pool.spec.replicas.is_some())
}

fn tell(pool: &str, message: &str, has: u64, wants: u64, out: &mut Out<'_>) {
    let (has, wants) = (has.to_string(), wants.to_string());
    out.line(Level::Info, message, &[("NodePool", pool), ("current", &has), ("desired", &wants)]);
}
