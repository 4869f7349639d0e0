//! Pod disruption budgets as disruption sees them.

use headstart_core::requirement::Operator;
use headstart_core::snapshot::{Labels, Selector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

/// How many pods may be missing at once.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Raw")]
pub(crate) struct Guard {
    /// Which pods; `None` means none at all.
    selector: Option<Selector>,
    /// How many more may go now.
    pub(crate) allowed: i32,
    /// Whether pods that are not ready may always go.
    pub(crate) frees_unready: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    selector: Option<LabelSelector>,
    unhealthy_pod_eviction_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    disruptions_allowed: i32,
}

impl From<Raw> for Guard {
    fn from(raw: Raw) -> Self {
        Self {
            selector: raw.spec.selector.as_ref().and_then(selector),
            allowed: raw.status.disruptions_allowed,
            frees_unready: raw.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        }
    }
}

impl Guard {
    /// Whether it is about a pod with these labels.
    pub(crate) fn is_about(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// The selector; one that makes no sense selects nothing, like in the API server.
fn selector(written: &LabelSelector) -> Option<Selector> {
    let mut all = Selector::everything();
    for (key, value) in written.match_labels.iter().flatten() {
        all = all.with(key, Operator::In, &[value])?;
    }
    for expression in written.match_expressions.iter().flatten() {
        let operator: Operator = expression.operator.parse().ok()?;
        let values = expression.values.as_deref().unwrap_or_default();
        all = all.with(&expression.key, operator, values)?;
    }
    Some(all)
}
