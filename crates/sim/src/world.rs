//! The world: takes the next happening, lets the part concerned act, tells the others, and lets the laws be checked.

use std::sync::Arc;

use headstart_cloud::Catalog;
use headstart_engine::Kind;

use crate::api::label;
use crate::brain::Nursery;
use crate::checks::{Broken, Checks, Violation};
use crate::controllers::Controllers;
use crate::ground::{Fact, Ground, Happening};
use crate::kubelet::Kubelet;
use crate::people;
use crate::plan::{Deed, Plan};
use crate::process::Processes;
use crate::scheduler::Scheduler;
use crate::timeline::Moment;

/// How long the garbage collector takes to notice that an owner is gone.
const COLLECTS: u64 = 300;

/// What a run may take: a world that never comes to rest must fail, not hang.
const MOST_HAPPENINGS: u64 = 5_000_000;

/// A simulated cluster with its cloud, its people and its processes.
pub struct World<'a> {
    /// What all parts stand on.
    pub ground: Ground,
    kubelet: Kubelet,
    scheduler: Scheduler,
    controllers: Controllers,
    processes: Processes<'a>,
    checks: Checks,
    happenings: u64,
}

impl<'a> World<'a> {
    /// The world of a plan, at its beginning.
    pub fn new(plan: Arc<Plan>, catalog: Arc<Catalog>, nursery: Nursery<'a>, traced: bool) -> Self {
        let seed = plan.seed;
        let controllers = Controllers::new(seed, &plan.workloads);
        let checks = Checks::new(&plan);
        let ground = Ground::new(plan, catalog, traced);
        let processes = Processes::new(&ground, nursery);
        let mut world = Self {
            ground,
            kubelet: Kubelet::new(seed),
            scheduler: Scheduler::new(seed),
            controllers,
            processes,
            checks,
            happenings: 0,
        };
        people::start(&mut world.ground);
        world.controllers.start(&mut world.ground);
        world.processes.start(&mut world.ground);
        world
    }

    /// Lets happen what happens until then, or until a law is broken.
    pub fn run_until(&mut self, end: Moment) -> Result<(), Violation> {
        self.tell()?;
        while let Some(happening) = self.ground.time.next(end) {
            self.happenings += 1;
            if self.happenings > MOST_HAPPENINGS {
                let broken = Broken::new(format!("more than {MOST_HAPPENINGS} things happened"));
                return Err(broken.by("work_bounded", &self.ground));
            }
            self.happen(happening);
            self.tell()?;
        }
        Ok(())
    }

    /// Ends the storm: nothing goes wrong from now on.
    pub fn calm(&mut self) {
        let now = self.ground.now();
        self.ground.trace.note(now, || "the storm is over".to_owned());
        self.ground.mischief.end();
        let drought_stays = self.ground.plan.drought_stays;
        self.ground.cloud.calm(now, drought_stays);
        people::calm(&mut self.ground);
        self.controllers.calm(&mut self.ground);
        self.processes.calm(&mut self.ground);
    }

    /// Lets people or the weather do something now that is not in the plan.
    pub fn act(&mut self, deed: &Deed) {
        people::act(&mut self.ground, &mut self.controllers, deed);
    }

    /// Checks what must hold in calm weather.
    pub fn glance(&mut self) -> Result<(), Violation> {
        self.checks.glance(&self.ground)
    }

    /// Whether nothing has to come to rest any more.
    pub fn is_at_rest(&self) -> bool {
        self.checks.are_at_rest(&self.ground)
    }

    /// Checks what must hold when everything is done.
    pub fn end(&mut self) -> Result<(), Violation> {
        self.checks.end(&self.ground)
    }

    /// What the laws have counted.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    fn happen(&mut self, happening: Happening) {
        let ground = &mut self.ground;
        match happening {
            Happening::Process(number, due) => self.processes.on(ground, number, due),
            Happening::Land(call) => self.processes.land(ground, *call),
            Happening::Kubelet(due) => self.kubelet.on(ground, due),
            Happening::Schedule => self.scheduler.on(ground),
            Happening::Workloads => self.controllers.on(ground),
            Happening::People(due) => people::on(ground, &mut self.controllers, &due),
            Happening::Dies(_) if ground.mischief.is_over() => {}
            Happening::Ends(place) | Happening::Dies(place) => {
                if ground.cloud.end(ground.time.now(), place) {
                    ground.facts.push(Fact::Ended(place));
                }
            }
            Happening::Collect(owner) => ground.api.collect(ground.time.now(), &owner),
        }
    }

    /// Tells everybody what changed, until nothing changes any more.
    fn tell(&mut self) -> Result<(), Violation> {
        loop {
            for owner in self.ground.api.take_orphaned() {
                self.ground.time.after(COLLECTS, Happening::Collect(owner));
            }
            let changes = self.ground.api.take_fresh();
            let facts = std::mem::take(&mut self.ground.facts);
            if changes.is_empty() && facts.is_empty() {
                return Ok(());
            }
            for (kind, index) in changes {
                self.changed(kind, index);
                let entry = &self.ground.api.log(kind)[index];
                self.ground
                    .trace
                    .note(entry.at, || format!("    {kind} {} {}: {}", entry.key, entry.by, entry.change()));
                self.checks.see(&self.ground, &Fact::Changed(kind, index))?;
            }
            for fact in facts {
                match fact {
                    Fact::Launched(place) => self.kubelet.launched(&mut self.ground, place),
                    Fact::Ended(place) => self.kubelet.ended(&mut self.ground, place),
                    Fact::Changed(..) | Fact::Sent(_) | Fact::Unsettled(_) => {}
                }
                self.checks.see(&self.ground, &fact)?;
            }
        }
    }

    fn changed(&mut self, kind: Kind, index: usize) {
        let ground = &mut self.ground;
        match kind {
            Kind::Pod => {
                self.scheduler.pod_changed(ground, index);
                self.controllers.pod_changed(ground, index);
                self.kubelet.pod_changed(ground, index);
                let app = label(&ground.api.log(Kind::Pod)[index].object, "app").map(str::to_owned);
                if let Some(app) = app {
                    ground.api.count_budgets(ground.time.now(), &app);
                }
            }
            Kind::Node => {
                self.scheduler.node_changed(ground, index);
                self.controllers.node_changed(ground, index);
                self.kubelet.node_changed(ground, index);
            }
            _ => {}
        }
        self.processes.changed(ground, kind);
    }
}
