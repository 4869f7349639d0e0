//! What a cloud says about itself.

use std::future::ready;

use headstart_core::price::Price;

use super::{Bench, Checked, Point, ensure, equal};
use crate::repair::RepairAction;

pub(super) const POINTS: &[Point] = &[
    ("the cloud has a name and a kind of node class", |bench| Box::pin(ready(named(bench)))),
    ("the catalog sells what it names", |bench| Box::pin(catalog(bench))),
    ("repair policies have one fallback, which replaces", |bench| Box::pin(ready(repair(bench)))),
];

fn named(bench: &Bench<'_>) -> Checked {
    let (name, class) = (bench.cloud().name(), bench.harness.class());
    let lower = |c: char| c.is_ascii_lowercase() || c == '-';
    ensure(!name.is_empty() && name.chars().all(lower), || format!("the name is {name:?}"))?;
    let kinds = bench.cloud().node_classes();
    let supported = kinds.iter().any(|kind| kind.group == class.group && kind.kind == class.kind);
    ensure(supported, || format!("{class} is none of {kinds:?}"))
}

async fn catalog(bench: &Bench<'_>) -> Checked {
    let catalog = bench.cloud().catalog(&bench.harness.class()).await?;
    let offerings = bench.harness.offerings();
    ensure(offerings.len() >= 3, || "the harness must name three offerings".to_owned())?;
    for key in &offerings {
        let found = catalog.offering(key);
        ensure(found.is_some(), || format!("{key} is not in the catalog"))?;
    }
    for t in catalog.types().iter() {
        for o in &t.offerings {
            let whole = !o.zone().is_empty() && !o.capacity_type().is_empty() && o.price >= Price::ZERO;
            ensure(whole, || format!("an offering of {} lacks zone, capacity type or price", t.name))?;
        }
    }
    Ok(())
}

fn repair(bench: &Bench<'_>) -> Checked {
    let policies = bench.cloud().repair_policies();
    let fallbacks: Vec<_> = policies.iter().filter(|policy| policy.reason.is_none()).collect();
    equal("the number of fallbacks", &fallbacks.len(), &1)?;
    equal("the fallback's action", &fallbacks[0].action, &RepairAction::Replace)?;
    ensure(policies.iter().all(|policy| policy.priority <= 100), || "a priority is above 100".to_owned())
}
