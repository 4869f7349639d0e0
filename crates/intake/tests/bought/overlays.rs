//! Overlays in manifests: what pools can buy with them, and what is said about those that cannot be used.

use headstart_core::labels::WellKnown;
use headstart_intake::{World, read};
use insta::assert_snapshot;

use crate::catalog::catalog;

/// For each pool its types with spot and on-demand price and capacity, then what was wrong.
fn shown(overlays: &str) -> String {
    let pool = "
kind: NodePool
metadata: {name: p}
spec: {template: {metadata: {labels: {team: blue}}, spec: {}}}
---
kind: NodePool
metadata: {name: held}
spec: {replicas: 1, template: {spec: {}}}
---
";
    let mut world = World::new();
    read("manifest", &format!("{pool}{overlays}")).0.into_iter().for_each(|document| world.add(document));
    let taken = world.snapshot(&catalog(), &WellKnown::default());
    let mut lines = Vec::new();
    for pool in &taken.snapshot.pools {
        for known in pool.types.iter() {
            let prices: Vec<_> = known.offerings.iter().map(|offering| offering.price.to_string()).collect();
            let more = known.capacity.iter().filter(|(name, _)| name.contains('/'));
            let more: Vec<_> = more.map(|(name, amount)| format!(" {name} {amount}")).collect();
            lines.push(format!("{} {} {}{}", pool.name, known.name, prices.join(" "), more.concat()));
        }
    }
    assert_eq!(
        taken.conflicts.len(),
        taken.diagnostics.iter().filter(|d| d.message.contains("same weight")).count()
    );
    lines.extend(taken.diagnostics.iter().map(|diagnostic| format!("! {diagnostic}")));
    lines.join("\n")
}

#[test]
fn pools_buy_at_the_prices_of_overlays() {
    assert_snapshot!(shown("
kind: NodeOverlay
metadata: {name: discount}
spec:
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}, {key: team, operator: Exists}]
  priceAdjustment: -12.5%
---
kind: NodeOverlay
metadata: {name: nic}
spec:
  weight: 10
  requirements: [{key: beta.kubernetes.io/instance-type, operator: In, values: [b]}]
  capacity: {example.com/nic: '2'}
"), @r"
        p a 0.875 0.875 1 1
        p b 0.875 0.875 1 1 example.com/nic 2
    ");
}

#[test]
fn a_conflict_may_be_with_a_pool_that_buys_nothing() {
    assert_snapshot!(shown("
kind: NodeOverlay
metadata: {name: first}
spec: {requirements: [], price: '2'}
---
kind: NodeOverlay
metadata: {name: second}
spec: {requirements: [{key: karpenter.sh/nodepool, operator: In, values: [held]}], price: '3'}
"), @r"
        p a 1 1 1 1
        p b 1 1 1 1
        ! NodeOverlay first: spec.weight: not applied: NodeOverlay second has the same weight and also sets the spot price in east of a for NodePool held
    ");
}

#[test]
fn a_bad_overlay_is_not_applied_and_its_field_is_named() {
    let with = |spec: &str| {
        let text = shown(&format!("{{kind: NodeOverlay, metadata: {{name: o}}, spec: {{{spec}}}}}"));
        text.lines()
            .skip(2)
            .map(|line| line.trim_start_matches("! NodeOverlay o: ").to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let one = |requirement: &str| with(&format!("requirements: [{{{requirement}}}]"));
    let all = [
        with("weight: 1"),
        with("requirements: [], weight: 0"),
        with("requirements: [], priceAdjustment: '+1', price: '1'"),
        with("requirements: [], priceAdjustment: '1'"),
        with("requirements: [], price: '-1'"),
        with("requirements: [], capacity: {memory: 1Gi}"),
        with("requirements: [], capacity: {example.com/x: one}"),
        one("key: karpenter.sh/custom, operator: Exists"),
        one("key: kubernetes.io/hostname, operator: Exists"),
        one("key: 'a b', operator: Exists"),
        one("key: a, operator: In, values: ['a b']"),
        one("key: a, operator: In"),
        one("key: a, operator: NotIn, values: []"),
        one("key: a, operator: Gt, values: ['1', '2']"),
        one("key: a, operator: Like"),
        one("key: karpenter.sh/capacity-type, operator: In, values: [free]"),
    ];
    assert_snapshot!(all.join("\n"), @r#"
        spec.requirements: must be given
        spec.weight: must be between 1 and 10000
        spec.priceAdjustment: cannot be given together with price
        spec.priceAdjustment: must be a signed decimal number or a signed percentage of at least -100%
        spec.price: must be a decimal number without a sign
        spec.capacity.memory: is no extended resource
        spec.capacity.example.com/x: "one" has the unknown quantity suffix "one"
        spec.requirements[0].key: label karpenter.sh/custom belongs to Karpenter
        spec.requirements[0].key: label kubernetes.io/hostname belongs to Karpenter
        spec.requirements[0].key: must have a name of 1 to 63 letters, digits, '-', '_' or '.' that starts and ends with a letter or digit
        spec.requirements[0].values[0]: must be at most 63 letters, digits, '-', '_' or '.' and start and end with a letter or digit
        spec.requirements[0].values: operator In needs a value
        spec.requirements[0].values: operator NotIn needs a value
        spec.requirements[0].values: operator Gt needs one integer that is not negative
        spec.requirements[0].operator: unknown operator "Like"
        spec.requirements[0].values: names no capacity type: spot, on-demand or reserved
    "#);
}
