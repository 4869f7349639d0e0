//! Affinity, spread constraints and selectors as manifests write them.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_core::requirement::Operator;
use headstart_core::requirements::Requirements;
use headstart_core::snapshot::{Labels, Namespaces, PodTerm, PodTerms, Selector, Spread, Weighted};
use serde::Deserialize;

use crate::decode::{Expression, Fault, nullable, requirements};

/// All three kinds of affinity.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity {
    #[serde(rename = "nodeAffinity")]
    nodes: Option<NodeAffinity>,
    #[serde(rename = "podAffinity")]
    near: Option<PodAffinity>,
    #[serde(rename = "podAntiAffinity")]
    apart: Option<PodAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    preferred: Vec<PreferredTerm>,
}

/// Alternatives for what a node may be like.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelector {
    #[serde(deserialize_with = "nullable")]
    pub(crate) node_selector_terms: Vec<NodeSelectorTerm>,
}

/// One alternative.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelectorTerm {
    #[serde(deserialize_with = "nullable")]
    pub(crate) match_expressions: Vec<Expression>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) match_fields: Vec<Expression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PreferredTerm {
    weight: i32,
    preference: NodeSelectorTerm,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    required: Vec<Term>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    preferred: Vec<WeightedTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WeightedTerm {
    weight: i32,
    pod_affinity_term: Term,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    topology_key: String,
    label_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "nullable")]
    namespaces: Vec<Arc<str>>,
    namespace_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "nullable")]
    match_label_keys: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    mismatch_label_keys: Vec<String>,
}

/// A label selector.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LabelSelector {
    #[serde(deserialize_with = "nullable")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<Expression>,
}

/// A topology spread constraint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpreadConstraint {
    max_skew: i64,
    pub(crate) topology_key: String,
    pub(crate) when_unsatisfiable: String,
    pub(crate) label_selector: Option<LabelSelector>,
    min_domains: Option<u32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) match_label_keys: Vec<String>,
}

impl LabelSelector {
    /// The labels that must be equal.
    pub(crate) fn equal(&self) -> Labels {
        self.match_labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
    }

    pub(crate) fn selector(&self) -> Result<Selector, Fault> {
        let mut all = Selector::everything();
        for (key, value) in &self.match_labels {
            all = with(all, key, Operator::In, &[value])?;
        }
        for (i, expression) in self.match_expressions.iter().enumerate() {
            let at = format!("matchExpressions[{i}]");
            let operator = expression.operator().map_err(|fault| fault.within(&at))?;
            all = with(all, &expression.key, operator, &expression.values)
                .map_err(|fault| fault.within(&at))?;
        }
        Ok(all)
    }
}

fn with<V: AsRef<str>>(
    all: Selector,
    key: &str,
    operator: Operator,
    values: &[V],
) -> Result<Selector, Fault> {
    all.with(key, operator, values)
        .ok_or_else(|| Fault::new("operator", format!("label selectors do not know the operator {operator}")))
}

/// The selector with the pod's own values of some labels added.
fn matching(
    selector: Option<&LabelSelector>,
    same: &[String],
    different: &[String],
    own: &Labels,
) -> Result<Option<Selector>, Fault> {
    let Some(selector) = selector else { return Ok(None) };
    let mut all = selector.selector().map_err(|fault| fault.within("labelSelector"))?;
    for (keys, operator) in [(same, Operator::In), (different, Operator::NotIn)] {
        for key in keys {
            if let Some(value) = own.get(key.as_str()) {
                all = with(all, key, operator, std::slice::from_ref(value))?;
            }
        }
    }
    Ok(Some(all))
}

impl SpreadConstraint {
    /// Whether both are about the same label in the same way.
    pub(crate) fn repeats(&self, other: &Self) -> bool {
        (&self.topology_key, &self.when_unsatisfiable) == (&other.topology_key, &other.when_unsatisfiable)
    }

