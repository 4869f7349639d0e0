//! Routes events to state and asks each concern in a fixed order; no decision is made here.

use std::sync::Arc;

use headstart_core::cloud::{CloudError, Launch};
use headstart_core::labels::WellKnown;
use headstart_core::repair::Rules;
use headstart_core::types::Types;
use headstart_intake::SchedulerConfig;

use crate::action::{Action, Effect, EffectId, ObjectRef};
use crate::capacity::Capacity;
use crate::claims::{Claims, News};
use crate::collect::Collect;
use crate::companion::Companion;
use crate::disrupt::Disrupt;
use crate::disrupt::outlook::{NoOutlook, Outlook};
use crate::drain::{self, Drain};
use crate::errands::{Errand, Errands};
use crate::event::Event;
use crate::fixed::Fixed;
use crate::kind::Kind;
use crate::machines::Machines;
use crate::out::{Out, Told};
use crate::outcome::{Fact, Outcome, Refusal};
use crate::pools::Pools;
use crate::provision::Provision;
use crate::reboot::Reboots;
use crate::report::Report;
use crate::settings::{Mode, Settings};
use crate::shadow::Shadow;
use crate::store::{Store, Touched, uid};
use crate::time::{Now, Time};

/// A deterministic autoscaler: the same events at the same times give the same actions.
#[derive(Debug)]
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) capacity: Capacity,
    pub(crate) provision: Provision,
    machines: Machines,
    errands: Errands,
    told: Told,
    pools: Pools,
    claims: Claims,
    drain: Drain,
    pub(crate) disrupt: Disrupt,
    reboots: Reboots,
    fixed: Fixed,
    collect: Collect,
    companion: Companion,
    pub(crate) shadow: Shadow,
    mode: Mode,
    is_leading: bool,
    /// Actions that outcomes have called for.
    pending: Vec<Action>,
    /// When actions were last decided on.
    decided: Time,
}

impl Engine {
    /// An engine that knows nothing yet, and what its cloud sells.
    pub fn new(settings: Settings, types: Arc<Types>, well_known: WellKnown) -> Self {
        let config = SchedulerConfig::parse(&settings.scheduler_config).unwrap_or_default();
        let keeps_makers = settings.proactive.is_on() || config.asks_for_owners();
        // A set that makes no sense repairs nothing; whoever starts the engine has refused it.
        let rules = Rules::new(&settings.repair).unwrap_or_default();
        // Whoever does not buy nodes need not know what a cloud must know about them.
        let class = (settings.mode == Mode::Provisioner).then(|| settings.class.clone());
        let mode = settings.mode;
        let mut store = Store::new(class, keeps_makers, rules);
        store.world.follow(config);
        store.sets_placeholders_apart = mode == Mode::Companion;
        Self {
            store,
            capacity: Capacity::new(types, settings.seed),
            errands: Errands::new(settings.seed),
            claims: Claims::new(well_known.clone()),
            disrupt: Disrupt::new(&settings),
            fixed: Fixed::new(&settings),
            companion: Companion::new(&settings),
            mode,
            provision: Provision::new(settings, well_known),
            machines: Machines::default(),
            told: Told::default(),
            pools: Pools::default(),
            drain: Drain::default(),
            reboots: Reboots::default(),
            collect: Collect::default(),
            shadow: Shadow::new(mode),
            is_leading: false,
            pending: Vec::new(),
            decided: Time(0),
        }
    }

    /// Takes notice of something that happened.
    pub fn apply(&mut self, now: Now, event: Event) {
        match event {
            Event::Watched { kind, change } => {
                let touched = self.store.watched(kind, change);
                self.route(now, touched);
            }
            Event::Ended { id, outcome } => self.ended(now, id, outcome),
            Event::Leading(true) if !self.is_leading => {
                self.is_leading = true;
                if self.mode == Mode::Provisioner {
                    self.collect.begin();
                }
                let everything = self.store.everything();
                self.route(now, everything);
            }
            Event::Leading(true) => {}
            Event::Leading(false) => self.step_down(now),
        }
    }

