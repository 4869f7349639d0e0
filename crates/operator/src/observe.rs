//! Watching a cluster without acting on it: an engine that never leads, for a screen. Nothing is written, no lease is held.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use headstart_cloud::catalog::{Catalog, Source};
use headstart_engine::overview::Overview;
use headstart_engine::{Change, Engine, Event, Kind, Settings, Wall};
use k8s_openapi::api::core::v1::Event as KubeEvent;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::clock;
use crate::connect;
use crate::error::OperatorError;
use crate::metrics::Metrics;
use crate::options::Access;
use crate::resources::CLASSES;
use crate::watch::Watch;
use crate::{drive, health};

/// What the numbers come from; no more is asked for than one needs to read.
const KINDS: [Kind; 3] = [Kind::NodeClaim, Kind::Node, Kind::Pod];
/// How long the first lists may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often the viewer is shown something.
const TICK: Duration = Duration::from_millis(100);

/// Which cluster is watched, and what its nodes cost.
#[derive(clap::Args, Clone, Debug)]
pub struct ObserveOptions {
    /// The kubeconfig to use; otherwise $KUBECONFIG, ~/.kube/config, or what a pod finds in its cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Where prices come from: kwok, aws, azure, or a file in the format of Karpenter's KWOK provider
    #[arg(long, value_name = "CATALOG", default_value = "kwok")]
    catalog: Source,
}

/// A Kubernetes event of Karpenter or Headstart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When it was last told.
    pub at: Wall,
    /// Whether something is wrong.
    pub warning: bool,
    /// What it is about, as `kubectl` writes it.
    pub about: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What is to be seen of a cluster.
#[derive(Debug)]
pub struct View<'a> {
    /// Where the cluster is.
    pub url: &'a str,
    /// When.
    pub at: Wall,
    /// Events since the last view, the oldest first.
    pub notes: Vec<Note>,
    /// What may be missing from the numbers.
    pub remarks: Vec<String>,
    engine: &'a Engine,
}

impl View<'_> {
    /// The state of affairs in a few numbers. Looks at every pod.
    pub fn overview(&self) -> Overview {
        self.engine.overview(clock::now())
    }
}

/// Watches a cluster and shows it ten times a second, from when it was read until the viewer has seen enough.
pub async fn observe(
    options: &ObserveOptions,
    mut viewer: impl FnMut(View<'_>) -> ControlFlow<()>,
) -> Result<(), OperatorError> {
    let catalog = Catalog::load(&options.catalog)?;
    let access = Access {
        kubeconfig: options.kubeconfig.clone(),
        context: options.context.clone(),
        kube_client_qps: 1,
        kube_client_burst: 1,
        system_namespace: String::new(),
    };
    let way = connect::find(&access).await?;
    way.ask().await?;

    let mut engine =
        Engine::new(Settings::default(), Arc::clone(catalog.types()), catalog.well_known.clone());
    let (sender, mut events) = mpsc::channel(drive::WAITING);
    let (note_sender, mut notes) = mpsc::channel(drive::WAITING);
    let mut tasks = JoinSet::new();
    let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(health::Health::default()));
    for kind in KINDS {
        let watch = Watch {
            client: way.client.clone(),
            kind,
            class: CLASSES[0],
            events: sender.clone(),
            metrics: Arc::clone(&metrics),
            health: Arc::clone(&health),
        };
        tasks.spawn(watch.run());
    }
    tasks.spawn(listen(way.client.clone(), note_sender));

    let mut known = Known::default();
    let mut heard = Vec::new();
    let start = clock::stopwatch();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let result = loop {
        tokio::select! {
            Some(event) = events.recv() => {
                known.take(&event);
                engine.apply(clock::now(), event);
            }
            Some(note) = notes.recv() => match note {
                Some(note) => heard.push(note),
                None => known.has_events = true,
            },
            _ = ticks.tick() => {
                if !known.is_complete() {
                    if start.elapsed() > PATIENCE {
                        break Err(way.unreachable(format!("no list within {} s", PATIENCE.as_secs())));
                    }
                    continue;
                }
                heard.sort_by_key(|note: &Note| note.at);
                let view = View {
                    url: way.url(),
                    at: clock::now().wall,
                    notes: std::mem::take(&mut heard),
                    remarks: known.remarks(),
                    engine: &engine,
                };
                if viewer(view).is_break() {
                    break Ok(());
                }
            }
        }
    };
    tasks.shutdown().await;
    result
}