    pub(crate) fn spread(&self, own: &Labels) -> Result<Spread, Fault> {
        let required = match self.when_unsatisfiable.as_str() {
            "DoNotSchedule" | "" => true,
            "ScheduleAnyway" => false,
            other => return Err(Fault::new("whenUnsatisfiable", format!("unknown value {other:?}"))),
        };
        let max_skew = u32::try_from(self.max_skew).ok().filter(|skew| *skew > 0);
        Ok(Spread {
            topology_key: self.topology_key.as_str().into(),
            max_skew: max_skew.ok_or_else(|| Fault::new("maxSkew", "must be at least 1"))?,
            min_domains: self.min_domains,
            selector: matching(self.label_selector.as_ref(), &self.match_label_keys, &[], own)?,
            required,
            honor_affinity: self.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: self.node_taints_policy.as_deref() == Some("Honor"),
        })
    }
}

impl Term {
    fn term(&self, own: &Labels) -> Result<PodTerm, Fault> {
        if self.topology_key.is_empty() {
            return Err(Fault::new("topologyKey", "must not be empty"));
        }
        let selector = self.namespace_selector.as_ref().map(LabelSelector::selector).transpose();
        Ok(PodTerm {
            topology_key: self.topology_key.as_str().into(),
            selector: matching(
                self.label_selector.as_ref(),
                &self.match_label_keys,
                &self.mismatch_label_keys,
                own,
            )?,
            namespaces: Namespaces {
                names: self.namespaces.clone(),
                selector: selector.map_err(|fault| fault.within("namespaceSelector"))?,
            },
        })
    }
}

impl PodAffinity {
    fn terms(&self, own: &Labels) -> Result<PodTerms, Fault> {
        let mut terms = PodTerms::default();
        for (i, term) in self.required.iter().enumerate() {
            let at = format!("requiredDuringSchedulingIgnoredDuringExecution[{i}]");
            terms.required.push(term.term(own).map_err(|fault| fault.within(&at))?);
        }
        for (i, WeightedTerm { weight, pod_affinity_term }) in self.preferred.iter().enumerate() {
            let at = format!("preferredDuringSchedulingIgnoredDuringExecution[{i}].podAffinityTerm");
            let term = pod_affinity_term.term(own).map_err(|fault| fault.within(&at))?;
            terms.preferred.push(Weighted { weight: *weight, term });
        }
        Ok(terms)
    }
}

/// Required and preferred node affinity.
type NodeTerms = (Vec<Requirements>, Vec<Weighted<Requirements>>);

impl Affinity {
    /// Drops what is asked of nodes.
    pub(crate) fn forget_nodes(&mut self) {
        self.nodes = None;
    }

    pub(crate) fn nodes(&self) -> Result<NodeTerms, Fault> {
        let Some(affinity) = &self.nodes else { return Ok(NodeTerms::default()) };
        let (mut required, mut preferred) = (Vec::new(), Vec::new());
        for (i, term) in
            affinity.required.iter().flat_map(|required| &required.node_selector_terms).enumerate()
        {
            let at =
                format!("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]");
            if !term.match_fields.is_empty() {
                return Err(Fault::new(format!("{at}.matchFields"), "is not supported"));
            }
            required.push(
                requirements(&term.match_expressions, "matchExpressions")
                    .map_err(|fault| fault.within(&at))?,
            );
        }
        for (i, term) in affinity.preferred.iter().enumerate() {
            let at = format!("nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{i}].preference");
            let wanted = requirements(&term.preference.match_expressions, "matchExpressions");
            preferred
                .push(Weighted { weight: term.weight, term: wanted.map_err(|fault| fault.within(&at))? });
        }
        Ok((required, preferred))
    }

    pub(crate) fn near(&self, own: &Labels) -> Result<PodTerms, Fault> {
        let terms = self.near.as_ref().map(|affinity| affinity.terms(own)).transpose();
        terms.map(Option::unwrap_or_default).map_err(|fault| fault.within("podAffinity"))
    }

    pub(crate) fn apart(&self, own: &Labels) -> Result<PodTerms, Fault> {
        let terms = self.apart.as_ref().map(|affinity| affinity.terms(own)).transpose();
        terms.map(Option::unwrap_or_default).map_err(|fault| fault.within("podAntiAffinity"))
    }
}
