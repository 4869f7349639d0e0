//! What there is in this cloud, and what becomes of it: a state machine without clock, network or disk.
//!
//! A decision looks at the state and returns records; applying records is the only way the state changes, live and
//! when the ledger is read again. Faults that are armed for a number of times are not state and do not survive.

mod launch;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_cloud::Catalog;
use headstart_cloud::notice::{Cursor, Notice, NoticeKind, Notices};
use headstart_cloud::port::{Instance, ProviderId, State, Token};
use headstart_cloud::testcloud::wire::{ID_PREFIX, WireError};
use jiff::Timestamp;
use serde::Serialize;

use crate::clock::{between, later};
use crate::record::{Cause, Fact, Launched, Record};
use crate::settings::{Armed, OnEnd, Settings, Shot};

/// The state of the cloud.
pub(crate) struct World {
    pub(crate) settings: Settings,
    catalog: Arc<Catalog>,
    armed: Vec<Armed>,
    fired: BTreeMap<&'static str, u64>,
    machines: BTreeMap<String, Machine>,
    tokens: BTreeMap<Token, String>,
    notices: Vec<Notice>,
    launches: u64,
}

/// An answer, and what must be written down before it is given.
pub(crate) struct Decision<T> {
    pub(crate) answer: T,
    pub(crate) facts: Vec<Fact>,
}

/// An instance with its whole life.
struct Machine {
    launched: Launched,
    at: Timestamp,
    tags: BTreeMap<String, String>,
    joined: bool,
    operations: BTreeSet<String>,
    unbooted: Option<String>,
    dies_at: Option<Timestamp>,
    ending: Option<(Timestamp, Cause)>,
    ended: Option<Timestamp>,
    left: bool,
}

/// Something to be done to a Node in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeTask {
    /// Register it.
    Join(Box<Launched>),
    /// Give it a new boot id.
    Boot { id: String, name: String, operation: String },
    /// Its instance ended.
    Leave { id: String, name: String, how: OnEnd },
}

/// How many instances there are, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Census {
    pub(crate) running: usize,
    pub(crate) ending: usize,
    pub(crate) ended: usize,
}

impl World {
    /// A cloud in which all of this has happened.
    pub(crate) fn new(catalog: Arc<Catalog>, past: &[Record]) -> Self {
        let mut world = Self {
            settings: Settings::default(),
            catalog,
            armed: Vec::new(),
            fired: BTreeMap::new(),
            machines: BTreeMap::new(),
            tokens: BTreeMap::new(),
            notices: Vec::new(),
            launches: 0,
        };
        for record in past {
            world.apply(record);
        }
        world
    }

    /// Takes note of a fact.
    pub(crate) fn apply(&mut self, record: &Record) {
        match &record.fact {
            Fact::Opened { .. } | Fact::Torn { .. } => {}
            Fact::Launched(launched) => {
                self.launches += 1;
                self.tokens.insert(launched.token.clone(), launched.id.clone());
                self.machines.insert(launched.id.clone(), Machine::new(launched, record.at));
            }
            Fact::Noticed { id, notice, dies_at } => {
                self.notices.push(notice.clone());
                if let Some(machine) = self.machines.get_mut(id) {
                    machine.dies_at = machine.dies_at.or(*dies_at);
                }
            }
            Fact::Set(settings) => self.settings = (**settings).clone(),
            Fact::Joined { id } => self.with(id, |m| m.joined = true),
            Fact::Tagged { id, tags } => self.with(id, |m| m.tags.clone_from(tags)),
            Fact::Rebooted { id, operation } => self.with(id, |m| {
                m.operations.insert(operation.clone());
                m.unbooted = Some(operation.clone());
            }),
            Fact::Booted { id } => self.with(id, |m| m.unbooted = None),
            Fact::Ending { id, cause, ends_at } => self.with(id, |m| m.ending = Some((*ends_at, *cause))),
            Fact::Ended { id, .. } => self.with(id, |m| m.ended = Some(record.at)),
            Fact::Left { id } => self.with(id, |m| m.left = true),
        }
    }

    fn with(&mut self, id: &str, change: impl FnOnce(&mut Machine)) {
        if let Some(machine) = self.machines.get_mut(id) {
            change(machine);
        }
    }

