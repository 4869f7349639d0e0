//! A node and its claim as one cluster has them, to make the same in another.

use anyhow::{Context, Result};
use serde_json::Value;

/// A node and its claim as an operator made them, to make more of.
pub(crate) struct Template {
    claim: Value,
    claim_status: Value,
    node: Value,
    name: String,
    uid: String,
}

impl Template {
    /// Leaves out what the API server writes.
    pub(crate) fn new(mut claim: Value, mut node: Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = text(&claim["metadata"]["name"]).context("a NodeClaim has no name")?;
        let uid = text(&claim["metadata"]["uid"]).context("a NodeClaim has no uid")?;
        for object in [&mut claim, &mut node] {
            let metadata = object["metadata"].as_object_mut().context("an object has no metadata")?;
            for field in
                ["uid", "resourceVersion", "creationTimestamp", "generation", "generateName", "managedFields"]
            {
                metadata.remove(field);
            }
        }
        let claim_status = claim["status"].take();
        Ok(Self { claim, claim_status, node, name, uid })
    }

    pub(crate) fn claim(&self, name: &str) -> Result<Value> {
        renamed(&self.claim, &[(&self.name, name)])
    }

    pub(crate) fn claim_status(&self, name: &str) -> Result<Value> {
        renamed(&self.claim_status, &[(&self.name, name)])
    }

    /// The node of the claim with that name and uid; its own name has the claim's in it.
    pub(crate) fn node(&self, name: &str, uid: &str) -> Result<Value> {
        renamed(&self.node, &[(&self.name, name), (&self.uid, uid)])
    }
}

fn renamed(object: &Value, names: &[(&str, &str)]) -> Result<Value> {
    let mut text = object.to_string();
    for (old, new) in names {
        text = text.replace(old, new);
    }
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_of_a_node_belong_to_the_copies_of_its_claim() {
        let claim = json!({
            "metadata": {"name": "general-x7k2p", "uid": "u-1", "resourceVersion": "5", "labels": {"a": "b"}},
            "status": {"nodeName": "kwok-general-x7k2p-otter", "providerID": "kwok://kwok-general-x7k2p-otter"},
        });
        let node = json!({
            "metadata": {"name": "kwok-general-x7k2p-otter", "uid": "u-2", "annotations": {"token": "u-1"}, "ownerReferences": [{"uid": "u-1"}]},
            "spec": {"providerID": "kwok://kwok-general-x7k2p-otter"},
        });
        let template = Template::new(claim, node).unwrap();
        assert_eq!(
            template.claim("general-00001").unwrap()["metadata"],
            json!({"name": "general-00001", "labels": {"a": "b"}})
        );
        let status = template.claim_status("general-00001").unwrap();
        let node = template.node("general-00001", "u-9").unwrap();
        assert_eq!(status["nodeName"], node["metadata"]["name"]);
        assert_eq!(status["providerID"], node["spec"]["providerID"]);
        assert_eq!(node["metadata"]["ownerReferences"][0]["uid"], "u-9");
        assert_eq!(node["metadata"]["annotations"]["token"], "u-9");
        assert_eq!(node["metadata"].get("uid"), None);
    }
}
