//! One HTTP call, performed once, with its failures sorted by what they tell about the effect.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::ErrorBody;
use crate::error::{CloudError, Reason, chain};

/// A plain HTTP/1 client bound to one server.
pub(super) struct Http {
    authority: String,
    deadline: Duration,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Http {
    pub(super) fn new(authority: String, deadline: Duration) -> Self {
        // Connections are not kept: one that the server closed meanwhile would make a call fail in a way that cannot
        // be told from a lost answer, and hyper would hide that by sending again.
        let client = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .pool_max_idle_per_host(0)
            .build(HttpConnector::new());
        Self { authority, deadline, client }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CloudError> {
        self.call(Method::GET, path, Bytes::new(), self.deadline).await
    }

    pub(super) async fn get_within<T: DeserializeOwned>(
        &self,
        path: &str,
        wait: Duration,
    ) -> Result<T, CloudError> {
        self.call(Method::GET, path, Bytes::new(), self.deadline + wait).await
    }

    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CloudError> {
        let body = serde_json::to_vec(body).map_err(|error| CloudError::not_done(error.to_string()))?;
        self.call(method, path, body.into(), self.deadline).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        deadline: Duration,
    ) -> Result<T, CloudError> {
        let what = format!("{method} {path}");
        let request = self.request(method, path, body)?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| {
                let message = format!("{what}: {}", chain(&error));
                if error.is_connect() {
                    CloudError::not_done(message)
                } else {
                    CloudError::answer_lost(message)
                }
            })?;
            let status = response.status();
            let body = response.into_body().collect().await;
            let body = body.map_err(|error| CloudError::answer_lost(format!("{what}: {}", chain(&error))))?;
            Ok::<_, CloudError>((status, body.to_bytes()))
        };
        let (status, body) = match tokio::time::timeout(deadline, exchange).await {
            Ok(exchanged) => exchanged?,
            Err(_) => return Err(CloudError::answer_lost(format!("{what}: no answer within {deadline:?}"))),
        };
        if status.is_success() {
            // It was done, but what was done cannot be read: only another call can tell.
            return serde_json::from_slice(&body).map_err(|error| {
                CloudError::answer_lost(format!("{what}: the answer makes no sense: {error}"))
            });
        }
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) => Err(body.error.into()),
            // Somebody between us and the cloud answered.
            Err(_) if status.is_server_error() => Err(CloudError::answer_lost(format!("{what}: {status}"))),
            Err(_) => {
                Err(CloudError::Permanent { reason: Reason::BadAnswer, message: format!("{what}: {status}") })
            }
        }
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, CloudError> {
        let invalid = |message: String| CloudError::Permanent { reason: Reason::InvalidRequest, message };
        let uri: Uri = format!("http://{}{path}", self.authority)
            .parse()
            .map_err(|error| invalid(format!("{path:?} is no path: {error}")))?;
        Request::builder()
            .method(method)
            .uri(uri)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| invalid(error.to_string()))
    }
}
