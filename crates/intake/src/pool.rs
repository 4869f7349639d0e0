//! Where nodes come from.

use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;
use headstart_core::snapshot::{Labels, Pool, Taint};
use serde::Deserialize;

use crate::decode::{Expression, Fault, nullable, requirements};
use crate::meta::Meta;
use crate::pod::{Condition, TaintSpec};

/// A node pool.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodePool {
    pub(crate) metadata: Meta,
    spec: PoolSpec,
    #[serde(deserialize_with = "nullable")]
    status: PoolStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PoolSpec {
    weight: Option<i32>,
    limits: Option<Resources>,
    replicas: Option<i64>,
    template: Template,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    #[serde(deserialize_with = "nullable")]
    metadata: TemplateMeta,
    spec: TemplateSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMeta {
    #[serde(deserialize_with = "nullable")]
    labels: Labels,
}

/// What pools and claims both say about nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TemplateSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) requirements: Vec<Expression>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) taints: Vec<TaintSpec>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) startup_taints: Vec<TaintSpec>,
    node_class_ref: Option<ClassRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClassRef {
    group: String,
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PoolStatus {
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

impl TemplateSpec {
    pub(crate) fn requirements(&self) -> Result<Requirements, Fault> {
        requirements(&self.requirements, "requirements")
    }

    pub(crate) fn taints(&self) -> Result<Vec<Taint>, Fault> {
        taints(&self.taints, "taints")
    }

    pub(crate) fn startup_taints(&self) -> Result<Vec<Taint>, Fault> {
        taints(&self.startup_taints, "startupTaints")
    }
}

pub(crate) fn taints(specs: &[TaintSpec], field: &str) -> Result<Vec<Taint>, Fault> {
    let one = |(i, taint): (usize, &TaintSpec)| {
        taint.taint().map_err(|fault| fault.within(&format!("{field}[{i}]")))
    };
    specs.iter().enumerate().map(one).collect()
}

impl NodePool {
    /// The labels that every node gets from the template.
    pub(crate) fn template_labels(&self) -> &Labels {
        &self.spec.template.metadata.labels
    }

    /// The pool for the solver, or `None` when no node may come from it.
    ///
    /// A pool whose readiness nobody has judged, as in a file, counts as ready.
    pub(crate) fn pool(&self) -> Result<Option<Pool>, Fault> {
        let unready = |condition: &Condition| condition.kind == "Ready" && condition.status != "True";
        let spec = &self.spec.template.spec;
        let within = |fault: Fault| fault.within("spec.template.spec");
        let mut labels: Labels = self.spec.template.metadata.labels.clone();
        if let Some(class) = &spec.node_class_ref {
            let key = format!("{}/{}", class.group, class.kind.to_lowercase());
            labels.insert(key.into(), class.name.as_str().into());
        }
        let pool = Pool {
            name: self.metadata.name.as_str().into(),
            weight: self.spec.weight.unwrap_or(0),
            requirements: spec.requirements().map_err(within)?,
            labels,
            taints: spec.taints().map_err(within)?,
            limits: self.spec.limits.clone(),
            ..Pool::default()
        };
        spec.startup_taints().map_err(within)?;
        let idle = self.spec.replicas.is_some()
            || self.metadata.is_leaving()
            || self.status.conditions.iter().any(unready);
        Ok((!idle).then_some(pool))
    }
}
