//! The KWOK cloud keeps the contract of all clouds, against a real API server; and its delayed Nodes survive crashes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use headstart_api::{KwokNodeClass, crds};
use headstart_cloud::Cloud;
use headstart_cloud::catalog::{Catalog, Source, key_of};
use headstart_cloud::contract::{self, Call, Can, Cannot, Harness};
use headstart_cloud::kwok::Kwok;
use headstart_cloud::port::{ClassRef, LaunchRequest, NodeTemplate, OfferingKey, ProviderId, Token};
use headstart_core::labels::WellKnown;
use headstart_core::resources::Resources;
use headstart_testbed::{ControlPlane, Options};
use http::{Method, Response};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;

const NAMESPACE: &str = "kube-system";

/// Waits until something is so; far longer than it takes, so that only what is broken runs into the end.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..600 {
        if is_so().await.unwrap_or(false) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("{what} did not happen within 30 s")
}

/// A control plane that knows node classes: `default`, `unready`, and `slow`, whose Nodes take a while to register.
async fn cluster(slow: &str) -> Result<ControlPlane> {
    let plane = ControlPlane::start(Options::api_only()).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client());
    let ours = crds::all().into_iter().find(|crd| crd.spec.names.kind == "KWOKNodeClass");
    definitions.create(&PostParams::default(), &ours.context("there is no such definition")?).await?;
    let classes: Api<KwokNodeClass> = Api::all(plane.client());
    eventually("serving node classes", async || Ok(classes.list(&ListParams::default()).await.is_ok()))
        .await?;
    for (name, spec) in
        [("default", json!({})), ("unready", json!({})), ("slow", json!({ "nodeRegistrationDelay": slow }))]
    {
        let class = json!({ "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": { "name": name }, "spec": spec });
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    }
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "Broken",
        "message": "made unready on purpose", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    classes.patch_status("unready", &PatchParams::default(), &Patch::Merge(unready)).await?;
    Ok(plane)
}

fn class(name: &str) -> ClassRef {
    ClassRef { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into(), name: name.into() }
}

fn offerings(catalog: &Catalog) -> Vec<OfferingKey> {
    let wanted = catalog.types().iter().filter(|t| &*t.name == "s-4x-amd64-linux");
    wanted.flat_map(|t| t.offerings.iter().take(3).map(|o| key_of(t, o))).collect()
}

/// What goes wrong between KWOK and the API server.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// The answer to the next such request is lost, after its effect.
    Lose(&'static str),
    /// The next request does not arrive.
    Fail,
    /// The next request is forbidden.
    Deny,
    /// So many requests arrive, then none.
    Throttle(u32),
}

type Faults = Arc<Mutex<Option<Fault>>>;

/// A client of the same API server whose requests meet faults.
fn disturbed(client: Client, faults: Faults) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, fault) = (client.clone(), meet(&faults, request.method()));
        async move {
            let status = |code: u16| {
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "reason": "OnPurpose", "message": "on purpose", "details": { "retryAfterSeconds": 2 } });
                Ok(Response::builder().status(code).body(Body::from(status.to_string().into_bytes()))?)
            };
            match fault {
                None => Ok(client.send(request).await?),
                Some(Fault::Fail) => Err(tower::BoxError::from("the request was lost on purpose")),
                Some(Fault::Deny) => status(403),
                Some(Fault::Throttle(_)) => status(429),
                Some(Fault::Lose(_)) => {
                    client.send(request).await?;
                    Err(tower::BoxError::from("the answer was lost on purpose"))
                }
            }
        }
    });
    Client::new(service, "default")
}

/// The fault a request meets, if any; most are used up by that.
fn meet(faults: &Faults, method: &Method) -> Option<Fault> {
    let mut fault = faults.lock().unwrap_or_else(PoisonError::into_inner);
    match fault.as_mut()? {
        Fault::Lose(wanted) if method.as_str() != *wanted => None,
        Fault::Throttle(0) => *fault,
        Fault::Throttle(left) => {
            *left -= 1;
            None
        }
        _ => fault.take(),
    }
}

struct OnBench {
    client: Client,
    faults: Faults,
    cloud: Mutex<Arc<Kwok>>,
    dry: Mutex<Vec<OfferingKey>>,
}

impl OnBench {
    fn new(plane: &ControlPlane) -> Result<Self> {
        let faults = Faults::default();
        let client = disturbed(plane.client(), Arc::clone(&faults));
        let cloud = Arc::new(kwok(&client, &[])?);
        Ok(Self { client, faults, cloud: Mutex::new(cloud), dry: Mutex::default() })
    }

