//! The laws, one file each. They read the world's truth, never the engine's opinion of it.

mod budgets_hold;
mod finalizer_respected;
mod last_replica_stays;
mod limits_hold;
mod no_busy_loop;
mod no_double_buy;
mod no_orphan_instance;
mod no_oscillation;
mod no_write_after_lease_lost;
mod one_instance_per_claim;
mod phases_legal;
mod quiet_when_done;
mod size_kept;
mod spending_capped;

pub(crate) use quiet_when_done::QUIET;

use std::fmt;

use headstart_engine::Kind;

use crate::api::{array, text};
use crate::fault::Fault;
use crate::ground::{Fact, Ground};
use crate::plan::Plan;
use crate::timeline::Moment;

/// A law that is checked whenever something happened.
pub(crate) trait Check {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Something happened.
    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken>;

    /// Some seconds of calm have passed.
    fn glance(&mut self, ground: &Ground) -> Result<(), Broken> {
        let _ = ground;
        Ok(())
    }

    /// Whether it would hold if the run were over now and nothing more happened.
    fn is_at_rest(&self, ground: &Ground) -> bool {
        let _ = ground;
        true
    }

    /// The run is over, and all that could be finished is.
    fn end(&mut self, ground: &Ground) -> Result<(), Broken> {
        let _ = ground;
        Ok(())
    }
}

/// How a law was broken, and by which objects.
#[derive(Debug)]
pub(crate) struct Broken {
    message: String,
    objects: Vec<(Kind, String)>,
}

/// A law that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Its name.
    pub check: &'static str,
    /// When.
    pub at: Moment,
    /// What is wrong.
    pub message: String,
    /// Everything that ever happened to the objects concerned.
    pub history: Vec<String>,
    /// The names of the objects concerned, and of their instances.
    pub names: Vec<String>,
}

/// All laws that are checked as things happen.
pub struct Checks {
    all: Vec<Box<dyn Check>>,
    claims: u64,
}

impl Checks {
    /// The laws of a run.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut all: Vec<Box<dyn Check>> = vec![
            Box::new(one_instance_per_claim::OneInstancePerClaim::default()),
            Box::new(no_orphan_instance::NoOrphanInstance::default()),
            Box::new(limits_hold::LimitsHold::default()),
            Box::new(budgets_hold::BudgetsHold::default()),
            Box::new(size_kept::SizeKept::default()),
            Box::new(no_oscillation::NoOscillation::default()),
            Box::new(last_replica_stays::LastReplicaStays::default()),
            Box::new(phases_legal::PhasesLegal),
            Box::new(finalizer_respected::FinalizerRespected::default()),
            Box::new(no_write_after_lease_lost::NoWriteAfterLeaseLost),
            Box::new(no_busy_loop::NoBusyLoop::default()),
            Box::new(quiet_when_done::QuietWhenDone::default()),
        ];
        if let Some(cents) = plan.knobs.ahead.as_ref().and_then(|ahead| ahead.cents) {
            all.push(Box::new(spending_capped::SpendingCapped::new(cents)));
        }
        if no_double_buy::applies(plan) {
            all.push(Box::new(no_double_buy::NoDoubleBuy::default()));
        }
        Self { all, claims: 0 }
    }

    /// Something happened.
    pub(crate) fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Violation> {
        if let Fact::Changed(Kind::NodeClaim, index) = fact {
            let entry = &ground.api.log(Kind::NodeClaim)[*index];
            self.claims += u64::from(entry.before.is_none());
        }
        for check in &mut self.all {
            check.see(ground, fact).map_err(|broken| broken.by(check.name(), ground))?;
        }
        Ok(())
    }

    /// Some seconds of calm have passed.
    pub(crate) fn glance(&mut self, ground: &Ground) -> Result<(), Violation> {
        for check in &mut self.all {
            check.glance(ground).map_err(|broken| broken.by(check.name(), ground))?;
        }
        Ok(())
    }

    /// Whether nothing has to come to rest any more.
    pub(crate) fn are_at_rest(&self, ground: &Ground) -> bool {
        self.all.iter().all(|check| check.is_at_rest(ground))
    }

    /// The run is over.
    pub(crate) fn end(&mut self, ground: &Ground) -> Result<(), Violation> {
        for check in &mut self.all {
            check.end(ground).map_err(|broken| broken.by(check.name(), ground))?;
        }
        Ok(())
    }

    /// How many NodeClaims were made.
    pub fn claims(&self) -> u64 {
        self.claims
    }
}

impl Broken {
    pub(crate) fn new(message: String) -> Self {
        Self { message, objects: Vec::new() }
    }

    /// Names an object whose history explains it.
    pub(crate) fn about(mut self, kind: Kind, key: impl Into<String>) -> Self {
        self.objects.push((kind, key.into()));
        self
    }

    pub(crate) fn by(self, check: &'static str, ground: &Ground) -> Violation {
        let (mut history, mut names) = (Vec::new(), Vec::new());
        for (kind, key) in &self.objects {
            names.push(key.trim_start_matches('/').to_owned());
            let last = ground.api.log(*kind).iter().rfind(|entry| *entry.key == **key);
            let instance = last.map(|entry| text(&entry.object, "/status/providerID").to_owned());
            names.extend(instance.and_then(|id| Some(id.strip_prefix("sim://")?.to_owned())));
            history.push(format!("{kind} {}", key.trim_start_matches('/')));
            let entries = ground.api.log(*kind).iter().filter(|entry| *entry.key == **key);
            history.extend(entries.map(|entry| format!("  {}", entry.line())));
        }
        Violation { check, at: ground.now(), message: self.message, history, names }
    }
}

/// For how long a process may act on what is no longer true where it may at all.
const BEHIND: u64 = 45_000;

/// Whether processes are told late, or heard late.
fn may_lag(ground: &Ground) -> bool {
    let late = [Fault::WatchLag, Fault::WatchDropped, Fault::ListStale, Fault::WriteLate];
    late.iter().any(|fault| ground.plan.faults.contains_key(fault))
}

/// Whether a claim says that it is about to go.
fn is_going(ground: &Ground, claim: &str) -> bool {
    let claim = ground.api.get(Kind::NodeClaim, &format!("/{claim}"));
    let says = |c: &serde_json::Value| text(c, "/type") == "DisruptionReason" && text(c, "/status") == "True";
    claim.is_some_and(|claim| array(claim, "/status/conditions").any(says))
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} at {}: {}", self.check, self.at, self.message)?;
        self.history.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
