//! Which nodes are taken away by our own will, and how: marked, replaced, and only then removed.
//!
//! `fleet` is what the decision looks at, `health` which nodes are sick, `core::disrupt` decides, `command` carries out.
//! Everything that must survive a restart is on the objects: the taint, the condition that says why, and on replacements
//! the names of what they replace.

mod command;
mod fleet;
mod health;
mod moved;
pub(crate) mod outlook;
mod tell;
mod vain;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headstart_api::conditions::nodeclaim as condition;
use headstart_api::taints;
use headstart_core::disrupt::{Decision, Fleet, Idea, Move, Options, Reason, Search, Style, Why, decide};
use serde_json::{Value, json};

use crate::action::{Effect, Part};
use crate::capacity::{Capacity, Mood};
use crate::drain;
use crate::errands::Errand;
use crate::kind::Kind;
use crate::out::Out;
use crate::provision::{Provision, Strikes};
use crate::settings::{Consolidation, Settings};
use crate::store::{Claim, Node, Store, Touched};
use crate::time::Time;
use command::Command;
use command::REPLACES;
pub(crate) use command::{node_of, replaced};
pub(crate) use fleet::cost as eviction_cost;
use health::Restart;
pub(crate) use health::duration;
use moved::Moved;
use vain::Vain;

/// How often all nodes are looked at while things change.
const LOOK: Duration = Duration::from_secs(10);
/// How soon they are looked at again after something was begun.
const GO_ON: Duration = Duration::from_secs(1);
/// How often they are looked at when nothing changes: time alone opens windows and ends protections.
const LOOK_ANYWAY: Duration = Duration::from_mins(5);
/// For how long a saving must be there before it is made use of.
const CONFIRMED: Duration = Duration::from_secs(15);

/// What has happened since all nodes were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    None,
    /// Something changed.
    Some,
    /// Something was begun, or what was in the way is gone.
    Pressing,
}

/// Claims that go when they are replaced, and what is still to be asked for in their place.
#[derive(Debug, Default)]
pub(crate) struct Swaps {
    going: BTreeSet<String>,
    coming: BTreeMap<String, u64>,
}

impl Swaps {
    /// Whether a claim goes when it is replaced.
    pub(crate) fn has(&self, claim: &str) -> bool {
        self.going.contains(claim)
    }

    /// How many replacements are still to be asked for in a pool.
    pub(crate) fn coming(&self, pool: &str) -> u64 {
        self.coming.get(pool).copied().unwrap_or(0)
    }
}

/// Nodes that are taken away by our own will.
#[derive(Debug)]
pub(crate) struct Disrupt {
    is_on: bool,
    /// Whether pools that want a number of nodes get it.
    keeps_static: bool,
    options: Options,
    /// What is being carried out, by the first claim that is to go.
    commands: BTreeMap<String, Command>,
    /// Nodes that are to be restarted where they are, by claim, until the claims say so.
    restarts: BTreeMap<String, Restart>,
    /// When something will have been tolerated for long enough.
    tolerated: Option<Time>,
    /// Since when claims are proposed for removal, and why.
    proposed: BTreeMap<String, (Reason, Time)>,
    /// Claims that are proposed for removal together and how places for their pods were found: who looks for something
    /// better each time never gets to do anything.
    together: Vec<(Vec<String>, Style)>,
    /// Claims whose removal failed.
    failures: Strikes<String>,
    vain: Vain,
    moved: Moved,
    /// Nodes with the mark of those that go, and claims that say why they go.
    tainted: BTreeSet<String>,
    reasoned: BTreeSet<String>,
    looked: Option<Time>,
    /// What has happened since.
    news: News,
    /// Which pods were expected last, as a number that changes with them.
    beliefs: u64,
    /// Whether budgets kept nodes then that would have gone.
    is_held_up: bool,
    again: Option<Time>,
    /// For each pool and reason how many nodes may be going at once.
    pub(crate) allowed: Vec<(Arc<str>, Reason, u32)>,
    /// For each reason how many nodes could go.
    pub(crate) eligible: Vec<(Reason, usize)>,
}

