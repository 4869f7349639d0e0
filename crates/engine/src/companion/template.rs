//! A pod that keeps room for another: everything that decides where that one can run, and nothing else of it.

use std::sync::Arc;

use headstart_api::annotations::{BECAUSE, EXPECTED_BY, SAFE_TO_EVICT};
use headstart_api::labels::{
    AZURE_FAKE_POD, AZURE_PLACEHOLDER, AZURE_PROACTIVE, PLACEHOLDER, PLACEHOLDER_FOR,
};
use headstart_core::demand::Expected;
use headstart_core::requirement::{Expression, Operator};
use headstart_core::requirements::Requirements;
use headstart_core::resources::{HUGE_PAGES_PREFIX, PODS};
use headstart_core::snapshot::{
    Effect, HostPort, PodTerm, PodTerms, Selector, Shape, Spread, Toleration, TolerationOperator,
};
use serde_json::{Map, Value, json};

use crate::companion::ground;
use crate::settings::Leading;

/// Tolerations that the API server adds to every pod, with a time that a shape does not keep.
const ADDED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Metadata and specification of pods that keep room.
///
/// They have none of the labels of those they stand for: nothing that selects those may ever count these.
pub(super) fn template(expected: &Expected, mark: &str, has_siblings: bool, settings: &Leading) -> Value {
    let Expected { source, because, template, .. } = expected;
    let terms = Terms { shape: &template.shape, namespace: &template.namespace, mark, has_siblings };
    json!({
        "metadata": {
            "labels": labels(mark),
            "annotations": {
                EXPECTED_BY: source,
                BECAUSE: format!("{source}: {because}"),
                // Nothing makes them anew, which other autoscalers take for a reason to keep their node.
                SAFE_TO_EVICT: "true",
            },
        },
        "spec": spec(&terms, settings),
    })
}

/// The labels of everything that stands for a belief.
pub(super) fn labels(mark: &str) -> Value {
    json!({
        PLACEHOLDER: "true",
        PLACEHOLDER_FOR: mark,
        AZURE_FAKE_POD: "true",
        AZURE_PROACTIVE: AZURE_PLACEHOLDER,
    })
}

/// What is needed to write terms about other pods.
struct Terms<'a> {
    shape: &'a Shape,
    /// The namespace of the pods that are expected.
    namespace: &'a Arc<str>,
    mark: &'a str,
    /// Whether pods of the same owner have a node already.
    has_siblings: bool,
}

fn spec(terms: &Terms<'_>, settings: &Leading) -> Value {
    let shape = terms.shape;
    let mut spec = json!({
        "priorityClassName": ground::class_name(settings),
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65535, "runAsGroup": 65535,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [container(shape, settings)],
    });
    let selector: Map<String, Value> = shape
        .node_selector
        .iter()
        .filter_map(|requirement| Some((requirement.key().to_owned(), requirement.single()?.into())))
        .collect();
    let tolerations: Vec<Value> = shape.tolerations.iter().filter_map(toleration).collect();
    let spread: Vec<Value> = shape.spread.iter().filter_map(|one| terms.spread(one)).collect();
    let affinity = terms.affinity();
    for (field, value) in [
        ("nodeSelector", Value::Object(selector)),
        ("tolerations", Value::Array(tolerations)),
        ("topologySpreadConstraints", Value::Array(spread)),
        ("affinity", Value::Object(affinity)),
    ] {
        if !is_empty(&value) {
            spec[field] = value;
        }
    }
    spec
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// One container that asks for as much as all of the other pod's at its hungriest moment, its overhead included.
fn container(shape: &Shape, settings: &Leading) -> Value {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for (name, amount) in shape.requests.iter().filter(|(name, _)| *name != PODS) {
        let amount: Value = amount.to_string().into();
        // What cannot be overcommitted must be asked for and limited alike.
        if name.contains('/') || name.starts_with(HUGE_PAGES_PREFIX) {
            limits.insert(name.to_owned(), amount.clone());
        }
        requests.insert(name.to_owned(), amount);
    }
    let mut container = json!({
        "name": "room",
        "image": settings.image,
        "resources": { "requests": requests, "limits": limits },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    });
    if !shape.host_ports.is_empty() {
        container["ports"] = shape.host_ports.iter().map(port).collect();
    }
    container
}

fn port(port: &HostPort) -> Value {
    let HostPort { ip, port, protocol } = port;
    let mut written = json!({ "containerPort": port, "hostPort": port, "protocol": protocol });
    if !ip.is_unspecified() {
        written["hostIP"] = ip.to_string().into();
    }
    written
}

fn toleration(toleration: &Toleration) -> Option<Value> {
    let Toleration { key, operator, value, effect } = toleration;
    if ADDED.contains(&&**key) && *effect == Some(Effect::NoExecute) {
        return None;
    }
    let operator = match operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Lt => "Lt",
        TolerationOperator::Gt => "Gt",
    };
    let mut written = json!({ "operator": operator });
    for (field, text) in [("key", &**key), ("value", &**value), ("effect", effect.map_or("", Effect::as_str))]
    {
        if !text.is_empty() {
            written[field] = text.into();
        }
    }
    Some(written)
}

