//! NodeOverlays.

use serde_json::{Value, json};

use crate::{
    case::{Case, Cases, Kind},
    values,
};

/// A NodeOverlay with little in it.
pub(crate) fn base() -> Value {
    Kind::NodeOverlay.object(json!({ "requirements": [{ "key": "a", "operator": "Exists" }] }))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Cases::new(Kind::NodeOverlay, base());
    cases.create("/spec", [json!(null), json!({}), json!([])]);
    cases.create_without("/spec");
    for at in ["/bogus", "/spec/bogus"] {
        cases.unknown_field(at);
    }
    cases.create("/spec/requirements", values::requirements());
    cases.create("/spec/requirements", [json!([{ "key": "a", "operator": "Exists", "minValues": 1 }])]);
    cases.create_without("/spec/requirements");
    let prices =
        ["0", "1", "0.5", "1.", ".5", "-1", "+1", "1e3", "1,5", "", "a", "00.10", "1.5.5", "1%", " 1"];
    cases.create("/spec/price", prices.map(|price| json!(price)));
    cases.create("/spec/price", [json!(1), json!(0.5), json!(null)]);
    let adjustments = [
        "+1", "-1", "+0.1", "-0.5", "+.5", "-.5", "+1.", "1", "0.5", "+10%", "+1000%", "+0.5%", "+.5%",
        "10%", "-0%", "-10%", "-99%", "-99.9%", "-100%", "-100.0%", "-101%", "-100.1%", "-1000%", "--1",
        "+-1", "%", "+%", "-%", "", "+", "+1 %", "a", "-100", "+1%%",
    ];
    cases.create("/spec/priceAdjustment", adjustments.map(|adjustment| json!(adjustment)));
    cases.create("/spec/priceAdjustment", [json!(1), json!(null)]);
    cases.create_with_fields(&[("/spec/price", json!("1")), ("/spec/priceAdjustment", json!("+1"))]);
    cases.create_with_fields(&[("/spec/price", json!("1")), ("/spec/priceAdjustment", json!("1"))]);
    cases.create("/spec/capacity", [json!({}), json!(null), json!([])]);
    for resource in
        ["cpu", "memory", "ephemeral-storage", "pods", "nodes", "hugepages-2Mi", "example.com~1gpu", "CPU"]
    {
        cases.create(&format!("/spec/capacity/{resource}"), [json!("1")]);
    }
    cases.create("/spec/capacity/example.com~1gpu", values::quantities());
    cases.create("/spec/weight", values::integers(1, 10000));
    cases.update("/spec/weight", [json!(7), json!(0)]);
    cases.update("/spec/price", [json!("1"), json!("-1")]);
    for status in [json!(null), json!({}), json!({ "bogus": 1 })] {
        cases.status(status);
    }
    for conditions in values::conditions() {
        cases.status(json!({ "conditions": conditions }));
    }
    cases.done()
}
