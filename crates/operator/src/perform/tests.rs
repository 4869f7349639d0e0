//! What is sent for an effect, and in which order, against an API server that only takes notes.

use std::sync::Mutex;

use headstart_cloud::testcloud::TestCloud;
use headstart_engine::{Fact, Kind, Now, ObjectRef, Part};
use http::request::Parts;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// What was sent: method, path, body.
type Notes = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A client whose requests are noted and answered by a function.
fn client(notes: &Notes, answer: fn(&Parts) -> (u16, Value)) -> Client {
    let notes = Arc::clone(notes);
    let service = tower::service_fn(move |request: Request<Body>| {
        let notes = Arc::clone(&notes);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (code, answer) = answer(&parts);
            notes.lock().unwrap().push((parts.method.to_string(), parts.uri.path().to_owned(), body));
            Ok::<_, kube::Error>(
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap(),
            )
        }
    });
    Client::new(service, "default")
}

fn performer(notes: &Notes, answer: fn(&Parts) -> (u16, Value)) -> Performer {
    let tenure = Arc::new(Tenure::default());
    tenure.extend_for_good();
    Performer {
        client: client(notes, answer),
        cloud: Arc::new(TestCloud::new("http://127.0.0.1:1").unwrap()),
        class: crate::resources::class(&TestCloud::new("http://127.0.0.1:1").unwrap().node_classes()[0])
            .unwrap(),
        rate: Rate::new(1_000, 1_000),
        tenure,
        may_write: true,
        metrics: Arc::new(Metrics::new()),
    }
}

fn pod() -> ObjectRef {
    ObjectRef { kind: Kind::Pod, namespace: "shop".into(), name: "web".into(), uid: "u-1".into() }
}

fn fine(_: &Parts) -> (u16, Value) {
    (200, json!({ "kind": "Pod", "metadata": { "name": "web" } }))
}

async fn sent(effect: Effect, answer: fn(&Parts) -> (u16, Value)) -> (Outcome, Vec<(String, String, Value)>) {
    let notes = Notes::default();
    let outcome = performer(&notes, answer).outcome(&effect).await;
    let sent = notes.lock().unwrap().clone();
    (outcome, sent)
}

