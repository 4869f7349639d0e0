//! Pods that stand for a belief: some are made, some are taken away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headstart_api::labels::PLACEHOLDER_FOR;
use serde_json::{Value, json};

use crate::action::Effect;
use crate::backoff::Backoff;
use crate::companion::ground::errand;
use crate::companion::wanted::Target;
use crate::kind::Kind;
use crate::out::Out;
use crate::outcome::{Outcome, Refusal};
use crate::provision::Strikes;
use crate::report::Level;
use crate::store::{Node, Pod, PodLife as _, Store};
use crate::time::Time;

/// How many pods are made at once.
const AT_ONCE: usize = 100;
/// How often one is made, once as many were made as may be without a pause.
const EACH: Duration = Duration::from_millis(5);
/// How many are made without a pause: whoever decides a second after the last of them should see them together.
const BURST: u32 = 300;
/// How often it goes on where there are more.
const STEP: Duration = Duration::from_millis(50);

/// Makes pods that stand for beliefs, and takes them away.
#[derive(Debug)]
pub(super) struct Placeholders {
    /// Names of pods that are being made, each with the belief that it stands for.
    making: BTreeMap<String, String>,
    /// From when on as many may be made without a pause as ever.
    rested: Time,
    /// Beliefs whose pods the API server refuses.
    refused: Strikes<String>,
    /// When to go on.
    again: Option<Time>,
}

