//! What the cloud has told about instances, as long as claims do not say it yet.

use std::collections::{BTreeMap, BTreeSet};

use headstart_core::cloud::{Instance, Launch, ProviderId};

/// What the cloud has told.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    /// Launches by the uid of their claim, until the claim is gone.
    pub(crate) launched: BTreeMap<String, Launch>,
    /// Uids of claims that this process made, so that nobody else can have launched anything for them.
    made: BTreeSet<String>,
    /// Uids of claims for which something may have been launched though nobody knows.
    doubtful: BTreeSet<String>,
    /// Instances that the cloud no longer knows.
    pub(crate) gone: BTreeSet<ProviderId>,
}

impl Machines {
    /// Takes notice that this process made a claim.
    pub(crate) fn made(&mut self, uid: &str) {
        self.made.insert(uid.to_owned());
    }

    /// Takes notice that a claim's launch ended well.
    pub(crate) fn launched(&mut self, uid: &str, launch: Launch) {
        self.doubtful.remove(uid);
        self.launched.insert(uid.to_owned(), launch);
    }

    /// Takes notice that nobody knows how a claim's launch ended.
    pub(crate) fn lost(&mut self, uid: &str) {
        self.doubtful.insert(uid.to_owned());
    }

    /// Whether somebody else made a claim.
    pub(crate) fn is_foreign(&self, uid: &str) -> bool {
        !self.made.contains(uid)
    }

    /// Whether a claim certainly has no instance, unless a launch is under way.
    pub(crate) fn has_none(&self, uid: &str) -> bool {
        self.made.contains(uid) && !self.doubtful.contains(uid) && !self.launched.contains_key(uid)
    }

    /// Takes notice of all instances; one that was launched for a claim that does not know is found by its token.
    pub(crate) fn found<'a>(instances: &'a [Instance], uid: &str) -> Option<&'a Instance> {
        instances.iter().find(|instance| instance.token.as_ref().is_some_and(|token| token.0 == uid))
    }

    /// Forgets a claim.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.launched.remove(uid);
        self.made.remove(uid);
        self.doubtful.remove(uid);
    }
}
