//! When everything is done, nothing is written any more.

use super::{Broken, Check};
use crate::ground::{Fact, Ground};
use crate::timeline::Moment;

#[derive(Default)]
pub(super) struct QuietWhenDone {
    last: Option<(Moment, String)>,
}

/// For how long nothing may have been written when a run ends.
pub(crate) const QUIET: u64 = 120_000;

impl Check for QuietWhenDone {
    fn name(&self) -> &'static str {
        "quiet_when_done"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        if let Fact::Sent(sent) = fact
            && sent.write
        {
            self.last =
                Some((ground.now(), format!("process {} {} {}", sent.process, sent.verb, sent.subject)));
        }
        Ok(())
    }

    fn is_at_rest(&self, ground: &Ground) -> bool {
        self.last.as_ref().is_none_or(|(at, _)| *at + QUIET <= ground.now())
    }

    fn end(&mut self, ground: &Ground) -> Result<(), Broken> {
        match &self.last {
            Some((at, what)) if !self.is_at_rest(ground) => {
                Err(Broken::new(format!("all is done, and yet at {at} {what}")))
            }
            _ => Ok(()),
        }
    }
}