impl Disrupt {
    pub(crate) fn new(settings: &Settings) -> Self {
        let search = match settings.consolidation {
            Consolidation::Compat => Search::Compat,
            Consolidation::Search => Search::Wide,
        };
        Self {
            is_on: settings.disruption,
            keeps_static: settings.static_capacity,
            options: Options {
                search,
                spot_to_spot: settings.spot_to_spot,
                terminate_first_drift: settings.terminate_first_drift,
                terminate_first_repair: settings.terminate_first_repair,
            },
            commands: BTreeMap::new(),
            restarts: BTreeMap::new(),
            tolerated: None,
            proposed: BTreeMap::new(),
            together: Vec::new(),
            failures: command::strikes(settings.seed),
            vain: Vain::new(settings.seed),
            moved: Moved::default(),
            tainted: BTreeSet::new(),
            reasoned: BTreeSet::new(),
            looked: None,
            news: News::Some,
            beliefs: 0,
            is_held_up: false,
            again: None,
            allowed: Vec::new(),
            eligible: Vec::new(),
        }
    }

    pub(crate) fn on(&mut self, touched: &Touched, store: &Store) {
        match touched {
            Touched::Node { name, .. } => {
                let is_marked = |node: &Node| is_tainted(node) && !node.is_leaving();
                set(&mut self.tainted, name, store.nodes.get(name).is_some_and(is_marked));
            }
            Touched::Claim { name, gone } => {
                if gone.is_some() && self.is_held_up {
                    self.news = News::Pressing;
                }
                let is_marked = |claim: &Claim| claim.is(condition::DISRUPTION_REASON) && !claim.is_leaving();
                let claim = store.claims.get(name);
                set(&mut self.reasoned, name, claim.is_some_and(is_marked));
                if let Some(claim) = claim {
                    self.vain.seen(claim);
                }
            }
            Touched::Pod { .. } | Touched::Pool { .. } | Touched::Other(Kind::PodDisruptionBudget) => {}
            _ => return,
        }
        self.news = self.news.max(News::Some);
    }

    /// Forgets what only this process knows.
    pub(crate) fn forget(&mut self) {
        self.commands.clear();
        self.restarts.clear();
        self.proposed.clear();
        self.together.clear();
        self.moved = Moved::default();
        self.looked = None;
        self.news = News::Some;
    }

    /// Claims that go when they are replaced, and what is still to be asked for in their place.
    pub(crate) fn swaps(&self) -> Swaps {
        let mut swaps = Swaps::default();
        for command in self.commands.values().filter(|command| command.is_swap()) {
            swaps.going.extend(command.members().cloned());
            for pool in command.coming() {
                *swaps.coming.entry(pool.to_owned()).or_default() += 1;
            }
        }
        swaps
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        if !self.is_on {
            return None;
        }
        let give_up = self.commands.values().map(|command| command.deadline(self.commands.len())).min();
        [self.looked.map(|_| self.next_look()), self.again, give_up].into_iter().flatten().min()
    }

    fn next_look(&self) -> Time {
        let Some(looked) = self.looked else { return Time(0) };
        match self.news {
            News::Pressing => return looked + GO_ON,
            News::Some => return looked + LOOK,
            News::None => {}
        }
        let confirmed = self.proposed.values().map(|(_, since)| *since + CONFIRMED);
        let confirmed = confirmed.filter(|confirmed| *confirmed > looked).min();
        let sooner = [confirmed, self.failures.next(looked), self.tolerated].into_iter().flatten().min();
        sooner.map_or(looked + LOOK_ANYWAY, |sooner| sooner.clamp(looked + LOOK, looked + LOOK_ANYWAY))
    }

