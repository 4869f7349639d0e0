//! Nodes that only expected pods need cost no more than was allowed.

use headstart_engine::Kind;

use super::{Broken, Check};
use crate::ground::{Fact, Ground};
use crate::truth::{is_spare, waits};

pub(super) struct SpendingCapped {
    dollars: f64,
}

impl SpendingCapped {
    pub(super) fn new(cents: u32) -> Self {
        Self { dollars: f64::from(cents) / 100.0 }
    }
}

impl Check for SpendingCapped {
    fn name(&self) -> &'static str {
        "spending_capped"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Launched(place) = fact else { return Ok(()) };
        let bought = &ground.cloud.books()[*place];
        // While pods wait, nobody can tell from outside which nodes are for them.
        if !is_spare(ground, bought) || ground.api.all(Kind::Pod).any(|(_, pod)| waits(pod)) {
            return Ok(());
        }
        let spare = ground.cloud.living().filter(|machine| is_spare(ground, machine));
        let sold = spare.filter_map(|machine| ground.cloud.catalog().offering(&machine.instance.offering));
        let spent: f64 = sold.map(|(_, offering)| offering.price.dollars()).sum();
        if spent <= self.dollars + 1e-9 {
            return Ok(());
        }
        let message =
            format!("nodes that no pod uses cost ${spent:.4} an hour, ${} may be spent", self.dollars);
        Err(Broken::new(message).about(Kind::NodeClaim, format!("/{}", bought.request.claim)))
    }
}
