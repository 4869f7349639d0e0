//! Leader election on Karpenter's own Lease, so that of all replicas, and of Karpenter and Headstart, only one acts.

mod elect;
mod tenure;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use headstart_engine::Event;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;

use crate::clock;
use crate::error::{OperatorError, root};
use crate::options::Replicas;
use elect::{DEADLINE, Elector, PERIOD, Step};

pub(crate) use tenure::Tenure;

/// How long the API server has for each request about the lease; several fit into a deadline.
const LIMIT: Duration = Duration::from_secs(4);

/// A candidate for the lease and what it needs.
pub(crate) struct Candidate {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    elector: Elector,
    tenure: Arc<Tenure>,
    events: mpsc::Sender<Event>,
}

/// How an attempt went.
enum Attempt {
    Held,
    Other(String),
    Failed(String),
}

/// A name for this process that begins with that of its host, which in a pod is the pod's.
pub(crate) fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let random = |n: u32| RandomState::new().hash_one((n, clock::now().wall));
    let (a, b) = (random(0), random(1));
    format!(
        "{host}_{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xffff,
        b >> 48,
        b & 0xffff_ffff_ffff
    )
}

impl Candidate {
    pub(crate) async fn new(
        client: &Client,
        name: &str,
        options: &Replicas,
        own_namespace: &str,
        identity: String,
        tenure: Arc<Tenure>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let name = name.to_owned();
        let namespace = match options.leader_election_namespace.as_str() {
            "" => existing(client, &name).await.unwrap_or_else(|| own_namespace.to_owned()),
            chosen => chosen.to_owned(),
        };
        let leases = Api::namespaced(client.clone(), &namespace);
        Self { leases, namespace, name, elector: Elector::new(identity), tenure, events }
    }

    /// Waits for the lease and keeps it; returns only when it was lost.
    pub(crate) async fn lead(&mut self) -> OperatorError {
        let mut told = None;
        loop {
            match self.attempt().await {
                Attempt::Held => break,
                Attempt::Other(holder) => {
                    if told.as_ref() != Some(&holder) {
                        tracing::info!(
                            lease = self.name,
                            namespace = self.namespace,
                            holder,
                            "another one leads; waiting"
                        );
                        told = Some(holder);
                    }
                }
                Attempt::Failed(why) => {
                    if told.as_ref() != Some(&why) {
                        tracing::warn!(
                            lease = self.name,
                            namespace = self.namespace,
                            why,
                            "cannot get the lease; trying again"
                        );
                        told = Some(why);
                    }
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
        tracing::info!(lease = self.name, namespace = self.namespace, "leading");
        // If nobody listens, the process ends anyway.
        let _ = self.events.send(Event::Leading(true)).await;
        let why = self.keep().await;
        self.tenure.end();
        tracing::error!(
            lease = self.name,
            namespace = self.namespace,
            why,
            "the lease was lost; acting no more"
        );
        let _ = self.events.try_send(Event::Leading(false));
        OperatorError::LeaseLost { namespace: self.namespace.clone(), name: self.name.clone(), why }
    }

    /// Renews the lease until it is lost, and says how.
    async fn keep(&mut self) -> String {
        let slept = "this process slept through it";
        let mut last = slept.to_owned();
        loop {
            tokio::time::sleep(PERIOD).await;
            // Who slept through its tenure does not try again: somebody else may have led in between.
            if self.tenure.is_over(clock::now()) {
                return last;
            }
            match self.attempt().await {
                Attempt::Held => slept.clone_into(&mut last),
                Attempt::Other(holder) => return format!("{holder} holds it"),
                Attempt::Failed(why) => last = format!("it could not be renewed in time: {why}"),
            }
        }
    }

    /// Tries once to get or renew the lease.
    async fn attempt(&mut self) -> Attempt {
        let start = clock::now();
        match tokio::time::timeout(LIMIT, self.try_once()).await {
            Ok(Ok(Step::Write(_))) => {
                // Counted from before the request was sent: others count from later.
                self.tenure.extend(start, DEADLINE);
                Attempt::Held
            }
            Ok(Ok(Step::Wait { holder })) => Attempt::Other(holder),
            Ok(Err(error)) => Attempt::Failed(root(&error)),
            Err(_) => Attempt::Failed(format!("no answer within {} s", LIMIT.as_secs())),
        }
    }

    async fn try_once(&mut self) -> kube::Result<Step> {
        let found = self.leases.get_opt(&self.name).await?;
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let step = self.elector.step(spec.as_ref(), clock::now());
        if let Step::Write(spec) = &step {
            let spec = Some((**spec).clone());
            if let Some(lease) = found {
                // Its version comes along, so that only one of several writers succeeds.
                let lease = Lease { spec, ..lease };
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            } else {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                self.leases.create(&PostParams::default(), &Lease { metadata, spec }).await?;
            }
        }
        Ok(step)
    }

    /// Gives the lease up, if it is ours, so that the next one need not wait.
    pub(crate) async fn release(&self) {
        self.tenure.end();
        let give_up = async {
            let Some(lease) = self.leases.get_opt(&self.name).await? else {
                return Ok::<(), kube::Error>(());
            };
            let spec = lease.spec.clone().unwrap_or_default();
            if let Some(spec) = self.elector.release(&spec, clock::now()) {
                let lease = Lease { spec: Some(spec), ..lease };
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok(())
        };
        match tokio::time::timeout(LIMIT, give_up).await {
            Ok(Ok(())) => tracing::info!(lease = self.name, "gave the lease up"),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name, why = root(&error), "cannot give the lease up");
            }
            Err(_) => tracing::warn!(lease = self.name, "cannot give the lease up: no answer"),
        }
    }
}

/// The namespace in which the lease exists already; of several the one renewed last.
async fn existing(client: &Client, name: &str) -> Option<String> {
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = tokio::time::timeout(LIMIT, Api::<Lease>::all(client.clone()).list(&params)).await;
    let leases = match listed {
        Ok(Ok(leases)) => leases,
        Ok(Err(error)) => {
            tracing::warn!(
                lease = name,
                why = root(&error),
                "cannot look for the lease in all namespaces; using our own"
            );
            return None;
        }
        Err(_) => return None,
    };
    let renewed =
        |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()).map(|time| time.0);
    let by_namespace: BTreeMap<_, _> =
        leases.iter().filter_map(|lease| Some((lease.namespace()?, renewed(lease)))).collect();
    if by_namespace.len() > 1 {
        let namespaces: Vec<&str> = by_namespace.keys().map(String::as_str).collect();
        tracing::warn!(
            lease = name,
            namespaces = namespaces.join(", "),
            "the lease exists in several namespaces; taking the one renewed last; choose with LEADER_ELECTION_NAMESPACE"
        );
    }
    by_namespace.into_iter().max_by_key(|(_, renewed)| *renewed).map(|(namespace, _)| namespace)
}
