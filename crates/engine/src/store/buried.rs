//! Objects that are gone, so that an answer that comes late does not bring them back.

use std::collections::{BTreeSet, VecDeque};

/// How many are remembered; answers are not that late.
const MOST: usize = 10_000;

/// Uids of objects that are gone.
#[derive(Debug, Default)]
pub(crate) struct Buried {
    uids: BTreeSet<Box<str>>,
    order: VecDeque<Box<str>>,
}

impl Buried {
    pub(crate) fn add(&mut self, uid: &str) {
        if uid.is_empty() || !self.uids.insert(uid.into()) {
            return;
        }
        self.order.push_back(uid.into());
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}
