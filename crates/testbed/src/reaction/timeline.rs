//! What became of pods and claims, and when it was first seen.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};

/// What was seen since the Deployment's creation.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// By uid.
    pods: BTreeMap<String, Pod>,
    /// By name.
    claims: BTreeMap<String, Claim>,
    n_running: usize,
}

#[derive(Debug)]
struct Pod {
    created: Duration,
    running: Option<Duration>,
    node: String,
}

#[derive(Debug)]
struct Claim {
    created: Duration,
    node: String,
    cpus: f64,
}

impl Timeline {
    /// A pod was seen, on a node or (if empty) none.
    pub(crate) fn pod(&mut self, at: Duration, uid: String, node: &str, is_running: bool) {
        let new = Pod { created: at, running: None, node: String::new() };
        let pod = self.pods.entry(uid).or_insert(new);
        node.clone_into(&mut pod.node);
        if is_running && pod.running.is_none() {
            pod.running = Some(at);
            self.n_running += 1;
        }
    }

    /// A claim for so many CPUs was seen, with the name of its node if it has one already.
    pub(crate) fn claim(&mut self, at: Duration, name: String, node: &str, cpus: f64) {
        let claim = self.claims.entry(name).or_insert(Claim { created: at, node: String::new(), cpus });
        node.clone_into(&mut claim.node);
    }

    pub(crate) fn n_running(&self) -> usize {
        self.n_running
    }

    /// Whether every claim has got its node.
    pub(crate) fn is_complete(&self) -> bool {
        self.claims.values().all(|claim| !claim.node.is_empty())
    }

    pub(crate) fn first_claim(&self) -> Option<Duration> {
        self.claims.values().map(|claim| claim.created).min()
    }

    pub(crate) fn last_claim(&self) -> Option<Duration> {
        self.claims.values().map(|claim| claim.created).max()
    }

    /// For how many more pods of one CPU there were claims than there were pods, at most.
    pub(crate) fn n_ahead(&self) -> usize {
        let ahead = |at: Duration| {
            let claims = self.claims.values().filter(|claim| claim.created <= at);
            let pods = self.pods.values().filter(|pod| pod.created <= at).count();
            (claims.map(|claim| claim.cpus).sum::<f64>() as usize).saturating_sub(pods)
        };
        self.claims.values().map(|claim| ahead(claim.created)).max().unwrap_or(0)
    }

    pub(crate) fn n_claims(&self) -> usize {
        self.claims.len()
    }

    pub(crate) fn first_pod(&self) -> Option<Duration> {
        self.pods.values().map(|pod| pod.created).min()
    }

    pub(crate) fn last_running(&self) -> Option<Duration> {
        self.pods.values().filter_map(|pod| pod.running).max()
    }

    /// How many times claims came, with at least a second in between.
    pub(crate) fn batches(&self) -> usize {
        let mut times: Vec<Duration> = self.claims.values().map(|claim| claim.created).collect();
        times.sort();
        times.chunk_by(|one, next| next.saturating_sub(*one) < Duration::from_secs(1)).count()
    }

    /// How long each pod that runs took to do so.
    pub(crate) fn starts(&self) -> Vec<Duration> {
        self.pods.values().filter_map(|pod| Some(pod.running?.saturating_sub(pod.created))).collect()
    }

    /// How long each pod waited for the claim of the node that it runs on; nothing if the claim was there before it.
    pub(crate) fn waits(&self) -> Result<Vec<Duration>> {
        let by_node: BTreeMap<&str, Duration> =
            self.claims.values().map(|claim| (claim.node.as_str(), claim.created)).collect();
        let wait = |pod: &Pod| {
            let claimed = by_node
                .get(pod.node.as_str())
                .with_context(|| format!("a pod runs on {:?}, which no claim has", pod.node))?;
            Ok(claimed.saturating_sub(pod.created))
        };
        self.pods.values().filter(|pod| pod.running.is_some()).map(wait).collect()
    }
}

/// The smallest of `values` that so many percent of them do not exceed.
pub fn percentile(values: &[Duration], percent: usize) -> Option<Duration> {
    let mut sorted = values.to_vec();
    sorted.sort();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_pod_waits_for_the_claim_of_the_node_it_runs_on() {
        let mut seen = Timeline::default();
        seen.pod(ms(10), "early".into(), "", false);
        seen.claim(ms(40), "a".into(), "", 2.0);
        seen.pod(ms(50), "late".into(), "", false);
        seen.claim(ms(70), "b".into(), "", 2.0);
        assert!(!seen.is_complete());
        seen.claim(ms(80), "b".into(), "node-b", 2.0);
        seen.claim(ms(90), "a".into(), "node-a", 2.0);
        // The one that could have had the first claim got the second, and the other way round.
        seen.pod(ms(100), "early".into(), "node-b", true);
        seen.pod(ms(110), "late".into(), "node-a", true);
        seen.pod(ms(120), "late".into(), "node-a", true);
        assert_eq!((seen.n_running(), seen.is_complete()), (2, true));
        assert_eq!(seen.waits().unwrap(), [ms(60), ms(0)]);
        assert_eq!((seen.first_claim(), seen.last_claim()), (Some(ms(40)), Some(ms(70))));
        assert_eq!(seen.last_running(), Some(ms(110)));
        assert_eq!((seen.starts(), seen.batches()), (vec![ms(90), ms(60)], 1));
        assert_eq!(seen.n_ahead(), 2, "two claims for four pods when there were two");
        seen.claim(ms(1070), "c".into(), "", 1.0);
        assert_eq!(seen.batches(), 2);
    }

    #[test]
    fn a_pod_on_a_node_without_a_claim_is_an_error() {
        let mut seen = Timeline::default();
        seen.pod(ms(1), "p".into(), "stray", true);
        assert!(seen.waits().unwrap_err().to_string().contains("stray"));
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<Duration> = (1..=100).rev().map(ms).collect();
        assert_eq!(percentile(&hundred, 50), Some(ms(50)));
        assert_eq!(percentile(&hundred, 99), Some(ms(99)));
        assert_eq!(percentile(&hundred, 100), Some(ms(100)));
        assert_eq!(percentile(&[ms(7)], 50), Some(ms(7)));
        assert_eq!(percentile(&[ms(1), ms(2), ms(3)], 50), Some(ms(2)));
        assert_eq!(percentile(&[ms(1), ms(2), ms(3)], 99), Some(ms(3)));
        assert_eq!(percentile(&[], 50), None);
    }
}