/// Which kinds were read, and which cannot be.
#[derive(Default)]
struct Known {
    /// Why a kind cannot be read, if so.
    kinds: BTreeMap<Kind, Option<String>>,
    has_events: bool,
}

impl Known {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Watched { kind, change: Change::Listed } => drop(self.kinds.insert(*kind, None)),
            Event::Watched { kind, change: Change::Missing { why } } => {
                self.kinds.insert(*kind, Some(why.clone()));
            }
            _ => {}
        }
    }

    fn is_complete(&self) -> bool {
        self.has_events && KINDS.iter().all(|kind| self.kinds.contains_key(kind))
    }

    fn remarks(&self) -> Vec<String> {
        let remark = |(kind, why): (&Kind, &Option<String>)| {
            why.as_ref().map(|why| format!("{kind}s {why}, so they are not counted"))
        };
        self.kinds.iter().filter_map(remark).collect()
    }
}

/// Listens for events of Karpenter and Headstart, which has the same name there; without the right to, none come.
///
/// That all there were have come, or that none can, is told by none.
async fn listen(client: Client, notes: mpsc::Sender<Option<Note>>) {
    let config = watcher::Config::default().fields("source=karpenter");
    let mut events = std::pin::pin!(watcher(Api::<KubeEvent>::all(client), config).default_backoff());
    while let Some(event) = events.next().await {
        let news = match event {
            Ok(watcher::Event::Apply(event) | watcher::Event::InitApply(event)) => Some(note(&event)),
            Ok(watcher::Event::InitDone) | Err(_) => None,
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) => continue,
        };
        if notes.send(news).await.is_err() {
            return;
        }
    }
}

fn note(event: &KubeEvent) -> Note {
    let stamps = [
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.creation_timestamp().map(|time| time.0),
    ];
    let about = &event.involved_object;
    let kind = about.kind.as_deref().unwrap_or_default().to_lowercase();
    Note {
        at: stamps.into_iter().flatten().next().map(Wall::from).unwrap_or_default(),
        warning: event.type_.as_deref() == Some("Warning"),
        about: format!("{kind}/{}", about.name.as_deref().unwrap_or_default()),
        reason: event.reason.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_when_it_was_last_told() {
        let event = serde_json::json!({
            "metadata": { "name": "e", "creationTimestamp": "2026-03-02T00:00:01Z" },
            "involvedObject": { "kind": "NodeClaim", "name": "general-x" },
            "lastTimestamp": "2026-03-02T00:00:09Z", "type": "Warning", "reason": "Dry", "message": "no capacity",
        });
        let note = note(&serde_json::from_value(event).unwrap());
        assert_eq!(note.at.stamp().to_string(), "2026-03-02T00:00:09Z");
        assert_eq!((&*note.about, &*note.reason, note.warning), ("nodeclaim/general-x", "Dry", true));
    }

    #[test]
    fn a_kind_that_cannot_be_read_is_known_too() {
        let mut known = Known { has_events: true, ..Known::default() };
        let watched = |kind, change| Event::Watched { kind, change };
        known.take(&watched(Kind::Pod, Change::Listed));
        known.take(&watched(Kind::Node, Change::Relisting));
        assert!(!known.is_complete());
        known.take(&watched(Kind::Node, Change::Listed));
        known.take(&watched(Kind::NodeClaim, Change::Missing { why: "are not served".to_owned() }));
        assert!(known.is_complete());
        assert_eq!(known.remarks(), ["NodeClaims are not served, so they are not counted"]);
    }
}
