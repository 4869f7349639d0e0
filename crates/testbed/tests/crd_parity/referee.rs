//! The referee: a real API server, and what it says.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use anyhow::{Context, Result};
use http::{Method, Request};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    client::Body,
    core::Status,
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::case::{Action, Case, Kind};

/// An API server with one set of definitions.
pub(crate) struct Referee {
    client: Client,
    /// Whether it is asked about the buffers' older version under the name of the newer one, since its definitions
    /// do not have the older one. The two versions are said to have the same fields and rules.
    newer_buffers_only: bool,
    /// Stored objects by name, with their versions.
    shared: Mutex<BTreeMap<String, Value>>,
}

const DRY: &str = "dryRun=All";

/// What an API server says to a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// The object as it is stored, or would be.
    pub(crate) object: Option<Value>,
    /// The fields that are wrong, with the reason and the message.
    pub(crate) causes: BTreeSet<String>,
    /// What is wrong, where no fields are named.
    pub(crate) message: Option<String>,
}

impl Answer {
    pub(crate) const fn accepted(&self) -> bool {
        self.code < 300
    }

    /// Puts one kind's version in the place of another's.
    fn speak_of(&mut self, asked: Kind, meant: Kind) {
        let version = |kind: Kind| kind.api_version().rsplit('/').next().unwrap_or_default();
        if let Some(object) = &mut self.object
            && object["apiVersion"] == asked.api_version()
        {
            object["apiVersion"] = json!(meant.api_version());
        }
        if let Some(message) = &mut self.message {
            *message = message.replace(version(asked), version(meant));
        }
    }
}

impl Referee {
    /// Installs the definitions and waits until they are served.
    pub(crate) async fn new(client: Client, crds: &[CustomResourceDefinition]) -> Result<Self> {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in crds {
            let name = crd.metadata.name.as_deref().context("a definition needs a name")?;
            api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(crd)).await?;
        }
        let mut newer_buffers_only = false;
        for crd in crds {
            let name = crd.metadata.name.as_deref().context("a definition needs a name")?;
            await_condition(api.clone(), name, is_crd_established()).await?;
            if crd.spec.names.kind == Kind::CapacityBuffer.kind() {
                newer_buffers_only = !crd.spec.versions.iter().any(|version| version.name == "v1alpha1");
            }
        }
        Ok(Self { client, newer_buffers_only, shared: Mutex::default() })
    }

    /// The kind that is asked about when a case is about `kind`.
    pub(crate) const fn stand_in(&self, kind: Kind) -> Kind {
        match kind {
            Kind::OldCapacityBuffer if self.newer_buffers_only => Kind::CapacityBuffer,
            kind => kind,
        }
    }

    /// Asks the API server. Only what is applied is really stored, under a name that no other case uses; all else is
    /// a dry run, if need be on an object that many cases share.
    pub(crate) async fn ask(&self, case: &Case, own_name: &str) -> Result<Answer> {
        let kind = self.stand_in(case.kind);
        let collection = kind.path();
        let named = |object: &Value, name: &str| {
            let mut object = object.clone();
            object["apiVersion"] = json!(kind.api_version());
            object["metadata"]["name"] = json!(name);
            object
        };
        let mut answer = match &case.action {
            Action::Create(object) => {
                self.send(Method::POST, &format!("{collection}?{DRY}"), &named(object, own_name)).await?
            }
            Action::CreateStrictly(object) => {
                let path = format!("{collection}?{DRY}&fieldValidation=Strict");
                self.send(Method::POST, &path, &named(object, own_name)).await?
            }
            Action::Update(before, after) => {
                let (name, version) = self.shared(kind, before).await?;
                let mut after = named(after, &name);
                after["metadata"]["resourceVersion"] = version;
                self.send(Method::PUT, &format!("{collection}/{name}?{DRY}"), &after).await?
            }
            Action::Status(object, status) => {
                let (name, version) = self.shared(kind, object).await?;
                let mut object = named(object, &name);
                object["metadata"]["resourceVersion"] = version;
                object["status"] = status.clone();
                self.send(Method::PUT, &format!("{collection}/{name}/status?{DRY}"), &object).await?
            }
            Action::Scale(object, scale) => {
                let (name, _) = self.shared(kind, object).await?;
                let mut scale = scale.clone();
                scale["apiVersion"] = json!("autoscaling/v1");
                scale["kind"] = json!("Scale");
                scale["metadata"] = json!({ "name": name });
                self.send(Method::PUT, &format!("{collection}/{name}/scale?{DRY}"), &scale).await?
            }
            Action::Apply(objects) => {
                let mut last = None;
                for (i, object) in objects.iter().enumerate() {
                    let path = format!("{collection}/{own_name}?fieldManager=manager-{i}");
                    last = Some(self.send(Method::PATCH, &path, &named(object, own_name)).await?);
                }
                last.context("nothing to apply")?
            }
        };
        if kind != case.kind {
            answer.speak_of(kind, case.kind);
        }
        Ok(answer)
    }

    /// The name and the version of a stored object like this one, which must be right.
    async fn shared(&self, kind: Kind, object: &Value) -> Result<(String, Value)> {
        let mut hasher = DefaultHasher::new();
        object.to_string().hash(&mut hasher);
        let name = format!("shared-{:x}", hasher.finish());
        let mut shared = self.shared.lock().await;
        if let Some(version) = shared.get(&name) {
            return Ok((name, version.clone()));
        }
        let mut object = object.clone();
        object["apiVersion"] = json!(kind.api_version());
        object["metadata"]["name"] = json!(name);
        let version = self.create(&kind.path(), &object).await?;
        shared.insert(name.clone(), version.clone());
        Ok((name, version))
    }

    /// What the API server has at a path, in a given form.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> Result<Value> {
        let request = Request::get(path).header("Accept", accept).body(Vec::new())?;
        Ok(self.client.request(request).await?)
    }

    /// Creates an object that must be right, and gives its version.
    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        let request = Request::post(collection)
            .header("Content-Type", "application/json")
            .body(serde_json::to_vec(object)?)?;
        let created: Value =
            self.client.request(request).await.with_context(|| format!("cannot create {object}"))?;
        Ok(created["metadata"]["resourceVersion"].clone())
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Answer> {
        let content_type =
            if method == Method::PATCH { "application/apply-patch+yaml" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content_type)
            .body(Body::from(serde_json::to_vec(body)?))?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        if code < 300 {
            let object = Some(clean(serde_json::from_slice(&body)?));
            return Ok(Answer { code, object, causes: BTreeSet::new(), message: None });
        }
        let status: Status = serde_json::from_slice(&body)?;
        let causes: BTreeSet<String> = status
            .details
            .iter()
            .flat_map(|details| &details.causes)
            .map(|cause| format!("{}: {}: {}", cause.field, cause.reason, cause.message))
            .collect();
        let message = causes.is_empty().then_some(status.message);
        Ok(Answer { code, object: None, causes, message })
    }
}

/// The object without what differs from server to server and from moment to moment.
fn clean(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    for manager in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        manager.as_object_mut().map(|manager| manager.remove("time"));
        // Which of the buffers' versions was asked for is a matter of the question, not of the answer.
        manager.as_object_mut().map(|manager| manager.remove("apiVersion"));
    }
    object
}
