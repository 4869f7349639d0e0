//! The test cloud in a real cluster: its instances become Nodes that live and die as their books say.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use headstart_api::crds;
use headstart_cloud::Cloud;
use headstart_cloud::catalog::{Catalog, Source, key_of};
use headstart_cloud::port::{ClassRef, LaunchRequest, NodeTemplate, Taint, Token};
use headstart_cloud::testcloud::{Admin, TestCloud};
use headstart_core::resources::Resources;
use headstart_testbed::{ControlPlane, Options};
use headstart_testcloud::audit::{Evidence, Finding, audit};
use headstart_testcloud::delay::Delay;
use headstart_testcloud::fault::Order;
use headstart_testcloud::settings::OnEnd;
use headstart_testcloud::{Server, Time, ledger};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

/// Waits until something is so; far longer than it takes, so that only what is broken runs into the end.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..1200 {
        if is_so().await.unwrap_or(false) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("{what} did not happen within a minute")
}

/// Only what Nodes need: the API server, and kwok to keep them alive.
async fn cluster() -> Result<ControlPlane> {
    ControlPlane::start(Options { kwok: true, ..Options::api_only() }).await
}

async fn serve(plane: &ControlPlane, ledger: &Path, time: Time) -> Result<Server> {
    let options = headstart_testcloud::Options {
        listen: "127.0.0.1:0".parse()?,
        ledger: ledger.to_owned(),
        catalog: Catalog::load(&Source::Aws)?,
        cluster: Some(plane.client()),
        time,
    };
    Ok(Server::start(options).await?)
}

fn request(name: &str, uid: &str) -> Result<LaunchRequest> {
    let catalog = Catalog::load(&Source::Aws)?;
    let t = catalog.get("m7i.large").context("m7i.large is sold")?;
    let taint = |key: &str| Taint { key: key.into(), value: String::new(), effect: "NoSchedule".into() };
    Ok(LaunchRequest {
        token: Token(uid.into()),
        claim: name.into(),
        pool: "general".into(),
        class: ClassRef {
            group: "karpenter.kwok.sh".into(),
            kind: "KWOKNodeClass".into(),
            name: "default".into(),
        },
        offerings: t.offerings.iter().map(|o| key_of(t, o)).collect(),
        node: NodeTemplate {
            labels: BTreeMap::from([("team".into(), "blue".into())]),
            annotations: BTreeMap::from([("note".into(), "kept".into())]),
            taints: vec![taint("dedicated")],
            startup_taints: vec![taint("starting")],
        },
        requests: Resources::new(),
        tags: BTreeMap::new(),
    })
}

