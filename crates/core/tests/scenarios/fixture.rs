//! Reads a scenario from a compact text.
//!
//! One object on each line: a kind, a name, then `key=value` words. A line that starts with spaces continues the one before.
//!
//! ```text
//! types  F
//! reserve ID type=default zone=zone-1 left=1 (these four change the types of all pools that follow)
//! override type=default zone=zone-1 capacity=spot cpu=5 (what the offering has instead)
//! unavailable type=default zone=zone-1 (either may be left out)
//! attach type=default DRIVER=3
//! pool   NAME weight=1 limit=cpu:10 req=KEY:OP:v1,v2:MIN label=k:v taint=key:value:Effect types=F only-real
//! node   NAME cpu=4 memory=4Gi pods=5 used=cpu:1 label=k:v taint=… starting
//! launch NAME of=POOL req=… cpu=4 (once it is known) label=… used=… (a claim without a node)
//! bound  NAME on=NODE label=k:v …
//! daemon NAME cpu=1 …
//! pod    NAME x3 cpu=1 label=k:v ns=NAME select=k:v need=KEY:OP:v (or=… for more terms) prefer=W/KEY:OP:v
//!        tolerate=key:value:Effect spread=KEY/SKEW/k:v[/soft][/min3][/taints][/anyaffinity]
//!        near=KEY/k:v apart=KEY/k:v (want-near, want-apart: W/KEY/k:v) port=80 pvc=DRIVER:ID volume=KEY:OP:v
//!        priority=1 expected
//! option best-effort | ignore-preferences | reserved-fallback | reserved-off
//! ```
//! Keys `zone`, `host`, `arch`, `os`, `type`, `capacity` and `pool` stand for the well-known labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_core::catalog::{InstanceType, Offering};
use headstart_core::labels;
use headstart_core::requirement::{Operator, Requirement};
use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;
use headstart_core::snapshot::{
    BoundPod, Daemon, Demand, Effect, HostPort, Labels, Launching, MinValues, Namespaces, Node, Options, Pod,
    PodTerm, Pool, Preferences, Reserved, Selector, Shape, Snapshot, Spread, Taint, Toleration,
    TolerationOperator, Volume, Weighted,
};
use headstart_core::types::Types;

use crate::catalog::{catalog, well_known};

/// The snapshot that a text describes.
pub(crate) fn parse(text: &str) -> Snapshot {
    let mut snapshot = Snapshot { well_known: well_known(), ..Snapshot::default() };
    let mut types = catalog("F");
    let mut lines: Vec<String> = Vec::new();
    for line in
        text.lines().map(|line| line.split('#').next().unwrap().trim_end()).filter(|line| !line.is_empty())
    {
        let margin =
            text.lines().find(|l| !l.trim().is_empty()).map_or(0, |l| l.len() - l.trim_start().len());
        if line.len() - line.trim_start().len() > margin {
            lines.last_mut().unwrap().push_str(line);
        } else {
            lines.push(line.trim().to_owned());
        }
    }
    for line in &lines {
        let mut words = line.split_whitespace();
        let (kind, name) = (words.next().unwrap(), words.next().unwrap_or_default());
        let words: Vec<&str> = words.collect();
        match kind {
            "reserve" | "override" | "unavailable" | "attach" => {
                let words: Vec<&str> = line.split_whitespace().skip(1).collect();
                let edited = types.iter().map(|known| Arc::new(edited(known, kind, &words)));
                types = Arc::new(edited.collect());
            }
            "types" => types = catalog(name),
            "pool" => snapshot.pools.push(pool(name, &words, &types)),
            "node" => snapshot.nodes.push(node(name, &words)),
            "launch" => {
                let launch = launch(name, &words, &snapshot.pools);
                snapshot.nodes.push(launch);
            }
            "daemon" => {
                snapshot.daemons.push(Daemon { name: name.into(), shape: Arc::new(shape(&words).0) });
            }
            "bound" => {
                let (shape, extra) = shape(&words);
                let on = snapshot.nodes.iter().position(|node| *node.name == *extra.on).unwrap();
                snapshot.bound.push(BoundPod {
                    namespace: extra.namespace,
                    shape: Arc::new(shape),
                    node: on as u32,
                });
            }
            "pod" => {
                let (shape, extra) = shape(&words);
                let shape = Arc::new(shape);
                for i in 1..=extra.count {
                    let name = if extra.count == 1 { name.to_owned() } else { format!("{name}-{i}") };
                    snapshot.pods.push(Pod {
                        namespace: extra.namespace.clone(),
                        uid: format!("{:06}", snapshot.pods.len()).into(),
                        name: name.into(),
                        created: 0,
                        demand: extra.demand,
                        shape: shape.clone(),
                        volumes: extra.volumes.clone().into(),
                    });
                }
            }
            "namespace" => {
                let labels = words.iter().map(|word| word.strip_prefix("label=").unwrap()).map(pair);
                snapshot.namespaces.insert(name.into(), labels.collect());
            }
            "option" if name == "best-effort" => snapshot.options.min_values = MinValues::BestEffort,
            "option" if name == "reserved-fallback" => snapshot.options.reserved = Reserved::Fallback,
            "option" if name == "reserved-off" => snapshot.options.reserved = Reserved::Off,
            "option" if name == "ignore-preferences" => snapshot.options.preferences = Preferences::Ignore,
            other => panic!("unknown line {other}"),
        }
    }
    snapshot
}

