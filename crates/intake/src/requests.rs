//! What a pod asks for, as the scheduler counts it.

use headstart_core::quantity::Quantity;
use headstart_core::resources::{CPU, HUGE_PAGES_PREFIX, MEMORY, PODS, Resources};
use serde::Deserialize;

use crate::decode::{Fault, nullable};

/// Requests and limits of a container or a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    #[serde(deserialize_with = "nullable")]
    requests: Resources,
    #[serde(deserialize_with = "nullable")]
    limits: Resources,
}

/// A container, as far as scheduling sees it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    name: String,
    #[serde(deserialize_with = "nullable")]
    resources: Wanted,
    restart_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<Port>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Port {
    #[serde(rename = "hostPort")]
    pub(crate) on_host: Option<i64>,
    #[serde(rename = "hostIP")]
    pub(crate) host_ip: Option<String>,
    pub(crate) protocol: Option<String>,
}

/// What a container got, which differs from what it asks for while it is being resized.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    name: String,
    #[serde(deserialize_with = "nullable")]
    allocated_resources: Resources,
    resources: Option<Wanted>,
}

impl Wanted {
    /// Refuses amounts below zero, as Kubernetes does.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        not_negative(&self.requests).map_err(|fault| fault.within("resources.requests"))?;
        not_negative(&self.limits).map_err(|fault| fault.within("resources.limits"))
    }

    /// Requests, with limits standing in where there is no request.
    fn requests(&self) -> Resources {
        let mut all = self.limits.clone();
        all.merge(&self.requests);
        all
    }
}

impl Container {
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.resources.check()
    }
}

/// Refuses amounts below zero.
pub(crate) fn not_negative(resources: &Resources) -> Result<(), Fault> {
    match resources.iter().find(|(_, amount)| amount.is_negative()) {
        Some((name, amount)) => Err(Fault::new(name, format!("{amount} is less than nothing"))),
        None => Ok(()),
    }
}

/// Everything that counts towards a pod's requests.
pub(crate) struct Parts<'a> {
    pub(crate) containers: &'a [Container],
    pub(crate) init_containers: &'a [Container],
    /// What a container asks for if it does not say.
    pub(crate) default_requests: &'a Resources,
    pub(crate) statuses: &'a [ContainerStatus],
    pub(crate) pod_level: Option<&'a Wanted>,
    pub(crate) overhead: &'a Resources,
    /// Whether the resize that is asked for can never be done here.
    pub(crate) resize_infeasible: bool,
}

/// The most that the pod needs at any moment of its life.
pub(crate) fn total(parts: &Parts<'_>) -> Resources {
    let mut running = Resources::new();
    for container in parts.containers {
        running.add(&effective(container, parts));
    }
    // Sidecars start in order and stay; other init containers run one at a time beside those already started.
    let (mut sidecars, mut starting) = (Resources::new(), Resources::new());
    for container in parts.init_containers {
        let own = effective(container, parts);
        let mut at_once = sidecars.clone();
        at_once.add(&own);
        if container.restart_policy.as_deref() == Some("Always") {
            running.add(&own);
            sidecars.add(&own);
        }
        starting.max(&at_once);
    }
    running.max(&starting);
    if let Some(pod) = parts.pod_level {
        for (name, amount) in pod.requests().iter() {
            if [CPU, MEMORY].contains(&name) || name.starts_with(HUGE_PAGES_PREFIX) {
                running.set(name, amount);
            }
        }
    }
    running.add(parts.overhead);
    running.set(PODS, Quantity::from_units(1));
    running
}

fn effective(container: &Container, parts: &Parts<'_>) -> Resources {
    let mut asked = parts.default_requests.clone();
    asked.merge(&container.resources.requests());
    let Some(status) = parts.statuses.iter().find(|status| status.name == container.name) else {
        return asked;
    };
    let mut held = status.allocated_resources.clone();
    if let Some(actual) = &status.resources {
        held.max(&actual.requests);
    }
    if held.is_empty() {
        return asked;
    }
    if !parts.resize_infeasible {
        held.max(&asked);
    }
    held
}
