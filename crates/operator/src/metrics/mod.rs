//! What is counted and measured, in the text format of `OpenMetrics`.

pub(crate) mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headstart_engine::{Gauge, Kind, Measure};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use table::{OURS, ROWS, Row};

type Labels = Vec<(String, String)>;

/// Everything that is counted and measured.
pub(crate) struct Metrics {
    registry: Registry,
    series: BTreeMap<&'static str, Series>,
    gauges: Arc<Mutex<Vec<Gauge>>>,
    effects: Family<Labels, Counter>,
    events: Family<Labels, Counter>,
    deciding: Histogram,
    /// Names that the table lacks, so that each is complained about once.
    strangers: Mutex<BTreeSet<String>>,
}

enum Series {
    Counter(Family<Labels, Counter<f64, AtomicU64>>),
    Histogram(Family<Labels, Histogram, Buckets>),
}

#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let mut series = BTreeMap::new();
        let gauges = Arc::default();
        for (prefix, rows) in [("karpenter", ROWS), ("headstart", OURS)] {
            let registry = registry.sub_registry_with_prefix(prefix);
            for Row { name, kind, help } in rows {
                match kind {
                    table::Kind::Gauge => {}
                    table::Kind::Counter => {
                        let family = Family::default();
                        registry.register(bare(name), *help, family.clone());
                        series.insert(*name, Series::Counter(family));
                    }
                    table::Kind::Durations | table::Kind::Lifetimes | table::Kind::Scores => {
                        let family = Family::new_with_constructor(Buckets(kind.buckets()));
                        registry.register(*name, *help, family.clone());
                        series.insert(*name, Series::Histogram(family));
                    }
                }
            }
            registry.register_collector(Box::new(Gauges { rows, values: Arc::clone(&gauges) }));
        }
        let (effects, events) = (Family::default(), Family::default());
        let deciding = Buckets(table::Kind::Durations.buckets()).new_metric();
        let ours = registry.sub_registry_with_prefix("headstart");
        ours.register("effects", "Effects performed, by what was done and how it ended", effects.clone());
        ours.register("events", "Events handed to the engine, by kind of object", events.clone());
        ours.register("decide_duration_seconds", "How long deciding takes", deciding.clone());
        Self { registry, series, gauges, effects, events, deciding, strangers: Mutex::default() }
    }

    /// All of it as text.
    pub(crate) fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts or measures something that the engine reported.
    pub(crate) fn report(&self, measure: &Measure) {
        self.record(&measure.name, &measure.labels, measure.value);
    }

    /// Counts or measures something.
    pub(crate) fn measure(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.record(name, &labels, value);
    }

    fn record(&self, name: &str, labels: &Labels, value: f64) {
        match self.series.get(name) {
            Some(Series::Counter(family)) if value >= 0.0 => {
                family.get_or_create_owned(labels).inc_by(value);
            }
            Some(Series::Histogram(family)) => family.get_or_create_owned(labels).observe(value),
            _ => {
                if lock(&self.strangers).insert(name.to_owned()) {
                    tracing::error!(
                        metric = name,
                        value,
                        "a metric is measured that does not exist; it is left out"
                    );
                }
            }
        }
    }

    /// Replaces the values of all metrics that go up and down.
    pub(crate) fn set_gauges(&self, gauges: Vec<Gauge>) {
        *lock(&self.gauges) = gauges;
    }

    pub(crate) fn effect(&self, verb: &'static str, outcome: &'static str) {
        let labels = vec![label("verb", verb), label("outcome", outcome)];
        self.effects.get_or_create_owned(&labels).inc();
    }

    pub(crate) fn watched(&self, kind: Kind) {
        self.events.get_or_create_owned(&vec![label("kind", &kind.to_string())]).inc();
    }

    pub(crate) fn decided(&self, seconds: f64) {
        self.deciding.observe(seconds);
    }
}

