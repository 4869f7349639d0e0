//! Prices and resources that overlays change.
//!
//! Types `a` and `b` cost 1 everywhere. A line of output is a pool and a type that differs from the catalog: its five prices
//! (spot in zones 1 and 2, on demand in zones 1, 2 and 3) and its extended resources.

use std::sync::Arc;

use headstart_core::overlay::{Applied, Offered, Overlay, PriceChange, apply};
use headstart_core::price::Price;
use headstart_core::types::Types;
use insta::assert_snapshot;

use crate::catalog::{instance_type, resources, well_known};
use crate::fixture::{amounts, parse, requirement};

fn types() -> Arc<Types> {
    let one = |name: &str| {
        let mut made =
            instance_type(name, resources(&[("cpu", "2"), ("memory", "2Gi"), ("pods", "9")]), "amd64");
        for offering in &mut made.offerings {
            offering.price = Price::from_dollars(1.0);
        }
        Arc::new(made)
    };
    Arc::new(["a", "b"].iter().map(|name| one(name)).collect())
}

fn overlay(line: &str) -> Overlay {
    let mut words = line.split_whitespace().skip(1);
    let mut overlay = Overlay { name: words.next().unwrap().into(), ..Overlay::default() };
    for (word, value) in words.map(|word| word.split_once('=').unwrap()) {
        match word {
            "weight" => overlay.weight = value.parse().unwrap(),
            "req" => overlay.requirements.add(requirement(value)),
            "price" => overlay.price = Some(PriceChange::price(value).unwrap()),
            "adjust" => overlay.price = Some(PriceChange::adjustment(value).unwrap()),
            "capacity" => overlay.capacity = amounts(value),
            other => panic!("unknown overlay word {other}"),
        }
    }
    overlay
}

fn overlaid(scenario: &str) -> (Arc<Types>, Applied, Vec<Arc<str>>) {
    let is_overlay = |line: &&str| line.trim_start().starts_with("overlay");
    let overlays: Vec<_> = scenario.lines().filter(is_overlay).map(overlay).collect();
    let rest: Vec<_> = scenario.lines().filter(|line| !is_overlay(line)).collect();
    let snapshot = parse(&rest.join("\n"));
    let types = types();
    let pools: Vec<_> = snapshot
        .pools
        .iter()
        .map(|pool| Offered { pool: &pool.name, labels: &pool.labels, types: types.clone() })
        .collect();
    let applied = apply(&pools, &overlays, &well_known());
    (types, applied, snapshot.pools.iter().map(|pool| pool.name.clone()).collect())
}

fn shown(scenario: &str) -> String {
    let (types, applied, names) = overlaid(scenario);
    let mut lines = Vec::new();
    for (name, pool) in names.iter().zip(&applied.pools) {
        for (before, after) in types.iter().zip(pool.types.iter()).filter(|(before, after)| before != after) {
            let prices: Vec<_> = after.offerings.iter().map(|offering| offering.price.to_string()).collect();
            let more = after.capacity.iter().filter(|(name, _)| before.capacity.listed(name).is_none());
            let more: Vec<_> = more.map(|(name, amount)| format!(", {name} {amount}")).collect();
            lines.push(format!("{name} {}: {}{}", after.name, prices.join(" "), more.concat()));
        }
    }
    for conflict in &applied.conflicts {
        let (over, pool, of_type) = (&conflict.over, &conflict.pool, &conflict.instance_type);
        lines.push(format!(
            "{} conflicts with {} over {over} of {of_type} in {pool}",
            conflict.overlay, conflict.with
        ));
    }
    lines.join("\n")
}

