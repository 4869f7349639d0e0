//! Which pods of a snapshot are expected, and by whom.

use std::collections::BTreeMap;

use headstart_core::demand::{Expected, buffer, trim};
use headstart_core::plan::Plan;
use headstart_core::price::Price;
use headstart_core::snapshot::Snapshot;

/// Which pods of a snapshot are expected: all from a place on, each by the belief at an index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Injected {
    first: usize,
    by: Vec<usize>,
}

impl Injected {
    /// Adds expected pods to a snapshot.
    pub(crate) fn join(expected: &[Expected], snapshot: &mut Snapshot) -> Self {
        let first = snapshot.pods.len();
        let mut by = Vec::new();
        for (at, expected) in expected.iter().enumerate() {
            snapshot.pods.extend(expected.pods());
            by.resize(snapshot.pods.len() - first, at);
        }
        Self { first, by }
    }

    /// The belief that a pod is expected by.
    pub(crate) fn belief(&self, pod: u32) -> Option<usize> {
        self.by.get((pod as usize).checked_sub(self.first)?).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// Takes pods out of a snapshot.
    pub(crate) fn leave_out(&mut self, snapshot: &mut Snapshot, pods: &[u32]) {
        trim::without(snapshot, pods);
        let mut at = self.first..;
        self.by.retain(|_| at.next().is_none_or(|at| !pods.contains(&(at as u32))));
    }

    /// Expected pods to leave out because of limits.
    pub(crate) fn surplus(
        &self,
        expected: &[Expected],
        snapshot: &Snapshot,
        plan: &Plan,
        limit: usize,
        left: Option<Price>,
    ) -> Vec<u32> {
        // Buffers are asked for in so many words; others are guesses.
        let sure = |pod: u32| {
            let belief = &expected[self.belief(pod)?];
            (belief.source != buffer::NAME).then_some(belief.sure)
        };
        let mut out = trim::over_limit(snapshot, plan, limit, sure);
        if out.is_empty()
            && let Some(left) = left
        {
            out = trim::over_budget(snapshot, plan, left);
        }
        out.sort_unstable();
        out
    }

    /// Who expects some of these pods and how many, the most first, and why.
    pub(crate) fn reasons(&self, expected: &[Expected], pods: &[u32]) -> Option<(String, String)> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for belief in pods.iter().filter_map(|pod| self.belief(*pod)) {
            *counts.entry(belief).or_default() += 1;
        }
        let mut counts: Vec<(usize, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(belief, count)| (std::cmp::Reverse(*count), *belief));
        let mut sources: Vec<&str> = Vec::new();
        for (belief, _) in &counts {
            let source = expected[*belief].source;
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let words = counts.iter().take(3).map(|(belief, count)| {
            let Expected { source, because, .. } = &expected[*belief];
            format!("{source}: {because} ({count} of {} pods)", pods.len())
        });
        let words: Vec<String> = words.collect();
        (!counts.is_empty()).then(|| (sources.join(","), words.join("; ")))
    }
}
