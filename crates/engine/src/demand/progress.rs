//! Since when owners that lack pods have made none.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::Time;

/// Since when owners that lack pods have made none.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    owners: BTreeMap<Arc<str>, Standing>,
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    wants: u32,
    has: u32,
    since: Time,
}

impl Progress {
    /// For how many milliseconds an owner has made no pod though it wants more.
    pub(crate) fn stalled(&mut self, now: Time, owner: &Arc<str>, wants: u32, has: u32) -> i64 {
        let new = Standing { wants, has, since: now };
        let known = self.owners.entry(owner.clone()).or_insert(new);
        if has > known.has || wants != known.wants {
            *known = new;
        }
        known.has = has;
        (now - known.since).as_millis() as i64
    }

    /// Forgets owners that lack nothing.
    pub(crate) fn keep(&mut self, lacks: impl Fn(&str) -> bool) {
        self.owners.retain(|owner, _| lacks(owner));
    }
}
