//! CapacityBuffers, in both versions.

use serde_json::{Value, json};

use crate::{
    case::{Action, Case, Cases, Kind},
    values,
};

/// A CapacityBuffer of five pods.
pub(crate) fn base(kind: Kind) -> Value {
    kind.object(json!({ "podTemplateRef": { "name": "a" }, "replicas": 5 }))
}

pub(crate) fn cases(kind: Kind) -> Vec<Case> {
    let mut cases = Cases::new(kind, base(kind));
    cases.create("/spec", [json!(null), json!({}), json!([])]);
    cases.create_without("/spec");
    for at in ["/bogus", "/spec/bogus", "/spec/podTemplateRef/namespace"] {
        cases.unknown_field(at);
    }
    cases.create(
        "/spec/provisioningStrategy",
        ["", "buffer.x-k8s.io/active-capacity", "x"].map(|text| json!(text)),
    );
    cases.create("/spec/provisioningStrategy", [json!(null), json!(1)]);
    cases.create("/spec/replicas", values::integers(0, 2_147_483_647));
    cases.create("/spec/percentage", values::integers(0, 2_147_483_647));
    cases.create("/spec/limits", [json!({}), json!(null)]);
    cases.create("/spec/limits/cpu", values::quantities());
    shapes_and_sizes(&mut cases, kind);
    cases.update("/spec/replicas", [json!(6), json!(-1)]);
    cases.update("/spec/scalableRef", [json!({ "kind": "Deployment", "name": "a" })]);
    cases.update_without("/spec/replicas");
    for status in [json!(null), json!({}), json!({ "bogus": 1 }), json!({ "provisioningStrategy": 1 })] {
        cases.status(status);
    }
    for name in [json!("a"), json!(""), json!(null)] {
        cases.status(json!({ "podTemplateRef": { "name": name } }));
    }
    for number in [json!(0), json!(-1), json!("1"), json!(2_147_483_648_i64)] {
        cases.status(json!({ "replicas": number }));
        cases.status(json!({ "podTemplateGeneration": number }));
    }
    for conditions in values::conditions() {
        cases.status(json!({ "conditions": conditions }));
    }
    cases.done()
}

/// Every way to say what the pods look like, with every way to say how many.
fn shapes_and_sizes(cases: &mut Cases, kind: Kind) {
    let template =
        [None, Some(json!({ "name": "a" })), Some(json!({ "name": "" })), Some(json!({})), Some(json!(null))];
    let workload = [
        None,
        Some(json!({ "apiGroup": "apps", "kind": "Deployment", "name": "a" })),
        Some(json!({ "kind": "Deployment", "name": "a" })),
        Some(json!({ "apiGroup": "", "kind": "", "name": "a" })),
        Some(json!({ "apiGroup": "apps", "kind": "Deployment" })),
    ];
    let sizes = [
        json!({}),
        json!({ "replicas": 1 }),
        json!({ "percentage": 10 }),
        json!({ "limits": { "cpu": "1" } }),
        json!({ "replicas": 0, "percentage": 0, "limits": {} }),
        json!({ "replicas": null, "percentage": null, "limits": null }),
    ];
    for template in &template {
        for workload in &workload {
            for size in &sizes {
                let mut spec = size.clone();
                for (field, value) in [("podTemplateRef", template), ("scalableRef", workload)] {
                    if let Some(value) = value {
                        spec[field] = value.clone();
                    }
                }
                cases.push(format!("create with spec {spec}"), Action::Create(kind.object(spec)));
            }
        }
    }
}