    /// Forgets everything that only a leader may rely on.
    fn step_down(&mut self, now: Now) {
        self.is_leading = false;
        self.errands.forget_all();
        self.pending.clear();
        self.machines = Machines::default();
        self.provision.forget();
        self.drain.forget();
        self.disrupt.forget();
        self.reboots.forget();
        self.fixed.forget();
        self.companion.forget();
        self.shadow.forget();
        let assumed = self.store.claims.values().filter(|claim| claim.is_assumed);
        let assumed: Vec<String> = assumed.map(|claim| claim.name().to_owned()).collect();
        for name in assumed {
            let touched = self.store.lose(Kind::NodeClaim, "", &name, None);
            self.route(now, touched);
        }
    }

    /// Whether everything is known that decisions need.
    fn is_ready(&self) -> bool {
        self.is_leading && self.store.is_complete() && self.collect.is_listed()
    }

    /// What to do now. A second call at the same time without an event in between returns nothing.
    pub fn decide(&mut self, now: Now) -> Vec<Action> {
        self.decided = now.time;
        if !self.is_leading || !self.store.is_complete() {
            return Vec::new();
        }
        let actions = std::mem::take(&mut self.pending);
        let (store, machines) = (&mut self.store, &mut self.machines);
        let mut out = Out { now, errands: &mut self.errands, told: &mut self.told, actions };
        match self.mode {
            Mode::Provisioner => self.collect.poll(store, machines, &mut out),
            Mode::Companion => self.companion.poll(store, &mut self.capacity, &mut self.provision, &mut out),
            Mode::Observe => self.shadow.poll(store, &mut self.capacity, &mut self.provision, &mut out),
        }
        if self.collect.is_listed() {
            self.pools.poll(store, &mut out);
            let is_echo = |claim: &str| self.provision.is_echo(claim);
            for news in self.claims.poll(store, &self.capacity, machines, is_echo, &mut out) {
                self.pools.hear(&news, store);
            }
            self.drain.poll(store, machines, &mut out);
            self.reboots.poll(store, &mut self.drain, &mut out);
            self.provision.poll(store, &mut self.capacity, &mut out);
            self.disrupt.poll(store, &mut self.capacity, &mut self.provision, &mut out);
            self.fixed.poll(store, &self.disrupt, &mut self.provision, &mut out);
            self.pools.poll(store, &mut out);
        }
        if self.mode != Mode::Observe {
            self.shadow.follow(store, &self.capacity, &mut self.provision, &mut out);
            return out.actions;
        }
        // Nothing is changed, whoever may have asked for it; events are changes too.
        let mut actions = out.actions;
        actions.retain(|action| !matches!(action, Action::Do { .. } | Action::Tell(Report::Event { .. })));
        actions
    }

    /// What to do before the process ends: nothing of ours is left standing that nobody looks after.
    pub fn wind_up(&mut self, now: Now) -> Vec<Action> {
        if self.mode != Mode::Companion || !self.is_leading {
            return Vec::new();
        }
        self.with_out(now, |this, out| this.companion.wind_up(out));
        std::mem::take(&mut self.pending)
    }

    /// When to call [`Engine::decide`] again even if nothing happens.
    pub fn next_wake(&self) -> Option<Time> {
        if !self.is_leading || !self.store.is_complete() {
            return None;
        }
        let own = if self.is_ready() {
            let waits = [
                self.pools.wake(),
                self.claims.wake(),
                self.drain.wake(),
                self.reboots.wake(),
                self.disrupt.wake(),
                self.fixed.wake(),
                self.provision.wake(&self.store, &self.capacity, self.decided),
                self.provision.retries(&self.errands),
            ];
            waits.into_iter().flatten().min()
        } else {
            None
        };
        let rehearsal = (self.mode == Mode::Observe)
            .then(|| self.provision.wake(&self.store, &self.capacity, self.decided))
            .flatten();
        let others = [self.collect.wake(), self.companion.wake(), self.shadow.wake(), rehearsal];
        let soonest = others.into_iter().chain([own]).flatten().min()?;
        Some(soonest.max(Time(self.decided.0 + 1)))
    }

