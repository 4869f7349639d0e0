//! A move that is being carried out: marked, replaced, removed, or given up.

use std::collections::BTreeMap;
use std::time::Duration;

use headstart_api::conditions::{Status, nodeclaim as condition};
use headstart_api::taints;
use headstart_core::disrupt::{Move, Reason, still_fits};
use headstart_core::plan::PlannedClaim;
use serde_json::{Value, json};

use crate::action::{Effect, Part};
use crate::backoff::Backoff;
use crate::capacity::{Capacity, Mood};
use crate::claims;
use crate::disrupt::{Disrupt, ask, fleet, health, is_tainted, sooner, tell, without_mark};
use crate::drain;
use crate::errands::Errand;
use crate::fixed::anchor_of;
use crate::kind::Kind;
use crate::out::Out;
use crate::provision::{Provision, Strikes};
use crate::store::{Claim, Node, Store};
use crate::time::Time;

/// On a claim: the names of the claims whose place it takes, and how many claims do so together.
pub(crate) const REPLACES: &str = "headstart.dev/replaces";
const TOGETHER: &str = "headstart.dev/replacements";
/// On such a claim: how long pods of what it replaces have to leave, as a Go duration.
const WITHIN: &str = "headstart.dev/drain-within";

/// For how long a replacement must have been ready: one that has just come up may go down again.
const STEADY: Duration = Duration::from_secs(3);
/// How long replacements may take; with many commands at once, this long for each.
const TO_REPLACE: Duration = Duration::from_mins(10);
const FOR_EACH: Duration = Duration::from_millis(80);
const MOST_TO_REPLACE: Duration = Duration::from_hours(1);

/// A move that is being carried out.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) reason: Reason,
    /// Claims to remove.
    members: Vec<String>,
    /// What is still to be bought for them.
    planned: Vec<PlannedClaim>,
    /// What was bought for them.
    replacements: Vec<String>,
    /// How long pods have to leave once the nodes are removed, if not as long as the claims say.
    bound: Option<Duration>,
    since: Time,
}

/// How far a command is.
enum Step {
    /// Something has to happen first.
    Waits,
    /// All that is left is to remove the nodes.
    IsReady,
    /// There is nothing left to do.
    IsDone,
    /// It cannot be finished.
    Fails(&'static str),
}

/// How long claims are left alone whose removal failed.
pub(super) fn strikes(seed: u64) -> Strikes<String> {
    Strikes::new(Backoff::millis(60_000, 600_000), seed)
}

impl Command {
    pub(super) fn new(chosen: &Move, members: Vec<String>, bound: Option<Duration>, now: Time) -> Self {
        let planned = chosen.replacements.clone();
        Self { reason: chosen.reason, members, planned, replacements: Vec::new(), bound, since: now }
    }

    /// The claims that are to go.
    pub(super) fn members(&self) -> impl Iterator<Item = &String> {
        self.members.iter()
    }

    /// When to give up, if there are so many commands.
    pub(super) fn deadline(&self, commands: usize) -> Time {
        let each = FOR_EACH * u32::try_from(commands).unwrap_or(u32::MAX);
        self.since + each.clamp(TO_REPLACE, MOST_TO_REPLACE)
    }

    /// Whether something takes the place of what goes.
    pub(super) fn is_swap(&self) -> bool {
        !self.planned.is_empty() || !self.replacements.is_empty()
    }

    /// The pools of what is still to be bought.
    pub(super) fn coming(&self) -> impl Iterator<Item = &str> {
        self.planned.iter().map(|claim| &*claim.pool)
    }

    fn saves(&self) -> bool {
        matches!(self.reason, Reason::Empty | Reason::Underutilized)
    }
}

/// Claims that a claim was made to replace and that are still there; one that has got the name of such a claim since is younger.
pub(crate) fn replaced<'a>(claim: &'a Claim, store: &'a Store) -> impl Iterator<Item = &'a Claim> {
    let names = claim.metadata.annotations.get(REPLACES).map(|names| names.split(','));
    let is_it = |old: &&Claim| claim.is_assumed || old.metadata.created() <= claim.metadata.created();
    names.into_iter().flatten().filter_map(|name| store.claims.get(name)).filter(is_it)
}

impl Disrupt {
    /// Finds what a predecessor was about to do.
    pub(super) fn resume(&mut self, store: &Store, now: Time) {
        for claim in store.claims.values() {
            let names = claim.metadata.annotations.get(REPLACES);
            let marked = replaced(claim, store).filter(|old| is_marked(old, store));
            let members: Vec<String> = marked.map(|old| old.name().to_owned()).collect();
            let Some(first) = members.first().cloned() else { continue };
            let reason = store.claims.get(&first).and_then(reason_of);
            let same = |other: &&Claim| other.metadata.annotations.get(REPLACES) == names;
            let replacements: Vec<String> =
                store.claims.values().filter(same).map(|other| other.name().to_owned()).collect();
            let wanted: usize =
                claim.metadata.annotations.get(TOGETHER).and_then(|n| n.parse().ok()).unwrap_or(1);
            if let Some(reason) = reason.filter(|_| replacements.len() >= wanted) {
                let planned = Vec::new();
                let within = claim.metadata.annotations.get(WITHIN);
                let bound = within.and_then(|text| health::duration(text).ok());
                self.commands
                    .insert(first, Command { reason, members, planned, replacements, bound, since: now });
            }
        }
    }

