//! Which offerings ran dry, and when to try them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headstart_core::catalog::InstanceType;
use headstart_core::cloud::{DryOffering, OfferingKey, key_of};
use headstart_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use headstart_core::price::Price;
use headstart_core::types::Types;

use crate::backoff::Backoff;
use crate::store::{Claim, Meta};
use crate::time::Time;

/// How long an offering that ran dry is avoided while there are others, if the cloud does not say.
const AVOIDED: Duration = Duration::from_mins(3);
/// When it may be tried for want of others: later each time, so that others get their turn.
const PROBES: Backoff = Backoff::millis(1_000, 180_000);
/// How often anything is tried when everything has run dry.
const DESPAIR: Backoff = Backoff::millis(1_000, 15_000);

/// Which offerings ran dry.
#[derive(Debug)]
pub(crate) struct Capacity {
    types: Arc<Types>,
    seed: u64,
    dry: BTreeMap<OfferingKey, Dry>,
    /// How often in a row something was tried for want of others, and when that may be done again.
    despair: (u32, Time),
    /// What can be bought without certain offerings; laying out a catalog takes a while.
    laid_out: Option<(BTreeSet<OfferingKey>, Arc<Types>)>,
}

#[derive(Clone, Copy, Debug)]
struct Dry {
    failures: u32,
    /// When it counts as any other again.
    until: Time,
    /// When it may be tried for want of others.
    probe: Time,
}

/// How to treat offerings that ran dry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// There are enough others.
    Picky,
    /// There are none, so that those are tried whose time has come.
    Desperate,
    /// Nor are there such: anything is tried again.
    Reckless,
}

impl Capacity {
    /// What an hour of a claim's instance costs, as far as that is known.
    pub(crate) fn price(&self, claim: &Claim) -> Price {
        self.price_by(&claim.metadata)
    }

    /// The same for whatever has the labels of a node.
    pub(crate) fn price_by(&self, labeled: &Meta) -> Price {
        let types = self.all();
        let Some(known) = types.named(labeled.label(INSTANCE_TYPE)) else { return Price::default() };
        let (zone, capacity_type) = (labeled.label(ZONE), labeled.label(CAPACITY_TYPE));
        let same = known.offerings.iter().find(|offering| {
            let key = key_of(known, offering);
            key.zone == zone && key.capacity_type == capacity_type
        });
        same.map(|offering| offering.price).unwrap_or_default()
    }

    pub(crate) fn new(types: Arc<Types>, seed: u64) -> Self {
        Self { types, seed, dry: BTreeMap::new(), despair: (0, Time(0)), laid_out: None }
    }

    /// Everything that the cloud sells.
    pub(crate) fn all(&self) -> &Arc<Types> {
        &self.types
    }

    /// Takes notice that an offering ran dry.
    pub(crate) fn ran_dry(&mut self, now: Time, offering: &DryOffering) {
        let failures = self.dry.get(&offering.offering).map_or(0, |dry| dry.failures) + 1;
        let probe = PROBES.after(failures, self.seed, &offering.offering.to_string());
        let until = now + offering.lasts.unwrap_or(AVOIDED).max(probe);
        self.dry.insert(offering.offering.clone(), Dry { failures, until, probe: now + probe });
    }

    /// Takes notice that an offering could be bought.
    pub(crate) fn was_bought(&mut self, offering: &OfferingKey) {
        self.dry.remove(offering);
        self.despair = (0, Time(0));
    }

    /// Takes notice that something is tried for want of others.
    pub(crate) fn probed(&mut self, now: Time) {
        let times = self.despair.0 + 1;
        self.despair = (times, now + DESPAIR.after(times, self.seed, "despair"));
    }

    /// When an offering that ran dry may be tried again.
    pub(crate) fn next_try(&self, now: Time) -> Option<Time> {
        let tries = self.dry.values().flat_map(|dry| {
            let reckless = (self.despair.0 > 0).then_some(self.despair.1);
            [Some(dry.until), Some(dry.probe.max(self.despair.1)), reckless].into_iter().flatten()
        });
        tries.filter(|time| *time > now).min()
    }

    /// Whether something that ran dry may be tried for want of others.
    pub(crate) fn can_probe(&self, now: Time) -> bool {
        self.despair.1 <= now && self.dry.values().any(|dry| dry.until > now && dry.probe <= now)
    }

    /// Whether anything that ran dry may be tried, due or not.
    ///
    /// Offerings that ran dry together wait together. Were there nothing to try in between, what comes back after a long
    /// time would be found as late as they are due again.
    pub(crate) fn can_gamble(&self, now: Time) -> bool {
        self.despair.0 > 0 && self.despair.1 <= now && self.dry.values().any(|dry| dry.until > now)
    }

    /// How many offerings are avoided.
    pub(crate) fn avoided(&self, now: Time) -> usize {
        self.dry.values().filter(|dry| dry.until > now).count()
    }

    /// What can be bought now.
    pub(crate) fn types(&mut self, now: Time, mood: Mood) -> Arc<Types> {
        // Those that can be tried again are remembered for a while, so that a second failure counts as one.
        self.dry.retain(|_, dry| now < dry.until + AVOIDED);
        let avoided = |dry: &Dry| match mood {
            Mood::Picky => dry.until > now,
            Mood::Desperate => dry.until > now && dry.probe > now,
            Mood::Reckless => false,
        };
        let dry: BTreeSet<OfferingKey> =
            self.dry.iter().filter(|(_, dry)| avoided(dry)).map(|(key, _)| key.clone()).collect();
        if dry.is_empty() {
            return self.types.clone();
        }
        if let Some((known, types)) = &self.laid_out
            && *known == dry
        {
            return types.clone();
        }
        let names: BTreeSet<&str> = dry.iter().map(|key| key.instance_type.as_str()).collect();
        let without = |known: &Arc<InstanceType>| {
            if !names.contains(&*known.name) {
                return known.clone();
            }
            let mut changed = InstanceType::clone(known);
            for offering in &mut changed.offerings {
                offering.available &= !dry.contains(&key_of(known, offering));
            }
            Arc::new(changed)
        };
        let types = Arc::new(Types::new(self.types.iter().map(without).collect()));
        self.laid_out = Some((dry, types.clone()));
        types
    }
}

#[cfg(test)]
mod tests {
    use headstart_cloud::catalog::{Catalog, Source};

    use super::*;

    #[test]
    fn what_ran_dry_again_and_again_is_still_tried_every_few_seconds_for_want_of_others() {
        let types = Catalog::load(&Source::Kwok).unwrap().types().clone();
        let offering = key_of(&types[0], &types[0].offerings[0]);
        let dry = DryOffering { offering: offering.clone(), lasts: None };
        let mut capacity = Capacity::new(types, 7);
        let mut now = Time(1_000);
        for _ in 0..10 {
            capacity.ran_dry(now, &dry);
            capacity.probed(now);
            assert!(!capacity.can_gamble(now), "not twice at once");
            now = now + Duration::from_secs(15);
        }
        assert!(!capacity.can_probe(now), "its own time is minutes away");
        assert!(capacity.can_gamble(now));
        let sold = |types: &Arc<Types>| types[0].offerings[0].available;
        assert!(!sold(&capacity.types(now, Mood::Desperate)));
        assert!(sold(&capacity.types(now, Mood::Reckless)));

        capacity.was_bought(&offering);
        assert!(!capacity.can_gamble(now), "there is nothing to try");
    }
}
