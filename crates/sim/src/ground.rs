//! What all parts of the world stand on: time, the API server, the cloud, chance, and a record of what happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_cloud::Catalog;
use headstart_core::hash;
use headstart_engine::{Kind, ObjectRef};

use crate::api::{Actor, Api};
use crate::cloud::Cloud;
use crate::fault::{Fault, Mischief};
use crate::kubelet;
use crate::people;
use crate::plan::Plan;
use crate::process;
use crate::timeline::{Moment, Timeline};

/// What all parts of the world stand on.
#[derive(Debug)]
pub struct Ground {
    /// What is to happen.
    pub time: Timeline<Happening>,
    /// The API server.
    pub api: Api,
    /// The cloud.
    pub cloud: Cloud,
    /// What goes wrong.
    pub mischief: Mischief,
    /// What was noticed since the last happening.
    pub facts: Vec<Fact>,
    /// What happened, in lines.
    pub trace: Trace,
    /// What is being played.
    pub plan: Arc<Plan>,
    /// Until when somebody puts a taint on every new node.
    pub tainting_until: Moment,
    /// How often each deed was done.
    pub deeds: BTreeMap<&'static str, u64>,
}

/// Something that happens, sorted by who has to do with it.
#[derive(Debug)]
pub enum Happening {
    /// A process, by its number.
    Process(usize, process::Due),
    /// A request reaches the API server or the cloud.
    Land(Box<process::Call>),
    /// Kubelets and the cloud's controller of nodes.
    Kubelet(kubelet::Due),
    /// The scheduler looks at its queue.
    Schedule,
    /// Controllers of workloads look at what there is.
    Workloads,
    /// People and the weather.
    People(people::Due),
    /// An instance that was told to end has ended.
    Ends(usize),
    /// An instance ends without having been told to, unless the storm is over.
    Dies(usize),
    /// What an owner left behind is deleted.
    Collect(String),
}

/// Something that happened and that others may have to know.
#[derive(Debug)]
pub enum Fact {
    /// An object changed; its entry in the log.
    Changed(Kind, usize),
    /// An instance was bought, by its place in the books.
    Launched(usize),
    /// An instance ended, by its place in the books.
    Ended(usize),
    /// A process sent a request.
    Sent(Sent),
    /// A process decided again at once, or asked to be woken in the past.
    Unsettled(String),
}

/// A request as it was sent.
#[derive(Debug)]
pub struct Sent {
    /// By which process.
    pub process: usize,
    /// What it is about.
    pub subject: String,
    /// What was to be done.
    pub verb: &'static str,
    /// Whether it changes anything.
    pub write: bool,
    /// Whether the process held the lease.
    pub leads: bool,
}

/// A record of what happened.
#[derive(Debug, Default)]
pub struct Trace {
    on: bool,
    lines: Vec<(Moment, String)>,
    digest: u64,
}

impl Ground {
    /// The ground of a run.
    pub fn new(plan: Arc<Plan>, catalog: Arc<Catalog>, traced: bool) -> Self {
        Self {
            time: Timeline::default(),
            api: Api::default(),
            cloud: Cloud::new(catalog),
            mischief: Mischief::new(plan.seed, &plan.faults),
            facts: Vec::new(),
            trace: Trace { on: traced, ..Trace::default() },
            plan,
            tainting_until: Moment(0),
            deeds: BTreeMap::new(),
        }
    }

    /// The present.
    pub fn now(&self) -> Moment {
        self.time.now()
    }

    /// Whether a fault strikes an object; if so the trace says it.
    pub fn strikes(&mut self, fault: Fault, object: &str) -> bool {
        let strikes = self.mischief.strikes(fault, object);
        if strikes {
            self.trace.note(self.time.now(), || format!("FAULT {fault} {object}"));
        }
        strikes
    }

    /// How bad a fault is: a number from a range, both ends included.
    pub fn severity(&mut self, fault: Fault, (least, most): (u64, u64)) -> u64 {
        self.mischief.dice(fault).between(least, most)
    }

    /// Deletes an object on somebody's behalf; one that is gone already is as good.
    pub fn delete(&mut self, by: Actor, kind: Kind, key: &str, grace: Option<u32>) {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let object =
            ObjectRef { kind, namespace: namespace.to_owned(), name: name.to_owned(), uid: String::new() };
        let _ = self.api.delete(self.time.now(), by, &object, grace);
    }
}

impl Trace {
    /// Writes down a line, if anybody wants to read it.
    pub fn note(&mut self, at: Moment, line: impl FnOnce() -> String) {
        if self.on {
            self.lines.push((at, line()));
        }
    }

    /// Takes something into account when runs are compared.
    pub fn count(&mut self, at: Moment, what: &str) {
        self.digest = hash::mix(self.digest ^ hash::stable(&[what]) ^ at.0);
    }

    /// A number that differs when runs differ.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// All lines, oldest first.
    pub fn lines(&self) -> &[(Moment, String)] {
        &self.lines
    }
}
