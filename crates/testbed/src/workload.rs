//! Seeded workloads as Kubernetes objects, so that two schedulers can be asked the same question.

use k8s_openapi::jiff::{self, Timestamp, tz::TimeZone};
use serde_json::{Value, json};

/// A small generator of pseudo-random numbers (SplitMix64): the same seed gives the same workload everywhere.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A node class and a NodePool that allows everything on Linux, spot and on-demand.
pub fn open_pool() -> Vec<Value> {
    vec![
        node_class(),
        node_pool(
            "general",
            &json!([
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
            ]),
        ),
    ]
}

/// The same, but it gives up nothing: consolidation would take part in what is measured or compared.
pub fn calm_pool() -> Vec<Value> {
    let mut objects = open_pool();
    for pool in objects.iter_mut().filter(|object| object["kind"] == "NodePool") {
        pool["spec"]["disruption"] = json!({"consolidateAfter": "Never"});
    }
    objects
}

/// How many seconds before its run a CronJob is made at least: a node is taken to need a minute, and should be there a little
/// early.
const AHEAD: i64 = 75;

/// The first full minute for which there is time to start nodes ahead, as a line of cron.
pub fn soon() -> Result<String, jiff::Error> {
    let minute = (Timestamp::now().as_second() + AHEAD) / 60 + 1;
    let run = Timestamp::from_second(minute * 60)?.to_zoned(TimeZone::UTC);
    Ok(format!("{} {} {} {} *", run.minute(), run.hour(), run.day(), run.month()))
}

/// A CronJob whose run has so many pods at once, with this in their specification.
pub fn cron_job(name: &str, schedule: &str, n_pods: usize, spec: &Value) -> Value {
    let mut pod = spec.clone();
    pod["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedule": schedule, "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": {"parallelism": n_pods, "completions": n_pods, "template": {"spec": pod}}},
        },
    })
}

pub fn node_class() -> Value {
    json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
}

pub fn node_pool(name: &str, requirements: &Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": requirements,
        }}},
    })
}

/// A pending pod with these requests; `spec` is merged into its spec.
pub fn pod(name: &str, labels: &Value, milli_cpu: u64, mebibytes: u64, spec: &Value) -> Value {
    let requests = json!({"cpu": format!("{milli_cpu}m"), "memory": format!("{mebibytes}Mi")});
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid(name), "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none", "resources": {"requests": requests}}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

/// Pods of `n_classes` shapes as services have them: a few cores at most, one to eight GiB for each.
pub fn classes(n_pods: usize, n_classes: usize, seed: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed);
    let shapes: Vec<(u64, u64)> = (0..n_classes).map(|_| service_shape(&mut dice)).collect();
    let mut objects = open_pool();
    objects.extend((0..n_pods).map(|i| {
        let class = dice.below(n_classes);
        let (cpu, memory) = shapes[class];
        pod(&format!("p{i:06}"), &json!({"app": format!("app-{class}")}), cpu, memory, &json!({}))
    }));
    objects
}

/// As [`classes`], where half of the classes want an architecture, a zone or a capacity type.
pub fn mixed(n_pods: usize, n_classes: usize, seed: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed);
    let shapes: Vec<(u64, u64, Value)> = (0..n_classes)
        .map(|_| {
            let (cpu, memory) = service_shape(&mut dice);
            let selector = match dice.below(6) {
                0 => json!({"kubernetes.io/arch": dice.pick(&["amd64", "arm64"])}),
                1 => json!({"topology.kubernetes.io/zone": dice.pick(&["us-east-1a", "us-east-1b", "us-east-1c"])}),
                2 => json!({"karpenter.sh/capacity-type": dice.pick(&["spot", "on-demand"])}),
                _ => json!({}),
            };
            (cpu, memory, json!({"nodeSelector": selector}))
        })
        .collect();
    let mut objects = open_pool();
    objects.extend((0..n_pods).map(|i| {
        let class = dice.below(n_classes);
        let (cpu, memory, spec) = &shapes[class];
        pod(&format!("p{i:06}"), &json!({"app": format!("app-{class}")}), *cpu, *memory, spec)
    }));
    objects
}

/// Pods no two of which ask for the same.
pub fn distinct(n_pods: usize, seed: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed);
    let mut objects = open_pool();
    objects.extend((0..n_pods).map(|i| {
        let (cpu, memory) = service_shape(&mut dice);
        // The index makes every request unique; the shape stays that of a service.
        let memory = memory + i as u64;
        pod(
            &format!("p{i:06}"),
            &json!({"app": format!("app-{i}")}),
            cpu + dice.roll() % 97,
            memory,
            &json!({}),
        )
    }));
    objects
}