impl Placeholders {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            making: BTreeMap::new(),
            rested: Time(0),
            refused: Strikes::new(Backoff::millis(5_000, 300_000), seed),
            again: None,
        }
    }

    pub(super) fn wake(&self) -> Option<Time> {
        self.again
    }

    /// How many stand for a belief, and are not about to go.
    pub(super) fn standing(store: &Store, mark: &str) -> usize {
        of(store).filter(|pod| mark_of(pod) == mark && is_standing(pod)).count()
    }

    /// Takes notice of how the making or deleting of one ended.
    pub(super) fn ended(&mut self, name: &str, outcome: &Outcome, out: &mut Out<'_>) {
        let Some(mark) = self.making.remove(name) else { return };
        match outcome {
            Outcome::Refused(Refusal::Invalid { message } | Refusal::Forbidden { message }) => {
                let message = format!("cannot make a placeholder: {message}");
                out.line(Level::Error, message, &[("pod", name)]);
                self.refused.failed(out.now.time, mark);
            }
            Outcome::Done(_) => self.refused.forgive(&mark),
            Outcome::Refused(_) | Outcome::Unknown { .. } => {}
        }
    }

    /// Makes as many pods as are wanted and takes away all others. `owner` is who they belong to.
    pub(super) fn settle<'t>(
        &mut self,
        wanted: impl Fn(&str) -> Option<&'t Target>,
        marks: impl Iterator<Item = &'t String>,
        namespace: &str,
        owner: &Value,
        store: &Store,
        out: &mut Out<'_>,
    ) {
        self.again = None;
        let mut known: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in of(store) {
            known.entry(mark_of(pod)).or_default().push(pod);
        }
        for (mark, pods) in &known {
            let keep = wanted(mark).map_or(0, |target| target.wanted(store));
            let owner = wanted(mark).map(|target| &*target.owner.uid);
            take_away(pods, keep, owner, store, out);
        }
        for mark in marks {
            let Some(target) = wanted(mark) else { continue };
            let pods = known.get(mark.as_str()).map(Vec::as_slice).unwrap_or_default();
            self.make(mark, target, pods, namespace, owner, store, out);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is looked at for every pod")]
    fn make(
        &mut self,
        mark: &str,
        target: &Target,
        pods: &[&Pod],
        namespace: &str,
        owner: &Value,
        store: &Store,
        out: &mut Out<'_>,
    ) {
        let now = out.now.time;
        if self.refused.is_out(now, &mark.to_owned()) {
            self.go_on(self.refused.next(now));
            return;
        }
        let names: BTreeSet<&str> = pods.iter().map(|pod| &**pod.name()).collect();
        let mut count = pods.iter().filter(|pod| is_standing(pod)).count();
        let wanted = target.wanted(store);
        for nth in 0.. {
            if count >= wanted {
                break;
            }
            let name = format!("{}-{nth}", target.name);
            if names.contains(name.as_str()) {
                continue;
            }
            count += 1;
            if self.making.contains_key(&name) {
                continue;
            }
            if !out.errands.may_begin(now, &errand(Kind::Pod, &name)) {
                // Perhaps it was made and nobody has heard.
                self.go_on(out.errands.until(&errand(Kind::Pod, &name)));
                continue;
            }
            if self.making.len() >= AT_ONCE || !self.may_make(now) {
                break;
            }
            let object = pod(&target.template, namespace, &name, owner);
            if out.ask(errand(Kind::Pod, &name), Effect::Create { kind: Kind::Pod, object }) {
                out.count("proactive_placeholders_total", &[("source", target.source)]);
                self.making.insert(name, mark.to_owned());
            }
        }
    }

    /// Whether one more may be made now.
    fn may_make(&mut self, now: Time) -> bool {
        let rested = self.rested.max(now) + EACH;
        let may = rested <= now + EACH * BURST;
        if may {
            self.rested = rested;
        } else {
            self.go_on(Some(now + STEP));
        }
        may
    }

    fn go_on(&mut self, time: Option<Time>) {
        self.again = self.again.into_iter().chain(time).min();
    }
}

/// Deletes pods beyond a number, and those that ended.
///
/// If pods of the owner wait, room is made for them first; else nobody need buy what is not wanted any more.
fn take_away(pods: &[&Pod], keep: usize, owner: Option<&str>, store: &Store, out: &mut Out<'_>) {
    // One that is being deleted is still there, and may have got a node in between.
    let is_asked = |pod: &Pod| out.errands.is_flying(&errand(Kind::Pod, pod.name()));
    let mut standing: Vec<&Pod> =
        pods.iter().copied().filter(|pod| is_standing(pod) && !is_asked(pod)).collect();
    if standing.len() > keep {
        let is_awaited = owner.is_some_and(|owner| store.awaits_node(owner));
        let rank = |pod: &Pod| {
            let is_ready = pod.node().and_then(|node| store.nodes.get(node)).is_some_and(Node::is_ready);
            let rank = u8::from(pod.node().is_some()) + u8::from(is_ready);
            if is_awaited { 2 - rank } else { rank }
        };
        standing.sort_by(|a, b| (rank(a), b.name()).cmp(&(rank(b), a.name())));
        for pod in &standing[..standing.len() - keep] {
            delete(pod, out);
        }
    }
    for pod in pods.iter().filter(|pod| pod.is_over() && !pod.is_leaving()) {
        delete(pod, out);
    }
}

fn delete(pod: &Pod, out: &mut Out<'_>) {
    out.ask(errand(Kind::Pod, pod.name()), Effect::Delete { object: pod.object(), grace: Some(0) });
}

fn pod(template: &Value, namespace: &str, name: &str, owner: &Value) -> Value {
    let mut metadata = template["metadata"].clone();
    metadata["name"] = name.into();
    metadata["namespace"] = namespace.into();
    metadata["ownerReferences"] = owner.clone();
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

fn of(store: &Store) -> impl Iterator<Item = &Pod> {
    store.placeholders.iter().filter_map(|key| store.pod(key))
}

fn is_standing(pod: &Pod) -> bool {
    !pod.is_over() && !pod.is_leaving()
}

/// The belief that a pod stands for.
fn mark_of(pod: &Pod) -> &str {
    pod.shape().and_then(|shape| shape.labels.get(PLACEHOLDER_FOR)).map(|mark| &**mark).unwrap_or_default()
}
