//! Effects on objects of the API server.

use std::sync::Arc;

use headstart_engine::{Fact, Kind, ObjectRef, Outcome, Part};
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Status, request};
use serde_json::{Value, json};

use super::Performer;
use super::answer::{Asked, LIMIT, refused, timed_out};
use crate::resources;

/// Whose fields they are.
const MANAGER: &str = "headstart";

type Request = Result<http::Request<Vec<u8>>, request::Error>;

impl Performer {
    pub(super) async fn create(&self, kind: Kind, object: &Value) -> Outcome {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let body = object.to_string().into_bytes();
        self.send(Asked::Create, resources::request(kind, self.class, namespace).create(&params, body)).await
    }

    pub(super) async fn patch(&self, object: &ObjectRef, part: Part, patch: &Value) -> Outcome {
        let request = resources::request_for(object, self.class);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(only_if_same(object, patch));
        let request = match part {
            Part::Main => request.patch(&object.name, &params, &patch),
            Part::Status => request.patch_subresource("status", &object.name, &params, &patch),
        };
        self.send(Asked::Change, request).await
    }

    pub(super) async fn delete(&self, object: &ObjectRef, grace: Option<u32>) -> Outcome {
        let preconditions = same(object);
        let params = DeleteParams { grace_period_seconds: grace, preconditions, ..DeleteParams::default() };
        let request = resources::request_for(object, self.class).delete(&object.name, &params);
        match self.send(Asked::Change, request).await {
            // An object that is gone is answered for by a status.
            Outcome::Done(Fact::Object(answer)) if answer["kind"] == "Status" => Outcome::Done(Fact::Nothing),
            outcome => outcome,
        }
    }

    pub(super) async fn clear(
        &self,
        kind: Kind,
        namespace: &str,
        (key, value): &(String, String),
    ) -> Outcome {
        let these = ListParams::default().labels(&format!("{key}={value}"));
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let request = resources::request(kind, self.class, namespace).delete_collection(&params, &these);
        match self.send(Asked::Change, request).await {
            Outcome::Done(_) => Outcome::Done(Fact::Nothing),
            outcome => outcome,
        }
    }

    pub(super) async fn evict(&self, object: &ObjectRef) -> Outcome {
        let ObjectRef { namespace, name, .. } = object;
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
            "deleteOptions": { "preconditions": same(object) },
        });
        let request = resources::request_for(object, self.class);
        let body = eviction.to_string().into_bytes();
        let request = request.create_subresource("eviction", name, &PostParams::default(), body);
        match self.send(Asked::Evict, request).await {
            Outcome::Done(_) => Outcome::Done(Fact::Nothing),
            outcome => outcome,
        }
    }

    pub(super) async fn read(&self, object: &ObjectRef) -> Outcome {
        let request = resources::request_for(object, self.class).get(&object.name, &GetParams::default());
        self.send(Asked::Read, request).await
    }

    async fn send(&self, asked: Asked, request: Request) -> Outcome {
        let request = match request {
            Ok(request) => request,
            Err(error) => return refused(asked, &kube::Error::BuildRequest(error)),
        };
        match tokio::time::timeout(LIMIT, self.client.request::<Value>(request)).await {
            Ok(Ok(object)) => match failure(&object) {
                Some(status) => refused(asked, &kube::Error::Api(status.boxed())),
                None => Outcome::Done(Fact::Object(Arc::new(object))),
            },
            Ok(Err(error)) => refused(asked, &error),
            Err(_) => timed_out(asked),
        }
    }
}

/// A failure that came with a code of success.
fn failure(answer: &Value) -> Option<Status> {
    let failed = answer["kind"] == "Status" && answer["status"] == "Failure";
    failed.then(|| serde_json::from_value(answer.clone()).unwrap_or_default())
}

/// The condition that an object is the one that was meant, if that is known.
fn same(object: &ObjectRef) -> Option<Preconditions> {
    let uid = Some(object.uid.clone()).filter(|uid| !uid.is_empty());
    uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None })
}

/// A patch that fails with a conflict on another object of the same name.
fn only_if_same(object: &ObjectRef, patch: &Value) -> Value {
    let mut patch = patch.clone();
    if !object.uid.is_empty() && patch.is_object() {
        patch["metadata"]["uid"] = object.uid.clone().into();
    }
    patch
}