    /// Another process of the same cloud, which sells nothing of what is dry.
    fn renew(&self) -> Can {
        let dry = self.dry.lock().unwrap_or_else(PoisonError::into_inner);
        let cloud = kwok(&self.client, &dry).map_err(|_| Cannot("the catalog cannot be loaded"))?;
        *self.cloud.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(cloud);
        Ok(())
    }

    fn meet(&self, fault: Option<Fault>) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

/// A KWOK cloud whose catalog has some offerings that cannot be bought.
fn kwok(client: &Client, dry: &[OfferingKey]) -> Result<Kwok> {
    let whole = Catalog::load(&Source::Kwok)?;
    let mut types: Vec<_> = whole.types().iter().map(|t| (**t).clone()).collect();
    for t in &mut types {
        let keys: Vec<OfferingKey> = t.offerings.iter().map(|o| key_of(t, o)).collect();
        for (offering, key) in t.offerings.iter_mut().zip(keys) {
            offering.available = !dry.contains(&key);
        }
    }
    let catalog = Catalog::new("kwok", types, WellKnown::default());
    Ok(Kwok::new(client, Arc::new(catalog), NAMESPACE))
}

#[async_trait]
impl Harness for OnBench {
    fn cloud(&self) -> Arc<dyn Cloud> {
        Arc::clone(&*self.cloud.lock().unwrap_or_else(PoisonError::into_inner)) as Arc<dyn Cloud>
    }

    fn class(&self) -> ClassRef {
        class("default")
    }

    fn offerings(&self) -> Vec<OfferingKey> {
        Catalog::load(&Source::Kwok).map(|catalog| offerings(&catalog)).unwrap_or_default()
    }

    fn run(&self) -> String {
        "kwok".into()
    }

    async fn settle(&self) {}

    async fn dry(&self, offering: &OfferingKey, lasts: Option<Duration>) -> Can {
        if lasts.is_some() {
            return Err(Cannot("an offering is in the catalog or not; nothing says for how long"));
        }
        self.dry.lock().unwrap_or_else(PoisonError::into_inner).push(offering.clone());
        self.renew()
    }

    async fn wet(&self, offering: &OfferingKey) -> Can {
        self.dry.lock().unwrap_or_else(PoisonError::into_inner).retain(|dry| dry != offering);
        self.renew()
    }

    async fn advance(&self, _: Duration) -> Can {
        Err(Cannot("it has no clock of its own"))
    }

    async fn unready_class(&self) -> Can<ClassRef> {
        Ok(class("unready"))
    }

    async fn missing_class(&self) -> Can<ClassRef> {
        Ok(class("missing"))
    }

    async fn slow_ending(&self, _: Duration) -> Can {
        Err(Cannot("an instance ends at once"))
    }

    async fn lose_answer(&self, call: Call) -> Can {
        self.meet(Some(Fault::Lose(match call {
            Call::Launch => "POST",
            Call::Terminate => "DELETE",
        })));
        Ok(())
    }

    async fn fail(&self) -> Can {
        self.meet(Some(Fault::Fail));
        Ok(())
    }

    async fn deny(&self) -> Can {
        self.meet(Some(Fault::Deny));
        Ok(())
    }

    async fn throttle(&self) -> Can {
        // A launch is two requests: one for the class, one for the Node.
        self.meet(Some(Fault::Throttle(2)));
        Ok(())
    }

    async fn unthrottle(&self) -> Can {
        self.meet(None);
        Ok(())
    }

    async fn interrupt(&self, _: &ProviderId, _: Duration) -> Can {
        Err(Cannot("it announces nothing"))
    }

    async fn kill(&self, _: &ProviderId) -> Can {
        Err(Cannot("it announces nothing"))
    }

    fn remembers_ended(&self) -> Can {
        Err(Cannot("the Node was its only memory"))
    }

