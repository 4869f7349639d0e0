//! The endpoints clients use.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use headstart_cloud::error::Reason;
use headstart_cloud::port::LaunchRequest;
use headstart_cloud::testcloud::wire::{
    CatalogBody, DriftBody, Empty, ErrorBody, InstancesBody, RebootBody, WireError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::admin;
use crate::cloud::{BooksClosed, Cloud, Passage};
use crate::settings::Call;

/// What handlers share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) cloud: Arc<Cloud>,
    stopping: watch::Receiver<bool>,
    /// PERF: a catalog is megabytes of JSON, written once if it never changes.
    catalog: Arc<OnceLock<Bytes>>,
}

/// What a handler gives.
pub(super) type Answer = Result<Response, Failure>;

/// An error on its way out.
pub(super) struct Failure(WireError);

/// The longest a reader of notices may wait.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// A request with every offering of a large catalog is some hundreds of kilobytes.
const LARGEST_BODY: usize = 16 << 20;

pub(super) fn router(cloud: Arc<Cloud>, stopping: watch::Receiver<bool>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/v1/catalog", get(catalog))
        .route("/v1/instances", get(list).post(launch))
        .route("/v1/instances/{id}", get(one).delete(terminate))
        .route("/v1/instances/{id}/tags", put(tag))
        .route("/v1/instances/{id}/reboot", post(reboot))
        .route("/v1/instances/{id}/drift", get(drift))
        .route("/v1/notices", get(notices))
        .route("/admin", get(admin::status).post(admin::order))
        .fallback(async || Failure(refused("there is no such path".to_owned())))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(Shared { cloud, stopping, catalog: Arc::default() })
}

async fn catalog(State(shared): State<Shared>) -> Answer {
    let passage = shared.cloud.admit(Call::Catalog)?;
    let sold = shared.cloud.look(|world, _| world.catalog()).await;
    let (true, Ok((catalog, lasting))) = (shared.cloud.dismiss(passage).await, sold) else {
        return Ok(lost());
    };
    let text = || Bytes::from(serde_json::to_vec(&CatalogBody::from(&*catalog)).unwrap_or_default());
    let text = if lasting { shared.catalog.get_or_init(text).clone() } else { text() };
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

async fn list(State(shared): State<Shared>) -> Answer {
    let passage = shared.cloud.admit(Call::List)?;
    let instances = shared.cloud.look(|world, now| Ok(InstancesBody { instances: world.list(now) })).await;
    answer(&shared, passage, instances).await
}

async fn launch(State(shared): State<Shared>, body: Bytes) -> Answer {
    let request: LaunchRequest = parse(&body)?;
    let passage = shared.cloud.admit(Call::Launch)?;
    let launched = shared.cloud.change(|world, now| world.launch(now, &request)).await;
    answer(&shared, passage, launched).await
}

async fn one(State(shared): State<Shared>, Path(id): Path<String>) -> Answer {
    let passage = shared.cloud.admit(Call::Get)?;
    let instance = shared.cloud.look(|world, _| world.get(&id)).await;
    answer(&shared, passage, instance).await
}

async fn terminate(State(shared): State<Shared>, Path(id): Path<String>) -> Answer {
    let passage = shared.cloud.admit(Call::Terminate)?;
    let ended = shared.cloud.change(|world, now| world.terminate(now, &id)).await;
    answer(&shared, passage, ended.map(empty)).await
}

async fn tag(State(shared): State<Shared>, Path(id): Path<String>, body: Bytes) -> Answer {
    let tags: BTreeMap<String, String> = parse(&body)?;
    let passage = shared.cloud.admit(Call::Tag)?;
    let tagged = shared.cloud.change(|world, _| world.tag(&id, tags)).await;
    answer(&shared, passage, tagged.map(empty)).await
}

async fn reboot(State(shared): State<Shared>, Path(id): Path<String>, body: Bytes) -> Answer {
    let RebootBody { operation } = parse(&body)?;
    let passage = shared.cloud.admit(Call::Reboot)?;
    let rebooted = shared.cloud.change(|world, _| world.reboot(&id, operation)).await;
    answer(&shared, passage, rebooted.map(empty)).await
}

async fn drift(State(shared): State<Shared>, Path(id): Path<String>) -> Answer {
    let passage = shared.cloud.admit(Call::Drift)?;
    let drift = shared.cloud.look(|world, _| world.drift(&id).map(|reason| DriftBody { reason })).await;
    answer(&shared, passage, drift).await
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct After {
    after: u64,
    wait_ms: u64,
}

async fn notices(State(mut shared): State<Shared>, query: Query<After>) -> Answer {
    let Query(After { after, wait_ms }) = query;
    let passage = shared.cloud.admit(Call::Notices)?;
    // Notices are waited for in real time, whatever the cloud's clock does: the client's patience is real.
    let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms).min(LONGEST_WAIT);
    let mut changes = shared.cloud.changes();
    let found = loop {
        changes.mark_unchanged();
        let found = shared.cloud.look(|world, _| Ok(world.notices(after))).await;
        let nothing_yet = matches!(&found, Ok(Ok(notices)) if notices.notices.is_empty());
        let more = async {
            tokio::select! {
                _ = changes.changed() => true,
                _ = shared.stopping.wait_for(|stop| *stop) => false,
                () = tokio::time::sleep_until(deadline) => false,
            }
        };
        if !nothing_yet || !more.await {
            break found;
        }
    };
    answer(&shared, passage, found).await
}

/// Answers a call that was let in, unless a fault swallows the answer.
async fn answer<T: Serialize>(
    shared: &Shared,
    passage: Passage,
    result: Result<Result<T, WireError>, BooksClosed>,
) -> Answer {
    if !shared.cloud.dismiss(passage).await {
        return Ok(lost());
    }
    match result {
        Ok(decided) => Ok(success(&decided?)),
        // What was decided may or may not be on disk, so no answer is the only honest one.
        Err(BooksClosed { .. }) => Ok(lost()),
    }
}

pub(super) fn empty(result: Result<(), WireError>) -> Result<Empty, WireError> {
    result.map(|()| Empty {})
}

pub(super) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, WireError> {
    serde_json::from_slice(body).map_err(|error| refused(format!("the request makes no sense: {error}")))
}

fn refused(message: String) -> WireError {
    WireError::Refused { reason: Reason::InvalidRequest, message }
}

pub(super) fn success(body: &impl Serialize) -> Response {
    json(200, body)
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let retry_after = match &error {
            WireError::Throttled { retry_after_ms } => Some(retry_after_ms.div_ceil(1000)),
            _ => None,
        };
        let mut response = json(error.status(), &ErrorBody { error });
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// An answer that breaks off: the connection is closed before it is complete.
pub(super) fn lost() -> Response {
    let broken =
        futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("the answer is lost")) });
    Response::new(Body::from_stream(broken))
}

fn json(status: u16, body: &impl Serialize) -> Response {
    let built = serde_json::to_vec(body).ok().and_then(|body| {
        Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(body.into()).ok()
    });
    built.unwrap_or_else(lost)
}
