//! What decisions come to, for those who compare them with what becomes of them.

use std::sync::Arc;

use headstart_core::plan::PlannedClaim;
use headstart_core::price::Price;

use crate::kind::Kind;
use crate::provision::Provision;
use crate::store::{PodKey, Store};

/// Something that a decision came to.
#[derive(Debug)]
pub(crate) enum News {
    /// A claim is asked for, or would be.
    Ordered(Ordered),
    /// A pod will be on the node of a claim.
    Promised {
        uid: Arc<str>,
        key: PodKey,
        claim: String,
        /// Who had expected it, as far as only we count that.
        source: Option<&'static str>,
    },
}

/// A claim that is asked for, or would be.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) name: String,
    pub(crate) pool: Arc<str>,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) price: Price,
    /// How many pods it is for, and how many of them are expected.
    pub(crate) pods: u32,
    pub(crate) expected: u32,
    /// Who expects them, and why.
    pub(crate) reasons: Option<(String, String)>,
}

impl Ordered {
    pub(crate) fn new(
        planned: &PlannedClaim,
        name: &str,
        expected: usize,
        reasons: Option<&(String, String)>,
    ) -> Self {
        let launch = planned.launch.as_ref();
        let text = |text: Option<&Arc<str>>| text.map(ToString::to_string).unwrap_or_default();
        Self {
            name: name.to_owned(),
            pool: planned.pool.clone(),
            instance_type: text(launch.map(|launch| &launch.instance_type)),
            zone: text(launch.map(|launch| &launch.zone)),
            capacity_type: text(launch.map(|launch| &launch.capacity_type)),
            price: launch.map(|launch| launch.price).unwrap_or_default(),
            pods: u32::try_from(planned.pods.len()).unwrap_or(u32::MAX),
            expected: u32::try_from(expected).unwrap_or(u32::MAX),
            reasons: reasons.cloned(),
        }
    }
}

impl Provision {
    /// What decisions came to since somebody last asked.
    pub(crate) fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Whether pods that exist or are expected count on a claim that nobody makes.
    pub(crate) fn is_wanted(&self, claim: &str) -> bool {
        self.awaits(claim) || self.demand.is_wanted(claim)
    }

    /// Takes a claim that nobody makes out of the world: the pods that it was for begin to be on other nodes, and others must
    /// not be given its room. What was decided about its pods stays decided.
    pub(crate) fn seal(&mut self, store: &mut Store, claim: &str) {
        // Not told to anybody: it would be bought anew.
        let _ = store.lose(Kind::NodeClaim, "", claim, None);
        self.demand.seal(claim);
    }

    /// Forgets a claim that nobody makes and nobody counts on.
    pub(crate) fn retire(&mut self, store: &mut Store, claim: &str) {
        let _ = store.lose(Kind::NodeClaim, "", claim, None);
        self.demand.retire(claim);
    }
}