impl Terms<'_> {
    fn affinity(&self) -> Map<String, Value> {
        let Shape { required, preferred, volume_topology, affinity, anti_affinity, .. } = self.shape;
        let mut all = Map::new();
        let mut of_nodes = Map::new();
        let places = both(required, volume_topology);
        if !places.is_empty() {
            let places: Vec<Value> = places.iter().map(node_term).collect();
            of_nodes.insert(REQUIRED.to_owned(), json!({ "nodeSelectorTerms": places }));
        }
        if !preferred.is_empty() {
            let liked = preferred
                .iter()
                .map(|one| json!({ "weight": one.weight, "preference": node_term(&one.term) }));
            of_nodes.insert(PREFERRED.to_owned(), liked.collect());
        }
        for (name, fields) in [
            ("nodeAffinity", of_nodes),
            ("podAffinity", of_pods(affinity, |term| vec![self.near(term)])),
            ("podAntiAffinity", of_pods(anti_affinity, |term| self.apart(term))),
        ] {
            if !fields.is_empty() {
                all.insert(name.to_owned(), Value::Object(fields));
            }
        }
        all
    }

    /// Whether a selector of pods in a pod's own namespace selects those that are expected.
    fn is_own(&self, selector: Option<&Selector>) -> bool {
        selector.is_some_and(|selector| selector.matches(&self.shape.labels))
    }

    /// Whether a term is about the pods that are expected themselves.
    fn is_about_self(&self, term: &PodTerm) -> bool {
        let spaces = &term.namespaces;
        let is_everywhere = spaces.selector.as_ref().is_some_and(Selector::is_everything);
        let is_here =
            (spaces.names.is_empty() && spaces.selector.is_none()) || spaces.names.contains(self.namespace);
        self.is_own(term.selector.as_ref()) && (is_here || is_everywhere)
    }

    /// A term about being near others. The first of its kind may be anywhere, so that those that keep room follow each other
    /// only as long as nobody else is there to be followed.
    fn near(&self, term: &PodTerm) -> Value {
        if self.is_about_self(term) && !self.has_siblings { self.of_ours(term) } else { self.of_others(term) }
    }

    /// Terms about staying away from others: both from pods that exist and from those that keep room beside this one.
    fn apart(&self, term: &PodTerm) -> Vec<Value> {
        let ours = self.is_about_self(term).then(|| self.of_ours(term));
        ours.into_iter().chain([self.of_others(term)]).collect()
    }

    /// A term about what stands for the same belief.
    fn of_ours(&self, term: &PodTerm) -> Value {
        json!({ "labelSelector": self.own_selector(), "topologyKey": term.topology_key })
    }

    fn own_selector(&self) -> Value {
        json!({ "matchLabels": { PLACEHOLDER_FOR: self.mark } })
    }

    /// A term as it is, where the other pod is.
    fn of_others(&self, term: &PodTerm) -> Value {
        let mut written = json!({ "topologyKey": term.topology_key });
        if let Some(selector) = &term.selector {
            written["labelSelector"] = label_selector(selector);
        }
        let spaces = &term.namespaces;
        if let Some(selector) = &spaces.selector {
            written["namespaceSelector"] = label_selector(selector);
        }
        let is_unsaid = spaces.names.is_empty() && spaces.selector.is_none();
        let names = if is_unsaid { std::slice::from_ref(self.namespace) } else { &spaces.names };
        if !names.is_empty() {
            written["namespaces"] = json!(names);
        }
        written
    }

    /// A spread constraint among those that keep room; pods of other namespaces cannot be counted.
    fn spread(&self, spread: &Spread) -> Option<Value> {
        if !self.is_own(spread.selector.as_ref()) {
            return None;
        }
        let policy = |honors| if honors { "Honor" } else { "Ignore" };
        let mut written = json!({
            "topologyKey": spread.topology_key,
            "maxSkew": spread.max_skew,
            "whenUnsatisfiable": if spread.required { "DoNotSchedule" } else { "ScheduleAnyway" },
            "labelSelector": self.own_selector(),
            "nodeAffinityPolicy": policy(spread.honor_affinity),
            "nodeTaintsPolicy": policy(spread.honor_taints),
        });
        if let Some(least) = spread.min_domains.filter(|_| spread.required) {
            written["minDomains"] = least.into();
        }
        Some(written)
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Terms about other pods; what is one term there may be several here.
fn of_pods(terms: &PodTerms, write: impl Fn(&PodTerm) -> Vec<Value>) -> Map<String, Value> {
    let required: Vec<Value> = terms.required.iter().flat_map(&write).collect();
    let preferred: Vec<Value> = terms
        .preferred
        .iter()
        .flat_map(|one| {
            write(&one.term).into_iter().map(|term| json!({ "weight": one.weight, "podAffinityTerm": term }))
        })
        .collect();
    let all = [(REQUIRED, required), (PREFERRED, preferred)];
    let named = all.into_iter().filter(|(_, terms)| !terms.is_empty());
    named.map(|(name, terms)| (name.to_owned(), Value::Array(terms))).collect()
}

/// Alternatives that satisfy one of each list; an empty list asks for nothing.
fn both(one: &[Requirements], other: &[Requirements]) -> Vec<Requirements> {
    match (one, other) {
        (only, []) | ([], only) => only.to_vec(),
        _ => {
            let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (one, other)));
            let joined = pairs.map(|(one, other)| {
                let mut joined = one.clone();
                joined.add_all(other);
                joined
            });
            joined.collect()
        }
    }
}