/// The name as the library wants it, which adds the ending itself.
fn bare(name: &'static str) -> &'static str {
    name.strip_suffix("_total").unwrap_or(name)
}

fn label(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The present values of some metrics, written out when somebody asks: what is gone from the engine is gone from here.
#[derive(Debug)]
struct Gauges {
    rows: &'static [Row],
    values: Arc<Mutex<Vec<Gauge>>>,
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let version = Gauge {
            name: "build_info",
            labels: vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
            value: 1.0,
        };
        let gauges = lock(&self.values);
        let mut by_name: BTreeMap<&str, (&str, Vec<&Gauge>)> = BTreeMap::new();
        for gauge in gauges.iter().chain([&version]) {
            if let Some(row) = self.rows.iter().find(|row| row.name == gauge.name) {
                by_name.entry(gauge.name).or_insert((row.help, Vec::new())).1.push(gauge);
            }
        }
        for (name, (help, gauges)) in by_name {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for gauge in gauges {
                let labels: Labels = gauge.labels.iter().map(|(key, value)| label(key, value)).collect();
                family.encode_family(&labels)?.encode_gauge(&gauge.value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(metrics: &Metrics, with: &str) -> Vec<String> {
        let text = metrics.encode().unwrap();
        text.lines().filter(|line| line.starts_with(with)).map(str::to_owned).collect()
    }

    #[test]
    fn names_come_out_as_upstreams() {
        let metrics = Metrics::new();
        metrics.measure("nodeclaims_created_total", &[("reason", "provisioned"), ("nodepool", "a")], 2.0);
        metrics.measure("scheduler_scheduling_duration_seconds", &[], 0.02);
        metrics.effect("create", "done");
        metrics.watched(Kind::CsiNode);
        assert_eq!(
            lines(&metrics, "karpenter_nodeclaims_created_total"),
            [r#"karpenter_nodeclaims_created_total{reason="provisioned",nodepool="a"} 2.0"#]
        );
        let seconds = "karpenter_scheduler_scheduling_duration_seconds";
        assert_eq!(lines(&metrics, &format!("{seconds}_count")), [format!("{seconds}_count{{}} 1")]);
        assert_eq!(
            lines(&metrics, "headstart_e"),
            [
                r#"headstart_effects_total{verb="create",outcome="done"} 1"#,
                r#"headstart_events_total{kind="CSINode"} 1"#
            ]
        );
        assert_eq!(lines(&metrics, "karpenter_build_info").len(), 1);
    }

    #[test]
    fn gauges_are_replaced_as_a_whole() {
        let metrics = Metrics::new();
        let gauge = |pool: &str, value| Gauge {
            name: "nodepools_usage",
            labels: vec![("nodepool", pool.into())],
            value,
        };
        metrics.set_gauges(vec![gauge("a", 1.0), gauge("b", 2.5)]);
        assert_eq!(lines(&metrics, "karpenter_nodepools_usage").len(), 2);
        metrics.set_gauges(vec![gauge("b", 3.0)]);
        assert_eq!(
            lines(&metrics, "karpenter_nodepools_usage"),
            [r#"karpenter_nodepools_usage{nodepool="b"} 3.0"#]
        );
    }

    #[test]
    fn what_upstream_does_not_have_has_our_own_prefix() {
        let metrics = Metrics::new();
        metrics.measure("proactive_bought_pods_total", &[("source", "gap")], 3.0);
        let rate = Gauge { name: "proactive_hit_rate", labels: vec![("source", "gap".into())], value: 0.5 };
        metrics.set_gauges(vec![rate]);
        assert_eq!(
            lines(&metrics, "headstart_proactive"),
            [
                r#"headstart_proactive_bought_pods_total{source="gap"} 3.0"#,
                r#"headstart_proactive_hit_rate{source="gap"} 0.5"#
            ]
        );
    }

    #[test]
    fn what_is_not_in_the_table_is_left_out() {
        let metrics = Metrics::new();
        metrics.measure("no_such_total", &[], 1.0);
        assert!(lines(&metrics, "karpenter_no_such").is_empty());
        assert_eq!(lock(&metrics.strangers).len(), 1);
    }
}
