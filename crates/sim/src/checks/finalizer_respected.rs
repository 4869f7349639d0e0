//! No NodeClaim, and no Node that was held for it, vanishes while its instance runs.

use std::collections::BTreeMap;

use headstart_engine::Kind;

use super::{Broken, Check};
use crate::api::{Verb, array, text, uid};
use crate::ground::{Fact, Ground};

#[derive(Default)]
pub(super) struct FinalizerRespected {
    of_claim: BTreeMap<String, usize>,
    of_id: BTreeMap<String, usize>,
}

impl Check for FinalizerRespected {
    fn name(&self) -> &'static str {
        "finalizer_respected"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        match fact {
            Fact::Launched(place) => {
                let machine = &ground.cloud.books()[*place];
                self.of_claim.insert(machine.claim_uid.clone(), *place);
                self.of_id.insert(machine.instance.id.0.clone(), *place);
                Ok(())
            }
            Fact::Changed(kind @ (Kind::NodeClaim | Kind::Node), index) => {
                self.changed(ground, *kind, *index)
            }
            Fact::Changed(..) | Fact::Ended(_) | Fact::Sent(_) | Fact::Unsettled(_) => Ok(()),
        }
    }
}

impl FinalizerRespected {
    fn changed(&self, ground: &Ground, kind: Kind, index: usize) -> Result<(), Broken> {
        let entry = &ground.api.log(kind)[index];
        if entry.verb != Verb::Removed {
            return Ok(());
        }
        let place = if kind == Kind::NodeClaim {
            self.of_claim.get(uid(&entry.object))
        } else {
            let before = entry.before.as_deref().unwrap_or(&entry.object);
            let held = array(before, "/metadata/finalizers").next().is_some();
            self.of_id.get(text(&entry.object, "/spec/providerID")).filter(|_| held)
        };
        let Some(machine) = place.map(|place| &ground.cloud.books()[*place]) else { return Ok(()) };
        if machine.ended.is_some() {
            return Ok(());
        }
        let message = format!("{kind} {} is gone while {} runs", entry.key, machine.instance.id);
        Err(Broken::new(message).about(kind, &*entry.key))
    }
}
