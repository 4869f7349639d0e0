//! When all is done, no instance runs without a NodeClaim.

use headstart_engine::Kind;

use super::{Broken, Check};
use crate::ground::{Fact, Ground};

pub(super) struct NoOrphanInstance;

impl Check for NoOrphanInstance {
    fn name(&self) -> &'static str {
        "no_orphan_instance"
    }

    fn see(&mut self, _: &Ground, _: &Fact) -> Result<(), Broken> {
        Ok(())
    }

    fn end(&mut self, ground: &Ground) -> Result<(), Broken> {
        let orphan = |m: &&crate::cloud::Machine| m.ending.is_none() && !ground.api.exists(&m.claim_uid);
        let Some(machine) = ground.cloud.living().find(orphan) else { return Ok(()) };
        let message = format!(
            "instance {} of claim {} runs since {}, but the claim is gone",
            machine.instance.id, machine.request.claim, machine.launched
        );
        Err(Broken::new(message).about(Kind::NodeClaim, format!("/{}", machine.request.claim)))
    }
}
