//! What the engine is told, against a scripted API server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use super::*;

const CLASS: Resource = Resource { group: "g", version: "v1", kind: "C", plural: "cs", namespaced: false };

/// Answers lists one by one, the last one forever; watches bring nothing and stay open.
fn watch(kind: Kind, lists: Vec<(u16, Value)>) -> (Watch, mpsc::Receiver<Event>) {
    let (lists, asked) = (Arc::new(Mutex::new(lists)), Arc::new(AtomicUsize::new(0)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (lists, asked) = (Arc::clone(&lists), Arc::clone(&asked));
        async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                std::future::pending::<()>().await;
            }
            let lists = lists.lock().unwrap();
            let (code, body) = &lists[asked.fetch_add(1, Ordering::Relaxed).min(lists.len() - 1)];
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, kube::Error>(Response::builder().status(*code).body(body).unwrap())
        }
    });
    let (events, told) = mpsc::channel(100);
    let client = Client::new(service, "default");
    let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::default()));
    (Watch { client, kind, class: CLASS, events, metrics, health }, told)
}

fn refusal(code: u16) -> (u16, Value) {
    (code, json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "no" }))
}

async fn next(told: &mut mpsc::Receiver<Event>) -> (Kind, Change) {
    match told.recv().await {
        Some(Event::Watched { kind, change }) => (kind, change),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_come_with_their_type_and_without_who_wrote_what() {
    let item =
        json!({ "metadata": { "name": "a", "managedFields": [{ "manager": "x" }] }, "spec": { "n": 1.5 } });
    let list = json!({ "kind": "NodePoolList", "metadata": { "resourceVersion": "7" }, "items": [item] });
    let (watch, mut told) = watch(Kind::NodePool, vec![(200, list)]);
    let health = Arc::clone(&watch.health);
    let task = tokio::spawn(watch.run());
    assert!(matches!(next(&mut told).await, (Kind::NodePool, Change::Relisting)));
    let (_, Change::Seen(object)) = next(&mut told).await else { panic!("an object was expected") };
    let expected = json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "a" }, "spec": { "n": 1.5 } });
    assert_eq!(*object, expected);
    assert!(matches!(next(&mut told).await.1, Change::Listed));
    assert!(!health.unread().contains(&Kind::NodePool));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_absent_is_said_so_once_and_picked_up_when_it_appears() {
    let list = json!({ "metadata": { "resourceVersion": "7" }, "items": [] });
    let lists = vec![refusal(404), refusal(404), refusal(403), (200, list)];
    let (watch, mut told) = watch(Kind::NodeClaim, lists);
    let task = tokio::spawn(watch.run());
    let (_, Change::Missing { why }) = next(&mut told).await else { panic!("it is missing") };
    assert_eq!(why, "are not served");
    assert!(matches!(next(&mut told).await.1, Change::Relisting));
    assert!(matches!(next(&mut told).await.1, Change::Listed));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_passing_failure_tells_the_engine_nothing() {
    let list = json!({ "metadata": { "resourceVersion": "7" }, "items": [] });
    let (watch, mut told) = watch(Kind::Pod, vec![refusal(500), refusal(429), (200, list)]);
    let task = tokio::spawn(watch.run());
    assert!(matches!(next(&mut told).await, (Kind::Pod, Change::Relisting)));
    assert!(matches!(next(&mut told).await.1, Change::Listed));
    task.abort();
}
