//! Values around the edges of the rules: the last that is right, the first that is wrong, and the wrong type.

use serde_json::{Value, json};

/// Integers around the ends of a range, and things that are no integers.
pub(crate) fn integers(min: i64, max: i64) -> Vec<Value> {
    let mut values: Vec<Value> =
        [min - 1, min, min + 1, max - 1, max].into_iter().map(|number| json!(number)).collect();
    values.extend(max.checked_add(1).map(|number| json!(number)));
    values.extend([json!("1"), json!(1.5), json!(2.0), json!(true), json!(null)]);
    values
}

pub(crate) fn durations() -> Vec<Value> {
    let texts = [
        "0s",
        "1s",
        "59m",
        "1h",
        "720h",
        "1h30m",
        "1h30m15s",
        "30m1h",
        "0h0m0s",
        "Never",
        "never",
        "NEVER",
        "",
        "s",
        "1",
        "1.5h",
        "-1s",
        "+1s",
        "1d",
        "1ms",
        "100us",
        " 1h",
        "1h ",
        "1h\n",
        "1 h",
        "99999999999h",
        "Never1h",
        "1hNever",
    ];
    texts.iter().map(|text| json!(text)).chain([json!(0), json!(null), json!({})]).collect()
}

pub(crate) fn quantities() -> Vec<Value> {
    let texts = [
        "0", "1", "100m", "1.5", "1.", ".5", "+1", "-1", "1Ki", "1Ei", "1k", "1K", "1Kib", "1n", "1u", "1e3",
        "1E-3", "1e", "1.5Gi", "", " 1", "1 ", "one", "0x10", "1,000", "١",
    ];
    let others = [
        json!(0),
        json!(1),
        json!(-1),
        json!(9_223_372_036_854_775_807_i64),
        json!(1.5),
        json!(true),
        json!(null),
    ];
    texts.iter().map(|text| json!(text)).chain(others).collect()
}

/// Label keys by their syntax alone.
pub(crate) fn qualified_names() -> Vec<Value> {
    let texts = [
        "a",
        "A",
        "a1",
        "a.b",
        "a_b",
        "a-b",
        "-a",
        "a-",
        ".a",
        "",
        "a/b",
        "a.b/c",
        "a.b/",
        "/b",
        "A.b/c",
        "a..b/c",
        "a.b/c/d",
        "a b",
        "a:b",
        "example.com/team",
        "example.com/Team_1.x",
        "é",
    ];
    texts.iter().map(|text| json!(text)).collect()
}

/// Label keys that belong to somebody.
pub(crate) fn owned_keys() -> Vec<Value> {
    let texts = [
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        "karpenter.sh/initialized",
        "karpenter.sh/custom",
        "sub.karpenter.sh/custom",
        "notkarpenter.sh/custom",
        "karpenter.sh",
        "custom/karpenter.sh",
        "karpenter.sh.example.com/custom",
        "karpenter.kwok.sh/instance-cpu",
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "node-role.kubernetes.io/worker",
    ];
    texts.iter().map(|text| json!(text)).collect()
}

pub(crate) fn label_values() -> Vec<Value> {
    let texts = ["", "a", "A.b_c-9", "-a", "a-", "a b", "a/b", ".", "é"];
    let long = [json!("a".repeat(63)), json!("a".repeat(64)), json!(1), json!(true), json!(null)];
    texts.iter().map(|text| json!(text)).chain(long).collect()
}

pub(crate) fn times() -> Vec<Value> {
    let texts = [
        "2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00.123456789Z",
        "2024-01-01T02:00:00+02:00",
        "2024-02-30T00:00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01",
        "2024-01-01 00:00:00Z",
        "",
        "now",
    ];
    texts.iter().map(|text| json!(text)).chain([json!(0), json!(null)]).collect()
}

/// Lists of taints.
pub(crate) fn taints() -> Vec<Value> {
    let mut lists = vec![json!([]), json!(null), json!({}), json!("a"), json!([null]), json!([{}])];
    let taint = |key: Value, effect: &str| json!([{ "key": key, "effect": effect }]);
    lists.extend(qualified_names().into_iter().map(|key| taint(key, "NoSchedule")));
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute", "", "noschedule", "NoAdmit"];
    lists.extend(effects.iter().map(|effect| taint(json!("a"), effect)));
    let values = qualified_names().into_iter().chain([json!(1), json!(null)]);
    lists.extend(values.map(|value| json!([{ "key": "a", "value": value, "effect": "NoSchedule" }])));
    lists.extend(
        times().into_iter().map(|time| json!([{ "key": "a", "effect": "NoSchedule", "timeAdded": time }])),
    );
    lists.push(json!([{ "key": "a" }]));
    lists.push(json!([{ "effect": "NoSchedule" }]));
    lists.push(json!([{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "effect": "NoSchedule" }]));
    lists.push(json!([{ "key": "a", "effect": "NoSchedule", "color": "red" }]));
    lists
}

