//! NodePools.

use serde_json::{Value, json};

use crate::{
    case::{Action, Case, Cases, Kind, with},
    values,
};

const TEMPLATE: &str = "/spec/template/spec";

/// A NodePool with little in it.
pub(crate) fn base() -> Value {
    Kind::NodePool.object(json!({ "template": { "spec": {
        "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
        "requirements": []
    } } }))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Cases::new(Kind::NodePool, base());
    cases.create("/metadata/labels", [json!({ "a": "b" })]);
    cases.create("/spec", [json!(null), json!({}), json!([]), json!("a")]);
    cases
        .create("/spec/template", [json!(null), json!({}), json!({ "spec": {} }), json!({ "metadata": {} })]);
    for at in ["/spec", "/spec/template", "/spec/template/spec"] {
        cases.create_without(at);
    }
    for at in [
        "/bogus",
        "/spec/bogus",
        "/spec/template/bogus",
        "/spec/template/metadata/name",
        "/spec/disruption/bogus",
    ] {
        cases.unknown_field(at);
    }
    cases.create("/spec/weight", values::integers(1, 100));
    cases.create("/spec/weight", [json!(2_147_483_648_i64)]);
    cases.create("/spec/replicas", values::integers(0, 9_223_372_036_854_775_807));
    cases.create("/spec/limits", [json!({}), json!(null), json!([]), json!("a")]);
    cases.create("/spec/limits/cpu", values::quantities());
    cases.create("/spec/limits/example.com~1gpu", [json!("1")]);
    static_pools(&mut cases);
    disruption(&mut cases);
    metadata(&mut cases);
    template(&mut cases);
    updates(&mut cases);
    status(&mut cases);
    applies(&mut cases);
    cases.done()
}

/// Replicas forbid a weight, and limits on anything but nodes.
fn static_pools(cases: &mut Cases) {
    for replicas in [json!(0), json!(3)] {
        for weight in [None, Some(json!(1))] {
            let limits = [
                None,
                Some(json!({})),
                Some(json!({ "nodes": "5" })),
                Some(json!({ "cpu": "5" })),
                Some(json!({ "nodes": 5, "cpu": "5" })),
            ];
            for limits in limits {
                let optional = [("/spec/weight", weight.clone()), ("/spec/limits", limits)];
                let mut fields = vec![("/spec/replicas", replicas.clone())];
                fields.extend(optional.into_iter().filter_map(|(at, value)| Some((at, value?))));
                cases.create_with_fields(&fields);
            }
        }
    }
}

fn disruption(cases: &mut Cases) {
    cases
        .create("/spec/disruption", [json!({}), json!(null), json!([]), json!({ "consolidateAfter": "5m" })]);
    cases.create("/spec/disruption/consolidateAfter", values::durations());
    let policies =
        ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced", "WhenUnderutilized", "", "whenempty"];
    cases.create("/spec/disruption/consolidationPolicy", policies.map(|policy| json!(policy)));
    cases.create("/spec/disruption/consolidationPolicy", [json!(null), json!(1)]);

    let budgets = "/spec/disruption/budgets";
    cases.create(budgets, [json!([]), json!(null), json!([{}]), json!([null]), json!({})]);
    let nodes = [
        "0",
        "1",
        "007",
        "99999999999",
        "0%",
        "9%",
        "99%",
        "100%",
        "101%",
        "100",
        "%",
        "",
        "-1",
        "1.5",
        "10 %",
        "a",
    ];
    cases.create(budgets, nodes.map(|nodes| json!([{ "nodes": nodes }])));
    cases.create(
        budgets,
        [json!([{ "nodes": 1 }]), json!([{ "nodes": null }]), json!([{ "nodes": "1", "bogus": 1 }])],
    );
    let reasons = [
        json!([]),
        json!(null),
        json!(["Underutilized"]),
        json!(["Underutilized", "Empty", "Drifted", "Unhealthy"]),
        json!(["Empty", "Empty"]),
        json!(["Expired"]),
        json!(["empty"]),
        json!([""]),
        json!("Empty"),
    ];
    cases.create(budgets, reasons.map(|reasons| json!([{ "nodes": "1", "reasons": reasons }])));
    let schedules = [
        "@annually",
        "@yearly",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
        "@reboot",
        "@every 1h",
        "@dailyish",
        "* * * * *",
        "0 8-18 * * MON-FRI",
        "* * * *",
        "* * * * * *",
        "a b c d e",
        "",
        "TZ=UTC * * * * *",
        "x @daily",
    ];
    cases.create(
        budgets,
        schedules.map(|schedule| json!([{ "nodes": "1", "schedule": schedule, "duration": "1h" }])),
    );
    let durations = [
        "1h", "1m", "90m", "1h30m", "1h30m0s", "10h0m0s", "1h0s", "0h", "30s", "1m1h", "1h30m15s", "",
        "1.5h", "-1h", "Never", "1d",
    ];
    cases.create(
        budgets,
        durations.map(|duration| json!([{ "nodes": "1", "schedule": "@daily", "duration": duration }])),
    );
    cases.create(
        budgets,
        [
            json!([{ "nodes": "1", "schedule": "@daily" }]),
            json!([{ "nodes": "1", "duration": "1h" }]),
            json!([{ "nodes": "1" }, { "nodes": "2", "duration": "1h" }]),
        ],
    );
    for count in [49, 50, 51] {
        let list: Value = (0..count).map(|i| json!({ "nodes": i.to_string() })).collect();
        cases.push(format!("create with {count} budgets"), Action::Create(with(&base(), budgets, list)));
    }
}