fn ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    Some(&conditions.iter().find(|c| c.type_ == "Ready")?.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_becomes_a_ready_node_and_leaves() -> Result<()> {
    let (plane, dir) = (cluster().await?, tempfile::tempdir()?);
    let ledger = dir.path().join("cloud.ledger");
    let server = serve(&plane, &ledger, Time::ByHand).await?;
    let (cloud, admin) = (TestCloud::new(&server.endpoint())?, Admin::new(&server.endpoint())?);
    let nodes: Api<Node> = Api::all(plane.client());
    admin.order(&Order::JoinDelay { delay: Delay::Fixed(Duration::from_secs(40)) }).await?;
    let instance = cloud.launch(&request("claim-a", "uid-a")?).await?.instance;
    assert!(nodes.list(&ListParams::default()).await?.items.is_empty(), "it has not joined yet");

    server.clock().advance(Duration::from_secs(40))?;
    let name = "i-00000001";
    eventually("being ready", async || Ok(ready(&nodes.get(name).await?) == Some("True"))).await?;

    let node = nodes.get(name).await?;
    let spec = node.spec.clone().unwrap_or_default();
    assert_eq!(spec.provider_id, Some(instance.id.0.clone()));
    let taints: Vec<String> = spec.taints.unwrap_or_default().into_iter().map(|t| t.key).collect();
    for taint in ["dedicated", "starting", "karpenter.sh/unregistered"] {
        assert!(taints.iter().any(|key| key == taint), "{taint} is missing in {taints:?}");
    }
    assert_eq!(node.labels().get("team").map(String::as_str), Some("blue"));
    assert_eq!(node.annotations().get("note").map(String::as_str), Some("kept"));
    for (label, value) in &instance.labels {
        assert_eq!(node.labels().get(label), Some(value), "{label}");
    }
    let allocatable = node.status.clone().unwrap_or_default().allocatable.unwrap_or_default();
    assert_eq!(allocatable["cpu"].0, instance.allocatable.get("cpu").to_string());

    cloud.reboot(&instance.id, "op-1").await?;
    eventually("booting", async || {
        let status = nodes.get(name).await?.status.unwrap_or_default();
        Ok(status.node_info.is_some_and(|info| info.boot_id == "testcloud-op-1"))
    })
    .await?;

    cloud.terminate(&instance.id).await?;
    eventually("leaving", async || Ok(nodes.get_opt(name).await?.is_none())).await?;
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_cloud_still_registers_and_removes_nodes() -> Result<()> {
    let (plane, dir) = (cluster().await?, tempfile::tempdir()?);
    let ledger = dir.path().join("cloud.ledger");
    let server = serve(&plane, &ledger, Time::ByHand).await?;
    let (cloud, admin) = (TestCloud::new(&server.endpoint())?, Admin::new(&server.endpoint())?);
    let nodes: Api<Node> = Api::all(plane.client());
    let gone = cloud.launch(&request("gone", "uid-gone")?).await?.instance;
    eventually("joining", async || Ok(nodes.get_opt("i-00000001").await?.is_some())).await?;
    admin.order(&Order::JoinDelay { delay: Delay::Fixed(Duration::from_secs(40)) }).await?;
    admin.order(&Order::EndDelay { delay: Delay::Fixed(Duration::from_secs(40)) }).await?;
    cloud.launch(&request("later", "uid-later")?).await?;
    cloud.terminate(&gone.id).await?;
    server.kill().await;

    let server = serve(&plane, &ledger, Time::ByHand).await?;
    server.clock().advance(Duration::from_secs(40))?;

    eventually("joining after the crash", async || Ok(nodes.get_opt("i-00000002").await?.is_some())).await?;
    eventually("leaving after the crash", async || Ok(nodes.get_opt("i-00000001").await?.is_none())).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_instance_can_leave_its_node_behind() -> Result<()> {
    let (plane, dir) = (cluster().await?, tempfile::tempdir()?);
    let ledger = dir.path().join("cloud.ledger");
    let server = serve(&plane, &ledger, Time::Running(1.0)).await?;
    let (cloud, admin) = (TestCloud::new(&server.endpoint())?, Admin::new(&server.endpoint())?);
    let nodes: Api<Node> = Api::all(plane.client());
    admin.order(&Order::OnEnd { what: OnEnd::Dead }).await?;
    let instance = cloud.launch(&request("a", "uid-a")?).await?.instance;
    let name = "i-00000001";
    eventually("being ready", async || Ok(ready(&nodes.get(name).await?) == Some("True"))).await?;
    admin.order(&Order::Kill { id: instance.id.0.clone() }).await?;
    eventually("dying", async || Ok(ready(&nodes.get(name).await?) == Some("Unknown"))).await?;
    Ok(())
}

/// Creates a NodeClaim and returns its uid.
async fn claim(client: &Client, name: &str) -> Result<String> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim"));
    let claims: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let object: Value = json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": name },
        "spec": { "requirements": [], "resources": {},
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" } } });
    let created = claims.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    created.uid().context("a created object has a uid")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_judges_by_the_clusters_own_objects() -> Result<()> {
    let (plane, dir) = (cluster().await?, tempfile::tempdir()?);
    let ledger = dir.path().join("cloud.ledger");
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client());
    let ours = crds::all().into_iter().find(|crd| crd.spec.names.kind == "NodeClaim");
    definitions.create(&PostParams::default(), &ours.context("there is no such definition")?).await?;
    eventually("serving claims", async || Ok(Evidence::from_cluster(&plane.client()).await.is_ok())).await?;
    let server = serve(&plane, &ledger, Time::Running(1.0)).await?;
    let (cloud, admin) = (TestCloud::new(&server.endpoint())?, Admin::new(&server.endpoint())?);
    let nodes: Api<Node> = Api::all(plane.client());
    for name in ["honest", "leaked", "zombie"] {
        let uid = claim(&plane.client(), name).await?;
        cloud.launch(&request(name, &uid)?).await?;
    }
    eventually("joining", async || Ok(nodes.list(&ListParams::default()).await?.items.len() == 3)).await?;
    let judge = async || -> Result<Vec<Finding>> {
        let (books, evidence) = (ledger::read(&ledger)?, Evidence::from_cluster(&plane.client()).await?);
        let last = books.records.last().map(|record| record.at).unwrap_or_default();
        Ok(audit(&books, Some(&evidence), last).findings)
    };
    assert_eq!(judge().await?, [], "nothing is wrong yet");

    // The claim goes and the instance stays; the instance goes and its Node stays.
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim"));
    let claims: Api<DynamicObject> = Api::all_with(plane.client(), &kind);
    claims.delete("leaked", &DeleteParams::default()).await?;
    admin.order(&Order::OnEnd { what: OnEnd::Dead }).await?;
    admin.order(&Order::Kill { id: "i-00000003".into() }).await?;

    let findings = judge().await?;
    let [Finding::Leak { instance, .. }, Finding::Zombie { object, .. }] = &findings[..] else {
        anyhow::bail!("found {findings:?}")
    };
    assert_eq!((instance.as_str(), object.as_str()), ("i-00000002", "Node i-00000003"));
    Ok(())
}