    /// What becomes of a node by our own will as things are.
    pub fn outlook(&mut self, now: Now, node: &str) -> Result<Outlook, NoOutlook> {
        self.disrupt.outlook(node, &self.store, &mut self.capacity, &self.provision, now)
    }

    /// Why a claim's node is kept though no pod needs it: room for pods that are expected.
    pub fn held_for(&self, claim: &str) -> Option<String> {
        self.provision.demand.holds(self.store.claims.get(claim)?)
    }

    /// Tells every concern what has changed.
    fn route(&mut self, now: Now, touched: Vec<Touched>) {
        for touched in touched {
            self.shadow.on(now, &touched, &self.store);
            if self.mode == Mode::Observe {
                // Nobody else has anything to do.
                self.provision.on(now.time, &touched, &self.store);
                continue;
            }
            match &touched {
                Touched::Claim { name, gone: Some(claim) } => {
                    self.machines.forget(&claim.metadata.uid);
                    self.with_out(now, |_, out| drain::tell_gone(claim, out));
                    for errand in
                        [Errand::Launch, Errand::Claim, Errand::Remove, Errand::Doubt, Errand::Reboot]
                    {
                        self.errands.forgive(&errand(name.clone()));
                    }
                }
                Touched::Pod { key, .. } if self.store.pod(key).is_none() => {
                    self.errands.forgive(&Errand::Evict(key.clone()));
                    self.errands.forgive(&Errand::Nominate(key.clone()));
                }
                Touched::Node { name, .. } if !self.store.nodes.contains_key(name) => {
                    self.errands.forgive(&Errand::Node(name.clone()));
                }
                Touched::Doubtful { name } => {
                    let object = claim_ref(name);
                    self.with_out(now, |_, out| {
                        out.ask(Errand::Doubt(object.name.clone()), Effect::Read { object });
                    });
                }
                _ => {}
            }
            self.claims.on(now.wall, &touched, &self.store);
            self.drain.on(&touched, &self.store);
            self.reboots.on(&touched, &self.store);
            self.disrupt.on(&touched, &self.store);
            self.fixed.on(&touched, &self.store);
            self.pools.on(now.time, &touched, &self.store);
            self.provision.on(now.time, &touched, &self.store);
            self.companion.on(&touched);
        }
    }

