//! A naive scheduler of its own; it shares nothing with the engine's, or both could be wrong together.

use std::collections::{BTreeMap, BTreeSet};

use headstart_engine::Kind;
use serde_json::{Value, json};

use crate::amounts::{Milli, Room};
use crate::api::{Actor, Verb, array, field, text};
use crate::dice::Dice;
use crate::ground::{Ground, Happening};
use crate::kubelet::set_condition;
use crate::timeline::Moment;

/// How often pods that fit nowhere are looked at again although nothing changed.
const FLUSH: u64 = 60_000;

/// The scheduler.
#[derive(Debug)]
pub struct Scheduler {
    dice: Dice,
    nodes: BTreeMap<String, Host>,
    pods: BTreeMap<String, Guest>,
    /// What is to be tried next, and when.
    active: BTreeSet<(Moment, u64, String)>,
    /// When each pod that is to be tried is tried, by its number.
    queued: BTreeMap<u64, Moment>,
    /// What fits nowhere.
    parked: BTreeSet<(u64, String)>,
    arrivals: u64,
    next: Option<Moment>,
}

#[derive(Debug, Default)]
struct Host {
    exists: bool,
    labels: BTreeMap<String, String>,
    taints: Vec<[String; 3]>,
    closed: bool,
    room: Room,
    used: Room,
    promised: Room,
}

#[derive(Debug)]
struct Guest {
    number: u64,
    room: Room,
    /// Where it runs.
    node: Option<String>,
    nominated: Option<String>,
    wants: Wants,
    tries: u32,
    tried: Moment,
}

/// What a pod asks of a node; pods that ask for the same fit the same nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wants {
    room: Room,
    selector: Vec<(String, String)>,
    /// Key, operator, value, effect.
    tolerations: Vec<[String; 4]>,
}

