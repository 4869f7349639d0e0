//! No NodeClaim ever has two instances, not even one after the other.

use std::collections::BTreeMap;

use headstart_engine::Kind;

use super::{Broken, Check};
use crate::ground::{Fact, Ground};

#[derive(Default)]
pub(super) struct OneInstancePerClaim {
    of_claim: BTreeMap<String, usize>,
}

impl Check for OneInstancePerClaim {
    fn name(&self) -> &'static str {
        "one_instance_per_claim"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Launched(place) = fact else { return Ok(()) };
        let machine = &ground.cloud.books()[*place];
        if machine.claim_uid.is_empty() {
            return Ok(());
        }
        let Some(first) = self.of_claim.insert(machine.claim_uid.clone(), *place) else { return Ok(()) };
        let first = &ground.cloud.books()[first];
        let message = format!(
            "claim {} has instances {} (token {}, {}) and {} (token {}, {})",
            machine.request.claim,
            first.instance.id,
            first.request.token,
            first.launched,
            machine.instance.id,
            machine.request.token,
            machine.launched,
        );
        Err(Broken::new(message).about(Kind::NodeClaim, format!("/{}", machine.request.claim)))
    }
}