    /// Lets something be asked for and told outside of a decision.
    fn with_out<T>(&mut self, now: Now, ask: impl FnOnce(&mut Self, &mut Out<'_>) -> T) -> T {
        let mut errands = std::mem::take(&mut self.errands);
        let mut told = std::mem::take(&mut self.told);
        let actions = std::mem::take(&mut self.pending);
        let mut out = Out { now, errands: &mut errands, told: &mut told, actions };
        let result = ask(self, &mut out);
        let actions = out.actions;
        (self.errands, self.told, self.pending) = (errands, told, actions);
        result
    }

    /// Takes notice of how an effect ended.
    fn ended(&mut self, now: Now, id: EffectId, outcome: Outcome) {
        let Some((errand, effect)) = self.errands.ended(now.time, id, &outcome) else { return };
        let until = self.errands.until(&errand);
        match &errand {
            Errand::Make(name) => {
                if let Outcome::Done(Fact::Object(claim)) = &outcome {
                    self.machines.made(uid(claim));
                }
                let touched =
                    self.with_out(now, |this, out| this.provision.made(name, outcome, &mut this.store, out));
                self.route(now, touched);
            }
            Errand::Launch(name) => {
                if let Some(until) = until {
                    self.claims.at(until, name);
                }
                self.launched(now, name, &outcome);
            }
            Errand::Doubt(name) => self.read(now, name, outcome),
            Errand::Search => {
                let instances = match &outcome {
                    Outcome::Done(Fact::Instances(instances)) => Some(instances.as_slice()),
                    _ => None,
                };
                for (uid, instance) in self.drain.searched(instances, &self.store) {
                    self.machines.launched(&uid, Launch { instance, dry: Vec::new() });
                }
            }
            Errand::Instances => {
                if let Outcome::Done(Fact::Instances(instances)) = outcome {
                    let store = &self.store;
                    let is_of_use =
                        |id: &_| store.claim_with(id).is_some() || store.nodes_with(id).next().is_some();
                    self.machines.gone.retain(is_of_use);
                    self.collect.listed(&instances, store, &self.machines, now.time);
                }
            }
            Errand::Instance(id) => {
                let is_gone =
                    matches!(&outcome, Outcome::Refused(Refusal::Cloud(CloudError::NotFound { .. })));
                if is_gone {
                    self.errands.forgive(&errand);
                    self.machines.gone.insert(id.clone());
                    self.collect.gone(id);
                    self.drain.mark_instance(id, &self.store);
                    if let Some(claim) = self.owner_of(id) {
                        self.drain.mark_claim(&claim);
                    }
                } else if matches!((&effect, &outcome), (Effect::Terminate(_), Outcome::Done(_))) {
                    self.with_out(now, |this, out| this.drain.ending(id, &this.store, out));
                } else if matches!((&effect, &outcome), (Effect::Inspect(_), Outcome::Done(_)))
                    && let Some(claim) = self.store.claim_with(id)
                {
                    self.collect.found(claim.name());
                }
            }
            Errand::Reboot(name) => {
                if let Effect::Reboot { operation, .. } = &effect {
                    self.reboots.ended(name, operation, &outcome);
                }
            }
            Errand::Evict(key) => {
                let node = self.store.pod(key).and_then(|pod| pod.node().cloned());
                let node = node
                    .and_then(|node| self.store.nodes.get(&node))
                    .map(|node| node.metadata.object(Kind::Node));
                let pod = format!("{}/{}", key.0, key.1);
                let is_eviction = matches!(effect, Effect::Evict { .. });
                self.drain.answered(key, &outcome);
                self.with_out(now, |_, out| tell_eviction(is_eviction, &outcome, node, &pod, out));
                self.written(now, &effect, outcome);
            }
            Errand::Claim(name) | Errand::Remove(name) => {
                if let Some(until) = until {
                    self.claims.at(until, name);
                }
                self.drain.mark_claim(name);
                self.written(now, &effect, outcome);
            }
            Errand::Node(name) => {
                if let Some(until) = until
                    && let Some(claim) =
                        self.store.nodes.get(name).and_then(|node| self.store.claim_of_node(node))
                {
                    self.claims.at(until, claim.name());
                }
                self.drain.mark_node(name);
                self.written(now, &effect, outcome);
            }
            Errand::Pool(name) => {
                if let Some(until) = until {
                    self.pools.at(until, name);
                }
                self.written(now, &effect, outcome);
            }
            Errand::Companion(kind, name) => {
                self.with_out(now, |this, out| this.companion.ended(*kind, name, &effect, &outcome, out));
                self.written(now, &effect, outcome);
            }
            Errand::Nominate(_) | Errand::Buffer(..) => self.written(now, &effect, outcome),
        }
    }

    /// The claim whose launch gave an instance, though the claim does not say so yet.
    fn owner_of(&self, id: &headstart_core::cloud::ProviderId) -> Option<String> {
        let is_of = |claim: &&crate::store::Claim| {
            self.machines.launched.get(&claim.metadata.uid).is_some_and(|launch| launch.instance.id == *id)
        };
        self.store.claims.values().find(is_of).map(|claim| claim.name().to_owned())
    }

    fn launched(&mut self, now: Now, name: &str, outcome: &Outcome) {
        let Some(claim) = self.store.claims.get(name).cloned() else { return };
        let pods = self.provision.pods_of(&self.store, name);
        let news = self.with_out(now, |this, out| {
            this.claims.launched(&claim, outcome, &mut this.capacity, &mut this.machines, &pods, out)
        });
        self.drain.mark_claim(name);
        if let Outcome::Refused(Refusal::Cloud(CloudError::ClassNotReady { class, .. })) = outcome {
            self.provision.refused(now.time, &class.name);
        }
        if let Some(News::Failed { claim: name }) = news {
            self.fixed.failed(now.time, claim.pool());
            self.provision.withdraw(&name);
        }
    }

    /// Takes notice of what a claim is that somebody was not sure of.
    fn read(&mut self, now: Now, name: &str, outcome: Outcome) {
        let touched = match outcome {
            Outcome::Done(Fact::Object(value)) => {
                self.collect.read(name, Some(uid(&value)));
                self.store.made(&value)
            }
            Outcome::Refused(Refusal::NotFound) => {
                self.collect.read(name, None);
                self.store.lose(Kind::NodeClaim, "", name, None)
            }
            _ => Vec::new(),
        };
        self.route(now, touched);
    }

    /// Takes notice of what a write has done to its object.
    fn written(&mut self, now: Now, effect: &Effect, outcome: Outcome) {
        if let (Effect::Create { kind, .. }, Outcome::Done(Fact::Object(value))) = (effect, &outcome) {
            let touched = if Kind::ALL.contains(kind) { self.store.told(*kind, value) } else { Vec::new() };
            self.route(now, touched);
            return;
        }
        let (Effect::Patch { object, .. } | Effect::Delete { object, .. } | Effect::Evict { object }) =
            effect
        else {
            return;
        };
        let ObjectRef { kind, namespace, name, uid } = object;
        let touched = match outcome {
            // A pod that has no time to end is gone with the answer.
            Outcome::Done(_)
                if matches!(effect, Effect::Delete { grace: Some(0), .. })
                    && self.mode == Mode::Companion =>
            {
                self.store.lose(*kind, namespace, name, Some(uid))
            }
            Outcome::Done(Fact::Object(value)) => self.store.told(*kind, &value),
            Outcome::Done(_) if matches!(effect, Effect::Delete { .. }) && *kind != Kind::Pod => {
                self.store.lose(*kind, namespace, name, Some(uid))
            }
            Outcome::Refused(Refusal::NotFound) => self.store.lose(*kind, namespace, name, Some(uid)),
            _ => Vec::new(),
        };
        self.route(now, touched);
    }
}

fn claim_ref(name: &str) -> ObjectRef {
    ObjectRef { kind: Kind::NodeClaim, namespace: String::new(), name: name.to_owned(), uid: String::new() }
}

fn tell_eviction(
    is_eviction: bool,
    outcome: &Outcome,
    node: Option<ObjectRef>,
    pod: &str,
    out: &mut Out<'_>,
) {
    if !is_eviction {
        return;
    }
    let code = match outcome {
        Outcome::Done(_) => "200",
        Outcome::Refused(Refusal::NotFound) => "404",
        Outcome::Refused(Refusal::Conflict) => "409",
        Outcome::Refused(Refusal::Blocked { .. } | Refusal::Throttled { .. }) => "429",
        _ => "500",
    };
    out.count("pods_eviction_requests_total", &[("code", code)]);
    if let (Outcome::Refused(Refusal::Blocked { .. }), Some(node)) = (outcome, node) {
        let message = format!("Failed to drain node, evicting pod violates a PDB (Pod={pod})");
        out.warn(node, "FailedDraining", message);
    }
}
