//! `/healthz`, `/readyz`, `/metrics`, `/observations`.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::clock;
use crate::error::OperatorError;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::remember::Memory;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

/// Listens for probes; the future answers them.
pub(crate) async fn probes(
    port: u16,
    health: Arc<Health>,
) -> Result<impl Future<Output = ()>, OperatorError> {
    let ready = Arc::clone(&health);
    let router = Router::new()
        .route("/healthz", get(async move || healthz(&health)))
        .route("/readyz", get(async move || readyz(&ready)));
    serve(port, "probes", "--health-probe-port", router).await
}

/// Listens for those who collect metrics or want a report; the future answers them.
pub(crate) async fn metrics(
    port: u16,
    metrics: Arc<Metrics>,
    memory: Arc<Memory>,
) -> Result<impl Future<Output = ()>, OperatorError> {
    let page = async move || match metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    let history = async move || match memory.json() {
        Ok(text) => ([(header::CONTENT_TYPE, JSON)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    let router = Router::new().route("/metrics", get(page)).route("/observations", get(history));
    serve(port, "metrics", "--metrics-port", router).await
}

async fn serve(
    port: u16,
    what: &'static str,
    option: &'static str,
    router: Router,
) -> Result<impl Future<Output = ()>, OperatorError> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let refused = |source| OperatorError::Listen { address, what, option, source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let port = listener.local_addr().map_err(refused)?.port();
    tracing::info!(port, "listening for {what}");
    Ok(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "cannot serve {what} any more");
        }
    })
}

fn healthz(health: &Health) -> (StatusCode, &'static str) {
    if health.is_stuck(clock::now().time) {
        (StatusCode::INTERNAL_SERVER_ERROR, "a decision does not end\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

fn readyz(health: &Health) -> (StatusCode, String) {
    let unread = health.unread();
    if unread.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let names: Vec<String> = unread.iter().map(ToString::to_string).collect();
    (StatusCode::SERVICE_UNAVAILABLE, format!("not read yet: {}\n", names.join(", ")))
}