fn key(short: &str) -> &str {
    match short {
        "zone" => labels::ZONE,
        "host" => labels::HOSTNAME,
        "arch" => labels::ARCH,
        "os" => labels::OS,
        "type" => labels::INSTANCE_TYPE,
        "capacity" => labels::CAPACITY_TYPE,
        "pool" => labels::NODE_POOL,
        other => other,
    }
}

fn pair(text: &str) -> (Arc<str>, Arc<str>) {
    let (name, value) = text.split_once(':').unwrap();
    (key(name).into(), value.into())
}

pub(crate) fn requirement(text: &str) -> Requirement {
    let parts: Vec<&str> = text.split(':').collect();
    let values: Vec<&str> =
        parts.get(2).filter(|v| !v.is_empty()).map(|v| v.split(',').collect()).unwrap_or_default();
    let min = parts.get(3).map(|min| min.parse().unwrap());
    Requirement::new(key(parts[0]), parts[1].parse().unwrap(), &values, min).unwrap()
}

fn requirements(text: &str) -> Requirements {
    text.split('+').map(requirement).collect()
}

fn taint(text: &str) -> Taint {
    let parts: Vec<&str> = text.split(':').collect();
    let effect = match parts[2] {
        "NoSchedule" => Effect::NoSchedule,
        "NoExecute" => Effect::NoExecute,
        _ => Effect::PreferNoSchedule,
    };
    Taint { key: parts[0].into(), value: parts[1].into(), effect }
}

pub(crate) fn amounts(text: &str) -> Resources {
    text.split(',').map(|part| part.split_once(':').unwrap()).map(|(n, a)| (n, a.parse().unwrap())).collect()
}

fn pool(name: &str, words: &[&str], types: &Arc<Types>) -> Pool {
    let mut pool = Pool { name: name.into(), types: types.clone(), ..Pool::default() };
    for (word, value) in words.iter().map(|word| word.split_once('=').unwrap_or((word, ""))) {
        match word {
            "only-real" => pool.only_real = true,
            "weight" => pool.weight = value.parse().unwrap(),
            "limit" => pool.limits = Some(amounts(value)),
            "used" => pool.used = amounts(value),
            "req" => pool.requirements.add(requirement(value)),
            "label" => pool.labels.extend([pair(value)]),
            "taint" => pool.taints.push(taint(value)),
            "types" => pool.types = catalog(value),
            other => panic!("unknown pool word {other}"),
        }
    }
    pool
}