    /// Takes the next step of all that is being carried out.
    pub(super) fn advance(
        &mut self,
        store: &mut Store,
        capacity: &mut Capacity,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        let mut ready = Vec::new();
        let mut commands = std::mem::take(&mut self.commands);
        let count = commands.len();
        commands.retain(|key, command| {
            let step = if command.deadline(count) <= out.now.time {
                Step::Fails("it took too long")
            } else {
                self.step(command, store, provision, out)
            };
            match step {
                Step::Waits => true,
                Step::IsReady => {
                    ready.push(key.clone());
                    true
                }
                Step::IsDone => false,
                Step::Fails(why) => {
                    self.give_up(command, why, out);
                    false
                }
            }
        });
        if !ready.is_empty() {
            let fits = fit(&ready, &commands, store, capacity, provision, out);
            for (key, fits) in ready.into_iter().zip(fits) {
                let Some(command) = commands.get(&key) else { continue };
                if fits {
                    self.remove(command, store, out);
                } else {
                    self.give_up(command, "its pods no longer fit elsewhere", out);
                    commands.remove(&key);
                }
            }
        }
        self.commands = commands;
        self.commit_restarts(store, out);
    }

    fn step(
        &mut self,
        command: &mut Command,
        store: &mut Store,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) -> Step {
        command.members.retain(|name| store.claims.get(name).is_some_and(|claim| !claim.is_leaving()));
        if command.members.is_empty() {
            return Step::IsDone;
        }
        let mut is_marked = true;
        for name in &command.members {
            let Some(claim) = store.claims.get(name) else { continue };
            let Some(node) = node_of(claim, store) else { return Step::Fails("its node is gone") };
            is_marked &= self.mark(claim, node, command.reason, out);
        }
        if !is_marked {
            return Step::Waits;
        }
        if !command.planned.is_empty() {
            replace(command, store, provision, out);
            return Step::Waits;
        }
        let mut is_ready = true;
        for name in &command.replacements {
            match store.claims.get(name) {
                Some(claim) if claim.is_leaving() => return Step::Fails("a replacement was given up"),
                Some(claim) if claim.is_initialized() => {
                    let steady = claim.since(condition::INITIALIZED) + STEADY;
                    if steady > out.now.wall {
                        sooner(&mut self.again, out.now.until(steady));
                        is_ready = false;
                    }
                }
                Some(claim) => {
                    tell::waiting(claim, command.reason, out);
                    is_ready = false;
                }
                None => return Step::Fails("a replacement is gone"),
            }
        }
        if is_ready { Step::IsReady } else { Step::Waits }
    }

    /// Keeps new pods from a node and says why it goes; whether that is done.
    fn mark(&mut self, claim: &Claim, node: &Node, reason: Reason, out: &mut Out<'_>) -> bool {
        let is_marked = is_tainted(node);
        if !is_marked {
            let mut wanted: Vec<Value> = without_mark(node);
            wanted.push(json!({ "key": taints::DISRUPTED, "effect": taints::NO_SCHEDULE }));
            let patch = json!({
                "metadata": { "resourceVersion": node.metadata.version() },
                "spec": { "taints": wanted },
            });
            let effect = Effect::Patch { object: node.metadata.object(Kind::Node), part: Part::Main, patch };
            ask(&Errand::Node(node.name().to_owned()), effect, &mut self.again, out);
        }
        let text = reason.as_str();
        let is_said = claim.is(condition::DISRUPTION_REASON)
            && claim.condition(condition::DISRUPTION_REASON).is_some_and(|said| said.reason == text);
        if !is_said {
            drain::say(claim, out, |set| set.set(condition::DISRUPTION_REASON, Status::True, text, text));
            if let Some(until) = out.errands.until(&Errand::Claim(claim.name().to_owned())) {
                sooner(&mut self.again, until);
            }
        }
        is_marked && is_said
    }

    /// Removes the nodes; before that it is written down when their pods must have left.
    fn remove(&mut self, command: &Command, store: &Store, out: &mut Out<'_>) {
        for name in &command.members {
            let Some(claim) = store.claims.get(name) else { continue };
            if let Some(patch) = command.bound.and_then(|bound| drain::tightened(claim, out.now.wall + bound))
            {
                let object = claim.metadata.object(Kind::NodeClaim);
                let effect = Effect::Patch { object, part: Part::Main, patch };
                ask(&Errand::Claim(name.clone()), effect, &mut self.again, out);
                continue;
            }
            if claims::remove(claim, &command.reason.as_str().to_lowercase(), out) {
                let node = node_of(claim, store);
                let pods = node.into_iter().flat_map(|node| store.pods_on(node.name()));
                self.moved.note(pods, out.now.wall);
                tell::terminating(claim, node, command.reason, out);
                if command.reason == Reason::Unhealthy {
                    let diagnosed = node.map(|node| health::diagnose(claim, node, store, out.now.wall));
                    let condition = diagnosed.and_then(|diagnosis| diagnosis.remedy).map(|of| of.condition);
                    tell::unhealthy(claim, condition.as_deref(), command.bound, out);
                }
            }
        }
    }