impl Scheduler {
    /// The scheduler of a run.
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed, "scheduler"),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            active: BTreeSet::new(),
            queued: BTreeMap::new(),
            parked: BTreeSet::new(),
            arrivals: 0,
            next: None,
        }
    }

    /// A Node changed.
    pub fn node_changed(&mut self, ground: &mut Ground, index: usize) {
        let entry = &ground.api.log(Kind::Node)[index];
        let host = self.nodes.entry(text(&entry.object, "/metadata/name").to_owned()).or_default();
        host.exists = entry.verb != Verb::Removed;
        if host.exists {
            host.read(&entry.object);
            self.move_parked(ground);
        }
    }

    /// A pod changed.
    pub fn pod_changed(&mut self, ground: &mut Ground, index: usize) {
        let entry = &ground.api.log(Kind::Pod)[index];
        let (key, pod) = (entry.key.to_string(), std::sync::Arc::clone(&entry.object));
        let gone =
            entry.verb == Verb::Removed || matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed");
        let freed = self.forget(&key, gone);
        if freed {
            self.move_parked(ground);
        }
        if gone {
            return;
        }
        let known = self.pods.get(&key).map(|guest| (guest.number, guest.tries, guest.tried));
        let number = known.map_or(self.arrivals + 1, |known| known.0);
        self.arrivals = self.arrivals.max(number);
        let wants = Wants::of(&pod);
        let optional = |at: &str| Some(text(&pod, at)).filter(|name| !name.is_empty()).map(str::to_owned);
        let guest = Guest {
            number,
            room: wants.room,
            node: optional("/spec/nodeName"),
            nominated: optional("/status/nominatedNodeName"),
            wants,
            tries: known.map_or(0, |known| known.1),
            tried: known.map_or(Moment(0), |known| known.2),
        };
        if let Some(node) = &guest.node {
            let host = self.nodes.entry(node.clone()).or_default();
            host.used = host.used.plus(guest.room);
        } else if let Some(node) = &guest.nominated {
            let host = self.nodes.entry(node.clone()).or_default();
            host.promised = host.promised.plus(guest.room);
        }
        let wanting = guest.node.is_none()
            && field(&pod, "/metadata/deletionTimestamp").is_none()
            && text(&pod, "/spec/schedulerName") == "default-scheduler"
            && array(&pod, "/spec/schedulingGates").next().is_none();
        let queued = self.unqueue(&key, number);
        if wanting {
            let news = known.is_none() || entry_differs(ground, index, "/status/nominatedNodeName");
            match queued.or(news.then_some(ground.now())) {
                Some(at) => self.queue(at, number, key.clone()),
                None => drop(self.parked.insert((number, key.clone()))),
            }
        }
        self.pods.insert(key, guest);
        self.plan_next(ground);
    }

    /// Looks at the queue.
    pub fn on(&mut self, ground: &mut Ground) {
        let now = ground.now();
        if self.next.is_some_and(|next| next > now) {
            return;
        }
        self.next = None;
        if self.active.first().is_none_or(|(at, ..)| *at > now) {
            self.move_parked(ground);
        }
        let mut hopeless: BTreeSet<Wants> = BTreeSet::new();
        while let Some((_, number, key)) = self.active.first().filter(|(at, ..)| *at <= now).cloned() {
            self.active.pop_first();
            self.queued.remove(&number);
            let Some(guest) = self.pods.get_mut(&key) else { continue };
            guest.tries += 1;
            guest.tried = now;
            let (wants, nominated) = (guest.wants.clone(), guest.nominated.clone());
            let hope = nominated.is_some() || !hopeless.contains(&wants);
            if let Some(node) = hope.then(|| self.choose(&wants, nominated.as_deref())).flatten() {
                ground.api.edit(now, Actor::Scheduler, Kind::Pod, &key, |pod| {
                    pod["spec"]["nodeName"] = json!(node);
                    set_condition(pod, now, "PodScheduled", "True", "");
                });
                // The pod counts on its node from now on, before anybody is told.
                self.bind(&key, &node);
            } else {
                hopeless.insert(wants);
                self.parked.insert((number, key.clone()));
                ground.api.edit(now, Actor::Scheduler, Kind::Pod, &key, |pod| {
                    set_condition(pod, now, "PodScheduled", "False", "Unschedulable");
                });
            }
        }
        self.plan_next(ground);
    }

    fn bind(&mut self, key: &str, node: &str) {
        let Some(guest) = self.pods.get_mut(key) else { return };
        guest.node = Some(node.to_owned());
        let (room, nominated) = (guest.room, guest.nominated.take());
        if let Some(host) = nominated.and_then(|nominated| self.nodes.get_mut(&nominated)) {
            host.promised = host.promised.less(room);
        }
        let host = self.nodes.entry(node.to_owned()).or_default();
        host.used = host.used.plus(room);
    }

    /// Takes a pod off its node's books; tells whether that made room.
    fn forget(&mut self, key: &str, for_good: bool) -> bool {
        let Some(guest) = self.pods.get(key) else { return false };
        let (number, room) = (guest.number, guest.room);
        let (node, nominated) = (guest.node.clone(), guest.nominated.clone());
        if let Some(host) = node.as_ref().and_then(|node| self.nodes.get_mut(node)) {
            host.used = host.used.less(room);
        } else if let Some(host) = nominated.as_ref().and_then(|node| self.nodes.get_mut(node)) {
            host.promised = host.promised.less(room);
        }
        if for_good {
            self.unqueue(key, number);
            self.pods.remove(key);
        }
        for_good && (node.is_some() || nominated.is_some())
    }

    fn queue(&mut self, at: Moment, number: u64, key: String) {
        self.queued.insert(number, at);
        self.active.insert((at, number, key));
    }

    /// Takes a pod out of the queues; tells when it would have been tried.
    fn unqueue(&mut self, key: &str, number: u64) -> Option<Moment> {
        self.parked.remove(&(number, key.to_owned()));
        let at = self.queued.remove(&number)?;
        self.active.remove(&(at, number, key.to_owned()));
        Some(at)
    }

    /// Something made room: what fitted nowhere is tried again, after its back-off.
    fn move_parked(&mut self, ground: &mut Ground) {
        for (number, key) in std::mem::take(&mut self.parked) {
            let Some(guest) = self.pods.get(&key) else { continue };
            let back_off = 1_000_u64 << guest.tries.saturating_sub(1).min(4);
            let at = (guest.tried + back_off.min(10_000)).max(ground.now());
            self.queue(at, number, key);
        }
        self.plan_next(ground);
    }

    fn plan_next(&mut self, ground: &mut Ground) {
        let soon = self.active.first().map(|(at, ..)| (*at).max(ground.now()) + self.dice.between(1, 20));
        let flush = (!self.parked.is_empty()).then(|| ground.now() + FLUSH);
        let Some(next) = soon.or(flush) else { return };
        if self.next.is_none_or(|known| next < known) {
            self.next = Some(next);
            ground.time.at(next, Happening::Schedule);
        }
    }

    /// The nominated node if it fits, else the one with the most room left.
    fn choose(&self, wants: &Wants, nominated: Option<&str>) -> Option<String> {
        if let Some(name) = nominated
            && let Some(host) = self.nodes.get(name)
            && host.takes(wants, true)
        {
            return Some(name.to_owned());
        }
        let fitting = self.nodes.iter().filter(|(_, host)| host.takes(wants, false));
        fitting.max_by_key(|(_, host)| host.share_left()).map(|(name, _)| name.clone())
    }
}

