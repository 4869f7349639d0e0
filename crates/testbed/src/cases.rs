//! Small random scheduling cases with everything mixed, to compare two schedulers on.

use serde_json::{Value, json};

use crate::judge::Case;
use crate::workload::{Dice, node_class, pod};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const ARCH: &str = "kubernetes.io/arch";
const TYPE: &str = "node.kubernetes.io/instance-type";
const FAMILY: &str = "karpenter.kwok.sh/instance-family";
/// The zones of Karpenter's KWOK catalogue.
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
const APPS: [&str; 3] = ["red", "green", "blue"];

/// The objects of case `seed`: one to three NodePools, up to four nodes, up to two DaemonSets, two to thirty pods.
pub fn case(seed: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed);
    let mut objects = vec![node_class()];
    for i in 0..=dice.below(3) {
        objects.push(pool(&mut dice, i));
    }
    for i in 0..dice.below(5) {
        objects.extend(node(&mut dice, i));
    }
    for i in 0..dice.below(3) {
        objects.push(daemon_set(&mut dice, i));
    }
    // Most pods come in groups that share a shape, as workloads do.
    let mut left = 2 + dice.below(29);
    let mut group = 0;
    while left > 0 {
        let size = (1 + dice.below(8)).min(left);
        let app = *dice.pick(&APPS);
        let (cpu, memory) =
            (*dice.pick(&[100, 250, 500, 1000, 2000, 4000]), *dice.pick(&[128, 512, 1024, 4096, 16384]));
        let spec = constraints(&mut dice);
        for i in 0..size {
            objects.push(pod(&format!("pod-{group}-{i}"), &json!({"app": app}), cpu, memory, &spec));
        }
        left -= size;
        group += 1;
    }
    objects
}

/// Case `seed` under policies other than the default ones: NodePools that ask for several values, preferences ignored,
/// too few values made do with.
pub fn case_with_policies(seed: u64) -> Case {
    let mut case = Case::of(case(seed));
    let mut dice = Dice::new(!seed);
    for pool in case.objects.iter_mut().filter(|object| object["kind"] == "NodePool") {
        if let Some(requirements) = pool["spec"]["template"]["spec"]["requirements"].as_array_mut()
            && dice.once_in(2)
        {
            let key = *dice.pick(&[TYPE, ZONE, ARCH, FAMILY]);
            requirements.retain(|requirement| requirement["key"] != key);
            let least = 1 + dice.below(if key == TYPE { 40 } else { 4 });
            requirements.push(json!({"key": key, "operator": "Exists", "minValues": least}));
        }
    }
    if dice.once_in(2) {
        "Ignore".clone_into(&mut case.preference_policy);
    }
    if dice.once_in(2) {
        "BestEffort".clone_into(&mut case.min_values_policy);
    }
    case
}

fn pool(dice: &mut Dice, index: usize) -> Value {
    let mut requirements = vec![json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]})];
    if dice.once_in(2) {
        requirements
            .push(json!({"key": CAPACITY, "operator": "In", "values": subset(dice, &["spot", "on-demand"])}));
    }
    if dice.once_in(3) {
        requirements.push(json!({"key": ZONE, "operator": "In", "values": subset(dice, &ZONES)}));
    }
    if dice.once_in(3) {
        requirements
            .push(json!({"key": ARCH, "operator": "In", "values": subset(dice, &["amd64", "arm64"])}));
    }
    if dice.once_in(3) {
        let operator = *dice.pick(&["Lt", "Lte", "Gt", "Gte"]);
        requirements.push(json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": operator, "values": [dice.pick(&["4", "8", "16"])]}));
    }
    let mut pool = crate::workload::node_pool(&format!("pool-{index}"), &json!(requirements));
    let template = &mut pool["spec"]["template"];
    if dice.once_in(3) {
        template["metadata"] = json!({"labels": {"team": dice.pick(&["x", "y"])}});
    }
    if dice.once_in(4) {
        let effect = *dice.pick(&["NoSchedule", "NoSchedule", "PreferNoSchedule"]);
        template["spec"]["taints"] = json!([{"key": "dedicated", "value": "x", "effect": effect}]);
    }
    if dice.once_in(6) {
        template["spec"]["startupTaints"] = json!([{"key": "starting", "effect": "NoSchedule"}]);
    }
    if dice.once_in(2) {
        pool["spec"]["weight"] = json!(1 + dice.below(3));
    }
    if dice.once_in(5) {
        let limits = [json!({"cpu": "20"}), json!({"memory": "64Gi"}), json!({"nodes": "2"})];
        pool["spec"]["limits"] = dice.pick(&limits).clone();
    }
    pool
}

