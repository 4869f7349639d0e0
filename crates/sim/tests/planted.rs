//! Five bugs, planted one by one between the engine and the world: some law must notice each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_core::cloud::Token;
use headstart_engine::{
    Action, Change, Effect, EffectId, Event, Kind, Now, ObjectRef, Outcome, Part, Refusal, Time,
};
use headstart_sim::api::{array, label, text, uid};
use headstart_sim::brain::{self, Birth, Brain};
use headstart_sim::ensemble::try_plan;
use headstart_sim::plan::Profile;
use headstart_sim::swarm;
use serde_json::{Value, json};

/// Plays seeds until a law is broken, and names it. Nothing is bought ahead, so that the plan is about the planted bug.
fn found(
    profile: Profile,
    seeds: u64,
    plant: impl Fn(Box<dyn Brain>) -> Box<dyn Brain>,
) -> Option<&'static str> {
    let nursery = |birth: &Birth| plant(brain::engine(birth));
    let mut broken = (0..seeds).map(|seed| {
        let mut plan = swarm::draw(seed, profile);
        plan.knobs.ahead = None;
        let verdict = try_plan(&plan, &nursery, false, false);
        verdict.violation.map(|violation| violation.check)
    });
    broken.find_map(|check| check)
}

/// A launch that is tried again takes a new token.
struct NewToken {
    inner: Box<dyn Brain>,
    used: BTreeMap<String, u32>,
}

impl Brain for NewToken {
    fn apply(&mut self, now: Now, event: Event) {
        self.inner.apply(now, event);
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        let mut actions = self.inner.decide(now);
        for action in &mut actions {
            if let Action::Do { effect: Effect::Launch(request), .. } = action {
                let uses = self.used.entry(request.token.0.clone()).or_default();
                *uses += 1;
                if *uses > 1 {
                    request.token = Token(format!("{}-{uses}", request.token.0));
                }
            }
        }
        actions
    }

    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }
}

#[test]
fn a_new_token_for_each_retry_is_found() {
    let found = found(Profile::CloudLies, 60, |inner| Box::new(NewToken { inner, used: BTreeMap::new() }));
    assert_eq!(found, Some("one_instance_per_claim"));
}

/// What was asked for is forgotten until it is seen, and seen late: the first of each claim is made behind the engine's back.
struct Forgets {
    inner: Box<dyn Brain>,
    forgotten: BTreeSet<EffectId>,
    names: BTreeSet<String>,
    hidden: BTreeMap<String, Time>,
    held: Vec<(Time, Event)>,
}

impl Forgets {
    const HIDES: u64 = 15_000;

    fn release(&mut self, now: Now) {
        let due: Vec<Event> =
            self.held.extract_if(.., |(at, _)| *at <= now.time).map(|(_, event)| event).collect();
        for event in due {
            self.inner.apply(now, event);
        }
    }
}

impl Brain for Forgets {
    fn apply(&mut self, now: Now, event: Event) {
        self.release(now);
        match event {
            Event::Watched { kind: Kind::NodeClaim, change: Change::Seen(object) } => {
                let hides =
                    if text(&object, "/metadata/name").ends_with("-forgotten") { Self::HIDES } else { 0 };
                let until = *self.hidden.entry(uid(&object).to_owned()).or_insert(Time(now.time.0 + hides));
                let event = Event::Watched { kind: Kind::NodeClaim, change: Change::Seen(object) };
                if until > now.time {
                    self.held.push((until, event));
                } else {
                    self.inner.apply(now, event);
                }
            }
            Event::Ended { id, .. } if self.forgotten.remove(&id) => {
                let outcome = Outcome::Refused(Refusal::Unavailable { message: "forgotten".to_owned() });
                self.inner.apply(now, Event::Ended { id, outcome });
            }
            other => self.inner.apply(now, other),
        }
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        self.release(now);
        let mut actions = self.inner.decide(now);
        for action in &mut actions {
            if let Action::Do { id, effect: Effect::Create { kind: Kind::NodeClaim, object } } = action {
                let name = text(object, "/metadata/name").to_owned();
                if self.names.insert(name.clone()) {
                    self.forgotten.insert(*id);
                    object["metadata"]["name"] = json!(format!("{name}-forgotten"));
                }
            }
        }
        actions
    }

    fn next_wake(&self) -> Option<Time> {
        self.held.iter().map(|(at, _)| *at).chain(self.inner.next_wake()).min()
    }
}

#[test]
fn a_forgotten_assumption_is_found() {
    let found = found(Profile::Calm, 20, |inner| {
        Box::new(Forgets {
            inner,
            forgotten: BTreeSet::new(),
            names: BTreeSet::new(),
            hidden: BTreeMap::new(),
            held: Vec::new(),
        })
    });
    assert!(matches!(found, Some("no_double_buy" | "limits_hold")), "{found:?}");
}