    async fn restart(&self) -> Can {
        self.renew()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kwok_keeps_the_contract() -> Result<()> {
    let plane = cluster("1h").await?;
    let report = contract::run(&OnBench::new(&plane)?).await;
    report.assert(&[
        "an ending instance is shown as ending until it is gone",
        "the token of an ended instance launches nothing",
        "a drought says how long it lasts",
        "capacity comes back when it said so",
        "an interruption is announced and then happens",
        "a death is announced",
    ]);
    Ok(())
}

/// A launch for a class whose Nodes take a while.
fn slow_request(name: &str) -> Result<LaunchRequest> {
    Ok(LaunchRequest {
        token: Token(format!("uid-{name}")),
        claim: name.into(),
        pool: "general".into(),
        class: class("slow"),
        offerings: offerings(&Catalog::load(&Source::Kwok)?),
        node: NodeTemplate::default(),
        requests: Resources::new(),
        tags: BTreeMap::new(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_exists_before_its_node_does() -> Result<()> {
    let plane = cluster("1h").await?;
    let nodes: Api<Node> = Api::all(plane.client());
    let cloud = kwok(&plane.client(), &[])?;
    let request = slow_request("early")?;
    let launch = cloud.launch(&request).await?;
    assert_eq!(cloud.launch(&request).await?, launch, "a retry finds what is waiting");
    // Another process, or this one after a crash, sees it too.
    let other = kwok(&plane.client(), &[])?;
    assert_eq!(other.launch(&request).await?, launch);
    assert_eq!(other.list().await?, std::slice::from_ref(&launch.instance));
    assert_eq!(other.get(&launch.instance.id).await?, launch.instance);
    assert!(nodes.list(&ListParams::default()).await?.items.is_empty());
    // Terminated, it is gone for everybody, and its token is spent.
    other.terminate(&launch.instance.id).await?;
    for cloud in [&cloud, &other] {
        assert!(cloud.get(&launch.instance.id).await.is_err_and(|error| error.is_not_found()));
        assert!(cloud.terminate(&launch.instance.id).await.is_err_and(|error| error.is_not_found()));
        assert_eq!(cloud.list().await?, []);
        assert!(cloud.launch(&request).await.is_err_and(|error| error.kind() == "permanent"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_node_registers_although_its_process_died() -> Result<()> {
    let plane = cluster("2s").await?;
    let (nodes, records): (Api<Node>, Api<ConfigMap>) =
        (Api::all(plane.client()), Api::namespaced(plane.client(), NAMESPACE));
    let waiting = ListParams::default().labels("headstart.dev/kwok-instance=pending");
    let cloud = kwok(&plane.client(), &[])?;
    let launch = cloud.launch(&slow_request("survivor")?).await?;
    let ended = cloud.launch(&slow_request("ended")?).await?;
    cloud.terminate(&ended.instance.id).await?;
    drop(cloud);

    // Two processes take over at once, as when an old leader wakes up beside a new one.
    let successors = [kwok(&plane.client(), &[])?, kwok(&plane.client(), &[])?];
    for successor in &successors {
        assert_eq!(successor.list().await?, std::slice::from_ref(&launch.instance));
    }
    eventually("registering", async || Ok(records.list(&waiting).await?.items.is_empty())).await?;

    let registered = nodes.list(&ListParams::default()).await?.items;
    assert_eq!(registered.len(), 1, "what was terminated never registers");
    let id = registered[0].spec.as_ref().and_then(|spec| spec.provider_id.clone());
    assert_eq!(id, Some(launch.instance.id.0.clone()));
    assert_eq!(successors[0].list().await?, [launch.instance]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_a_finalizer_keeps_is_no_instance_any_more() -> Result<()> {
    let plane = cluster("1h").await?;
    let nodes: Api<Node> = Api::all(plane.client());
    let cloud = kwok(&plane.client(), &[])?;
    let request = LaunchRequest { class: class("default"), ..slow_request("kept")? };
    let instance = cloud.launch(&request).await?.instance;
    let name = nodes.list(&ListParams::default()).await?.items[0].name_any();
    let kept = json!({ "metadata": { "finalizers": ["karpenter.sh/termination"] } });
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(kept)).await?;
    // While it drains, the machine still runs.
    nodes.delete(&name, &DeleteParams::default()).await?;
    assert_eq!(cloud.get(&instance.id).await?, instance);

    cloud.terminate(&instance.id).await?;

    ensure!(nodes.get_opt(&name).await?.is_some(), "the finalizer keeps the object");
    assert!(cloud.get(&instance.id).await.is_err_and(|error| error.is_not_found()));
    assert!(cloud.terminate(&instance.id).await.is_err_and(|error| error.is_not_found()));
    assert_eq!(cloud.list().await?, []);
    assert!(cloud.launch(&request).await.is_err_and(|error| error.kind() == "permanent"));
    Ok(())
}
