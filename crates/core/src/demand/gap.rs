//! Pods that their owner is about to make: what it wants less what it has.
//!
//! Controllers make pods one request at a time, and a throttled control plane makes them wait; nodes need not.

use crate::demand::quota::Quotas;
use crate::demand::{Beliefs, Expected, Facts, Maker, Source, Withheld};

/// How long an owner may lack pods without making one before it is taken for unable to.
pub(crate) const PATIENCE: i64 = 30_000;

/// Foresees the pods that ReplicaSets, StatefulSets and Jobs are about to make.
pub(crate) struct Gap;

impl Source for Gap {
    fn name(&self) -> &'static str {
        "gap"
    }

    fn expect(&self, facts: &Facts, beliefs: &mut Beliefs) {
        let mut quotas = Quotas::new(&facts.quotas);
        for maker in &facts.makers {
            let wanted = maker.wish.pods();
            let missing = wanted.saturating_sub(maker.has);
            if missing == 0 {
                continue;
            }
            let withheld = |count, why: String, is_failure| Withheld {
                source: self.name(),
                owner: maker.owner.clone(),
                count,
                why,
                is_failure,
            };
            let template = match (obstacle(maker), &maker.template) {
                (Some(why), _) => {
                    beliefs.withheld.push(withheld(missing, why, true));
                    continue;
                }
                (None, Err(why)) => {
                    beliefs.withheld.push(withheld(missing, why.clone(), false));
                    continue;
                }
                (None, Ok(template)) => template,
            };
            let allowed = quotas.take(&template.namespace, &template.shape, missing, true);
            if let Some(quota) = allowed.limited_by {
                let why = format!("ResourceQuota {quota} leaves no room for more");
                beliefs.withheld.push(withheld(missing - allowed.count, why, false));
            }
            beliefs.ask_at(facts.now + PATIENCE - maker.stalled);
            beliefs.expected.push(Expected {
                source: self.name(),
                owner: maker.owner.clone(),
                template: template.clone(),
                first: 1,
                count: allowed.count,
                when: facts.now,
                sure: 95,
                because: format!("{} wants {wanted} pods and has {}", maker.owner, maker.has),
            });
        }
    }
}

/// Why an owner will not make its pods.
fn obstacle(maker: &Maker) -> Option<String> {
    if let Some(trouble) = &maker.trouble {
        return Some(format!("it cannot make pods: {trouble}"));
    }
    let seconds = PATIENCE / 1000;
    (maker.stalled >= PATIENCE).then(|| format!("it has made no pod in {seconds} seconds"))
}
