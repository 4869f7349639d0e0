//! NodeClaims.

use serde_json::{Value, json};

use crate::{
    case::{Action, Case, Cases, Kind, with},
    values,
};

/// A NodeClaim with little in it.
pub(crate) fn base() -> Value {
    Kind::NodeClaim.object(json!({
        "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
        "requirements": [{ "key": "a", "operator": "In", "values": ["b"] }]
    }))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Cases::new(Kind::NodeClaim, base());
    cases.create("/spec", [json!(null), json!({}), json!([])]);
    cases.create_without("/spec");
    for at in ["/bogus", "/spec/bogus", "/spec/resources/limits", "/spec/nodeClassRef/apiVersion"] {
        cases.unknown_field(at);
    }
    cases.create("/spec/taints", values::taints());
    cases.create("/spec/startupTaints", values::taints());
    cases.create("/spec/requirements", values::requirements());
    cases.create("/spec/requirements", values::min_values());
    cases.create_without("/spec/requirements");
    cases.create_without("/spec/nodeClassRef");
    for field in ["group", "kind", "name"] {
        let field = format!("/spec/nodeClassRef/{field}");
        cases.create(&field, ["", "a/b"].map(|text| json!(text)));
        cases.create_without(&field);
    }
    cases.create(
        "/spec/resources",
        [json!({}), json!(null), json!({ "requests": {} }), json!({ "requests": null })],
    );
    cases.create("/spec/resources/requests/cpu", values::quantities());
    cases.create("/spec/terminationGracePeriod", values::durations());
    cases.create("/spec/expireAfter", values::durations());
    updates(&mut cases);
    status(&mut cases);
    cases.done()
}

/// Nothing in the spec may change, but writing out a default is no change.
fn updates(cases: &mut Cases) {
    cases.update("/metadata/labels", [json!({ "a": "b" })]);
    cases.update("/metadata/annotations", [json!({ "a": "b" })]);
    cases.update("/spec/expireAfter", [json!("720h"), json!("720h0m0s"), json!("1h"), json!("Never")]);
    cases.update("/spec/terminationGracePeriod", [json!("1h")]);
    cases.update("/spec/taints", [json!([]), json!([{ "key": "a", "effect": "NoSchedule" }])]);
    cases.update("/spec/startupTaints", [json!([{ "key": "a", "effect": "NoSchedule" }])]);
    cases.update(
        "/spec/requirements",
        [json!([]), json!([{ "key": "a", "operator": "In", "values": ["b"] }])],
    );
    cases.update("/spec/resources", [json!({}), json!({ "requests": { "cpu": "1" } })]);
    for field in ["group", "kind", "name"] {
        cases.update(&format!("/spec/nodeClassRef/{field}"), [json!("other")]);
    }
    cases.update_without("/spec/requirements");
    cases.update("/spec/bogus", [json!(1)]);
    let requests = |quantity: Value| with(&base(), "/spec/resources/requests", json!({ "cpu": quantity }));
    for (before, after) in [("1", json!("1")), ("1", json!(1)), ("1", json!("1000m")), ("1", json!("2"))] {
        let action = Action::Update(requests(json!(before)), requests(after.clone()));
        cases.push(format!("update requests from \"{before}\" to {after}"), action);
    }
}

fn status(cases: &mut Cases) {
    for status in [json!(null), json!({}), json!({ "bogus": 1 })] {
        cases.status(status);
    }
    for field in ["nodeName", "providerID", "imageID"] {
        for value in [json!("a"), json!(""), json!(1), json!(null)] {
            cases.status(json!({ field: value }));
        }
    }
    for field in ["capacity", "allocatable"] {
        for quantity in [json!("1"), json!(1), json!("one"), json!(1.5), json!(null)] {
            cases.status(json!({ field: { "cpu": quantity } }));
        }
    }
    for time in values::times() {
        cases.status(json!({ "lastPodEventTime": time }));
    }
    for conditions in values::conditions() {
        cases.status(json!({ "conditions": conditions }));
    }
}
