//! Launching: the first offering with capacity wins, and a token is good for one instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headstart_cloud::catalog::{Catalog, key_of, labels_of};
use headstart_cloud::error::Reason;
use headstart_cloud::port::{DryOffering, Launch, LaunchRequest, OfferingKey, Taint};
use headstart_cloud::testcloud::wire::WireError;
use headstart_core::catalog::{InstanceType, Offering};
use headstart_core::quantity::Quantity;
use headstart_core::resources::{CPU, Resources};
use jiff::Timestamp;

use super::{Decision, Machine, World};
use crate::clock::{between, later};
use crate::record::{Fact, Launched, NodeRecord};
use crate::settings::{Quota, Settings, Shot};

const UNREGISTERED: &str = "karpenter.sh/unregistered";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// What makes the kwok controller keep a Node alive.
const KWOK: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

impl World {
    /// Launches an instance, or finds the one its token launched before.
    pub(crate) fn launch(
        &mut self,
        now: Timestamp,
        request: &LaunchRequest,
    ) -> Decision<Result<Launch, WireError>> {
        let nothing = |answer| Decision { answer, facts: Vec::new() };
        let known = self.tokens.get(&request.token).and_then(|id| self.machines.get(id));
        if let Some(machine) = known {
            let answer = replay(machine, request);
            if self.shoot(|shot| *shot == Shot::IgnoreToken).is_none() {
                return nothing(answer);
            }
        }
        if let Some(message) = self.settings.unready.get(&request.class.name) {
            let error = WireError::ClassNotReady { class: request.class.clone(), message: message.clone() };
            return nothing(Err(error));
        }
        let launched = match self.choose(now, request) {
            Ok((index, dry)) => self.instance(now, request, &request.offerings[index], dry),
            Err(error) => return nothing(Err(error)),
        };
        let Some(launched) = launched else {
            return nothing(Err(invalid("the offering vanished from the catalog".to_owned())));
        };
        let launch = Launch { instance: Machine::new(&launched, now).view(), dry: launched.dry.clone() };
        Decision { answer: Ok(launch), facts: vec![Fact::Launched(Box::new(launched))] }
    }

    /// The catalog with what is left of reservations, and whether it will always be the same.
    pub(crate) fn catalog(&self) -> (Arc<Catalog>, bool) {
        let sold = || self.catalog.types().iter().flat_map(|t| &t.offerings);
        if !sold().any(Offering::is_reserved) {
            return (Arc::clone(&self.catalog), true);
        }
        let left = |t: &InstanceType, o: &Offering| {
            let taken = self.count_alive(|m| m.launched.offering == key_of(t, o));
            o.reservation_capacity.saturating_sub(taken)
        };
        let types = self.catalog.types().iter().map(|t| {
            let mut with_left = (**t).clone();
            for offering in with_left.offerings.iter_mut().filter(|o| o.is_reserved()) {
                offering.reservation_capacity = left(t, offering);
            }
            with_left
        });
        let mut catalog =
            Catalog::new(self.catalog.source.clone(), types.collect(), self.catalog.well_known.clone());
        catalog.modelled.clone_from(&self.catalog.modelled);
        (Arc::new(catalog), false)
    }

    /// The first offering with capacity, and those before it without.
    fn choose(
        &self,
        now: Timestamp,
        request: &LaunchRequest,
    ) -> Result<(usize, Vec<DryOffering>), WireError> {
        if request.offerings.is_empty() {
            return Err(invalid("the list of offerings is empty".to_owned()));
        }
        let mut dry = Vec::new();
        for (index, key) in request.offerings.iter().enumerate() {
            let Some((instance_type, offering)) = self.catalog.offering(key) else {
                return Err(invalid(format!("the catalog has no offering {key}")));
            };
            match self.capacity(now, key, instance_type, offering) {
                Ok(()) => return Ok((index, dry)),
                Err(lasts) => dry.push(DryOffering { offering: key.clone(), lasts }),
            }
        }
        let names: Vec<String> = dry.iter().take(3).map(|d| d.offering.to_string()).collect();
        let more = dry.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(WireError::InsufficientCapacity {
            message: format!("no capacity for {}{more}", names.join(", ")),
            dry,
        })
    }

