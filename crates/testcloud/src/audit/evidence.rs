//! What a cluster says, from its API or from files: NodeClaims and Nodes, reduced to what an audit needs.

use std::path::{Path, PathBuf};

use headstart_cloud::testcloud::wire::ID_PREFIX;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::Value;

/// NodeClaims and Nodes of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// All NodeClaims.
    pub claims: Vec<Claim>,
    /// The Nodes that stand for instances of a test cloud.
    pub nodes: Vec<NodeSeen>,
}

/// A NodeClaim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The short id of the instance it names.
    pub instance: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it says that its instance is terminated.
    pub says_terminated: bool,
}

/// A Node that stands for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// The short id of the instance.
    pub instance: String,
}

/// Why evidence cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has no objects.
    #[error("{}: {message}; give the output of `kubectl get nodeclaims,nodes -o json`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The cluster does not answer.
    #[error("cannot list {what} of the cluster")]
    Cluster {
        /// What was listed.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Evidence {
    /// Reads what `kubectl get nodeclaims,nodes -o json` printed.
    pub fn from_files(paths: &[PathBuf]) -> Result<Self, EvidenceError> {
        let mut evidence = Self::default();
        for path in paths {
            let text = std::fs::read_to_string(path)
                .map_err(|source| EvidenceError::Unreadable { path: path.clone(), source })?;
            evidence.add(path, &text)?;
        }
        Ok(evidence)
    }

    /// Asks a cluster.
    pub async fn from_cluster(client: &Client) -> Result<Self, EvidenceError> {
        let cluster = |what| move |source| EvidenceError::Cluster { what, source: Box::new(source) };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim"));
        let claims: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let claims = claims.list(&ListParams::default()).await.map_err(cluster("NodeClaims"))?;
        let nodes: Api<Node> = Api::all(client.clone());
        let nodes = nodes.list(&ListParams::default()).await.map_err(cluster("Nodes"))?;
        let mut evidence = Self::default();
        for claim in &claims {
            let metadata = serde_json::to_value(&claim.metadata).unwrap_or_default();
            evidence.claims.push(Claim::new(&metadata, &claim.data["status"]));
        }
        for node in &nodes {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            evidence.nodes.extend(instance(id).map(|instance| NodeSeen { name: node.name_any(), instance }));
        }
        Ok(evidence)
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<(), EvidenceError> {
        let malformed = |message: String| EvidenceError::Malformed { path: path.to_owned(), message };
        let value: Value =
            serde_json::from_str(text).map_err(|error| malformed(format!("it is not JSON: {error}")))?;
        let items = match &value {
            Value::Array(items) => items.as_slice(),
            Value::Object(object) => match object.get("items") {
                Some(Value::Array(items)) => items,
                _ => std::slice::from_ref(&value),
            },
            _ => return Err(malformed("it is neither an object nor a list".to_owned())),
        };
        for (index, item) in items.iter().enumerate() {
            match item["kind"].as_str() {
                Some("NodeClaim") => self.claims.push(Claim::new(&item["metadata"], &item["status"])),
                Some("Node") => {
                    let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    let instance = instance(item["spec"]["providerID"].as_str());
                    self.nodes.extend(instance.map(|instance| NodeSeen { name, instance }));
                }
                kind => {
                    let kind = kind.unwrap_or("nothing");
                    return Err(malformed(format!("item {index} is {kind}, neither NodeClaim nor Node")));
                }
            }
        }
        Ok(())
    }
}

impl Claim {
    fn new(metadata: &Value, status: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let terminated = |c: &&Value| c["type"] == "InstanceTerminating" && c["status"] == "True";
        Self {
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            instance: instance(status["providerID"].as_str()),
            deleting: !metadata["deletionTimestamp"].is_null(),
            says_terminated: conditions.iter().any(|c| terminated(&c)),
        }
    }
}

/// The short id in a provider id of ours; other clouds' ids are none of our business.
fn instance(provider_id: Option<&str>) -> Option<String> {
    let (_, id) = provider_id?.strip_prefix(ID_PREFIX)?.split_once('/')?;
    Some(id.to_owned())
}