    pub(crate) fn poll(
        &mut self,
        store: &mut Store,
        capacity: &mut Capacity,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        if !self.is_on {
            return;
        }
        self.again = None;
        self.vain.judge(out.now.time);
        if self.looked.is_none() {
            // What a predecessor began is found on the objects; new decisions wait until things have settled.
            self.resume(store, out.now.time);
            self.moved.begin(out.now.wall);
            self.looked = Some(out.now.time);
        }
        self.advance(store, capacity, provision, out);
        self.clean_up(store, out);
        if std::mem::replace(&mut self.beliefs, provision.demand.version()) != self.beliefs {
            self.news = self.news.max(News::Some);
        }
        // Without budgets of pods nothing may be evicted.
        let is_informed = store.is_listed(Kind::PodDisruptionBudget) && provision.demand.is_known();
        if is_informed && self.next_look() <= out.now.time {
            (self.looked, self.news) = (Some(out.now.time), News::None);
            self.look(store, capacity, provision, out);
            self.advance(store, capacity, provision, out);
        }
    }

    /// Decides which nodes go.
    fn look(
        &mut self,
        store: &mut Store,
        capacity: &mut Capacity,
        provision: &mut Provision,
        out: &mut Out<'_>,
    ) {
        let types = capacity.types(out.now.time, Mood::Picky);
        let taken = provision.with_residents(store, &types, out.now.time);
        let (fleet, names) = self.fleet(store, provision, taken, &types, out.now);
        let tolerated = names.iter().filter_map(|name| health::next(name, store, out.now.wall)).min();
        self.tolerated = tolerated.map(|wall| out.now.until(wall));
        if fleet.members.is_empty() {
            self.proposed.clear();
            self.together.clear();
            return;
        }
        let mut decision = decide(&fleet);
        tell::decision(&fleet, &names, &decision, store, out);
        self.allowed = std::mem::take(&mut decision.allowed);
        self.eligible = std::mem::take(&mut decision.eligible);
        self.is_held_up = decision.blocked.iter().any(|(_, why)| matches!(why, Why::Budget(_)));
        for member in &decision.reboots {
            self.news = News::Pressing;
            self.restart(&names[*member as usize], store, out);
        }
        for chosen in self.confirmed(&names, decision, out.now.time) {
            self.news = News::Pressing;
            self.start(&fleet, &names, &chosen, store, out);
        }
    }

    /// Claims that are about to be removed.
    fn busy(&self) -> BTreeSet<&str> {
        self.commands.values().flat_map(|command| command.members().map(String::as_str)).collect()
    }

    /// What is proposed for removal together, as far as all of it is still there.
    fn ideas(&self, names: &[String]) -> Vec<Idea> {
        let index: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let idea = |(together, style): &(Vec<String>, Style)| {
            let members: Option<Vec<u32>> =
                together.iter().map(|name| index.get(name.as_str()).copied()).collect();
            members.map(|members| Idea { members, style: *style })
        };
        self.together.iter().filter_map(idea).collect()
    }

    /// Moves that may be made now; savings must have been there for a while.
    fn confirmed(&mut self, names: &[String], decision: Decision, now: Time) -> Vec<Move> {
        let before = std::mem::take(&mut self.proposed);
        self.together.clear();
        let since = |name: &String, reason: Reason| {
            before.get(name).filter(|(known, _)| *known == reason).map_or(now, |(_, since)| *since)
        };
        // Nobody misses those either whose turn is yet to come.
        let empty = decision.blocked.iter().filter(|(_, why)| *why == Why::Budget(Reason::Empty));
        for name in empty.map(|(member, _)| &names[*member as usize]) {
            self.proposed.insert(name.clone(), (Reason::Empty, since(name, Reason::Empty)));
        }
        let mut confirmed = Vec::new();
        for chosen in decision.moves {
            if matches!(chosen.reason, Reason::Empty | Reason::Underutilized) {
                let each = chosen.members.iter().map(|member| &names[*member as usize]).map(|name| {
                    let since = since(name, chosen.reason);
                    self.proposed.insert(name.clone(), (chosen.reason, since));
                    since
                });
                // The newest counts.
                if each.max().unwrap_or(now) + CONFIRMED > now {
                    let members = chosen.members.iter().map(|member| names[*member as usize].clone());
                    self.together.extend(chosen.style.map(|style| (members.collect(), style)));
                    continue;
                }
            }
            confirmed.push(chosen);
        }
        confirmed
    }

