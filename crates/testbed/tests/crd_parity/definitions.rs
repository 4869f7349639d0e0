//! Definitions compared as documents.

use anyhow::{Context, Result};
use headstart_testbed::binaries::{self, Asset};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// Karpenter's own definitions, sorted by name.
pub(crate) async fn upstream() -> Result<Vec<CustomResourceDefinition>> {
    let files = tokio::task::spawn_blocking(|| binaries::asset(Asset::KarpenterCrds)).await??;
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path)?;
        serde_saphyr::from_str(&text).with_context(|| format!("{} is no definition", path.display()))
    };
    let mut crds = files.into_iter().map(read).collect::<Result<Vec<CustomResourceDefinition>>>()?;
    crds.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    Ok(crds)
}

/// The places where two documents differ, apart from descriptions and the order of required fields.
pub(crate) fn differences(ours: &Value, upstream: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk("", ours, upstream, &mut found);
    found
}

fn walk(at: &str, ours: &Value, upstream: &Value, found: &mut Vec<String>) {
    match (ours, upstream) {
        (Value::Object(ours), Value::Object(upstream)) => {
            // A description is a text; a property of that name would be a schema.
            let is_words = |value: Option<&Value>| value.is_none_or(Value::is_string);
            let keys: std::collections::BTreeSet<_> = ours.keys().chain(upstream.keys()).collect();
            for key in keys {
                let (ours, upstream) = (ours.get(key), upstream.get(key));
                if key == "description" && is_words(ours) && is_words(upstream) {
                    continue;
                }
                let null = &Value::Null;
                walk(&format!("{at}/{key}"), ours.unwrap_or(null), upstream.unwrap_or(null), found);
            }
        }
        (Value::Array(ours), Value::Array(upstream)) if at.ends_with("/required") => {
            let sorted = |list: &[Value]| {
                let mut list: Vec<_> = list.iter().map(Value::to_string).collect();
                list.sort();
                list
            };
            if sorted(ours) != sorted(upstream) {
                found.push(format!("{at}: ours {ours:?}, upstream's {upstream:?}"));
            }
        }
        (Value::Array(ours), Value::Array(upstream)) if ours.len() == upstream.len() => {
            for (i, (ours, upstream)) in ours.iter().zip(upstream).enumerate() {
                walk(&format!("{at}/{i}"), ours, upstream, found);
            }
        }
        _ if ours == upstream => {}
        _ => found.push(format!("{at}: ours {ours}, upstream's {upstream}")),
    }
}