/// Lists of requirements: every operator with no, one, several and no-number values, and limits of all fields.
pub(crate) fn requirements() -> Vec<Value> {
    let mut lists = vec![json!([]), json!(null), json!({}), json!([null]), json!([{}])];
    for operator in ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"] {
        lists.push(json!([{ "key": "a", "operator": operator }]));
        let values = [
            json!([]),
            json!(["0"]),
            json!(["1"]),
            json!(["1", "2"]),
            json!(["-1"]),
            json!(["a"]),
            json!([""]),
            json!(["1.5"]),
            json!(["9223372036854775808"]),
            json!([1]),
            json!(null),
        ];
        lists.extend(
            values.iter().map(|values| json!([{ "key": "a", "operator": operator, "values": values }])),
        );
    }
    let operators = ["", "in", "Equals", "Gt ", "Ge"];
    lists.extend(
        operators.iter().map(|operator| json!([{ "key": "a", "operator": operator, "values": ["1"] }])),
    );
    lists.extend(
        label_values().into_iter().map(|value| json!([{ "key": "a", "operator": "In", "values": [value] }])),
    );
    let keys = qualified_names().into_iter().chain(owned_keys()).chain([
        json!(format!("{}/{}", "a".repeat(252), "b".repeat(63))),
        json!(format!("{}/{}", "a".repeat(253), "b".repeat(63))),
        json!(1),
    ]);
    lists.extend(keys.map(|key| json!([{ "key": key, "operator": "Exists" }])));
    lists.push(json!([{ "operator": "Exists" }]));
    lists.push(json!([{ "key": "a" }]));
    for count in [0, 1, 99, 100, 101] {
        let one = |i| json!({ "key": format!("key-{i}"), "operator": "In", "values": ["a", "b"] });
        lists.push((0..count).map(one).collect());
    }
    lists
}

/// Lists of requirements with a minimum number of values.
pub(crate) fn min_values() -> Vec<Value> {
    let mut lists: Vec<Value> = integers(1, 50)
        .into_iter()
        .map(|min| json!([{ "key": "a", "operator": "Exists", "minValues": min }]))
        .collect();
    for (operator, count, min) in
        [("In", 1, 1), ("In", 1, 2), ("In", 2, 2), ("In", 50, 50), ("NotIn", 1, 2), ("In", 0, 1)]
    {
        let values: Vec<_> = (0..count).map(|i| format!("v{i}")).collect();
        lists.push(json!([{ "key": "a", "operator": operator, "values": values, "minValues": min }]));
    }
    lists
}

/// Lists of conditions, around the edges of every field.
pub(crate) fn conditions() -> Vec<Value> {
    let right = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"
    });
    let with = |field: &str, value: Value| {
        let mut condition = right.clone();
        condition[field] = value;
        json!([condition])
    };
    let mut lists =
        vec![json!([]), json!(null), json!([right]), json!([right, right]), json!([{}]), json!([null])];
    for field in ["type", "status", "reason", "message", "lastTransitionTime"] {
        let mut condition = right.clone();
        condition.as_object_mut().expect("an object").remove(field);
        lists.push(json!([condition]));
    }
    let types = ["", "Ready", "a.b/C", "A.b/C", "Ready ", "a/b/c"].map(|text| json!(text));
    lists.extend(
        types.into_iter().chain([json!("a".repeat(316)), json!("a".repeat(317))]).map(|t| with("type", t)),
    );
    lists.extend(["True", "False", "Unknown", "true", ""].map(|status| with("status", json!(status))));
    lists.push(with("status", json!(true)));
    let reasons = ["", "A", "a:b,c_d", "1a", "A:", "A b", "A-b"].map(|text| json!(text));
    lists.extend(
        reasons
            .into_iter()
            .chain([json!("A".repeat(1024)), json!("A".repeat(1025)), json!(null)])
            .map(|r| with("reason", r)),
    );
    lists.extend(
        [json!("m".repeat(32768)), json!("m".repeat(32769)), json!(null)].map(|m| with("message", m)),
    );
    lists.extend(times().into_iter().map(|time| with("lastTransitionTime", time)));
    lists.extend(
        [json!(-1), json!(0), json!(1), json!("1"), json!(null)].map(|g| with("observedGeneration", g)),
    );
    lists
}
