//! What changes while a fleet gets smaller, and when it has come to rest.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

use crate::reaction::claims;

use super::n_running;

/// Karpenter looks every ten seconds and believes a saving after fifteen; this is long enough for several of both.
const QUIET: Duration = Duration::from_secs(90);
/// How long somebody may go on before what there is by then counts.
const PATIENCE: Duration = Duration::from_mins(20);
/// Longer than it takes to finish what has been begun.
const LIMIT: Duration = Duration::from_mins(30);

enum Sight {
    Listed,
    /// A NodeClaim, and whether it has been told to go.
    Claim(String, bool),
    ClaimGone(String),
    PodGone,
}

/// NodeClaims that come and go, and pods that go.
pub(super) struct Changes {
    sights: BoxStream<'static, Sight>,
    known: BTreeSet<String>,
    going: BTreeSet<String>,
    evictions: usize,
}

impl Changes {
    /// Returns once everything that is there has been seen.
    pub(super) async fn begin(client: &Client) -> Result<Self> {
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let sights = futures::stream::select(sights(claims(client), claim), sights(pods, pod)).boxed();
        let mut changes = Self { sights, known: BTreeSet::new(), going: BTreeSet::new(), evictions: 0 };
        let mut n_listed = 0;
        while n_listed < 2 {
            match changes.sights.next().await.context("the watches ended")? {
                Sight::Listed => n_listed += 1,
                sight => drop(changes.note(sight)),
            }
        }
        Ok(changes)
    }

    pub(super) fn evictions(&self) -> usize {
        self.evictions
    }

    /// Waits until nothing changes any more and all pods run, or patience has an end and nothing is half done; returns when
    /// the last change was, from `start` on, and whether it was the last for certain.
    pub(super) async fn until_quiet(
        &mut self,
        client: &Client,
        start: Instant,
        n_pods: usize,
    ) -> Result<(Duration, bool)> {
        let mut last = start;
        loop {
            ensure!(start.elapsed() < LIMIT, "no rest after {} minutes", LIMIT.as_secs() / 60);
            match tokio::time::timeout(Duration::from_secs(1), self.sights.next()).await {
                Ok(None) => bail!("the watches ended"),
                Ok(Some(Sight::Listed)) => bail!("a watch was lost, and with it what happened meanwhile"),
                Ok(Some(sight)) => {
                    if self.note(sight) {
                        last = Instant::now();
                    }
                }
                Err(_) => {
                    let is_quiet = last.elapsed() >= QUIET;
                    let is_over = is_quiet || start.elapsed() >= PATIENCE;
                    if is_over && self.going.is_empty() && is_whole(client, n_pods).await? {
                        return Ok((last.duration_since(start), is_quiet));
                    }
                }
            }
        }
    }

    /// Whether NodeClaims are others than before.
    fn note(&mut self, sight: Sight) -> bool {
        match sight {
            Sight::Listed => false,
            Sight::Claim(uid, is_going) => {
                let is_new = self.known.insert(uid.clone());
                (is_going && self.going.insert(uid)) || is_new
            }
            Sight::ClaimGone(uid) => {
                self.going.remove(&uid);
                true
            }
            Sight::PodGone => {
                self.evictions += 1;
                false
            }
        }
    }
}

/// Whether all pods run and no node is about to go.
async fn is_whole(client: &Client, n_pods: usize) -> Result<bool> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let is_marked = |node: &Node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
    };
    Ok(!nodes.iter().any(is_marked) && n_running(client).await? == n_pods)
}

fn claim(event: &Event<DynamicObject>) -> Option<Sight> {
    let uid = |claim: &DynamicObject| claim.uid().unwrap_or_default();
    match event {
        Event::InitApply(claim) | Event::Apply(claim) => {
            Some(Sight::Claim(uid(claim), claim.metadata.deletion_timestamp.is_some()))
        }
        Event::Delete(claim) => Some(Sight::ClaimGone(uid(claim))),
        Event::InitDone => Some(Sight::Listed),
        Event::Init => None,
    }
}

fn pod(event: &Event<Pod>) -> Option<Sight> {
    match event {
        Event::Delete(_) => Some(Sight::PodGone),
        Event::InitDone => Some(Sight::Listed),
        Event::Init | Event::InitApply(_) | Event::Apply(_) => None,
    }
}

fn sights<K>(api: Api<K>, sight: fn(&Event<K>) -> Option<Sight>) -> impl Stream<Item = Sight> + Send
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let events = watcher(api, watcher::Config::default()).default_backoff();
    // A watch that fails begins anew, which is seen by its list.
    events.filter_map(move |event| std::future::ready(event.ok().as_ref().and_then(sight)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_come_are_told_to_go_and_go_are_changes_and_nothing_else_is() {
        let mut changes = Changes {
            sights: futures::stream::empty().boxed(),
            known: BTreeSet::new(),
            going: BTreeSet::new(),
            evictions: 0,
        };
        let mut note = |sight| changes.note(sight);
        assert!(note(Sight::Claim("a".into(), false)));
        assert!(!note(Sight::Claim("a".into(), false)));
        assert!(!note(Sight::PodGone));
        assert!(note(Sight::Claim("a".into(), true)));
        assert!(!note(Sight::Claim("a".into(), true)));
        assert!(note(Sight::ClaimGone("a".into())));
        assert_eq!((changes.evictions(), changes.going.len()), (1, 0));
    }
}
