//! What the cloud has told about instances, as long as claims do not say it yet.

use std::collections::{BTreeMap, BTreeSet};

use headstart_core::cloud::{Instance, Launch, ProviderId};

/// What the cloud has told.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    /// Launches by the uid of their claim, until the claim is gone.
    pub(crate) launched: BTreeMap<String, Launch>,
    /// Uids of claims for which certainly nothing was launched.
    pub(crate) barren: BTreeSet<String>,
    /// Uids of claims for which something may have been launched though nobody knows.
    pub(crate) doubtful: BTreeSet<String>,
    /// Instances that the cloud no longer knows.
    pub(crate) gone: BTreeSet<ProviderId>,
}

impl Machines {
    /// Takes notice that a claim's launch ended well.
    pub(crate) fn launched(&mut self, uid: &str, launch: Launch) {
        self.barren.remove(uid);
        self.doubtful.remove(uid);
        self.launched.insert(uid.to_owned(), launch);
    }

    /// Takes notice that a claim's launch was refused.
    pub(crate) fn refused(&mut self, uid: &str) {
        if !self.doubtful.contains(uid) && !self.launched.contains_key(uid) {
            self.barren.insert(uid.to_owned());
        }
    }

    /// Takes notice that nobody knows how a claim's launch ended.
    pub(crate) fn lost(&mut self, uid: &str) {
        self.barren.remove(uid);
        self.doubtful.insert(uid.to_owned());
    }

    /// Takes notice of all instances; one that was launched for a claim that does not know is found by its token.
    pub(crate) fn found<'a>(instances: &'a [Instance], uid: &str) -> Option<&'a Instance> {
        instances.iter().find(|instance| instance.token.as_ref().is_some_and(|token| token.0 == uid))
    }

    /// Forgets a claim.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.launched.remove(uid);
        self.barren.remove(uid);
        self.doubtful.remove(uid);
    }
}