    /// Leaves the nodes where they are, for a while.
    fn give_up(&mut self, command: &Command, why: &str, out: &mut Out<'_>) {
        for name in &command.members {
            self.failures.failed(out.now.time, name.clone());
        }
        tell::given_up(command.reason, &command.members, why, out);
    }
}

/// Asks for what takes the nodes' place.
fn replace(command: &mut Command, store: &mut Store, provision: &mut Provision, out: &mut Out<'_>) {
    let first = command.members.first().and_then(|name| store.claims.get(name));
    let anchor = first.map(|claim| claim.metadata.uid.clone()).unwrap_or_default();
    // Whoever takes a numbered seat is named after it.
    let seat = first.and_then(anchor_of);
    let planned = std::mem::take(&mut command.planned);
    let mut notes = vec![(REPLACES, command.members.join(",")), (TOGETHER, planned.len().to_string())];
    notes.extend(command.bound.map(|bound| (WITHIN, health::written(bound))));
    let reason = command.reason.as_str().to_lowercase();
    for (at, claim) in planned.iter().enumerate() {
        let anchor = seat.clone().unwrap_or_else(|| format!("{anchor}/{at}"));
        let made = provision.buy(store, claim, &anchor, &notes, &reason, out);
        // A name that is not there fails the command when it is looked at next.
        command.replacements.push(made.unwrap_or_default());
    }
}

/// Whether the pods of nodes that are ready to go still fit elsewhere; those that must go are not asked.
fn fit(
    ready: &[String],
    commands: &BTreeMap<String, Command>,
    store: &Store,
    capacity: &mut Capacity,
    provision: &Provision,
    out: &Out<'_>,
) -> Vec<bool> {
    let asks = ready.iter().filter_map(|key| commands.get(key)).any(Command::saves);
    if !asks {
        return vec![true; ready.len()];
    }
    let types = capacity.types(out.now.time, Mood::Picky);
    let mut taken = provision.with_residents(store, &types, out.now.time);
    provision.demand.join(&mut taken.snapshot);
    let waiting = taken.snapshot.pods.len();
    let residents = std::mem::take(&mut taken.residents);
    let mut fits = Vec::with_capacity(ready.len());
    let (mut gone, mut pods) = (Vec::new(), Vec::new());
    for key in ready {
        let Some(command) = commands.get(key).filter(|command| command.saves()) else {
            fits.push(true);
            continue;
        };
        let (gone_before, pods_before) = (gone.len(), pods.len());
        let mut is_free = true;
        for name in &command.members {
            let Some(node) = store.claims.get(name).and_then(|claim| node_of(claim, store)) else {
                continue;
            };
            is_free &= fleet::blocks(node, store, out.now.wall).next().is_none();
            let index = taken.snapshot.nodes.iter().position(|known| *known.name == *node.name());
            let Some(index) = index.map(|index| index as u32) else { continue };
            gone.push(index);
            for resident in residents.iter().filter(|resident| resident.node == index) {
                let key = (resident.namespace.clone(), resident.name.clone());
                let is_glad = store.pod(&key).is_some_and(|pod| fleet::cost(pod) <= 0.0);
                match &resident.pod {
                    _ if is_glad => {}
                    // Somebody moved in.
                    _ if command.reason == Reason::Empty => is_free = false,
                    Some(pod) => {
                        pods.push(taken.snapshot.pods.len() as u32);
                        taken.snapshot.pods.push(pod.clone());
                    }
                    None => is_free = false,
                }
            }
        }
        // All that go at once must fit together.
        let fits_too = is_free && still_fits(&taken.snapshot, waiting, &gone, &pods);
        if !fits_too {
            gone.truncate(gone_before);
            pods.truncate(pods_before);
        }
        fits.push(fits_too);
    }
    fits
}

/// Why a claim says that it goes.
fn reason_of(claim: &Claim) -> Option<Reason> {
    let said = claim.condition(condition::DISRUPTION_REASON)?;
    Reason::ALL.into_iter().find(|reason| reason.as_str() == said.reason)
}

/// Whether a claim was about to be removed and has not been yet.
fn is_marked(claim: &Claim, store: &Store) -> bool {
    !claim.is_leaving()
        && claim.is(condition::DISRUPTION_REASON)
        && node_of(claim, store).is_some_and(is_tainted)
}

/// The node of a claim.
pub(crate) fn node_of<'s>(claim: &Claim, store: &'s Store) -> Option<&'s Node> {
    store.node_with(&claim.provider_id()?).ok().flatten()
}
