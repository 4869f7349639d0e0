//! Nothing is written by a process that does not hold the lease.

use super::{Broken, Check};
use crate::ground::{Fact, Ground};

pub(super) struct NoWriteAfterLeaseLost;

impl Check for NoWriteAfterLeaseLost {
    fn name(&self) -> &'static str {
        "no_write_after_lease_lost"
    }

    fn see(&mut self, _: &Ground, fact: &Fact) -> Result<(), Broken> {
        match fact {
            Fact::Sent(sent) if sent.write && !sent.leads => Err(Broken::new(format!(
                "process {} sent {} {} without holding the lease",
                sent.process, sent.verb, sent.subject
            ))),
            _ => Ok(()),
        }
    }
}
