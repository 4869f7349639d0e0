//! Which fleets are tried: what pods ask for, and which nodes they may have.

use serde_json::{Value, json};

use crate::workload::{self, Dice};

/// The one NodePool's name.
pub(super) const POOL: &str = "general";
const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];

/// A kind of fleet; the same shape gives the same Deployments everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    pub about: &'static str,
    pub(super) seed: u64,
    /// How many CPUs a node may have. Small ones make many nodes.
    node_cpus: &'static [&'static str],
    /// What pods ask for: thousandths of a CPU, and GiB for each CPU.
    milli_cpus: &'static [u64],
    gib_per_cpu: &'static [u64],
    /// CPUs that all pods ask for together.
    n_cpus: u64,
    /// Whether some Deployments insist on a zone or an architecture.
    is_picky: bool,
    /// The share of pods that stay, in percent.
    pub keep: usize,
}

/// The fleets of `make bench-shrink`.
pub const SHAPES: [Shape; 3] = [
    Shape {
        name: "services",
        about: "pods of 0.25 to 2 CPUs on nodes of 1 to 8",
        seed: 1,
        node_cpus: &["1", "2", "4", "8"],
        milli_cpus: &[250, 500, 1_000, 2_000],
        gib_per_cpu: &[1, 2, 4],
        n_cpus: 410,
        is_picky: false,
        keep: 50,
    },
    Shape {
        name: "one size",
        about: "pods of 0.25 to 1.5 CPUs on nodes of 4",
        seed: 2,
        node_cpus: &["4"],
        milli_cpus: &[250, 500, 750, 1_000, 1_500],
        gib_per_cpu: &[2, 4, 8],
        n_cpus: 195,
        is_picky: false,
        keep: 60,
    },
    Shape {
        name: "picky",
        about: "pods of 0.5 to 4 CPUs, a third of them bound to a zone or an architecture, on nodes of 2 to 16",
        seed: 3,
        node_cpus: &["2", "4", "8", "16"],
        milli_cpus: &[500, 1_000, 1_500, 2_000, 3_000, 4_000],
        gib_per_cpu: &[1, 2, 4, 8],
        n_cpus: 790,
        is_picky: true,
        keep: 45,
    },
];

/// A Deployment.
#[derive(Debug, Clone)]
pub(super) struct App {
    pub(super) name: String,
    pub(super) replicas: usize,
    milli_cpu: u64,
    mebibytes: u64,
    selector: Value,
}

impl Shape {
    /// A node class and a NodePool that consolidates nothing yet. On demand only, so that prices are those of types.
    pub(super) fn pool(&self) -> [Value; 2] {
        let mut pool = workload::node_pool(
            POOL,
            &json!([
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": self.node_cpus},
            ]),
        );
        pool["spec"]["disruption"] =
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"});
        [workload::node_class(), pool]
    }

    pub(super) fn apps(&self) -> Vec<App> {
        let mut dice = Dice::new(self.seed);
        let mut apps = Vec::new();
        let mut milli_cpus = 0;
        while milli_cpus < self.n_cpus * 1_000 {
            let milli_cpu = *dice.pick(self.milli_cpus);
            let replicas = 4 + dice.below(17);
            milli_cpus += milli_cpu * replicas as u64;
            apps.push(App {
                name: format!("app-{:02}", apps.len()),
                replicas,
                milli_cpu,
                mebibytes: milli_cpu * dice.pick(self.gib_per_cpu) * 1_024 / 1_000,
                selector: if self.is_picky { selector(&mut dice) } else { json!({}) },
            });
        }
        apps
    }
}

fn selector(dice: &mut Dice) -> Value {
    match dice.below(6) {
        0 => json!({"topology.kubernetes.io/zone": dice.pick(&ZONES)}),
        1 => json!({"kubernetes.io/arch": dice.pick(&["amd64", "arm64"])}),
        _ => json!({}),
    }
}

impl App {
    pub(super) fn deployment(&self) -> Value {
        self.workload("Deployment", self.replicas)
    }

    /// What looks after the pods that are left; it adopts those that are there.
    pub(super) fn replica_set(&self, replicas: usize) -> Value {
        self.workload("ReplicaSet", replicas)
    }

    /// One of its pods; on a node, if one is named.
    pub(super) fn pod(&self, name: &str, node: Option<&str>) -> Value {
        let spec = match node {
            Some(node) => json!({"nodeSelector": self.selector, "nodeName": node}),
            None => json!({"nodeSelector": self.selector}),
        };
        workload::pod(name, &self.labels(), self.milli_cpu, self.mebibytes, &spec)
    }

    fn workload(&self, kind: &str, replicas: usize) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": self.labels()},
                "template": {"metadata": {"labels": self.labels()}, "spec": self.pod("", None)["spec"]},
            },
        })
    }

    fn labels(&self) -> Value {
        json!({"app": self.name})
    }
}
