//! Launches whose Node has not registered yet, each kept in a ConfigMap.
//!
//! Upstream sleeps in memory, so a crash loses the Node and the claim waits for its registration to time out. A record
//! in the cluster survives: whoever lists instances next, be it this process after a restart or a new leader, takes
//! over. Several may do so at once; names make their work idempotent.
//!
//! The record exists until the Node does. Terminating only marks it: whoever registers the Node looks at the record
//! before and, by deleting the very version it read, also after, and takes the Node back if it was marked meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use super::errors::{is_conflict, is_missing, reading, writing};
use super::node::TERMINATED;
use crate::error::CloudError;

/// Marks a ConfigMap as ours.
const LABEL: (&str, &str) = ("headstart.dev/kwok-instance", "pending");
const NODE: &str = "node";
const REGISTERS_AT: &str = "registersAt";
/// How long to wait before a registration that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The launches that wait for their Node.
pub(super) struct Pending {
    records: Api<ConfigMap>,
    nodes: Api<Node>,
    /// The registrations this process takes care of; they end with it.
    tasks: Arc<Mutex<Tasks>>,
}

#[derive(Default)]
struct Tasks {
    running: JoinSet<()>,
    names: BTreeSet<String>,
}

impl Pending {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            records: Api::namespaced(client.clone(), namespace),
            nodes: Api::all(client.clone()),
            tasks: Arc::default(),
        }
    }

    /// Keeps a Node that registers after a delay.
    pub(super) async fn add(&self, node: &Node, delay: Duration) -> Result<(), CloudError> {
        let at = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
        let text = serde_json::to_string(node).map_err(|error| CloudError::not_done(error.to_string()))?;
        let record = ConfigMap {
            metadata: ObjectMeta {
                name: Some(node.name_any()),
                labels: Some(BTreeMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(NODE.to_owned(), text), (REGISTERS_AT.to_owned(), at.to_string())])),
            ..ConfigMap::default()
        };
        match self.records.create(&PostParams::default(), &record).await {
            Ok(record) => {
                self.take_over(&record);
                Ok(())
            }
            // Somebody was faster with the same launch; its answer is for the caller to ask again.
            Err(error) if is_conflict(&error) => {
                Err(CloudError::not_done(format!("{} is being launched already", node.name_any())))
            }
            Err(error) => Err(writing(error)),
        }
    }

    /// The Node that will register under a name.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Node>, CloudError> {
        let record = self.records.get_opt(name).await.map_err(reading)?;
        Ok(record.and_then(|record| node(&record)))
    }

    /// All Nodes that will register, by name; those nobody here takes care of are taken over.
    pub(super) async fn list(&self) -> Result<BTreeMap<String, Node>, CloudError> {
        let ours = ListParams::default().labels(&format!("{}={}", LABEL.0, LABEL.1));
        let records = self.records.list(&ours).await.map_err(reading)?;
        for record in &records {
            self.take_over(record);
        }
        Ok(records.iter().filter_map(|record| Some((record.name_any(), node(record)?))).collect())
    }

    /// Marks a launch as terminated, and tells whether there was one.
    pub(super) async fn end(&self, name: &str) -> Result<bool, CloudError> {
        let record = self.records.get_opt(name).await.map_err(reading)?;
        if record.is_none_or(|record| is_ended(&record)) {
            return Ok(false);
        }
        let mark = json!({ "metadata": { "annotations": { TERMINATED: "true" } } });
        match self.records.patch(name, &PatchParams::default(), &Patch::Merge(mark)).await {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(writing(error)),
        }
    }

    /// Registers a record's Node when its time has come, unless that is already taken care of here.
    fn take_over(&self, record: &ConfigMap) {
        let name = record.name_any();
        let wait = registers_at(record).map_or(Duration::ZERO, |at| {
            Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
        });
        let mut tasks = lock(&self.tasks);
        while tasks.running.try_join_next().is_some() {}
        if !tasks.names.insert(name.clone()) {
            return;
        }
        let (records, nodes) = (self.records.clone(), self.nodes.clone());
        let weak = Arc::downgrade(&self.tasks);
        tasks.running.spawn(async move {
            tokio::time::sleep(wait).await;
            while let Err(error) = register(&records, &nodes, &name).await {
                tracing::warn!(node = %name, %error, "registering a KWOK node failed; trying again");
                tokio::time::sleep(RETRY).await;
            }
            if let Some(tasks) = weak.upgrade() {
                lock(&tasks).names.remove(&name);
            }
        });
    }
}

/// Turns a record into its Node, or into nothing if it was terminated.
async fn register(records: &Api<ConfigMap>, nodes: &Api<Node>, name: &str) -> Result<(), kube::Error> {
    // A record that is gone was registered by another process.
    while let Some(record) = records.get_opt(name).await? {
        let ended = is_ended(&record);
        match node(&record) {
            Some(node) if !ended => ignore(nodes.create(&PostParams::default(), &node).await, is_conflict)?,
            _ => ignore(nodes.delete(name, &DeleteParams::default()).await, is_missing)?,
        }
        let read = Preconditions { uid: record.uid(), resource_version: record.resource_version() };
        let params = DeleteParams { preconditions: Some(read), ..DeleteParams::default() };
        match records.delete(name, &params).await {
            Err(error) if is_conflict(&error) => {}
            deleted => return ignore(deleted, is_missing),
        }
    }
    Ok(())
}

fn ignore<T>(result: Result<T, kube::Error>, harmless: fn(&kube::Error) -> bool) -> Result<(), kube::Error> {
    match result {
        Err(error) if !harmless(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_ended(record: &ConfigMap) -> bool {
    record.annotations().contains_key(TERMINATED)
}

/// A record's Node, marked if it was terminated. What cannot be read is somebody else's doing and stands for nothing.
fn node(record: &ConfigMap) -> Option<Node> {
    let mut node: Node = serde_json::from_str(record.data.as_ref()?.get(NODE)?).ok()?;
    if is_ended(record) {
        node.annotations_mut().insert(TERMINATED.to_owned(), "true".to_owned());
    }
    Some(node)
}

fn registers_at(record: &ConfigMap) -> Option<Timestamp> {
    record.data.as_ref()?.get(REGISTERS_AT)?.parse().ok()
}

fn lock(tasks: &Mutex<Tasks>) -> MutexGuard<'_, Tasks> {
    tasks.lock().unwrap_or_else(PoisonError::into_inner)
}
