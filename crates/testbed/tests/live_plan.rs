//! `headstart plan` and `headstart explain` on a live cluster.
//!
//! No controller manager runs, so that the cluster holds the objects below and no others.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use headstart_testbed::binaries::{self, Binary};
use headstart_testbed::{Component, ControlPlane, Options, peers};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

/// More pods than are asked for at once.
const CROWD: usize = 600;

const OBJECTS: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: dearer}
spec: {requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}], priceAdjustment: "+10%"}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Node
metadata:
  name: old
  labels: {kubernetes.io/hostname: old, kubernetes.io/os: linux, kubernetes.io/arch: amd64, topology.kubernetes.io/zone: test-zone-a}
spec: {providerID: "test:///old"}
status:
  capacity: {cpu: "4", memory: 16Gi, pods: "20"}
  allocatable: {cpu: "4", memory: 16Gi, pods: "20"}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: none, resources: {requests: {cpu: 100m}}}]}
---
# Three wanted, one runs, one waits: one is to be made.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: none, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-1-running
  namespace: shop
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: "1", controller: true}]
spec: {nodeName: old, containers: [{name: c, image: none, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-1-waiting
  namespace: shop
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: "1", controller: true}]
spec: {containers: [{name: c, image: none, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: shop}
spec: {containers: [{name: c, image: none, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere, namespace: shop}
spec: {nodeSelector: {team: red}, containers: [{name: c, image: none}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated, namespace: shop}
spec: {schedulingGates: [{name: later}], containers: [{name: c, image: none}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: agent-new
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: "2", controller: true}]
spec: {containers: [{name: c, image: none}]}
"#;

/// May see everything but overlays.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: planner}
rules:
- apiGroups: ["", apps, batch, storage.k8s.io, scheduling.k8s.io, node.k8s.io]
  resources: ["*"]
  verbs: [list]
- apiGroups: [karpenter.sh]
  resources: [nodepools, nodeclaims]
  verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: planner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: planner}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: planner}]
"#;

/// Every kind that decides where pods go.
const KINDS: &str = "pods,nodes,nodepools,nodeclaims,nodeoverlays,deployments,replicasets,statefulsets,jobs,daemonsets,\
                     namespaces,persistentvolumeclaims,persistentvolumes,storageclasses,csinodes,priorityclasses,\
                     runtimeclasses,limitranges";

struct Cluster {
    plane: ControlPlane,
    headstart: PathBuf,
    kubectl: PathBuf,
}

impl Cluster {
    async fn start() -> Result<Self> {
        // Nobody makes service accounts, so the API server must not ask for them.
        let no_accounts = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned();
        let plane = ControlPlane::start(Options {
            extra_args: [(Component::ApiServer, vec![no_accounts])].into(),
            ..Options::api_only()
        })
        .await?;
        Ok(Self { plane, headstart: peers::build()?, kubectl: binaries::ensure(Binary::Kubectl)? })
    }

    fn kubectl(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>> {
        let mut child = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("no input")?.write_all(input)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "kubectl {args:?} failed");
        Ok(output.stdout)
    }

    fn headstart(&self, args: &[&str]) -> Result<Said> {
        Said::by(Command::new(&self.headstart).args(args))
    }

    /// What the command says to somebody who has this kubeconfig.
    fn live(&self, kubeconfig: &Path, args: &[&str]) -> Result<Said> {
        Said::by(Command::new(&self.headstart).args(args).arg("--kubeconfig").arg(kubeconfig))
    }
}

/// What a command said and how it ended.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    fn by(command: &mut Command) -> Result<Self> {
        let Output { status, stdout, stderr } = command.output()?;
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(Self { code: status.code(), stdout, stderr })
    }

    /// The plan that was printed, without the times it took.
    fn plan(&self) -> Result<Value> {
        let mut plan: Value = serde_json::from_str(&self.stdout).with_context(|| format!("{self:?}"))?;
        for time in ["decodeMillis", "solveMillis"] {
            let millis = plan["summary"].as_object_mut().context("no summary")?.remove(time);
            ensure!(millis.is_some_and(|millis| millis.is_number()), "{time} is missing");
        }
        Ok(plan)
    }

    fn fails_saying(&self, expected: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        for text in expected {
            assert!(self.stderr.contains(text), "expected {text:?} in:\n{}", self.stderr);
        }
    }
}

/// Pods of equal size come in the order of their random ids.
fn sorted(pods: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = pods.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_cluster_is_planned_as_its_objects_are() -> Result<()> {
    let cluster = Cluster::start().await?;
    let crds = cluster.headstart(&["crds"])?;
    cluster.kubectl(&["apply", "--server-side", "-f", "-"], crds.stdout.as_bytes())?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--all", "crds"], b"")?;
    cluster.kubectl(&["create", "-f", "-"], OBJECTS.as_bytes())?;
    cluster.kubectl(&["create", "-f", "-"], RIGHTS.as_bytes())?;
    let admin = cluster.plane.kubeconfig();

    let plan = cluster.live(&admin, &["plan", "-o", "json"])?;
    assert_eq!((plan.code, plan.stderr.as_str()), (Some(2), ""), "one pod fits nowhere: {plan:?}");
    let live = plan.plan()?;
    assert_eq!(live["summary"]["pods"], 4, "two of web, small and nowhere: {live:#}");
    assert_eq!(live["existing"], json!([{"node": "old", "pods": ["shop/small"]}]), "{live:#}");
    assert_eq!(live["nodeClaims"].as_array().map(Vec::len), Some(1), "{live:#}");
    assert_eq!(sorted(&live["nodeClaims"][0]["pods"]), ["shop/web-1", "shop/web-1-waiting"], "{live:#}");
    assert_eq!(live["unschedulable"][0]["pod"], "shop/nowhere", "{live:#}");

    let explained = cluster.live(&admin, &["explain", "shop/nowhere"])?;
    assert_eq!(explained.code, Some(2), "{explained:?}");
    assert!(explained.stdout.contains("NodePool general"), "{explained:?}");
    assert!(explained.stdout.contains("team"), "the rule names the label: {explained:?}");
    let explained = cluster.live(&admin, &["explain", "shop/small"])?;
    assert_eq!(explained.code, Some(0), "{explained:?}");
    assert!(explained.stdout.contains("node old"), "{explained:?}");

    let planner = cluster.plane.kubeconfig_for("planner", &[])?;
    let restricted = cluster.live(&planner, &["plan", "-o", "json"])?;
    assert_eq!(
        restricted.stderr,
        "warning: cannot list NodeOverlays (forbidden): prices and capacity are the catalog's\n"
    );
    let restricted = restricted.plan()?;
    assert_eq!(sorted(&restricted["nodeClaims"][0]["pods"]), ["shop/web-1", "shop/web-1-waiting"]);

    let pods: Api<Pod> = Api::namespaced(cluster.plane.client(), "shop");
    let one = |i: usize| {
        let requests = json!({"cpu": format!("{}m", 100 + i % 7 * 50), "memory": "64Mi"});
        let pod = json!({
            "metadata": {"name": format!("crowd-{i}")},
            "spec": {"containers": [{"name": "c", "image": "none", "resources": {"requests": requests}}]},
        });
        let pods = &pods;
        async move {
            pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
            anyhow::Ok(())
        }
    };
    stream::iter((0..CROWD).map(one)).buffer_unordered(16).try_collect::<()>().await?;
    let live = cluster.live(&admin, &["plan", "-o", "json"])?.plan()?;
    assert_eq!(live["summary"]["pods"], 4 + CROWD);
    let file = cluster.plane.dir().join("objects.json");
    std::fs::write(&file, cluster.kubectl(&["get", KINDS, "--all-namespaces", "-o", "json"], b"")?)?;
    let from_file =
        cluster.headstart(&["plan", "-o", "json", "-f", file.to_str().context("no text")?])?.plan()?;
    assert_eq!(live, from_file, "the same objects, the same plan");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_the_way_is_said() -> Result<()> {
    let cluster = Cluster::start().await?;
    let admin = cluster.plane.kubeconfig();

    // A cluster without Karpenter's API has no pools, and that is all.
    let plan = cluster.live(&admin, &["plan"])?;
    assert_eq!((plan.code, plan.stdout.as_str()), (Some(0), "No pod needs a place.\n"), "{plan:?}");
    assert!(plan.stderr.starts_with("warning: the cluster has no NodePools: "), "{plan:?}");
    assert_eq!(plan.stderr.lines().count(), 1, "{plan:?}");

    let nobody = cluster.plane.kubeconfig_for("nobody", &[])?;
    cluster.live(&nobody, &["plan"])?.fails_saying(&["you may not list", cluster.plane.server(), "view"]);

    let other = &["plan", "--context", "other"];
    cluster.live(&admin, other)?.fails_saying(&["has no context \"other\"", "it has: "]);
    cluster.live(Path::new("/nowhere"), &["plan"])?.fails_saying(&["cannot use the kubeconfig /nowhere"]);

    let text = std::fs::read_to_string(&admin)?;
    let closed = cluster.plane.dir().join("closed.kubeconfig");
    std::fs::write(&closed, text.replace(cluster.plane.server(), "https://127.0.0.1:1"))?;
    cluster.live(&closed, &["plan"])?.fails_saying(&[
        "cannot reach the Kubernetes API at https://127.0.0.1:1 (",
        "refused",
        "using context",
    ]);

    let stranger = cluster.plane.dir().join("stranger.kubeconfig");
    let mut kubeconfig: Value = serde_json::from_str(&text)?;
    kubeconfig["users"][0]["user"] = json!({"token": "stale"});
    std::fs::write(&stranger, kubeconfig.to_string())?;
    cluster.live(&stranger, &["plan"])?.fails_saying(&["does not accept your credentials", "log in again"]);

    let homeless =
        Said::by(Command::new(&cluster.headstart).arg("plan").env_clear().env("HOME", cluster.plane.dir()))?;
    homeless.fails_saying(&["there is no kubeconfig", "--kubeconfig", "-f"]);

    let both = cluster.live(&admin, &["plan", "-f", "-"])?;
    both.fails_saying(&["cannot be used with"]);
    Ok(())
}
