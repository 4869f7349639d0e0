//! Kubeconfig files for people, components and peers.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::certs::Certs;

/// Writes a kubeconfig that signs in as `user` with a certificate of its own.
pub(crate) fn write(path: &Path, server: &str, certs: &Certs, user: &str, groups: &[&str]) -> Result<()> {
    let (certificate, key) = certs.client(user, groups)?;
    // A kubeconfig is YAML, and JSON is YAML: no encoder is needed. PEM goes inline through files beside it, since
    // the `*-data` fields would want base64.
    let beside = |extension: &str, pem: &str| -> Result<String> {
        let file = path.with_extension(extension);
        std::fs::write(&file, pem).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file.display().to_string())
    };
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "testbed",
        "clusters": [{"name": "testbed", "cluster": {"server": server, "certificate-authority": certs.path("ca.crt")}}],
        "users": [{"name": user, "user": {"client-certificate": beside("crt", &certificate)?, "client-key": beside("key", &key)?}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
    });
    std::fs::write(path, serde_json::to_string_pretty(&config)?)
        .with_context(|| format!("cannot write {}", path.display()))
}