fn node_term(requirements: &Requirements) -> Value {
    let written: Vec<Value> = requirements.expressions().iter().map(node_expression).collect();
    json!({ "matchExpressions": written })
}

/// An expression about nodes, which pods may write with fewer operators than pools.
fn node_expression(expression: &Expression) -> Value {
    let Expression { key, operator, values, .. } = expression;
    let bound = |by: i64| -> Vec<String> {
        let number =
            |value: &Arc<str>| value.parse::<i64>().ok().map(|number| number.saturating_add(by).to_string());
        values.iter().filter_map(number).collect()
    };
    let (operator, values) = match operator {
        Operator::Gte => (Operator::Gt, bound(-1)),
        Operator::Lte => (Operator::Lt, bound(1)),
        other => (*other, values.iter().map(ToString::to_string).collect()),
    };
    written(key, operator, &values)
}

fn label_selector(selector: &Selector) -> Value {
    let conditions = selector.expressions().map(|(key, operator, values)| written(key, operator, values));
    json!({ "matchExpressions": conditions.collect::<Vec<_>>() })
}

fn written<V: serde::Serialize>(key: &str, operator: Operator, values: &[V]) -> Value {
    let mut written = json!({ "key": key, "operator": operator.as_str() });
    if !values.is_empty() {
        written["values"] = json!(values);
    }
    written
}