fn node(dice: &mut Dice, index: usize) -> Vec<Value> {
    let name = format!("node-{index}");
    let cpu = *dice.pick(&[2u64, 4, 8]);
    let size = json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", 4 * cpu), "pods": "20"});
    let labels = json!({
        HOST: name, "kubernetes.io/os": "linux", ARCH: dice.pick(&["amd64", "arm64"]),
        ZONE: dice.pick(&ZONES), CAPACITY: dice.pick(&["spot", "on-demand"]), "team": dice.pick(&["x", "y"]),
    });
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": format!("test:///{name}")},
        "status": {"allocatable": size, "capacity": size, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    if dice.once_in(4) {
        node["spec"]["taints"] = json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]);
    }
    let mut objects = vec![node];
    for i in 0..dice.below(3) {
        let mut pod = pod(
            &format!("on-{name}-{i}"),
            &json!({"app": dice.pick(&APPS)}),
            *dice.pick(&[250, 500, 1000]),
            512,
            &json!({"nodeName": name}),
        );
        pod["status"] = json!({"phase": "Running"});
        objects.push(pod);
    }
    objects
}

fn daemon_set(dice: &mut Dice, index: usize) -> Value {
    let name = format!("daemon-{index}");
    let labels = json!({"daemon": name});
    let mut spec = json!({"containers": [{"name": "c", "image": "none", "resources": {"requests": {
        "cpu": dice.pick(&["100m", "500m"]), "memory": dice.pick(&["64Mi", "256Mi"]),
    }}}]});
    if dice.once_in(2) {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if dice.once_in(3) {
        spec["nodeSelector"] = json!({ARCH: "amd64"});
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

/// What a group of pods asks of its nodes; often nothing.
fn constraints(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    if dice.once_in(5) {
        spec["nodeSelector"] = match dice.below(4) {
            0 => json!({ARCH: dice.pick(&["amd64", "arm64"])}),
            1 => json!({CAPACITY: dice.pick(&["spot", "on-demand"])}),
            2 => json!({"team": dice.pick(&["x", "y"])}),
            _ => json!({ZONE: dice.pick(&ZONES)}),
        };
    }
    if dice.once_in(6) {
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [term(dice), term(dice)]});
    }
    if dice.once_in(6) {
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"weight": 1 + dice.below(100), "preference": term(dice)}]);
    }
    if dice.once_in(4) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if dice.once_in(4) {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1 + dice.below(2),
            "topologyKey": dice.pick(&[ZONE, HOST, ZONE, CAPACITY]),
            "whenUnsatisfiable": dice.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": dice.pick(&APPS)}},
        }]);
    }
    if dice.once_in(7) {
        spec["affinity"]["podAffinity"] = pod_terms(dice, &[ZONE, HOST]);
    }
    if dice.once_in(6) {
        spec["affinity"]["podAntiAffinity"] = pod_terms(dice, &[HOST, HOST, ZONE]);
    }
    if dice.once_in(12) {
        spec["containers"] = json!([{
            "name": "c", "image": "none", "ports": [{"containerPort": 80, "hostPort": 8080}],
            "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
        }]);
    }
    if dice.once_in(15) {
        spec["initContainers"] =
            json!([{"name": "i", "image": "none", "resources": {"requests": {"cpu": "3"}}}]);
    }
    spec
}

fn term(dice: &mut Dice) -> Value {
    let (key, values): (&str, &[&str]) = match dice.below(3) {
        0 => (ARCH, &["amd64", "arm64"]),
        1 => (ZONE, &ZONES),
        _ => (CAPACITY, &["spot", "on-demand"]),
    };
    let operator = *dice.pick(&["In", "In", "NotIn"]);
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": subset(dice, values)}]})
}

fn pod_terms(dice: &mut Dice, keys: &[&str]) -> Value {
    let term =
        json!({"topologyKey": dice.pick(keys), "labelSelector": {"matchLabels": {"app": dice.pick(&APPS)}}});
    if dice.once_in(3) {
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1 + dice.below(100), "podAffinityTerm": term}]})
    } else {
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]})
    }
}

/// At least one of the choices.
fn subset<'a>(dice: &mut Dice, choices: &[&'a str]) -> Vec<&'a str> {
    let sure = dice.below(choices.len());
    choices
        .iter()
        .enumerate()
        .filter(|(i, _)| *i == sure || dice.once_in(2))
        .map(|(_, choice)| *choice)
        .collect()
}
