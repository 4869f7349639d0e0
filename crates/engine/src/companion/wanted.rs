//! What is to stand for each belief, and how much of it.

use std::collections::BTreeMap;

use headstart_core::demand::{Expected, Owner};
use headstart_core::hash;
use serde_json::Value;

use crate::companion::pace::Pace;
use crate::companion::template::template;
use crate::provision::Decision;
use crate::settings::Leading;
use crate::store::Store;

/// How many characters of an owner's name are in the names of what stands for its pods.
const NAME: usize = 40;

/// What is to stand for a belief.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) owner: Owner,
    pub(super) source: &'static str,
    /// The beginning of its names.
    pub(super) name: String,
    /// Metadata and specification of a pod.
    pub(super) template: Value,
    /// How many there are to be.
    wanted: usize,
    /// How many pods the owner had when that was decided.
    had: usize,
}

impl Target {
    /// How many there are to be now: for every pod that came since it was decided there is one less to wait for.
    pub(super) fn wanted(&self, store: &Store) -> usize {
        let came = store.live(&self.owner.uid).saturating_sub(self.had);
        self.wanted.saturating_sub(came)
    }
}

/// What is to stand for each belief, by the belief's mark; told how many stand for one now.
///
/// What fits on nodes that are there needs nobody to keep the room. As soon as some must have new nodes, all are shown:
/// the scheduler fills the room that is there first. What was brought stays held as long as it is expected, but for the pods
/// that come in the next moment: a pod that is there while something still stands for it is counted twice, and bought for
/// once more.
pub(super) fn targets(
    decision: &Decision,
    expected: &[Expected],
    store: &Store,
    settings: &Leading,
    pace: &Pace,
    standing: impl Fn(&str) -> usize,
) -> BTreeMap<String, Target> {
    let counts = counts(decision, expected.len(), store);
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (belief, Count { placed, new }) in expected.iter().zip(counts) {
        let nth = kinds.entry((belief.source, &belief.owner.uid)).or_default();
        let mark = mark(belief, *nth);
        *nth += 1;
        let held = placed.saturating_sub(pace.coming(&belief.owner.uid)).min(standing(&mark));
        let wanted = if new > 0 { placed } else { held };
        if wanted == 0 {
            continue;
        }
        let owner = belief.owner.clone();
        let has_siblings = store.has_placed(&owner.uid);
        let short = owner.name.chars().take(NAME).collect::<String>();
        let target = Target {
            source: belief.source,
            name: format!("{}-{}-{mark}", short.trim_end_matches(['-', '.']), belief.source),
            template: template(belief, &mark, has_siblings, settings),
            wanted,
            had: store.live(&owner.uid),
            owner,
        };
        all.insert(mark, target);
    }
    all
}

/// Names a belief; the same after a restart, though not after its owner was made anew.
fn mark(belief: &Expected, nth: usize) -> String {
    format!("{:016x}", hash::stable(&[belief.source, &belief.owner.uid, &nth.to_string()]))
}

/// Where the pods of a belief are.
#[derive(Clone, Copy, Default)]
struct Count {
    /// With a node, wherever.
    placed: usize,
    /// Those of them that need a new one.
    new: usize,
}

fn counts(decision: &Decision, beliefs: usize, store: &Store) -> Vec<Count> {
    let Decision { injected, plan, .. } = decision;
    let mut all = vec![Count::default(); beliefs];
    let mut count = |pod: u32, is_new: bool| {
        if let Some(count) = injected.belief(pod).and_then(|belief| all.get_mut(belief)) {
            count.placed += 1;
            count.new += usize::from(is_new);
        }
    };
    for pod in plan.existing.iter().flat_map(|node| &node.pods) {
        count(*pod, false);
    }
    for pod in plan.claims.iter().flat_map(|claim| &claim.pods) {
        count(*pod, true);
    }
    if store.pools.is_empty() {
        // Somebody buys nodes who has no pools that could be asked: what fits nowhere may fit on what they buy.
        for unplaced in &plan.unplaced {
            count(unplaced.pod, true);
        }
    }
    all
}
