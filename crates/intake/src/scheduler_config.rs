//! What is configured like kube-scheduler, so that the solver expects what kube-scheduler does.

use headstart_core::snapshot::{Labels, Spread};
use serde::Deserialize;
use serde_json::Value;

use crate::affinity::SpreadConstraint;
use crate::decode::{Fault, decode};
use crate::names::wrong_key;

/// How the cluster's kube-scheduler is configured, as far as the solver follows it.
#[derive(Clone, Debug, Default)]
pub struct SchedulerConfig {
    /// Constraints for pods that have none of their own; they select no pods yet.
    pub(crate) default_spread: Vec<Spread>,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", field, if field.is_empty() { "" } else { ": " })]
pub struct SchedulerConfigError {
    /// The path of the field, such as `podTopologySpread.defaultConstraints[0].maxSkew`; empty for the whole text.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Config {
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct PodTopologySpread {
    default_constraints: Option<Vec<Value>>,
}

/// What a constraint may say; pods may say more one day, but a setting that has no effect should not be taken for one that has.
const FIELDS: [&str; 8] = [
    "labelSelector",
    "matchLabelKeys",
    "maxSkew",
    "minDomains",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "topologyKey",
    "whenUnsatisfiable",
];

impl SchedulerConfig {
    /// Whether it matters to whom pods belong.
    pub fn asks_for_owners(&self) -> bool {
        !self.default_spread.is_empty()
    }

    /// Reads a configuration as Karpenter's option `SCHEDULER_CONFIG` has it, YAML or JSON; an empty text configures nothing.
    pub fn parse(text: &str) -> Result<Self, SchedulerConfigError> {
        parse(text).map_err(|Fault { field, message }| SchedulerConfigError { field, message })
    }
}

fn parse(text: &str) -> Result<SchedulerConfig, Fault> {
    if text.trim().is_empty() {
        return Ok(SchedulerConfig::default());
    }
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| Fault::new("", format!("not YAML: {error}")))?;
    let config: Option<Config> = decode(&value)?;
    let spread = config.and_then(|config| config.pod_topology_spread).unwrap_or_default();
    let (mut default_spread, mut constraints) = (Vec::new(), Vec::<SpreadConstraint>::new());
    for (i, value) in spread.default_constraints.unwrap_or_default().iter().enumerate() {
        let at = format!("podTopologySpread.defaultConstraints[{i}]");
        let constraint = strict(value).map_err(|fault| fault.within(&at))?;
        default_spread.push(checked(&constraint).map_err(|fault| fault.within(&at))?);
        if let Some(j) = constraints.iter().position(|other| other.repeats(&constraint)) {
            let message = format!("repeats topologyKey and whenUnsatisfiable of constraint {j}");
            return Err(Fault::new(at, message));
        }
        constraints.push(constraint);
    }
    Ok(SchedulerConfig { default_spread })
}

fn strict(value: &Value) -> Result<SpreadConstraint, Fault> {
    let fields = value.as_object().into_iter().flatten().map(|(field, _)| field);
    match fields.into_iter().find(|field| !FIELDS.contains(&field.as_str())) {
        Some(unknown) => Err(Fault::new(unknown, "is not known")),
        None => decode(value),
    }
}

fn checked(constraint: &SpreadConstraint) -> Result<Spread, Fault> {
    let spread = constraint.spread(&Labels::new());
    if let Some(fault) = spread.as_ref().err().filter(|fault| fault.field == "maxSkew") {
        return Err(fault.clone());
    }
    if let Some(wrong) = wrong_key(&constraint.topology_key) {
        return Err(Fault::new("topologyKey", wrong));
    }
    if constraint.when_unsatisfiable.is_empty() {
        return Err(Fault::new("whenUnsatisfiable", "must be DoNotSchedule or ScheduleAnyway"));
    }
    let deduced = "must not be set: which pods are spread is deduced for each pod";
    if constraint.label_selector.is_some() {
        return Err(Fault::new("labelSelector", deduced));
    }
    if !constraint.match_label_keys.is_empty() {
        return Err(Fault::new("matchLabelKeys", deduced));
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(constraints: &str) -> String {
        let text = format!("podTopologySpread: {{defaultConstraints: [{constraints}]}}");
        SchedulerConfig::parse(&text).unwrap_err().to_string()
    }

    #[test]
    fn what_kube_scheduler_accepts_is_accepted() {
        for nothing in
            ["", " \n", "{}", "podTopologySpread:", "podTopologySpread: {defaultConstraints: null}"]
        {
            assert!(SchedulerConfig::parse(nothing).unwrap().default_spread.is_empty(), "{nothing}");
        }
        let config = SchedulerConfig::parse(
            r#"{"podTopologySpread": {"defaultConstraints": [
                {"maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                 "minDomains": 2, "nodeTaintsPolicy": "Honor"}]}}"#,
        );
        let spread = config.unwrap().default_spread;
        assert_eq!((spread[0].max_skew, spread[0].required, spread[0].honor_taints), (3, false, false));
        assert_eq!(
            (spread[1].min_domains, spread[1].required, spread[1].honor_taints),
            (Some(2), true, true)
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule";
        let at = "podTopologySpread.defaultConstraints";
        let cases = [
            ("{topologyKey: zone}".to_owned(), format!("{at}[0].maxSkew: must be at least 1")),
            ("{maxSkew: -1}".to_owned(), format!("{at}[0].maxSkew: must be at least 1")),
            (format!("{{{good}, labelSelector: {{}}}}"), format!("{at}[0].labelSelector: must not be set")),
            (format!("{{{good}, matchLabelKeys: [a]}}"), format!("{at}[0].matchLabelKeys: must not be set")),
            (format!("{{{good}}}, {{{good}}}"), format!("{at}[1]: repeats topologyKey")),
            ("{maxSkew: 1}".to_owned(), format!("{at}[0].topologyKey: must have a name")),
            ("{maxSkew: 1, topologyKey: a/b/c}".to_owned(), format!("{at}[0].topologyKey: must have a name")),
            ("{maxSkew: 1, topologyKey: zone}".to_owned(), format!("{at}[0].whenUnsatisfiable: must be")),
            (
                "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never}".to_owned(),
                format!("{at}[0].whenUnsatisfiable: unknown value"),
            ),
            (format!("{{{good}, weight: 3}}"), format!("{at}[0].weight: is not known")),
            ("{maxSkew: one}".to_owned(), format!("{at}[0].maxSkew: invalid type")),
        ];
        for (constraints, expected) in cases {
            let message = wrong(&constraints);
            assert!(message.starts_with(&expected), "{constraints}: {message}");
        }
        let message = SchedulerConfig::parse("profiles: []").unwrap_err().to_string();
        assert!(message.starts_with("profiles: unknown field"), "{message}");
    }
}
