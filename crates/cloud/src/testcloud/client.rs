//! The test cloud as a [`Cloud`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;

use super::http::Http;
use super::wire::{CatalogBody, DriftBody, Empty, ID_PREFIX, InstancesBody, RebootBody};
use crate::catalog::Catalog;
use crate::error::{CloudError, Reason};
use crate::notice::{Cursor, Notices};
use crate::port::{ClassKind, ClassRef, Cloud, Instance, Launch, LaunchRequest, ProviderId};
use crate::repair::{RepairAction, RepairPolicy};

/// How long a call may take before its answer counts as lost.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A client of the program `testcloud`.
pub struct TestCloud {
    http: Http,
}

/// An address that is not `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a test cloud; it looks like http://127.0.0.1:8700")]
pub struct BadEndpoint(String);

impl TestCloud {
    /// A client of the test cloud at an address such as `http://127.0.0.1:8700`.
    pub fn new(endpoint: &str) -> Result<Self, BadEndpoint> {
        Self::with_deadline(endpoint, DEADLINE)
    }

    /// The same with another deadline for each call.
    pub fn with_deadline(endpoint: &str, deadline: Duration) -> Result<Self, BadEndpoint> {
        Ok(Self { http: Http::new(authority(endpoint)?, deadline) })
    }

    /// Replaces all tags of an instance.
    pub async fn set_tags(&self, id: &ProviderId, tags: &BTreeMap<String, String>) -> Result<(), CloudError> {
        let Empty {} = self.http.send(Method::PUT, &path(id, "/tags")?, tags).await?;
        Ok(())
    }
}

/// The host and port of an address.
pub(super) fn authority(endpoint: &str) -> Result<String, BadEndpoint> {
    let authority = endpoint.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    match authority {
        Some(authority) if authority.contains(':') && !authority.contains('/') => Ok(authority.to_owned()),
        _ => Err(BadEndpoint(endpoint.to_owned())),
    }
}

#[async_trait]
impl Cloud for TestCloud {
    fn name(&self) -> &'static str {
        "testcloud"
    }

    fn node_classes(&self) -> &'static [ClassKind] {
        &[ClassKind { group: "karpenter.kwok.sh", kind: "KWOKNodeClass" }]
    }

    async fn catalog(&self, _class: &ClassRef) -> Result<Arc<Catalog>, CloudError> {
        let body: CatalogBody = self.http.get("/v1/catalog").await?;
        let catalog = Catalog::try_from(body).map_err(|error| CloudError::Permanent {
            reason: Reason::BadAnswer,
            message: error.to_string(),
        })?;
        Ok(Arc::new(catalog))
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Launch, CloudError> {
        self.http.send(Method::POST, "/v1/instances", request).await
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        self.http.get(&path(id, "")?).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let body: InstancesBody = self.http.get("/v1/instances").await?;
        Ok(body.instances)
    }

    async fn terminate(&self, id: &ProviderId) -> Result<(), CloudError> {
        let Empty {} = self.http.send(Method::DELETE, &path(id, "")?, &Empty {}).await?;
        Ok(())
    }

    async fn reboot(&self, id: &ProviderId, operation: &str) -> Result<(), CloudError> {
        let body = RebootBody { operation: operation.to_owned() };
        let Empty {} = self.http.send(Method::POST, &path(id, "/reboot")?, &body).await?;
        Ok(())
    }

    async fn drift(&self, id: &ProviderId, _class: &ClassRef) -> Result<Option<String>, CloudError> {
        let body: DriftBody = self.http.get(&path(id, "/drift")?).await?;
        Ok(body.reason)
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let unhealthy = |status: &str, reason: Option<&str>| RepairPolicy {
            condition: "Ready".into(),
            status: status.into(),
            reason: reason.map(str::to_owned),
            toleration: Duration::from_mins(10),
            grace: Some(Duration::ZERO),
            priority: 0,
            action: RepairAction::Replace,
        };
        vec![unhealthy("False", None), unhealthy("Unknown", Some(".*"))]
    }

    async fn notices(&self, after: Option<&Cursor>, wait: Duration) -> Result<Notices, CloudError> {
        let mut path = format!("/v1/notices?waitMs={}", wait.as_millis());
        if let Some(Cursor(cursor)) = after {
            // A cursor of ours is a number; anything else would break the address.
            let cursor: u64 = cursor.parse().map_err(|_| CloudError::Permanent {
                reason: Reason::InvalidRequest,
                message: format!("{cursor:?} is no cursor of the test cloud"),
            })?;
            let _ = write!(path, "&after={cursor}");
        }
        self.http.get_within(&path, wait).await
    }
}

/// The path of an instance. An id of another cloud's making cannot exist here.
fn path(id: &ProviderId, rest: &str) -> Result<String, CloudError> {
    let bare = id.0.strip_prefix(ID_PREFIX).and_then(|id| Some(id.split_once('/')?.1));
    match bare {
        Some(bare) if bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
            Ok(format!("/v1/instances/{bare}{rest}"))
        }
        _ => Err(CloudError::NotFound { id: id.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_one() {
        assert!(TestCloud::new("http://127.0.0.1:8700/").is_ok());
        for bad in ["127.0.0.1:8700", "https://127.0.0.1:8700", "http://host", "http://h:1/path"] {
            assert!(TestCloud::new(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn nothing_was_done_where_nobody_listens() {
        let cloud = TestCloud::new("http://127.0.0.1:1").unwrap();
        let error = cloud.list().await.unwrap_err();
        assert_eq!(error.kind(), "transient");
    }

    #[tokio::test]
    async fn ids_of_other_clouds_are_not_found_without_asking() {
        let cloud = TestCloud::new("http://127.0.0.1:1").unwrap();
        for id in ["kwok://node", "testcloud:///z/../../admin", "i-1"] {
            assert!(cloud.get(&ProviderId(id.into())).await.unwrap_err().is_not_found(), "{id}");
        }
    }
}