    /// Begins to carry out a move.
    fn start(&mut self, fleet: &Fleet, names: &[String], chosen: &Move, store: &Store, out: &mut Out<'_>) {
        let members: Vec<String> =
            chosen.members.iter().map(|member| names[*member as usize].clone()).collect();
        let Some(first) = members.first().cloned() else { return };
        for name in &members {
            self.proposed.remove(name);
        }
        tell::start(fleet, chosen, &members, out);
        if chosen.reason == Reason::Underutilized {
            let pools = chosen.members.iter().map(|member| &fleet.members[*member as usize].pool);
            self.vain.saved(pools, out.now.time);
        }
        let bound = match chosen.reason {
            Reason::Unhealthy => health::bound(&first, store, out.now.wall),
            Reason::Empty | Reason::Drifted | Reason::Underutilized => None,
        };
        self.commands.insert(first, Command::new(chosen, members, bound, out.now.time));
    }

    /// Takes marks off whatever nobody is about to remove.
    fn clean_up(&mut self, store: &Store, out: &mut Out<'_>) {
        let busy = self.busy();
        let mut again = self.again;
        for name in &self.tainted {
            let Some(node) = store.nodes.get(name) else { continue };
            let Some(claim) = store.claim_of_node(node) else { continue };
            if claim.is_leaving() || busy.contains(claim.name()) {
                continue;
            }
            let patch = json!({
                "metadata": { "resourceVersion": node.metadata.version() },
                "spec": { "taints": without_mark(node) },
            });
            let object = node.metadata.object(Kind::Node);
            let errand = Errand::Node(name.clone());
            let effect = Effect::Patch { object, part: Part::Main, patch };
            ask(&errand, effect, &mut again, out);
        }
        for name in &self.reasoned {
            let Some(claim) = store.claims.get(name) else { continue };
            if busy.contains(name.as_str()) || self.reboots(claim) || claim.is_assumed {
                continue;
            }
            if let Some(effect) = drain::unsaid(claim, condition::DISRUPTION_REASON) {
                ask(&Errand::Claim(name.clone()), effect, &mut again, out);
            }
        }
        self.again = again;
    }
}

fn set(all: &mut BTreeSet<String>, name: &str, is_in: bool) {
    if is_in {
        all.insert(name.to_owned());
    } else {
        all.remove(name);
    }
}

/// Makes sure that something is looked at again by then.
fn sooner(again: &mut Option<Time>, at: Time) {
    *again = Some(again.map_or(at, |known| known.min(at)));
}

/// Asks for an effect; if it failed a moment ago, says when to try again.
fn ask(errand: &Errand, effect: Effect, again: &mut Option<Time>, out: &mut Out<'_>) -> bool {
    let is_asked = out.ask(errand.clone(), effect);
    if let Some(until) = out.errands.until(errand).filter(|_| !is_asked) {
        sooner(again, until);
    }
    is_asked
}

fn is_tainted(node: &Node) -> bool {
    node.has_taint(taints::DISRUPTED, taints::NO_SCHEDULE)
}

/// The taints of a node without the mark of those that go.
fn without_mark(node: &Node) -> Vec<Value> {
    let others = node.taints().iter().filter(|taint| taint.key != taints::DISRUPTED);
    others.filter_map(|taint| serde_json::to_value(taint).ok()).collect()
}
