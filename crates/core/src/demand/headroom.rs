//! Pods for which a pool that is nearly full should have room.
//!
//! A pool counts by its nodes that run something: those that stand empty are the room that was made, and counting them would
//! make the reason for them go away as soon as they come.

use crate::demand::{Beliefs, Expected, Facts, PoolUse, Source, Template};
use crate::labels::NODE_POOL;
use crate::quantity::Quantity;
use crate::requirement::Requirement;
use crate::resources::{CPU, MEMORY};
use crate::snapshot::Shape;

/// Most pods that one pool expects.
const MOST: usize = 5_000;

/// Expects more of a pool's youngest pods while too much of it is requested.
pub(crate) struct Headroom;

impl Source for Headroom {
    fn name(&self) -> &'static str {
        "headroom"
    }

    fn expect(&self, facts: &Facts, beliefs: &mut Beliefs) {
        if facts.threshold <= 0.0 || facts.threshold >= 1.0 {
            return;
        }
        for pool in &facts.pools {
            let full: Vec<Full> = [CPU, MEMORY]
                .into_iter()
                .filter_map(|resource| Full::of(pool, resource, facts.threshold))
                .collect();
            let Some(fullest) = full.iter().max_by(|a, b| a.share.total_cmp(&b.share)) else { continue };
            let because = format!(
                "{:.0} % of the {} of NodePool {} is requested, {:.0} % is the most",
                fullest.share * 100.0,
                fullest.resource,
                pool.pool.name,
                facts.threshold * 100.0
            );
            let mut first = 1;
            for (template, count) in more(&pool.mix, &full) {
                beliefs.expected.push(Expected {
                    source: self.name(),
                    owner: pool.pool.clone(),
                    template: on_pool(template, &pool.pool.name),
                    first,
                    count,
                    when: facts.now + facts.lead,
                    sure: 50,
                    because: because.clone(),
                });
                first += count;
            }
        }
    }
}

/// A resource of which too much is requested.
struct Full {
    resource: &'static str,
    share: f64,
    /// How much should be free.
    room: f64,
}

impl Full {
    fn of(pool: &PoolUse, resource: &'static str, threshold: f64) -> Option<Self> {
        let (requested, allocatable) =
            (pool.requested.get(resource).as_f64(), pool.allocatable.get(resource).as_f64());
        let share = requested / allocatable;
        // The share must be below, not at the threshold, hence a little more.
        let room = requested * (1.0 / threshold - 1.0) * 1.000_001;
        (allocatable > 0.0 && share >= threshold).then_some(Self { resource, share, room })
    }
}

/// As many pods of a mix as fill the room that should be free, by template.
fn more<'a>(mix: &'a [Template], full: &[Full]) -> Vec<(&'a Template, u32)> {
    let mut counts: Vec<(&Template, u32)> = Vec::new();
    let mut left: Vec<(&str, f64)> = full.iter().map(|full| (full.resource, full.room)).collect();
    let helps = |template: &Template| {
        full.iter().any(|full| template.shape.requests.get(full.resource) > Quantity::default())
    };
    let mix: Vec<&Template> = mix.iter().filter(|template| helps(template)).collect();
    for template in mix.iter().cycle().take(MOST) {
        // What nobody of the mix asks for cannot be filled.
        let can_fill = left.iter().any(|(resource, room)| {
            *room > 0.0
                && mix.iter().any(|template| template.shape.requests.get(resource) > Quantity::default())
        });
        if !can_fill {
            break;
        }
        for (resource, room) in &mut left {
            *room -= template.shape.requests.get(resource).as_f64();
        }
        match counts.iter_mut().find(|(known, _)| known == template) {
            Some((_, count)) => *count += 1,
            None => counts.push((template, 1)),
        }
    }
    counts
}

/// The same template, bound to a pool.
fn on_pool(template: &Template, pool: &str) -> Template {
    let mut shape = Shape::clone(&template.shape);
    shape.node_selector.add(Requirement::any_of(NODE_POOL, &[pool]));
    Template { shape: shape.into(), ..template.clone() }
}
