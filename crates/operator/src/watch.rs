//! Watches: what the API server has, told to the engine kind by kind.

mod slim;

use std::borrow::Cow;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use headstart_engine::{Change, Event, Kind, Resource, Time};
use kube::api::{Api, ObjectMeta};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff};
use kube::{Client, core::ApiResource};
use serde::de::DeserializeSeed as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::clock;
use crate::error::root;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::resources::api_version;
use slim::Slim;

/// How soon a kind that is absent or forbidden is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// Failures further apart than this have nothing to do with each other.
const LAPSE: Duration = Duration::from_mins(2);

/// How many objects are asked for at once.
const PAGE: u32 = 500;

/// A watch of one kind.
pub(crate) struct Watch {
    pub(crate) client: Client,
    pub(crate) kind: Kind,
    pub(crate) class: Resource,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
}

/// How a watch is going.
#[derive(PartialEq)]
enum State {
    Well,
    /// It failed once, at that time, which happens every day.
    Shaken(Time),
    /// It fails, which was said.
    Failing,
    /// The kind is not there for us, which was said.
    Missing,
}

impl Watch {
    /// Watches until nobody listens any more.
    pub(crate) async fn run(self) {
        let mut state = State::Well;
        let mut backoff = DefaultBackoff::default();
        while !self.events.is_closed() {
            let Some(error) = self.follow(&mut state, &mut backoff).await else { return };
            // A new watch lists anew: who missed a kind has missed its changes.
            if let Some(why) = missing(&error) {
                if state != State::Missing {
                    state = State::Missing;
                    self.warn_missing(&why);
                    self.tell(Change::Missing { why }).await;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Follows one watch as long as it can be mended; returns the error of one that must begin anew.
    async fn follow(&self, state: &mut State, backoff: &mut DefaultBackoff) -> Option<watcher::Error> {
        let resource = self.kind.resource(self.class);
        let api: Api<Raw> = Api::all_with(
            self.client.clone(),
            &ApiResource {
                group: resource.group.to_owned(),
                version: resource.version.to_owned(),
                api_version: api_version(&resource),
                kind: resource.kind.to_owned(),
                plural: resource.plural.to_owned(),
            },
        );
        let config = watcher::Config { page_size: Some(PAGE), ..watcher::Config::default() };
        let mut stream = std::pin::pin!(watcher::watcher(api, config));
        // A list that fails at once has told nothing, so that it begins is told with its first page.
        let mut begins = false;
        while let Some(next) = stream.next().await {
            let change = match next {
                Ok(watcher::Event::Init) => {
                    begins = true;
                    continue;
                }
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    Change::Seen(Arc::new(object.complete(&resource)))
                }
                Ok(watcher::Event::Delete(object)) => Change::Gone(Arc::new(object.complete(&resource))),
                Ok(watcher::Event::InitDone) => Change::Listed,
                Err(error) if missing(&error).is_some() => return Some(error),
                Err(error) => {
                    *state = self.shaken(std::mem::replace(state, State::Well), &error);
                    tokio::time::sleep(backoff.next().unwrap_or(LOOK_AGAIN)).await;
                    continue;
                }
            };
            if matches!(std::mem::replace(state, State::Well), State::Failing | State::Missing) {
                tracing::info!(kind = %self.kind, "the watch works again");
            }
            backoff.reset();
            if std::mem::take(&mut begins) {
                self.tell(Change::Relisting).await;
            }
            if matches!(change, Change::Listed) {
                self.health.listed(self.kind, true);
            }
            self.tell(change).await;
        }
        None
    }

    /// How a watch is going that has failed again.
    fn shaken(&self, state: State, error: &watcher::Error) -> State {
        let now = clock::now().time;
        match state {
            State::Shaken(at) if now < at + LAPSE => {
                tracing::warn!(kind = %self.kind, why = words(error), "a watch fails; trying again");
                State::Failing
            }
            // That a watch works again is only seen by what it brings, which may be nothing for hours.
            State::Well | State::Shaken(_) => State::Shaken(now),
            State::Failing | State::Missing => state,
        }
    }

    async fn tell(&self, change: Change) {
        self.metrics.watched(self.kind);
        // If nobody listens, the process ends.
        let _ = self.events.send(Event::Watched { kind: self.kind, change }).await;
    }

    fn warn_missing(&self, why: &str) {
        self.health.listed(self.kind, false);
        let resource = self.kind.resource(self.class);
        let name = if resource.group.is_empty() {
            resource.plural.to_owned()
        } else {
            format!("{}.{}", resource.plural, resource.group)
        };
        let consequence =
            if self.kind.is_vital() { "nothing is decided without them" } else { "going on without them" };
        let remedy = if why == ABSENT && resource.group.contains("karpenter") {
            "; install them with: headstart crds | kubectl apply --server-side -f -"
        } else {
            ""
        };
        tracing::warn!(
            kind = %self.kind,
            "{name} {why}: {consequence}, and looking again every {} s{remedy}",
            LOOK_AGAIN.as_secs()
        );
    }
}

const ABSENT: &str = "are not served";
const FORBIDDEN: &str = "may not be read";

/// Why a kind is not there for us, if that is what an error says.
fn missing(error: &watcher::Error) -> Option<String> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return None;
    };
    match status.code {
        404 => Some(ABSENT.to_owned()),
        403 => Some(FORBIDDEN.to_owned()),
        _ => None,
    }
}

fn words(error: &watcher::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root)
}

/// An object as it came, and as much of its metadata as a watch needs.
#[derive(Clone, Debug)]
struct Raw {
    meta: ObjectMeta,
    value: Value,
}

impl Raw {
    /// The object with its type, which items of lists do not repeat.
    fn complete(self, resource: &Resource) -> Value {
        let mut value = self.value;
        if let Value::Object(fields) = &mut value {
            fields.entry("apiVersion").or_insert_with(|| api_version(resource).into());
            fields.entry("kind").or_insert_with(|| resource.kind.into());
        }
        value
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Slim::Object.deserialize(deserializer)?;
        let text = |key| value.get("metadata")?.get(key)?.as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, value })
    }
}

impl kube::Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests;