/// Whatever is being launched does not count against a pool's limit.
struct BlindToLaunches {
    inner: Box<dyn Brain>,
    pools: BTreeMap<String, Value>,
    launching: BTreeSet<(String, String)>,
    /// Pools to be shown anew.
    outdated: BTreeSet<String>,
}

impl BlindToLaunches {
    /// Shows a pool with as much more limit as is on its way.
    fn show(&mut self, now: Now, name: &str) {
        let Some(mut pool) = self.pools.get(name).cloned() else { return };
        let more = self.launching.iter().filter(|(pool, _)| pool == name).count() * 64;
        if let Some(limit) = pool.pointer("/spec/limits/cpu").and_then(Value::as_str) {
            let limit = limit.parse::<usize>().unwrap_or_default() + more;
            pool["spec"]["limits"]["cpu"] = json!(limit.to_string());
        }
        self.inner.apply(now, Event::Watched { kind: Kind::NodePool, change: Change::Seen(Arc::new(pool)) });
    }
}

impl Brain for BlindToLaunches {
    fn apply(&mut self, now: Now, event: Event) {
        for pool in std::mem::take(&mut self.outdated) {
            self.show(now, &pool);
        }
        match event {
            Event::Watched { kind: Kind::NodePool, change: Change::Seen(pool) } => {
                let name = text(&pool, "/metadata/name").to_owned();
                self.pools.insert(name.clone(), Value::clone(&pool));
                self.show(now, &name);
            }
            Event::Watched { kind: Kind::NodeClaim, change: Change::Seen(claim) } => {
                let registered = |c: &Value| text(c, "/type") == "Registered" && text(c, "/status") == "True";
                if array(&claim, "/status/conditions").any(registered) {
                    let name = text(&claim, "/metadata/name");
                    self.launching.retain(|(_, launching)| launching != name);
                }
                self.inner.apply(now, Event::Watched { kind: Kind::NodeClaim, change: Change::Seen(claim) });
            }
            other => self.inner.apply(now, other),
        }
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        let actions = self.inner.decide(now);
        for action in &actions {
            if let Action::Do { effect: Effect::Create { kind: Kind::NodeClaim, object }, .. } = action {
                let pool = label(object, "karpenter.sh/nodepool").unwrap_or_default().to_owned();
                self.launching.insert((pool.clone(), text(object, "/metadata/name").to_owned()));
                self.outdated.insert(pool);
            }
        }
        actions
    }

    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }
}

#[test]
fn a_limit_blind_to_launches_is_found() {
    let found = found(Profile::Calm, 60, |inner| {
        Box::new(BlindToLaunches {
            inner,
            pools: BTreeMap::new(),
            launching: BTreeSet::new(),
            outdated: BTreeSet::new(),
        })
    });
    assert_eq!(found, Some("limits_hold"));
}

/// A claim that is to go is let go at once.
struct LetsGoEarly {
    inner: Box<dyn Brain>,
    going: Vec<ObjectRef>,
    next: u64,
}

impl LetsGoEarly {
    const OWN: u64 = 1 << 60;
}

impl Brain for LetsGoEarly {
    fn apply(&mut self, now: Now, event: Event) {
        match &event {
            Event::Ended { id, .. } if id.0 >= Self::OWN => return,
            Event::Watched { kind: Kind::NodeClaim, change: Change::Seen(claim) }
                if claim.pointer("/metadata/deletionTimestamp").is_some() =>
            {
                self.going.push(ObjectRef {
                    kind: Kind::NodeClaim,
                    namespace: String::new(),
                    name: text(claim, "/metadata/name").to_owned(),
                    uid: uid(claim).to_owned(),
                });
            }
            _ => {}
        }
        self.inner.apply(now, event);
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        let mut actions = self.inner.decide(now);
        for object in self.going.drain(..) {
            self.next += 1;
            let patch = json!({ "metadata": { "finalizers": null, "uid": object.uid } });
            let effect = Effect::Patch { object, part: Part::Main, patch };
            actions.push(Action::Do { id: EffectId(Self::OWN + self.next), effect });
        }
        actions
    }

    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }
}

#[test]
fn a_finalizer_removed_early_is_found() {
    let found = found(Profile::Any, 60, |inner| Box::new(LetsGoEarly { inner, going: Vec::new(), next: 0 }));
    assert_eq!(found, Some("finalizer_respected"));
}

/// Nobody tells that the lease was lost.
struct LeadsForEver(Box<dyn Brain>);

impl Brain for LeadsForEver {
    fn apply(&mut self, now: Now, event: Event) {
        if !matches!(event, Event::Leading(false)) {
            self.0.apply(now, event);
        }
    }

    fn decide(&mut self, now: Now) -> Vec<Action> {
        self.0.decide(now)
    }

    fn next_wake(&self) -> Option<Time> {
        self.0.next_wake()
    }
}

#[test]
fn a_write_after_the_lease_was_lost_is_found() {
    let found = found(Profile::Twins, 60, |inner| Box::new(LeadsForEver(inner)));
    assert_eq!(found, Some("no_write_after_lease_lost"));
}