impl Host {
    fn read(&mut self, node: &Value) {
        let labels = field(node, "/metadata/labels").and_then(Value::as_object);
        let pair = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        self.labels = labels.into_iter().flatten().filter_map(pair).collect();
        let taint = |t: &Value| ["/key", "/value", "/effect"].map(|at| text(t, at).to_owned());
        self.taints = array(node, "/spec/taints").map(taint).filter(|t| t[2] != "PreferNoSchedule").collect();
        self.closed = crate::api::flag(node, "/spec/unschedulable");
        self.room = Room::of(field(node, "/status/allocatable"));
    }

    fn takes(&self, wants: &Wants, promised_to_it: bool) -> bool {
        let promised = if promised_to_it { self.promised.less(wants.room) } else { self.promised };
        self.exists
            && !self.closed
            && wants.room.fits(self.room.less(self.used).less(promised))
            && wants.selector.iter().all(|(key, value)| self.labels.get(key) == Some(value))
            && self.taints.iter().all(|taint| wants.tolerations.iter().any(|t| tolerates(t, taint)))
    }

    /// How much of processors and memory is left, in thousandths of both.
    fn share_left(&self) -> Milli {
        let left = self.room.less(self.used);
        left.cpu * 1000 / self.room.cpu.max(1) + left.memory * 1000 / self.room.memory.max(1)
    }
}

impl Wants {
    fn of(pod: &Value) -> Self {
        let selector = field(pod, "/spec/nodeSelector").and_then(Value::as_object);
        let pair =
            |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
        let toleration =
            |t: &Value| ["/key", "/operator", "/value", "/effect"].map(|at| text(t, at).to_owned());
        Self {
            room: Room::of_pod(pod),
            selector: selector.into_iter().flatten().map(pair).collect(),
            tolerations: array(pod, "/spec/tolerations").map(toleration).collect(),
        }
    }
}

/// Whether a toleration (key, operator, value, effect) covers a taint (key, value, effect).
pub(crate) fn tolerates(toleration: &[String; 4], taint: &[String; 3]) -> bool {
    let [key, operator, value, effect] = toleration;
    let same_effect = effect.is_empty() || *effect == taint[2];
    let same_key = *key == taint[0] || (key.is_empty() && operator == "Exists");
    same_effect && same_key && (operator == "Exists" || *value == taint[1])
}

fn entry_differs(ground: &Ground, index: usize, at: &str) -> bool {
    let entry = &ground.api.log(Kind::Pod)[index];
    entry.before.as_ref().is_some_and(|before| field(before, at) != field(&entry.object, at))
}