#[tokio::test]
async fn an_observer_reads_and_changes_nothing() {
    let notes = Notes::default();
    let observer = Performer { may_write: false, ..performer(&notes, fine) };
    let patch = Effect::Patch { object: pod(), part: Part::Main, patch: json!({}) };
    for effect in [patch, Effect::Evict { object: pod() }, Effect::Delete { object: pod(), grace: None }] {
        let outcome = observer.outcome(&effect).await;
        assert!(matches!(outcome, Outcome::Refused(Refusal::Forbidden { .. })), "{outcome:?}");
    }
    assert!(notes.lock().unwrap().is_empty());
    assert!(matches!(observer.outcome(&Effect::Read { object: pod() }).await, Outcome::Done(_)));
    assert_eq!(notes.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_patch_only_touches_the_object_that_was_meant() {
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let effect = Effect::Patch { object: pod(), part: Part::Status, patch };
    let (outcome, sent) = sent(effect, fine).await;
    assert!(matches!(outcome, Outcome::Done(Fact::Object(_))));
    let body = json!({ "metadata": { "labels": { "a": "b" }, "uid": "u-1" } });
    assert_eq!(sent, [("PATCH".into(), "/api/v1/namespaces/shop/pods/web/status".into(), body)]);
}

#[tokio::test]
async fn a_delete_carries_uid_and_grace_and_tells_whether_something_is_left() {
    let effect = Effect::Delete { object: pod(), grace: Some(3) };
    let (outcome, sent) = sent(effect.clone(), fine).await;
    assert!(matches!(outcome, Outcome::Done(Fact::Object(_))), "a finalizer holds it");
    assert_eq!(sent[0].2["preconditions"], json!({ "uid": "u-1" }));
    assert_eq!(sent[0].2["gracePeriodSeconds"], 3);
    let gone = |_: &Parts| (200, json!({ "kind": "Status", "status": "Success" }));
    assert!(matches!(self::sent(effect, gone).await.0, Outcome::Done(Fact::Nothing)));
}

#[tokio::test]
async fn an_eviction_carries_the_uid() {
    let (outcome, sent) =
        sent(Effect::Evict { object: pod() }, |_| (201, json!({ "kind": "Status", "status": "Success" })))
            .await;
    assert!(matches!(outcome, Outcome::Done(Fact::Nothing)));
    assert_eq!(
        (sent[0].0.as_str(), sent[0].1.as_str()),
        ("POST", "/api/v1/namespaces/shop/pods/web/eviction")
    );
    assert_eq!(sent[0].2["deleteOptions"]["preconditions"]["uid"], "u-1");
}

#[tokio::test]
async fn objects_are_made_and_read_where_they_belong() {
    let object = json!({ "metadata": { "name": "general-1" } });
    let (_, made) = sent(Effect::Create { kind: Kind::NodeClaim, object }, fine).await;
    assert_eq!((made[0].0.as_str(), made[0].1.as_str()), ("POST", "/apis/karpenter.sh/v1/nodeclaims"));
    let missing = |_: &Parts| {
        (404, json!({ "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound" }))
    };
    let (outcome, read) = sent(Effect::Read { object: pod() }, missing).await;
    assert!(matches!(outcome, Outcome::Refused(Refusal::NotFound)));
    assert_eq!((read[0].0.as_str(), read[0].1.as_str()), ("GET", "/api/v1/namespaces/shop/pods/web"));
}

#[tokio::test]
async fn without_the_lease_nothing_is_written_and_no_cloud_is_called() {
    let notes = Notes::default();
    let performer = performer(&notes, fine);
    let slept = Now::default();
    performer.tenure.extend(slept, Duration::from_secs(10));
    for effect in [Effect::Evict { object: pod() }, Effect::Instances] {
        let outcome = performer.outcome(&effect).await;
        let Outcome::Refused(Refusal::Unavailable { message }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(message, "lease lost");
    }
    assert!(notes.lock().unwrap().is_empty());
    assert!(
        matches!(performer.outcome(&Effect::Read { object: pod() }).await, Outcome::Done(_)),
        "reading is free"
    );
}

#[tokio::test]
async fn a_cloud_that_was_not_reached_has_done_nothing() {
    let (outcome, _) = sent(Effect::Instances, fine).await;
    assert!(matches!(outcome, Outcome::Refused(Refusal::Cloud(_))), "{outcome:?}");
}

#[tokio::test]
async fn effects_on_one_object_stay_in_order_and_each_ends_once() {
    let notes = Notes::default();
    let (effects, receiver) = mpsc::unbounded_channel();
    let (events, mut ended) = mpsc::channel(100);
    for n in 0..20 {
        let patch = json!({ "n": n });
        let effect = Effect::Patch { object: pod(), part: Part::Main, patch };
        effects.send((EffectId(n), effect)).unwrap();
    }
    let performing = tokio::spawn(perform(performer(&notes, fine), receiver, events));
    let mut ids = Vec::new();
    while ids.len() < 20 {
        let Some(Event::Ended { id: EffectId(id), .. }) = ended.recv().await else {
            panic!("it ended early")
        };
        ids.push(id);
    }
    drop(effects);
    performing.await.unwrap();
    assert!(ended.recv().await.is_none());
    let order: Vec<u64> =
        notes.lock().unwrap().iter().map(|(_, _, body)| body["n"].as_u64().unwrap()).collect();
    assert_eq!((order, ids), ((0..20).collect(), (0..20).collect()));
}

#[tokio::test]
async fn what_was_asked_for_last_is_done_though_much_is_under_way() {
    let notes = Notes::default();
    let (effects, receiver) = mpsc::unbounded_channel();
    let (events, _ended) = mpsc::channel(2 * AT_ONCE);
    for n in 0..AT_ONCE + 20 {
        let object = ObjectRef { name: format!("web-{n}"), ..pod() };
        effects.send((EffectId(n as u64), Effect::Delete { object, grace: None })).unwrap();
    }
    drop(effects);
    perform(performer(&notes, fine), receiver, events).await;
    assert_eq!(notes.lock().unwrap().len(), AT_ONCE + 20);
}
