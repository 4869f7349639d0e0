//! The port: everything Headstart asks of an infrastructure provider.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use headstart_core::cloud::{
    ClassRef, DryOffering, Instance, Launch, LaunchRequest, NodeTemplate, OfferingKey, ProviderId, State,
    Taint, Token, tag,
};

use crate::catalog::Catalog;
use crate::error::CloudError;
use crate::notice::{Cursor, Notices};
use crate::repair::RepairPolicy;

/// An infrastructure provider.
///
/// INVARIANT: no implementation retries inside a call. A call is performed once and answered once; who calls again,
/// and when, is decided elsewhere.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// A short lower-case name, fit for a metric label.
    fn name(&self) -> &'static str;

    /// The kinds of node class this cloud understands, the default one first.
    fn node_classes(&self) -> &'static [ClassKind];

    /// What can be bought for a node class, including what is not available now.
    async fn catalog(&self, class: &ClassRef) -> Result<Arc<Catalog>, CloudError>;

    /// Launches one instance in the first of the listed offerings that has capacity.
    ///
    /// The token makes it idempotent: the same request gives the same instance however often it is sent, also after a
    /// crash of this process. The same token with other offerings is refused.
    async fn launch(&self, request: &LaunchRequest) -> Result<Launch, CloudError>;

    /// One instance; [`CloudError::NotFound`] once it has ended.
    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError>;

    /// All instances that have not ended, in the order of their ids. It may lag behind other calls.
    async fn list(&self) -> Result<Vec<Instance>, CloudError>;

    /// Begins to end an instance, or goes on with it.
    ///
    /// `Ok` means that it is ending or has just ended; [`CloudError::NotFound`] means that it is gone, which is what a
    /// caller waits for.
    async fn terminate(&self, id: &ProviderId) -> Result<(), CloudError>;

    /// Restarts an instance in place; the same operation id never restarts it twice.
    async fn reboot(&self, id: &ProviderId, operation: &str) -> Result<(), CloudError>;

    /// Why the instance no longer is what its class asks for, if so, as a condition's reason.
    async fn drift(&self, id: &ProviderId, class: &ClassRef) -> Result<Option<String>, CloudError>;

    /// When an unhealthy node is repaired, and how; the whole set.
    fn repair_policies(&self) -> Vec<RepairPolicy>;

    /// What the cloud announced after a cursor (from the beginning without one), waiting up to `wait` for something.
    ///
    /// Notices come at least once and in order. A cloud that never announces anything answers nothing after `wait`.
    async fn notices(&self, after: Option<&Cursor>, wait: Duration) -> Result<Notices, CloudError>;
}

/// A group and kind of node class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassKind {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
}
