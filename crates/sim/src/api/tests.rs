use serde_json::json;

use super::*;

const AT: Moment = Moment(1000);
const BY: Actor = Actor::Person;

fn claim(name: &str) -> Value {
    json!({ "metadata": { "name": name, "finalizers": ["karpenter.sh/termination"] }, "spec": { "a": 1 },
            "status": { "dropped": true } })
}

fn reference(kind: Kind, object: &Value) -> ObjectRef {
    let name = text(object, "/metadata/name").to_owned();
    let namespace = text(object, "/metadata/namespace").to_owned();
    ObjectRef { kind, namespace, name, uid: uid(object).to_owned() }
}

fn patched(api: &mut Api, key: &str, part: Part, patch: &Value) -> Result<Arc<Value>, Refusal> {
    api.patch(AT, BY, (Kind::NodeClaim, key), part, patch)
}

#[test]
fn objects_get_versions_and_uids_and_names_are_taken_once() {
    let mut api = Api::default();
    let a = api.create(AT, BY, Kind::NodeClaim, claim("a")).unwrap();
    let b = api.create(AT, BY, Kind::NodeClaim, claim("b")).unwrap();
    assert_ne!(uid(&a), uid(&b));
    assert_eq!((text(&a, "/metadata/resourceVersion"), text(&b, "/metadata/resourceVersion")), ("1", "2"));
    assert_eq!(a.get("status"), None);
    assert_eq!(api.create(AT, BY, Kind::NodeClaim, claim("a")), Err(Refusal::AlreadyExists));
}

#[test]
fn patches_reach_one_half_and_keep_their_preconditions() {
    let mut api = Api::default();
    let a = api.create(AT, BY, Kind::NodeClaim, claim("a")).unwrap();
    let both = json!({ "metadata": { "labels": { "x": "y" } }, "status": { "nodeName": "n" } });
    let main = patched(&mut api, "/a", Part::Main, &both).unwrap();
    assert_eq!((label(&main, "x"), text(&main, "/status/nodeName")), (Some("y"), ""));
    let status = patched(&mut api, "/a", Part::Status, &both).unwrap();
    assert_eq!(text(&status, "/status/nodeName"), "n");
    let again = patched(&mut api, "/a", Part::Status, &both).unwrap();
    assert_eq!(
        again["metadata"]["resourceVersion"], status["metadata"]["resourceVersion"],
        "nothing changed"
    );
    let stale =
        json!({ "metadata": { "resourceVersion": a["metadata"]["resourceVersion"], "labels": null } });
    assert_eq!(patched(&mut api, "/a", Part::Main, &stale), Err(Refusal::Conflict));
    let spec = json!({ "spec": { "a": 2 } });
    assert!(matches!(patched(&mut api, "/a", Part::Main, &spec), Err(Refusal::Invalid { .. })));
    assert_eq!(patched(&mut api, "/b", Part::Main, &spec), Err(Refusal::NotFound));
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    let mut api = Api::default();
    let a = api.create(AT, BY, Kind::NodeClaim, claim("a")).unwrap();
    let other = ObjectRef { uid: "other".to_owned(), ..reference(Kind::NodeClaim, &a) };
    assert_eq!(api.delete(AT, BY, &other, None), Err(Refusal::Conflict));
    let held = api.delete(AT, BY, &reference(Kind::NodeClaim, &a), None).unwrap().unwrap();
    assert_eq!(text(&held, "/metadata/deletionTimestamp"), AT.stamp());
    patched(&mut api, "/a", Part::Main, &json!({ "metadata": { "finalizers": null } })).unwrap();
    assert!(api.get(Kind::NodeClaim, "/a").is_none());
    let verbs: Vec<Verb> = api.log(Kind::NodeClaim).iter().map(|entry| entry.verb).collect();
    assert_eq!(verbs, [Verb::Added, Verb::Modified, Verb::Removed]);
}

#[test]
fn what_an_owner_leaves_behind_is_collected() {
    let mut api = Api::default();
    let pool = api.create(AT, BY, Kind::NodePool, json!({ "metadata": { "name": "p" } })).unwrap();
    let owned = |name: &str, owner: &str| json!({ "metadata": { "name": name, "ownerReferences": [{ "uid": owner }] } });
    api.create(AT, BY, Kind::Node, owned("n", uid(&pool))).unwrap();
    assert!(api.take_orphaned().is_empty());
    api.delete(AT, BY, &reference(Kind::NodePool, &pool), None).unwrap();
    assert_eq!(api.take_orphaned(), [uid(&pool)]);
    api.collect(AT, uid(&pool));
    assert_eq!(api.count(Kind::Node), 0);
    api.create(AT, BY, Kind::Node, owned("late", uid(&pool))).unwrap();
    assert_eq!(api.take_orphaned(), [uid(&pool)], "an owner that is long gone");
}

#[test]
fn budgets_block_evictions_and_pods_have_their_grace() {
    let mut api = Api::default();
    let pod = json!({ "metadata": { "name": "p", "namespace": "d", "labels": { "app": "web" } },
                      "spec": { "nodeName": "n" }, "status": { "phase": "Running" } });
    let pod = api.create(AT, BY, Kind::Pod, pod).unwrap();
    api.protect(AT, Budget { app: "web".to_owned(), min_available: 1 });
    let said = api
        .all(Kind::PodDisruptionBudget)
        .next()
        .map(|(_, budget)| text(budget, "/metadata/name").to_owned());
    assert_eq!(said.as_deref(), Some("web-0"));
    assert!(matches!(api.evict(AT, BY, &reference(Kind::Pod, &pod)), Err(Refusal::Blocked { .. })));
    api.unprotect(AT);
    api.evict(AT, BY, &reference(Kind::Pod, &pod)).unwrap();
    let going = api.get(Kind::Pod, "d/p").unwrap();
    assert_eq!(text(going, "/metadata/deletionTimestamp"), (AT + 30_000).stamp());
    api.delete(AT, BY, &reference(Kind::Pod, &pod), Some(0)).unwrap();
    assert_eq!(api.count(Kind::Pod), 0);
}

#[test]
fn the_past_can_be_listed() {
    let mut api = Api::default();
    let a = api.create(AT, BY, Kind::NodeClaim, json!({ "metadata": { "name": "a" } })).unwrap();
    api.create(AT, BY, Kind::NodeClaim, claim("b")).unwrap();
    api.delete(AT, BY, &reference(Kind::NodeClaim, &a), None).unwrap();
    let names = |length| api.at(Kind::NodeClaim, length).into_keys().collect::<Vec<_>>();
    assert_eq!(
        (names(1), names(2), names(3)),
        (vec!["/a".into()], vec!["/a".into(), "/b".into()], vec!["/b".to_owned()])
    );
}