    /// One instance.
    pub(crate) fn get(&self, id: &str) -> Result<Instance, WireError> {
        self.alive(id).map(Machine::view)
    }

    /// All instances, as things were some time ago.
    pub(crate) fn list(&self, now: Timestamp) -> Vec<Instance> {
        let lag = self.settings.list_lag.draw(self.settings.seed, "list", 0);
        let seen = now.checked_sub(lag).unwrap_or(Timestamp::MIN);
        let shown = |m: &&Machine| m.at <= seen && m.ended.is_none_or(|ended| ended > seen);
        self.machines.values().filter(shown).map(Machine::view).collect()
    }

    /// Begins to end an instance.
    pub(crate) fn terminate(&self, now: Timestamp, id: &str) -> Decision<Result<(), WireError>> {
        let facts = match self.alive(id) {
            Err(error) => return Decision { answer: Err(error), facts: Vec::new() },
            Ok(machine) if machine.ending.is_some() => Vec::new(),
            Ok(machine) => {
                let Settings { end_delay, seed, .. } = &self.settings;
                let delay = end_delay.draw(*seed, &machine.launched.id, 0);
                machine.end(Cause::Terminated, later(now, delay), now)
            }
        };
        Decision { answer: Ok(()), facts }
    }

    /// Replaces an instance's tags.
    pub(crate) fn tag(&self, id: &str, tags: BTreeMap<String, String>) -> Decision<Result<(), WireError>> {
        match self.alive(id) {
            Err(error) => Decision { answer: Err(error), facts: Vec::new() },
            Ok(machine) => Decision {
                answer: Ok(()),
                facts: vec![Fact::Tagged { id: machine.launched.id.clone(), tags }],
            },
        }
    }

    /// Restarts an instance, once for each operation.
    pub(crate) fn reboot(&self, id: &str, operation: String) -> Decision<Result<(), WireError>> {
        match self.alive(id) {
            Err(error) => Decision { answer: Err(error), facts: Vec::new() },
            Ok(machine) if machine.operations.contains(&operation) => {
                Decision { answer: Ok(()), facts: Vec::new() }
            }
            Ok(machine) => {
                let id = machine.launched.id.clone();
                Decision { answer: Ok(()), facts: vec![Fact::Rebooted { id, operation }] }
            }
        }
    }

    /// Why an instance has drifted, if so.
    pub(crate) fn drift(&self, id: &str) -> Result<Option<String>, WireError> {
        let machine = self.alive(id)?;
        Ok((machine.launched.image != self.settings.image).then(|| "ImageDrift".to_owned()))
    }

    /// Notices after a cursor.
    pub(crate) fn notices(&self, after: u64) -> Notices {
        let from = usize::try_from(after).unwrap_or(usize::MAX).min(self.notices.len());
        Notices { notices: self.notices[from..].to_vec(), next: Some(Cursor(self.notices.len().to_string())) }
    }

