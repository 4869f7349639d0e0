//! In calm weather no instance runs without a NodeClaim for long.

use std::collections::BTreeMap;

use headstart_engine::Kind;

use super::{Broken, Check};
use crate::cloud::Machine;
use crate::ground::{Fact, Ground};
use crate::timeline::Moment;

/// How long an instance may run without a claim: they are looked for every few minutes.
const GRACE: u64 = 6 * 60_000;

#[derive(Default)]
pub(super) struct NoOrphanInstance {
    since: BTreeMap<String, Moment>,
}

impl Check for NoOrphanInstance {
    fn name(&self) -> &'static str {
        "no_orphan_instance"
    }

    fn see(&mut self, _: &Ground, _: &Fact) -> Result<(), Broken> {
        Ok(())
    }

    fn glance(&mut self, ground: &Ground) -> Result<(), Broken> {
        let now = ground.now();
        for machine in orphans(ground) {
            let since = *self.since.entry(machine.instance.id.0.clone()).or_insert(now);
            if now.since(since) > GRACE {
                return Err(broken(machine));
            }
        }
        Ok(())
    }

    fn end(&mut self, ground: &Ground) -> Result<(), Broken> {
        orphans(ground).next().map_or(Ok(()), |machine| Err(broken(machine)))
    }
}

fn orphans(ground: &Ground) -> impl Iterator<Item = &Machine> {
    ground.cloud.living().filter(|m| m.ending.is_none() && !ground.api.exists(&m.claim_uid))
}

fn broken(machine: &Machine) -> Broken {
    let message = format!(
        "instance {} of claim {} runs since {}, but the claim is gone",
        machine.instance.id, machine.request.claim, machine.launched
    );
    Broken::new(message).about(Kind::NodeClaim, format!("/{}", machine.request.claim))
}