/// A type as a line about it or its offerings changes it.
fn edited(known: &InstanceType, kind: &str, words: &[&str]) -> InstanceType {
    let mut changed = known.clone();
    let pairs: Vec<(&str, &str)> = words.iter().filter_map(|word| word.split_once('=')).collect();
    let word = |name: &str| pairs.iter().find(|(word, _)| *word == name).map(|(_, value)| *value);
    if word("type").is_some_and(|name| name != &*known.name) {
        return changed;
    }
    let rest = pairs.iter().filter(|(word, _)| !["type", "zone", "capacity", "left"].contains(word));
    if kind == "attach" {
        changed
            .volume_limits
            .extend(rest.map(|(driver, most)| ((*driver).into(), most.parse::<u32>().unwrap())));
        return changed;
    }
    if kind == "reserve" {
        let id = Options::default().reservation_label;
        let labels = [
            (labels::CAPACITY_TYPE, labels::RESERVED),
            (labels::ZONE, word("zone").unwrap()),
            (&*id, words[0]),
        ];
        changed.requirements.replace(Requirement::any_of(
            labels::CAPACITY_TYPE,
            &[labels::SPOT, labels::ON_DEMAND, labels::RESERVED],
        ));
        changed.offerings.push(Offering {
            requirements: Requirements::from_labels(labels),
            available: true,
            reservation_capacity: word("left").unwrap().parse().unwrap(),
            ..Offering::default()
        });
        return changed;
    }
    let meant = |offering: &&mut Offering| {
        word("zone").is_none_or(|zone| zone == offering.zone())
            && word("capacity").is_none_or(|capacity_type| capacity_type == offering.capacity_type())
    };
    for offering in changed.offerings.iter_mut().filter(meant) {
        if kind == "unavailable" {
            offering.available = false;
        } else {
            let replaced = rest.clone().map(|(name, amount)| (*name, amount.parse().unwrap()));
            offering.capacity_override = Some(replaced.collect());
        }
    }
    changed
}

fn node(name: &str, words: &[&str]) -> Node {
    let mut node = Node { name: name.into(), initialized: true, ..Node::default() };
    Arc::make_mut(&mut node.labels).extend([(labels::HOSTNAME.into(), name.into())]);
    for word in words {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "starting" => node.initialized = false,
            "used" => node.requested = amounts(value),
            "daemons" => node.daemon_requested = amounts(value),
            "label" => Arc::make_mut(&mut node.labels).extend([pair(value)]),
            "taint" => node.taints.push(taint(value)),
            "attached" => {
                for (driver, id) in value.split(',').map(|part| part.split_once(':').unwrap()) {
                    node.volumes.push(Volume { driver: driver.into(), id: id.into() });
                }
            }
            "volumes" => {
                let (driver, limit) = value.split_once(':').unwrap();
                node.volume_limits.insert(driver.into(), limit.parse().unwrap());
            }
            resource => Arc::make_mut(&mut node.allocatable).set(resource, value.parse().unwrap()),
        }
    }
    node
}

/// A claim of a pool, with what the pool asks for and more.
fn launch(name: &str, words: &[&str], pools: &[Pool]) -> Node {
    let word = |prefix: &'static str| words.iter().filter_map(move |word| word.strip_prefix(prefix));
    let of = word("of=").next().unwrap();
    let pool = pools.iter().find(|pool| &*pool.name == of).unwrap();
    let rest: Vec<&str> =
        words.iter().copied().filter(|word| !word.starts_with("of=") && !word.starts_with("req=")).collect();
    let mut launching = Launching { requirements: pool.requirements.clone(), types: pool.types.clone() };
    word("req=").for_each(|text| launching.requirements.add(requirement(text)));
    let mut made = node(name, &rest);
    let own = made.labels.iter().filter(|(key, _)| ***key != *labels::HOSTNAME);
    let of_pool = pool.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    let mut all: Labels = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    all.extend([(labels::NODE_POOL.into(), of.into())]);
    all.extend(of_pool);
    made.labels = Arc::new(all);
    made.taints.extend(pool.taints.iter().cloned());
    Node { initialized: false, launching: Some(Box::new(launching)), ..made }
}

pub(crate) struct Extra {
    pub(crate) namespace: Arc<str>,
    pub(crate) count: usize,
    demand: Demand,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) on: String,
}

