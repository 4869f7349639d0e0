//! Which pod will be on the node of which claim.
//!
//! A plan is kept until its nodes are there: pods that were given a claim are not asked about again, so that later pods
//! cannot change what was bought for earlier ones. Nothing is lost with it: without promises every pod is placed anew,
//! on the claims that are on their way if it fits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::store::PodKey;

/// Which pod will be on the node of which claim.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    by_pod: BTreeMap<Arc<str>, (PodKey, String)>,
    by_claim: BTreeMap<String, BTreeSet<Arc<str>>>,
}

impl Promises {
    pub(crate) fn make(&mut self, uid: Arc<str>, pod: PodKey, claim: &str) {
        self.drop_pod(&uid);
        self.by_claim.entry(claim.to_owned()).or_default().insert(uid.clone());
        self.by_pod.insert(uid, (pod, claim.to_owned()));
    }

    /// The claim that a pod was promised.
    pub(crate) fn of(&self, uid: &str) -> Option<&str> {
        self.by_pod.get(uid).map(|(_, claim)| claim.as_str())
    }

    /// The pods that were promised a claim.
    pub(crate) fn on(&self, claim: &str) -> impl Iterator<Item = (&Arc<str>, &PodKey)> {
        let pods = self.by_claim.get(claim).into_iter().flatten();
        pods.filter_map(|uid| self.by_pod.get(uid).map(|(key, _)| (uid, key)))
    }

    pub(crate) fn drop_pod(&mut self, uid: &str) {
        let Some((_, claim)) = self.by_pod.remove(uid) else { return };
        if let Some(pods) = self.by_claim.get_mut(&claim) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_claim.remove(&claim);
            }
        }
    }

    /// Takes all promises of a claim back; its pods.
    pub(crate) fn drop_claim(&mut self, claim: &str) -> Vec<(Arc<str>, PodKey)> {
        let pods = self.by_claim.remove(claim).unwrap_or_default();
        pods.into_iter().filter_map(|uid| self.by_pod.remove(&uid).map(|(key, _)| (uid, key))).collect()
    }
}
