//! The side door of the test cloud: orders that make it misbehave.

use hyper::Method;
use serde::Serialize;
use serde_json::Value;

use super::client::{BadEndpoint, DEADLINE, authority};
use super::http::Http;
use super::wire::Empty;
use crate::error::CloudError;

/// A client of a test cloud's admin endpoint.
pub struct Admin {
    http: Http,
}

impl Admin {
    /// A client of the test cloud at an address such as `http://127.0.0.1:8700`.
    pub fn new(endpoint: &str) -> Result<Self, BadEndpoint> {
        Ok(Self { http: Http::new(authority(endpoint)?, DEADLINE) })
    }

    /// Gives an order; `testcloud fault --help` lists them, and the program's library has them as a type.
    pub async fn order(&self, order: &impl Serialize) -> Result<(), CloudError> {
        let Empty {} = self.http.send(Method::POST, "/admin", order).await?;
        Ok(())
    }

    /// How the cloud is doing: its time, instances, settings, armed faults, and how often each fault fired.
    pub async fn status(&self) -> Result<Value, CloudError> {
        self.http.get("/admin").await
    }
}
