//! The calls KWOK makes, one by one, against a scripted API server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use headstart_core::resources::Resources;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::catalog::{Source, key_of};
use crate::port::{NodeTemplate, Token};

/// One exchange: what must be asked, and what is answered.
type Exchange = (&'static str, Answer);

#[derive(Clone)]
enum Answer {
    Says(u16, Value),
    Breaks,
}

/// A cloud whose API server follows a script, and the script, which must be used up in the end.
fn scripted(script: Vec<Exchange>) -> (Kwok, Arc<Mutex<VecDeque<Exchange>>>) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let left = Arc::clone(&script);
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = format!("{} {}", request.method(), request.uri().path());
        let (expected, answer) =
            script.lock().unwrap().pop_front().unwrap_or_else(|| panic!("{asked} was too much"));
        assert_eq!(asked, expected);
        std::future::ready(match answer {
            Answer::Says(status, body) => Ok(Response::builder()
                .status(status)
                .body(Body::from(body.to_string().into_bytes()))
                .unwrap()),
            Answer::Breaks => Err(std::io::Error::other("the connection broke")),
        })
    });
    let catalog = Arc::new(Catalog::load(&Source::Kwok).unwrap());
    (Kwok::new(&Client::new(service, "default"), catalog, "kube-system"), left)
}

async fn launch(script: Vec<Exchange>) -> Result<Launch, CloudError> {
    let (cloud, left) = scripted(script);
    let launched = cloud.launch(&request()).await;
    assert_eq!(left.lock().unwrap().len(), 0, "not all of the script was used");
    launched
}

fn request() -> LaunchRequest {
    let catalog = Catalog::load(&Source::Kwok).unwrap();
    let t = catalog.get("c-2x-arm64-linux").unwrap();
    let mut requests = Resources::new();
    requests.set("cpu", "1500m".parse().unwrap());
    requests.set("example.com/license", "3".parse().unwrap());
    LaunchRequest {
        token: Token("7d9c".into()),
        claim: "general-x7k2p".into(),
        pool: "general".into(),
        class: ClassRef {
            group: "karpenter.kwok.sh".into(),
            kind: "KWOKNodeClass".into(),
            name: "default".into(),
        },
        offerings: t.offerings.iter().map(|o| key_of(t, o)).collect(),
        node: NodeTemplate {
            labels: BTreeMap::from([("karpenter.sh/nodepool".into(), "general".into())]),
            ..NodeTemplate::default()
        },
        requests,
        tags: BTreeMap::new(),
    }
}

const CLASS: &str = "GET /apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default";
const CREATE: &str = "POST /api/v1/nodes";
const RECORDS: &str = "POST /api/v1/namespaces/kube-system/configmaps";

fn get_node() -> &'static str {
    let name = name::for_launch("general-x7k2p", &Token("7d9c".into()));
    Box::leak(format!("GET /api/v1/nodes/{name}").into_boxed_str())
}

fn get_record() -> &'static str {
    let name = name::for_launch("general-x7k2p", &Token("7d9c".into()));
    Box::leak(format!("GET /api/v1/namespaces/kube-system/configmaps/{name}").into_boxed_str())
}

