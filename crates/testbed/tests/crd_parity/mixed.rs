//! NodePools, NodeClaims and NodeOverlays with several things said at once, right and wrong, chosen by a seed.

use serde_json::{Value, json};

use crate::{
    case::{Action, Case, Cases, Kind, with},
    nodeclaim, nodeoverlay, nodepool,
    random::Random,
    values,
};

const SEED: u64 = 15;
const PER_KIND: usize = 60;

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(SEED);
    let mut all = Vec::new();
    for (kind, base, fields) in [
        (Kind::NodePool, nodepool::base(), pool_fields()),
        (Kind::NodeClaim, nodeclaim::base(), claim_fields()),
        (Kind::NodeOverlay, nodeoverlay::base(), overlay_fields()),
    ] {
        let mut cases = Cases::new(kind, base.clone());
        for number in 0..PER_KIND {
            let object = mix(&mut random, &base, &fields);
            cases.push(format!("mixed {number}"), Action::Create(object));
        }
        all.extend(cases.done());
    }
    all
}

/// A place in an object, with values that are right there and values that may not be.
type Field = (&'static str, Vec<Value>, Vec<Value>);

/// Sets some fields, most of them to something right, so that neither verdict is rare.
fn mix(random: &mut Random, base: &Value, fields: &[Field]) -> Value {
    let mut object = base.clone();
    for (at, right, any) in fields {
        if random.once_in(2) {
            let choices = if random.once_in(12) { any } else { right };
            object = with(&object, at, random.pick(choices).clone());
        }
    }
    object
}

fn durations() -> Vec<Value> {
    ["0s", "90m", "1h30m", "720h"].map(|text| json!(text)).into()
}

fn right_taints() -> Vec<Value> {
    vec![
        json!([]),
        json!([{ "key": "a", "effect": "NoSchedule" }]),
        json!([{ "key": "a.b/c", "value": "d", "effect": "NoExecute" }, { "key": "e", "effect": "PreferNoSchedule" }]),
    ]
}

fn right_requirements() -> Vec<Value> {
    vec![
        json!([]),
        json!([{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"] }]),
        json!([{ "key": "cpu", "operator": "Gte", "values": ["4"] }, { "key": "cpu", "operator": "Lt", "values": ["64"] }]),
        json!([{ "key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"] }]),
    ]
}

fn pool_fields() -> Vec<Field> {
    vec![
        (
            "/spec/template/metadata/labels",
            vec![json!({}), json!({ "team": "a" })],
            vec![json!({ "karpenter.sh/x": "a" })],
        ),
        (
            "/spec/template/metadata/annotations",
            vec![json!({}), json!({ "a": "b" })],
            vec![json!({ "a": 1 })],
        ),
        ("/spec/template/spec/taints", right_taints(), values::taints()),
        ("/spec/template/spec/startupTaints", right_taints(), values::taints()),
        ("/spec/template/spec/requirements", right_requirements(), values::requirements()),
        ("/spec/template/spec/expireAfter", durations(), values::durations()),
        ("/spec/template/spec/terminationGracePeriod", durations(), values::durations()),
        ("/spec/disruption/consolidateAfter", durations(), values::durations()),
        (
            "/spec/disruption/consolidationPolicy",
            vec![json!("WhenEmpty"), json!("Balanced")],
            vec![json!("Never")],
        ),
        (
            "/spec/disruption/budgets",
            vec![json!([]), json!([{ "nodes": "10%" }]), json!([{ "schedule": "@daily", "duration": "1h" }])],
            vec![json!([{ "nodes": "101%" }]), json!([{ "schedule": "@daily" }])],
        ),
        (
            "/spec/limits",
            vec![json!({}), json!({ "nodes": 5 })],
            vec![json!({ "cpu": "five" }), json!({ "cpu": 5 })],
        ),
        ("/spec/weight", vec![json!(1), json!(100)], values::integers(1, 100)),
        ("/spec/replicas", vec![json!(null)], values::integers(0, 10)),
    ]
}

fn claim_fields() -> Vec<Field> {
    vec![
        ("/spec/taints", right_taints(), values::taints()),
        ("/spec/startupTaints", right_taints(), values::taints()),
        ("/spec/requirements", right_requirements(), values::requirements()),
        (
            "/spec/resources/requests",
            vec![json!({ "cpu": "1" }), json!({ "memory": 1 })],
            vec![json!({ "cpu": "one" })],
        ),
        ("/spec/expireAfter", durations(), values::durations()),
        ("/spec/terminationGracePeriod", durations(), values::durations()),
        ("/metadata/annotations", vec![json!({ "a": "b" })], vec![json!({ "a b": "c" })]),
    ]
}

fn overlay_fields() -> Vec<Field> {
    vec![
        ("/spec/requirements", right_requirements(), values::requirements()),
        ("/spec/price", vec![json!(null), json!("0.5")], vec![json!("-1"), json!("1")]),
        ("/spec/priceAdjustment", vec![json!(null)], vec![json!("+10%"), json!("10%")]),
        ("/spec/capacity", vec![json!({}), json!({ "example.com/gpu": 1 })], vec![json!({ "cpu": 1 })]),
        ("/spec/weight", vec![json!(1), json!(10_000)], values::integers(1, 10_000)),
    ]
}
