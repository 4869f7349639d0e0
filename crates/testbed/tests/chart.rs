//! The chart, installed by the real Helm on a real control plane.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headstart_testbed::binaries::{self, Binary};
use headstart_testbed::{ControlPlane, Options, Program, peers};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const NAMESPACE: &str = "headstart";
/// Longer than anything here takes, so that only something broken runs into it.
const LIMIT: Duration = Duration::from_mins(3);

fn chart() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/headstart")
}

fn helm(args: &[&str]) -> Result<String> {
    let run = Command::new(binaries::ensure(Binary::Helm)?).args(args).output()?;
    ensure!(run.status.success(), "helm {}: {}", args.join(" "), String::from_utf8_lossy(&run.stderr));
    Ok(String::from_utf8(run.stdout)?)
}

fn rendered(namespace: &str, settings: &[&str]) -> Result<String> {
    let chart = chart();
    let mut args = vec!["template", "headstart", chart.to_str().context("a path")?, "--namespace", namespace];
    args.extend(["--kube-version", "1.36"]);
    args.extend(settings);
    helm(&args)
}

#[test]
fn the_manifest_is_the_chart_as_it_is_rendered() -> Result<()> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/headstart.yaml");
    let written = std::fs::read_to_string(path)?;
    let body = written.split_once("---\n").context("a manifest has documents")?.1;
    assert_eq!(
        body,
        rendered("kube-system", &[])?.split_once("---\n").context("a chart has documents")?.1,
        "run `make manifest`"
    );
    Ok(())
}