fn class(delay: &str, ready: &str) -> Answer {
    let condition = json!({ "type": "Ready", "status": ready, "reason": "Because", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    Answer::Says(
        200,
        json!({ "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": "default" }, "spec": { "nodeRegistrationDelay": delay },
        "status": { "conditions": [condition] } }),
    )
}

fn status(code: u16) -> Answer {
    let reason = if code == 404 { "NotFound" } else { "Because" };
    Answer::Says(
        code,
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": reason, "code": code, "details": { "retryAfterSeconds": 7 } }),
    )
}

/// The Node that the request makes.
fn node() -> Node {
    let request = request();
    let catalog = Catalog::load(&Source::Kwok).unwrap();
    let name = name::for_launch(&request.claim, &request.token);
    node::new(&name, &request, &request.offerings[0], &[], &catalog)
}

fn shown(code: u16) -> Answer {
    Answer::Says(code, serde_json::to_value(node()).unwrap())
}

#[tokio::test]
async fn a_launch_takes_two_calls() {
    let launch = launch(vec![(CLASS, class("0s", "True")), (CREATE, shown(201))]).await.unwrap();
    assert_eq!(launch.instance.offering, request().offerings[0]);
    assert_eq!(launch.instance.tags, request().all_tags());
}

#[test]
fn a_node_looks_like_upstreams_but_for_its_capacity() {
    let node = node();
    insta::assert_snapshot!(serde_json::to_string_pretty(&node).unwrap(), @r#"
    {
      "apiVersion": "v1",
      "kind": "Node",
      "metadata": {
        "annotations": {
          "headstart.dev/launch-digest": "93a3d5831079dd80",
          "headstart.dev/launch-token": "7d9c",
          "headstart.dev/tags": "{\"headstart.dev/nodeclaim-uid\":\"7d9c\",\"karpenter.sh/nodeclaim\":\"general-x7k2p\",\"karpenter.sh/nodepool\":\"general\"}",
          "kwok.x-k8s.io/node": "fake"
        },
        "labels": {
          "eks-node-viewer/instance-price": "0.038006",
          "karpenter.kwok.sh/instance-cpu": "2",
          "karpenter.kwok.sh/instance-family": "c",
          "karpenter.kwok.sh/instance-memory": "4Gi",
          "karpenter.kwok.sh/instance-size": "2",
          "karpenter.sh/capacity-type": "spot",
          "karpenter.sh/nodepool": "general",
          "kubernetes.io/arch": "arm64",
          "kubernetes.io/hostname": "general-x7k2p",
          "kubernetes.io/os": "linux",
          "kwok-partition": "a",
          "kwok.x-k8s.io/node": "fake",
          "node.kubernetes.io/instance-type": "c-2x-arm64-linux",
          "topology.kubernetes.io/zone": "test-zone-a"
        },
        "name": "kwok-general-x7k2p-duneearly-438-a0z2pxh5fi-1768581792"
      },
      "spec": {
        "providerID": "kwok://kwok-general-x7k2p-duneearly-438-a0z2pxh5fi-1768581792",
        "taints": [
          {
            "effect": "NoExecute",
            "key": "karpenter.sh/unregistered"
          }
        ]
      },
      "status": {
        "allocatable": {
          "cpu": "1900m",
          "ephemeral-storage": "20Gi",
          "example.com/license": "3",
          "memory": "4086Mi",
          "pods": "32"
        },
        "capacity": {
          "cpu": "2",
          "ephemeral-storage": "20Gi",
          "example.com/license": "3",
          "memory": "4Gi",
          "pods": "32"
        },
        "phase": "Pending"
      }
    }
    "#);
}

#[tokio::test]
async fn a_retry_finds_the_node() {
    let script = vec![(CLASS, class("0s", "True")), (CREATE, status(409)), (get_node(), shown(200))];
    assert_eq!(launch(script).await.unwrap().instance.token, Some(Token("7d9c".into())));
}

#[tokio::test]
async fn an_instance_is_found_although_its_class_is_gone() {
    launch(vec![(CLASS, status(404)), (get_node(), shown(200))]).await.unwrap();
}

#[tokio::test]
async fn classes_are_answered_as_upstream_does() {
    let nowhere = || vec![(get_node(), status(404)), (get_record(), status(404))];
    let error = launch([vec![(CLASS, status(404))], nowhere()].concat()).await.unwrap_err();
    assert_eq!(error.kind(), "insufficient_capacity");
    let error = launch([vec![(CLASS, class("0s", "False"))], nowhere()].concat()).await.unwrap_err();
    let CloudError::ClassNotReady { message, .. } = error else { panic!("{error}") };
    assert_eq!(message, "Because");
}

#[tokio::test]
async fn a_delayed_launch_is_written_down_before_it_is_answered() {
    let record = json!({ "metadata": { "name": "n" }, "data": {} });
    let script = vec![
        (CLASS, class("1h", "True")),
        (get_node(), status(404)),
        (get_record(), status(404)),
        (RECORDS, Answer::Says(201, record)),
    ];
    assert_eq!(launch(script).await.unwrap().instance.token, Some(Token("7d9c".into())));
}

#[tokio::test]
async fn failures_tell_what_is_known_of_the_effect() {
    let ready = || (CLASS, class("0s", "True"));
    for (script, kind) in [
        (vec![(CLASS, Answer::Breaks), (get_node(), Answer::Breaks)], "transient"),
        (vec![(CLASS, status(500)), (get_node(), status(500))], "transient"),
        (vec![ready(), (CREATE, Answer::Breaks)], "answer_lost"),
        (vec![ready(), (CREATE, status(504))], "answer_lost"),
        (vec![ready(), (CREATE, status(403))], "denied"),
        (vec![ready(), (CREATE, status(422))], "permanent"),
        (vec![ready(), (CREATE, status(429))], "throttled"),
    ] {
        let error = launch(script).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}