/// Pods of which nine in ten ask for more than any machine has.
pub fn infeasible(n_pods: usize, n_classes: usize, seed: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed);
    let mut objects = classes(n_pods, n_classes, seed);
    for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        if !dice.once_in(10) {
            object["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("10k");
        }
    }
    objects
}

/// The mix of upstream's own benchmark: a fifth each without constraints, spread over zones, spread over hosts,
/// drawn to their own zone, and kept apart from each other.
pub fn diverse(n_pods: usize, seed: u64) -> Vec<Value> {
    const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
    const ZONE: &str = "topology.kubernetes.io/zone";
    const HOST: &str = "kubernetes.io/hostname";
    let mut dice = Dice::new(seed);
    let mut objects = open_pool();
    let fifth = n_pods / 5;
    for i in 0..n_pods {
        let cpu = *dice.pick(&[100, 250, 500, 1000, 1500]);
        let memory = *dice.pick(&[100, 256, 512, 1024, 2048, 4096]);
        let mut label = |key: &str| json!({key: dice.pick(&LETTERS)});
        let (labels, spec) = match i / fifth.max(1) {
            1 => (label("my-label"), spread(ZONE, &label("my-label"))),
            2 => (label("my-label"), spread(HOST, &label("my-label"))),
            3 => {
                let labels = label("my-affinity");
                let affinity = json!({"affinity": {"podAffinity": together(ZONE, &labels)}});
                (labels, affinity)
            }
            4 => {
                let labels = json!({"app": "nginx"});
                let affinity = json!({"affinity": {"podAntiAffinity": together(HOST, &labels)}});
                (labels, affinity)
            }
            _ => (label("my-label"), json!({})),
        };
        objects.push(pod(&format!("p{i:06}"), &labels, cpu, memory, &spec));
    }
    objects
}

/// `n_nodes` nodes of 16 CPUs, each partly used by a pod of its own.
pub fn existing_nodes(n_nodes: usize, seed: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed);
    let size = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    (0..n_nodes)
        .flat_map(|i| {
            let name = format!("n{i:05}");
            let zone = *dice.pick(&["us-east-1a", "us-east-1b", "us-east-1c"]);
            let node = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {
                    "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                    "topology.kubernetes.io/zone": zone,
                }},
                "spec": {"providerID": format!("test:///{name}")},
                "status": {"allocatable": size, "capacity": size, "conditions": [{"type": "Ready", "status": "True"}]},
            });
            let used = 8000 + 1000 * dice.below(8) as u64;
            let mut pod = pod(&format!("on-{name}"), &json!({"app": "old"}), used, 4 * used, &json!({"nodeName": name}));
            pod["status"] = json!({"phase": "Running"});
            [node, pod]
        })
        .collect()
}

fn service_shape(dice: &mut Dice) -> (u64, u64) {
    let cpu = *dice.pick(&[100, 200, 250, 500, 750, 1000, 1500, 2000, 3000, 4000]);
    let gib_per_core = *dice.pick(&[1, 2, 2, 4, 4, 8]);
    (cpu, cpu * gib_per_core * 1024 / 1000)
}

fn spread(key: &str, selector: &Value) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": selector},
    }]})
}

fn together(key: &str, selector: &Value) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": key, "labelSelector": {"matchLabels": selector},
    }]})
}

/// Orders pods of equal size the same way for everybody who sorts by uid.
fn uid(name: &str) -> String {
    format!("00000000-0000-0000-0000-{name:0>12}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_workload_again_and_another_seed_another() {
        assert_eq!(classes(50, 10, 7), classes(50, 10, 7));
        assert_ne!(classes(50, 10, 7), classes(50, 10, 8));
        assert_eq!(diverse(50, 7), diverse(50, 7));
    }

    #[test]
    fn distinct_pods_are_distinct() {
        let requests: std::collections::BTreeSet<String> = distinct(500, 1)
            .iter()
            .filter(|object| object["kind"] == "Pod")
            .map(|pod| pod["spec"]["containers"][0]["resources"]["requests"].to_string())
            .collect();
        assert_eq!(requests.len(), 500);
    }

    #[test]
    fn the_diverse_mix_has_its_fifths() {
        let pods: Vec<Value> = diverse(100, 3).into_iter().filter(|object| object["kind"] == "Pod").collect();
        let count = |pointer: &str| pods.iter().filter(|pod| pod.pointer(pointer).is_some()).count();
        assert_eq!(pods.len(), 100);
        assert_eq!(count("/spec/topologySpreadConstraints"), 40);
        assert_eq!(count("/spec/affinity/podAffinity"), 20);
        assert_eq!(count("/spec/affinity/podAntiAffinity"), 20);
    }
}