    /// What happens by itself up to now.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<Fact> {
        let mut facts = Vec::new();
        for machine in self.machines.values().filter(|m| m.ended.is_none()) {
            let id = &machine.launched.id;
            match (machine.ending, machine.dies_at) {
                (Some((ends_at, cause)), _) if ends_at <= now => {
                    facts.push(Fact::Ended { id: id.clone(), cause });
                }
                (None, Some(dies_at)) if dies_at <= now => {
                    facts.extend(machine.end(Cause::Interrupted, now, now));
                    facts.push(machine.notice(NoticeKind::Died, None));
                }
                _ => {}
            }
        }
        facts
    }

    /// What has to be done to Nodes by now.
    pub(crate) fn node_tasks(&self, now: Timestamp) -> Vec<NodeTask> {
        let how = self.settings.on_end;
        let task = |m: &Machine| {
            let (id, name) = (&m.launched.id, &m.launched.node.name);
            let joins = |by: Timestamp| m.launched.joins_at.is_some_and(|at| at <= by);
            match m.ended {
                // A Node may exist although nothing says so: the crash came between the two.
                Some(ended) if !m.left && joins(ended) => {
                    Some(NodeTask::Leave { id: id.clone(), name: name.clone(), how })
                }
                Some(_) => None,
                None if !m.joined && m.ending.is_none() && joins(now) => {
                    Some(NodeTask::Join(Box::new(m.launched.clone())))
                }
                None if !m.joined => None,
                None => m.unbooted.clone().map(|operation| NodeTask::Boot {
                    id: id.clone(),
                    name: name.clone(),
                    operation,
                }),
            }
        };
        self.machines.values().filter_map(task).collect()
    }

    /// When something next happens by itself.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let times = |m: &Machine| {
            let joins = m.launched.joins_at.filter(|_| !m.joined && m.ending.is_none());
            [joins, m.dies_at.filter(|_| m.ending.is_none()), m.ending.map(|(at, _)| at)]
        };
        let living = self.machines.values().filter(|m| m.ended.is_none());
        living.flat_map(times).flatten().min()
    }

    /// How many instances there are.
    pub(crate) fn census(&self) -> Census {
        let mut census = Census::default();
        for machine in self.machines.values() {
            match (&machine.ended, &machine.ending) {
                (Some(_), _) => census.ended += 1,
                (None, Some(_)) => census.ending += 1,
                (None, None) => census.running += 1,
            }
        }
        census
    }

    /// How often each fault fired.
    pub(crate) fn fired(&self) -> &BTreeMap<&'static str, u64> {
        &self.fired
    }

    /// Counts a fault.
    pub(crate) fn count(&mut self, fault: &'static str) {
        *self.fired.entry(fault).or_default() += 1;
    }

    /// Fires an armed fault of the wanted kind, if there is one.
    pub(crate) fn shoot(&mut self, wanted: impl Fn(&Shot) -> bool) -> Option<Shot> {
        let armed = self.armed.iter_mut().find(|armed| armed.left > 0 && wanted(&armed.fault))?;
        armed.left -= 1;
        let fault = armed.fault.clone();
        self.armed.retain(|armed| armed.left > 0);
        self.count(fault.name());
        Some(fault)
    }

    /// An instance that has not ended, by its short or its provider id.
    fn alive(&self, id: &str) -> Result<&Machine, WireError> {
        let bare = id.strip_prefix(ID_PREFIX).and_then(|id| Some(id.split_once('/')?.1)).unwrap_or(id);
        let machine = self.machines.get(bare).filter(|machine| machine.ended.is_none());
        machine.ok_or_else(|| WireError::NotFound { id: ProviderId(id.to_owned()) })
    }
}

impl Machine {
    fn new(launched: &Launched, at: Timestamp) -> Self {
        Self {
            tags: launched.tags.clone(),
            launched: launched.clone(),
            at,
            joined: false,
            operations: BTreeSet::new(),
            unbooted: None,
            dies_at: None,
            ending: None,
            ended: None,
            left: false,
        }
    }

    /// Ends it: at once, if its time has come.
    fn end(&self, cause: Cause, ends_at: Timestamp, now: Timestamp) -> Vec<Fact> {
        let id = &self.launched.id;
        let mut facts = vec![Fact::Ending { id: id.clone(), cause, ends_at }];
        if between(now, ends_at).is_zero() {
            facts.push(Fact::Ended { id: id.clone(), cause });
        }
        facts
    }

    /// Announces something about it.
    fn notice(&self, kind: NoticeKind, dies_at: Option<Timestamp>) -> Fact {
        let notice = Notice { instance: self.provider_id(), kind };
        Fact::Noticed { id: self.launched.id.clone(), notice, dies_at }
    }

    fn provider_id(&self) -> ProviderId {
        provider_id(&self.launched)
    }

    fn view(&self) -> Instance {
        Instance {
            id: self.provider_id(),
            token: Some(self.launched.token.clone()),
            offering: self.launched.offering.clone(),
            state: if self.ending.is_some() { State::Ending } else { State::Running },
            capacity: self.launched.capacity.clone(),
            allocatable: self.launched.allocatable.clone(),
            labels: self.launched.labels.clone(),
            tags: self.tags.clone(),
            image: Some(self.launched.image.clone()),
        }
    }
}

/// The id by which the cluster knows an instance.
pub(crate) fn provider_id(launched: &Launched) -> ProviderId {
    ProviderId(format!("{ID_PREFIX}{}/{}", launched.offering.zone, launched.id))
}
