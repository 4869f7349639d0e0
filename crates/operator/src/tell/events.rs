//! Kubernetes events about objects.
//!
//! COMPAT: core/v1 events of the component `karpenter`, as client-go's recorder writes them; a repetition raises the count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use headstart_engine::{Now, ObjectRef, Resource, Time, Wall};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::perform::Rate;
use crate::resources::api_version;
use crate::{clock, error};

const COMPONENT: &str = "karpenter";
/// How many events may wait to be written; more are left out.
pub(crate) const WAITING: usize = 1_000;
/// Events a second in the long run, and at once.
const RATE: (u32, u32) = (20, 200);
/// How long a repetition raises the count of an event instead of being a new one.
const REMEMBERED: Duration = Duration::from_mins(10);
const REMEMBERED_AT_MOST: usize = 4_096;
const LIMIT: Duration = Duration::from_secs(10);

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    pub(crate) about: ObjectRef,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// An event that was written before.
struct Written {
    name: String,
    count: u32,
    at: Time,
}

/// Writes all events that come; what fails is left out.
pub(crate) async fn write(client: Client, class: Resource, mut notes: mpsc::Receiver<Note>) {
    let rate = Arc::new(Rate::new(RATE.0, RATE.1));
    let mut written: HashMap<Note, Written> = HashMap::new();
    let mut told = false;
    while let Some(note) = notes.recv().await {
        let now = clock::now();
        if !rate.try_take(now.time) {
            tracing::debug!(reason = note.reason, about = %note.about, "too many events; left out");
            continue;
        }
        if written.len() >= REMEMBERED_AT_MOST {
            written.retain(|_, event| now.time < event.at + REMEMBERED);
        }
        let request = match written.entry(note.clone()) {
            Entry::Occupied(mut entry) if now.time < entry.get().at + REMEMBERED => {
                let event = entry.get_mut();
                (event.count, event.at) = (event.count + 1, now.time);
                again(&note, event, now.wall)
            }
            entry => {
                let event = Written { name: name(&note, now), count: 1, at: now.time };
                let request = first(&note, &event.name, class, now.wall);
                entry.insert_entry(event);
                request
            }
        };
        let Ok(request) = request else { continue };
        let sent = tokio::time::timeout(LIMIT, client.request::<Value>(request)).await;
        if !matches!(sent, Ok(Ok(_))) {
            written.remove(&note);
            let why = match sent {
                Ok(Err(error)) => error::root(&error),
                _ => "no answer".to_owned(),
            };
            if !told {
                told = true;
                tracing::warn!(why, reason = note.reason, about = %note.about, "cannot write an event; further failures are not mentioned");
            }
        }
    }
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

fn first(note: &Note, name: &str, class: Resource, wall: Wall) -> Built {
    let body = event(note, name, class, wall).to_string().into_bytes();
    events(note).create(&PostParams::default(), body)
}

fn again(note: &Note, event: &Written, wall: Wall) -> Built {
    let patch = json!({ "count": event.count, "lastTimestamp": wall.stamp().to_string() });
    events(note).patch(&event.name, &PatchParams::default(), &Patch::Merge(patch))
}

fn events(note: &Note) -> Request {
    Request::new(format!("/api/v1/namespaces/{}/events", namespace(note)))
}

/// Events about objects without a namespace are kept in `default`.
fn namespace(note: &Note) -> &str {
    if note.about.namespace.is_empty() { "default" } else { &note.about.namespace }
}

/// A name that no other event has.
fn name(note: &Note, now: Now) -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{}.{:016x}", note.about.name, RandomState::new().hash_one((now.wall, note)))
}

fn event(note: &Note, name: &str, class: Resource, wall: Wall) -> Value {
    let Note { about, warning, reason, message } = note;
    let resource = about.kind.resource(class);
    let stamp = wall.stamp().to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": namespace(note) },
        "involvedObject": {
            "apiVersion": api_version(&resource), "kind": resource.kind,
            "namespace": about.namespace, "name": about.name, "uid": about.uid,
        },
        "type": if *warning { "Warning" } else { "Normal" },
        "reason": reason,
        "message": cut(message),
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "source": { "component": COMPONENT },
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    })
}

/// The API server takes no more than 1024 bytes.
fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(1024)]
}

#[cfg(test)]
mod tests {
    use headstart_engine::Kind;

    use super::*;

    #[test]
    fn an_event_names_its_object() {
        let about = ObjectRef {
            kind: Kind::NodeClaim,
            namespace: String::new(),
            name: "a-1".into(),
            uid: "u".into(),
        };
        let note = Note {
            about,
            warning: true,
            reason: "InsufficientCapacityError".into(),
            message: "é".repeat(600),
        };
        let class = Resource { group: "g", version: "v1", kind: "C", plural: "cs", namespaced: false };
        let event = event(&note, "a-1.0", class, Wall(1_800_000_000_000));
        assert_eq!(event["involvedObject"]["apiVersion"], "karpenter.sh/v1");
        assert_eq!(event["metadata"]["namespace"], "default");
        assert_eq!((&event["type"], &event["source"]["component"]), (&json!("Warning"), &json!("karpenter")));
        assert_eq!(event["message"].as_str().unwrap().len(), 1024);
        assert_eq!(event["firstTimestamp"], "2027-01-15T08:00:00Z");
        assert_eq!(
            first(&note, "a-1.0", class, Wall(0)).unwrap().uri().path(),
            "/api/v1/namespaces/default/events"
        );
    }
}