#[test]
fn an_overlay_changes_the_offerings_it_matches() {
    assert_snapshot!(shown("
        pool p
        overlay o req=type:In:a req=capacity:In:spot price=0.25
    "), @"p a: 0.25 0.25 1 1 1");
    assert_snapshot!(shown("
        pool p
        overlay o req=zone:NotIn:zone-1 adjust=+0.1
    "), @r"
        p a: 1 1.1 1 1.1 1.1
        p b: 1 1.1 1 1.1 1.1
    ");
}

#[test]
fn changes_are_exact_and_stop_at_zero() {
    let with = |adjust: &str| {
        shown(&format!(
            "
        pool p
        overlay o req=type:In:a req=zone:In:zone-3 adjust={adjust}
    "
        ))
    };
    assert_snapshot!(with("-0.333333333"), @"p a: 1 1 1 1 0.666666667");
    assert_snapshot!(with("-33.3%"), @"p a: 1 1 1 1 0.667");
    assert_snapshot!(with("+12.34567%"), @"p a: 1 1 1 1 1.1234567");
    assert_snapshot!(with("-100%"), @"p a: 1 1 1 1 0");
    assert_snapshot!(with("-7"), @"p a: 1 1 1 1 0");
}

#[test]
fn an_overlay_can_be_about_some_pools_only() {
    assert_snapshot!(shown("
        pool p
        pool q label=team:blue
        overlay by-name req=pool:In:p price=2
        overlay by-label req=team:In:blue capacity=fake.com/nic:1
        overlay nowhere req=team:In:red price=9
        overlay undefined req=squad:Exists price=9
    "), @r"
        p a: 2 2 2 2 2
        p b: 2 2 2 2 2
        q a: 1 1 1 1 1, fake.com/nic 1
        q b: 1 1 1 1 1, fake.com/nic 1
    ");
}

#[test]
fn capacity_comes_with_any_offering_that_matches() {
    assert_snapshot!(shown("
        pool p
        overlay o req=type:In:b req=zone:In:zone-3 capacity=fake.com/nic:4
    "), @"p b: 1 1 1 1 1, fake.com/nic 4");
}

#[test]
fn the_heavier_overlay_writes_first() {
    assert_snapshot!(shown("
        pool p
        overlay light weight=1 req=type:In:a price=3 capacity=fake.com/x:1,fake.com/y:1
        overlay heavy weight=2 req=type:In:a req=capacity:In:spot price=2 capacity=fake.com/x:2
    "), @"p a: 2 2 3 3 3, fake.com/x 2, fake.com/y 1");
}

#[test]
fn equal_weights_conflict_where_they_overlap_and_the_later_name_stays() {
    assert_snapshot!(shown("
        pool p
        overlay m req=type:In:a price=2
        overlay n req=capacity:In:spot price=3
    "), @r"
        p a: 3 3 1 1 1
        p b: 3 3 1 1 1
        m conflicts with n over the spot price in zone-1 of a in p
    ");
    assert_snapshot!(shown("
        pool p
        overlay m req=type:In:a price=2 capacity=fake.com/x:1
        overlay n req=type:In:b price=3 capacity=fake.com/x:2
    "), @r"
        p a: 2 2 2 2 2, fake.com/x 1
        p b: 3 3 3 3 3, fake.com/x 2
    ");
}

#[test]
fn an_overlay_that_conflicts_in_one_pool_is_applied_in_none() {
    assert_snapshot!(shown("
        pool p
        pool q
        overlay m price=2 capacity=fake.com/x:1
        overlay n req=pool:In:q price=3
    "), @r"
        q a: 3 3 3 3 3
        q b: 3 3 3 3 3
        m conflicts with n over the spot price in zone-1 of a in q
    ");
}

#[test]
fn overlays_conflict_even_over_a_price_that_neither_of_them_sets() {
    assert_snapshot!(shown("
        pool p
        overlay first weight=3 req=type:In:a price=2
        overlay second weight=2 req=type:In:a price=3
        overlay third weight=2 req=type:In:a req=zone:In:zone-3 price=4
    "), @r"
        p a: 2 2 2 2 2
        second conflicts with third over the on-demand price in zone-3 of a in p
    ");
}

#[test]
fn resources_conflict_only_with_the_overlay_just_before() {
    assert_snapshot!(shown("
        pool p
        overlay c req=type:In:a capacity=fake.com/x:1
        overlay b req=type:In:a capacity=fake.com/x:2
        overlay a req=type:In:a capacity=fake.com/y:3
    "), @r"
        p a: 1 1 1 1 1, fake.com/x 1, fake.com/y 3
        b conflicts with c over fake.com/x of a in p
    ");
    assert_snapshot!(shown("
        pool p
        overlay c req=type:In:a capacity=fake.com/x:1
        overlay b req=type:In:a capacity=fake.com/y:2
        overlay a req=type:In:a capacity=fake.com/x:3
    "), @"p a: 1 1 1 1 1, fake.com/x 1, fake.com/y 2");
}

#[test]
fn an_overlay_without_changes_disturbs_nobody() {
    assert_snapshot!(shown("
        pool p
        overlay m
        overlay n req=type:In:a price=2
    "), @"p a: 2 2 2 2 2");
}

#[test]
fn untouched_types_are_shared_with_the_catalog_and_equal_pools_with_each_other() {
    let (types, applied, _) = overlaid(
        "
        pool p
        pool q
        pool r
        overlay o req=type:In:a req=pool:NotIn:r price=2
    ",
    );
    let [p, q, r] = &applied.pools[..] else { panic!("three pools") };
    assert!(Arc::ptr_eq(&r.types, &types));
    assert!(Arc::ptr_eq(&p.types, &q.types) && Arc::ptr_eq(&p.types[1], &types[1]));
    assert_eq!((p.priced.len(), p.extended.len(), r.priced.len()), (1, 0, 0));
}

#[test]
fn price_changes_are_read_as_the_schema_writes_them() {
    for good in ["0", "12", "0.5"] {
        assert!(PriceChange::price(good).is_ok(), "{good}");
    }
    for bad in ["", "-1", "+1", ".5", "1.", "1%", "one", "1e3"] {
        assert!(PriceChange::price(bad).is_err(), "{bad}");
    }
    for good in ["+1", "-0.5", "+.5", "+150%", "+.5%", "-99.9%", "-5%", "-100%"] {
        assert!(PriceChange::adjustment(good).is_ok(), "{good}");
    }
    for bad in ["", "1", "+", "+%", "++1", "+1.", "-.5%", "-101%", "-100.0%", "10%", "+1%%", "-é%"] {
        assert!(PriceChange::adjustment(bad).is_err(), "{bad}");
    }
}