#[test]
fn every_setting_renders() -> Result<()> {
    let chart = chart();
    helm(&["lint", "--strict", chart.to_str().context("a path")?])?;
    let text = rendered(
        "elsewhere",
        &[
            "--set=serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true",
            "--set=settings.schedulerConfig=x,controller.image.digest=sha256:abc,imagePullSecrets[0].name=key",
            "--set=serviceAccount.annotations.role=r,additionalAnnotations.a=b,additionalLabels.c=d",
            "--set=settings.featureGates.nodeOverlay=true,podAnnotations.p=q,nameOverride=other",
        ],
    )?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let find = |kind: &str| {
        objects.iter().find(|object| object["kind"] == kind).with_context(|| format!("there is no {kind}"))
    };
    let account = find("ServiceAccount")?;
    assert_eq!(account["metadata"]["annotations"], json!({"role": "r", "a": "b"}));
    assert_eq!(account["metadata"]["labels"]["c"], "d");
    assert_eq!(find("ServiceMonitor")?["spec"]["endpoints"][0]["port"], "http-metrics");
    assert!(
        find("PrometheusRule")?["spec"]["groups"][0]["rules"]
            .as_array()
            .is_some_and(|rules| rules.len() >= 5)
    );
    let dashboard = find("ConfigMap")?["data"]["headstart.json"].as_str().context("a dashboard")?;
    serde_json::from_str::<Value>(dashboard)?;
    let container = &find("Deployment")?["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "headstart@sha256:abc");
    let gates = container["env"].as_array().into_iter().flatten().find(|env| env["name"] == "FEATURE_GATES");
    assert_eq!(gates.context("gates are set")?["value"], "NodeOverlay=true,ReservedCapacity=true");
    Ok(())
}

/// An observer may read what decisions depend on, hold its own lease, and nothing else.
#[test]
fn an_observer_may_only_read() -> Result<()> {
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(&rendered("kube-system", &["--set=settings.mode=observe"])?)?;
    let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    let reading = ["get", "list", "watch"];
    let mut writing = Vec::new();
    let mut secrets = 0;
    for rule in of("ClusterRole")
        .into_iter()
        .chain(of("Role"))
        .flat_map(|role| role["rules"].as_array().into_iter().flatten())
    {
        let texts = |field: &str| -> Vec<String> {
            let all = rule[field].as_array().into_iter().flatten();
            all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let verbs: Vec<String> =
            texts("verbs").into_iter().filter(|verb| !reading.contains(&verb.as_str())).collect();
        if !verbs.is_empty() {
            writing.push(format!(
                "{} {} {}",
                texts("resources").join(","),
                texts("resourceNames").join(","),
                verbs.join(",")
            ));
        }
        secrets +=
            usize::from(texts("resources").iter().any(|resource| resource == "secrets" || resource == "*"));
    }
    assert_eq!(writing, ["leases headstart-observe update", "leases  create"]);
    assert_eq!(secrets, 0);
    assert_eq!(of("ClusterRole").len(), 1, "no right to make machines");
    let deployment = of("Deployment")[0];
    assert_eq!(deployment["spec"]["replicas"], 1);
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array()
        .context("an environment")?;
    assert!(env.iter().any(|one| one["name"] == "HEADSTART_MODE" && one["value"] == "observe"));
    Ok(())
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let waited = async {
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(LIMIT, waited).await.with_context(|| format!("waited in vain until {what}"))?
}

async fn apply(plane: &ControlPlane, text: &str) -> Result<()> {
    for object in serde_saphyr::from_multiple::<Value>(text)? {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("an object has no type")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let api: Api<DynamicObject> = match resource.kind.as_str() {
            "Deployment" => Api::default_namespaced_with(plane.client(), &resource),
            _ => Api::all_with(plane.client(), &resource),
        };
        api.patch(&object.name_any(), &PatchParams::apply("test").force(), &Patch::Apply(&object)).await?;
    }
    Ok(())
}

/// Given a namespace that admits restricted pods only, the chart is accepted, the operator works with its rights, and
/// uninstalling it leaves the nodes.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_can_be_installed_used_and_uninstalled() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let restricted = json!({
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    });
    namespaces.create(&PostParams::default(), &serde_json::from_value(restricted)?).await?;
    let kubeconfig = plane.kubeconfig();
    let on_cluster = move |args: &[&str]| {
        let mut all = args.to_vec();
        let kubeconfig = kubeconfig.to_string_lossy().into_owned();
        all.extend(["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig]);
        helm(&all)
    };
    let chart = chart();
    tokio::task::block_in_place(|| on_cluster(&["install", "headstart", chart.to_str().context("a path")?]))?;

    let sets: Api<ReplicaSet> = Api::namespaced(plane.client(), NAMESPACE);
    until("both pods of the chart were admitted", async || {
        let sets = sets.list(&ListParams::default()).await?;
        let made = sets.iter().filter_map(|set| set.status.as_ref()).any(|status| status.replicas == 2);
        Ok(made.then_some(()))
    })
    .await?;

    let user = format!("system:serviceaccount:{NAMESPACE}:headstart");
    let rights = plane.kubeconfig_for(&user, &["system:serviceaccounts", "system:authenticated"])?;
    let headstart = tokio::task::spawn_blocking(peers::build).await??;
    let program = Program::new("headstart", headstart)
        .args([
            "run",
            "--metrics-port=0",
            "--health-probe-port=0",
            "--system-namespace",
            NAMESPACE,
            "--kubeconfig",
        ])
        .args([&rights]);
    plane.spawn(program)?;
    apply(&plane, include_str!("../../../examples/quickstart.yaml")).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(plane.client());
    until("all pods of the example run", async || {
        let all = deployments.list(&ListParams::default()).await?;
        let ready = |deployment: &Deployment| {
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            wanted.is_some() && deployment.status.as_ref().and_then(|status| status.ready_replicas) == wanted
        };
        Ok((!all.items.is_empty() && all.iter().all(ready)).then_some(()))
    })
    .await?;

    let nodes: Api<Node> = Api::all(plane.client());
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let before = nodes.list(&ListParams::default()).await?.items.len();
    ensure!(before > 0, "the example needs nodes");
    tokio::task::block_in_place(|| on_cluster(&["uninstall", "headstart", "--wait"]))?;
    assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), before);
    let running =
        |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    assert!(pods.list(&ListParams::default()).await?.iter().all(running));
    Ok(())
}
