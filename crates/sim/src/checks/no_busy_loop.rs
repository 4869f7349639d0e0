//! Nobody does the same thing to the same object over and over, or wants to be asked again at once.

use std::collections::BTreeMap;

use super::{Broken, Check};
use crate::ground::{Fact, Ground};

/// How often the same may be done to the same object in a minute.
const SAME: u32 = 60;
const MINUTE: u64 = 60_000;

#[derive(Default)]
pub(super) struct NoBusyLoop {
    minute: u64,
    done: BTreeMap<(usize, &'static str, String), u32>,
}

impl Check for NoBusyLoop {
    fn name(&self) -> &'static str {
        "no_busy_loop"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let sent = match fact {
            Fact::Unsettled(message) => return Err(Broken::new(message.clone())),
            Fact::Sent(sent) => sent,
            Fact::Changed(..) | Fact::Launched(_) | Fact::Ended(_) => return Ok(()),
        };
        let minute = ground.now().0 / MINUTE;
        if minute != self.minute {
            self.minute = minute;
            self.done.clear();
        }
        let count = self.done.entry((sent.process, sent.verb, sent.subject.clone())).or_default();
        *count += 1;
        if *count <= SAME {
            return Ok(());
        }
        Err(Broken::new(format!("{} {} more than {SAME} times in a minute", sent.verb, sent.subject)))
    }
}