    /// Whether an offering can be bought now, and if not for how long, if known.
    fn capacity(
        &self,
        now: Timestamp,
        key: &OfferingKey,
        instance_type: &InstanceType,
        offering: &Offering,
    ) -> Result<(), Option<Duration>> {
        let in_force = |until: Option<Timestamp>| until.is_none_or(|until| until > now);
        let dry = self.settings.dry.iter().filter(|dry| in_force(dry.until) && dry.which.matches(key));
        // Of several reasons the one that lasts longest counts, and no end is the longest.
        if let Some(longest) = dry.map(|dry| dry.until.unwrap_or(Timestamp::MAX)).max() {
            return Err((longest != Timestamp::MAX).then(|| between(now, longest)));
        }
        let quota = &self.settings.quota;
        // PERF: counting looks at every instance, and a request may list thousands of offerings.
        if *quota == Quota::default() && !offering.is_reserved() {
            return Ok(());
        }
        let full = |limit: Option<u32>, used: u32, more: u32| limit.is_some_and(|limit| used + more > limit);
        let cpus = |capacity: &Resources| u32::try_from(capacity.get(CPU).units()).unwrap_or(u32::MAX);
        let living = self.machines.values().filter(|m| m.ended.is_none());
        let used_cpus = living.map(|m| cpus(&m.launched.capacity)).fold(0, u32::saturating_add);
        let same_type = self.count_alive(|m| m.launched.offering.instance_type == key.instance_type);
        let reserved = offering.is_reserved().then_some(offering.reservation_capacity);
        let refused = full(quota.instances, self.count_alive(|_| true), 1)
            || full(quota.vcpus, used_cpus, cpus(&instance_type.capacity))
            || full(quota.per_type.get(&key.instance_type).copied(), same_type, 1)
            || full(reserved, self.count_alive(|m| m.launched.offering == *key), 1);
        if refused { Err(None) } else { Ok(()) }
    }

    fn count_alive(&self, wanted: impl Fn(&Machine) -> bool) -> u32 {
        let n = self.machines.values().filter(|m| m.ended.is_none() && wanted(m)).count();
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    /// The instance that buying an offering gives, with whatever faults are armed.
    fn instance(
        &mut self,
        now: Timestamp,
        request: &LaunchRequest,
        key: &OfferingKey,
        dry: Vec<DryOffering>,
    ) -> Option<Launched> {
        let n = self.launches + 1;
        let id = format!("i-{n:08x}");
        let Settings { join_delay, seed, image, .. } = &self.settings;
        let joins_at = later(now, join_delay.draw(*seed, "join", n));
        let image = image.clone();
        let joins_at = self.shoot(|shot| *shot == Shot::NeverJoin).map_or(Some(joins_at), |_| None);
        let wrong_taint = self.shoot(|shot| matches!(shot, Shot::WrongTaint { .. }));
        let less = self.shoot(|shot| matches!(shot, Shot::LessAllocatable { .. }));
        let (instance_type, offering) = self.catalog.offering(key)?;
        let (labels, promised) =
            (labels_of(instance_type, offering), instance_type.allocatable_with(offering));
        let mut node = node(&id, request, &labels, promised.clone());
        if let Some(Shot::WrongTaint { taint }) = wrong_taint {
            node.taints.push(taint);
        }
        if let Some(Shot::LessAllocatable { percent }) = less {
            let left = |(name, amount): (&str, Quantity)| {
                let nanos = amount.nanos() * i128::from(100 - percent.min(100)) / 100;
                (name.to_owned(), Quantity::from_nanos(nanos, amount.notation()))
            };
            let mut allocatable = Resources::new();
            node.allocatable.iter().map(left).for_each(|(name, amount)| allocatable.set(&name, amount));
            node.allocatable = allocatable;
        }
        let mut capacity = instance_type.capacity.clone();
        if let Some(replaced) = &offering.capacity_override {
            capacity.merge(replaced);
        }
        Some(Launched {
            token: request.token.clone(),
            digest: request.digest(),
            offering: key.clone(),
            dry,
            price_nanos: offering.price.nanos(),
            tags: request.all_tags(),
            image,
            capacity,
            allocatable: promised,
            labels,
            node,
            joins_at,
            id,
        })
    }
}

/// The answer to a token that was used before.
fn replay(machine: &Machine, request: &LaunchRequest) -> Result<Launch, WireError> {
    let refused = |reason, message| WireError::Refused { reason, message };
    let Launched { id, token, digest, dry, .. } = &machine.launched;
    if *digest != request.digest() {
        let message =
            format!("token {token} launched {id} from another list of offerings or for another class");
        return Err(refused(Reason::TokenReused, message));
    }
    if machine.ended.is_some() {
        return Err(refused(Reason::InstanceEnded, format!("token {token} launched {id}, which has ended")));
    }
    Ok(Launch { instance: machine.view(), dry: dry.clone() })
}

fn node(
    id: &str,
    request: &LaunchRequest,
    labels: &BTreeMap<String, String>,
    allocatable: Resources,
) -> NodeRecord {
    let template = &request.node;
    let mut all_labels = template.labels.clone();
    all_labels.extend(labels.clone());
    all_labels.insert(HOSTNAME.to_owned(), id.to_owned());
    all_labels.insert(KWOK.0.to_owned(), KWOK.1.to_owned());
    let mut annotations = template.annotations.clone();
    annotations.insert(KWOK.0.to_owned(), KWOK.1.to_owned());
    let unregistered =
        Taint { key: UNREGISTERED.to_owned(), value: String::new(), effect: "NoExecute".to_owned() };
    let taints = [&template.taints[..], &template.startup_taints[..], &[unregistered]].concat();
    NodeRecord { name: id.to_owned(), labels: all_labels, annotations, taints, allocatable }
}

fn invalid(message: String) -> WireError {
    WireError::Refused { reason: Reason::InvalidRequest, message }
}