fn metadata(cases: &mut Cases) {
    let metadata = "/spec/template/metadata";
    cases.create(metadata, [json!({}), json!(null), json!([])]);
    let labels = format!("{metadata}/labels");
    cases.create(&labels, [json!({}), json!(null), json!([])]);
    cases.create(&labels, values::label_values().into_iter().map(|value| json!({ "a": value })));
    let keys = values::qualified_names().into_iter().chain(values::owned_keys());
    let labelled = |key: Value| json!({ key.as_str().expect("a text"): "x" });
    cases.create(&labels, keys.map(labelled));
    for count in [99, 100, 101] {
        let map: Value =
            (0..count).map(|i| (format!("key-{i}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
        cases.push(format!("create with {count} labels"), Action::Create(with(&base(), &labels, map)));
    }
    let annotations = format!("{metadata}/annotations");
    cases.create(
        &annotations,
        [json!({}), json!(null), json!({ "any key": "any value" }), json!({ "a": 1 }), json!({ "a": null })],
    );
}

fn template(cases: &mut Cases) {
    let at = |field: &str| format!("{TEMPLATE}/{field}");
    cases.create(&at("taints"), values::taints());
    cases.create(&at("startupTaints"), values::taints());
    cases.create(&at("requirements"), values::requirements());
    cases.create(&at("requirements"), values::min_values());
    cases.create_without(&at("requirements"));
    cases.create_without(&at("nodeClassRef"));
    cases.create(&at("nodeClassRef"), [json!(null), json!({})]);
    for field in ["group", "kind", "name"] {
        let field = at(&format!("nodeClassRef/{field}"));
        cases.create(&field, ["", "a", "a/b", "/", " "].map(|text| json!(text)));
        cases.create(&field, [json!(null), json!(1)]);
        cases.create_without(&field);
    }
    cases.unknown_field(&at("nodeClassRef/apiVersion"));
    cases.create(&at("terminationGracePeriod"), values::durations());
    cases.create(&at("expireAfter"), values::durations());
    cases.unknown_field(&at("resources"));
}

fn updates(cases: &mut Cases) {
    cases.update("/spec/weight", [json!(7), json!(0)]);
    cases.update("/spec/replicas", [json!(1)]);
    for field in ["group", "kind", "name"] {
        cases.update(&format!("{TEMPLATE}/nodeClassRef/{field}"), [json!("other"), json!("")]);
    }
    cases.update(&format!("{TEMPLATE}/expireAfter"), [json!("1h"), json!("soon")]);
    cases.update("/metadata/labels", [json!({ "a": "b" })]);
    let fixed = with(&base(), "/spec/replicas", json!(3));
    let changes = [
        ("another count", with(&fixed, "/spec/replicas", json!(4))),
        ("a wrong count", with(&fixed, "/spec/replicas", json!(-1))),
        ("no count", base()),
        ("a null count", with(&fixed, "/spec/replicas", json!(null))),
        ("a weight", with(&fixed, "/spec/weight", json!(1))),
    ];
    for (what, after) in changes {
        cases.push(format!("update a static one to {what}"), Action::Update(fixed.clone(), after));
    }
    for replicas in [json!(0), json!(5), json!(-1), json!(null)] {
        let scale = json!({ "spec": { "replicas": replicas } });
        cases.push(format!("scale a static one to {replicas}"), Action::Scale(fixed.clone(), scale.clone()));
        cases.push(format!("scale a dynamic one to {replicas}"), Action::Scale(base(), scale));
    }
}

fn status(cases: &mut Cases) {
    cases.create("/status", [json!({ "nodes": 7 }), json!({ "nodes": "seven" }), json!(null)]);
    for status in [json!(null), json!({}), json!({ "bogus": 1 }), json!({ "resources": {} })] {
        cases.status(status);
    }
    for nodes in [json!(0), json!(7), json!(-1), json!("7"), json!(null)] {
        cases.status(json!({ "nodes": nodes }));
    }
    for generation in [json!(0), json!(7), json!("7"), json!(null)] {
        cases.status(json!({ "nodeClassObservedGeneration": generation }));
    }
    for quantity in [json!("1"), json!(1), json!("one"), json!(null)] {
        cases.status(json!({ "resources": { "cpu": quantity } }));
    }
    for conditions in values::conditions() {
        cases.status(json!({ "conditions": conditions }));
    }
}

/// Two managers: annotations can be shared, labels and lists cannot.
fn applies(cases: &mut Cases) {
    let pairs = [
        ("/spec/template/metadata/annotations", json!({ "a": "1" }), json!({ "b": "2" })),
        ("/spec/template/metadata/labels", json!({ "a": "1" }), json!({ "b": "2" })),
        ("/spec/limits", json!({ "cpu": "1" }), json!({ "memory": "1Gi" })),
        (
            "/spec/template/spec/taints",
            json!([{ "key": "a", "effect": "NoSchedule" }]),
            json!([{ "key": "b", "effect": "NoSchedule" }]),
        ),
        ("/spec/disruption/budgets", json!([{ "nodes": "1" }]), json!([{ "nodes": "2" }])),
        ("/spec/weight", json!(1), json!(2)),
    ];
    for (at, first, second) in pairs {
        let action = Action::Apply(vec![with(&base(), at, first), with(&base(), at, second)]);
        cases.push(format!("apply two different {at}"), action);
    }
}