pub(crate) fn shape(words: &[&str]) -> (Shape, Extra) {
    let mut shape = Shape::default();
    shape.requests.set("pods", "1".parse().unwrap());
    let mut extra = Extra {
        namespace: "default".into(),
        count: 1,
        demand: Demand::Real,
        volumes: Vec::new(),
        on: String::new(),
    };
    for word in words {
        if let Some(count) = word.strip_prefix('x').and_then(|n| n.parse().ok()) {
            extra.count = count;
            continue;
        }
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "expected" => extra.demand = Demand::Expected,
            "ns" => extra.namespace = value.into(),
            "on" => value.clone_into(&mut extra.on),
            "label" => shape.labels.extend([pair(value)]),
            "select" => shape.node_selector.add(Requirement::any_of(key(&pair(value).0), &[&*pair(value).1])),
            "need" | "or" => shape.required.push(requirements(value)),
            "prefer" => {
                let (weight, term) = value.split_once('/').unwrap();
                shape.preferred.push(Weighted { weight: weight.parse().unwrap(), term: requirements(term) });
            }
            "tolerate" if value == "all" => shape
                .tolerations
                .push(Toleration { operator: TolerationOperator::Exists, ..Toleration::default() }),
            "tolerate" => {
                let Taint { key, value, effect } = taint(value);
                shape.tolerations.push(Toleration {
                    key,
                    value,
                    effect: Some(effect),
                    ..Toleration::default()
                });
            }
            "spread" => shape.spread.push(spread(value)),
            "near" => shape.affinity.required.push(term(value)),
            "apart" => shape.anti_affinity.required.push(term(value)),
            "want-near" => shape.affinity.preferred.push(weighted(value)),
            "want-apart" => shape.anti_affinity.preferred.push(weighted(value)),
            "port" => shape.host_ports.push(HostPort {
                ip: "0.0.0.0".parse().unwrap(),
                port: value.parse().unwrap(),
                protocol: "TCP".into(),
            }),
            "pvc" => {
                let (driver, id) = value.split_once(':').unwrap();
                extra.volumes.push(Volume { driver: driver.into(), id: id.into() });
            }
            "volume" => shape.volume_topology.push(requirements(value)),
            "priority" => shape.priority = value.parse().unwrap(),
            resource => shape.requests.set(resource, value.parse().unwrap()),
        }
    }
    (shape, extra)
}

fn selector(text: &str) -> Option<Selector> {
    if text.is_empty() {
        return None;
    }
    text.split(',').filter(|part| *part != "*").try_fold(Selector::everything(), |all, part| {
        let (key, value) = part.split_once(':').unwrap();
        all.with(key, Operator::In, &[value])
    })
}

fn spread(text: &str) -> Spread {
    let parts: Vec<&str> = text.split('/').collect();
    let flag = |flag: &str| parts[3..].contains(&flag);
    Spread {
        topology_key: key(parts[0]).into(),
        max_skew: parts[1].parse().unwrap(),
        min_domains: parts[3..].iter().find_map(|part| part.strip_prefix("min")).map(|n| n.parse().unwrap()),
        selector: selector(parts[2]),
        required: !flag("soft"),
        honor_affinity: !flag("anyaffinity"),
        honor_taints: flag("taints"),
    }
}

fn term(text: &str) -> PodTerm {
    let parts: Vec<&str> = text.split('/').collect();
    let mut namespaces = Namespaces::default();
    if let Some(chosen) = parts.get(2) {
        match chosen.strip_prefix("ns:") {
            Some(names) => namespaces.names = names.split(',').map(Into::into).collect(),
            None => namespaces.selector = selector(chosen),
        }
    }
    PodTerm { topology_key: key(parts[0]).into(), selector: selector(parts[1]), namespaces }
}

fn weighted(text: &str) -> Weighted<PodTerm> {
    let (weight, rest) = text.split_once('/').unwrap();
    Weighted { weight: weight.parse().unwrap(), term: term(rest) }
}

/// Names without the number of the copy, with how many copies.
pub(crate) fn tally<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        let base =
            name.rsplit_once('-').filter(|(_, n)| n.parse::<u32>().is_ok()).map_or(name, |(base, _)| base);
        *counts.entry(base).or_default() += 1;
    }
    let shown = counts
        .iter()
        .map(|(name, count)| if *count == 1 { (*name).to_owned() } else { format!("{count} {name}") });
    shown.collect::<Vec<_>>().join(", ")
}

/// The labels of a node, for tests that look at them.
pub(crate) fn label<'a>(labels: &'a Labels, short: &str) -> Option<&'a str> {
    labels.get(key(short)).map(|value| &**value)
}
