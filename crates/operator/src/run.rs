//! Wires everything up, and takes it down in order.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use headstart_cloud::catalog::Catalog;
use headstart_cloud::kwok::Kwok;
use headstart_cloud::port::ClassRef;
use headstart_cloud::repair::RepairPolicy;
use headstart_cloud::testcloud::TestCloud;
use headstart_cloud::{Cloud, CloudError};
use headstart_core::repair::Rules;
use headstart_engine::journal::Header;
use headstart_engine::settings::ClassKind;
use headstart_engine::{Change, Engine, Event, Kind, Mode, Resource, Settings};
use kube::Client;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinSet;

use crate::connect::{Cluster, connect};
use crate::drive::{self, Driver};
use crate::error::OperatorError;
use crate::health::Health;
use crate::journal::Journal;
use crate::lease::{self, Candidate, Tenure};
use crate::metrics::Metrics;
use crate::options::{CloudChoice, CloudOptions, Gates, Options};
use crate::perform::{self, Performer, Rate};
use crate::remember::Memory;
use crate::tell::{Log, Teller};
use crate::watch::Watch;
use crate::{http, resources};

/// How long the cloud may take to say what it sells.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the operator until SIGTERM or SIGINT; a second signal ends the process at once.
pub async fn run(options: Options) -> Result<(), OperatorError> {
    let mut interrupted = signal(SignalKind::interrupt()).map_err(OperatorError::Start)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(OperatorError::Start)?;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! { _ = interrupted.recv() => {}, _ = terminated.recv() => {} }
        tracing::info!("ending; what has begun is finished first");
        // If nobody listens, the end has come already.
        let _ = stop.send(());
        tokio::select! { _ = interrupted.recv() => {}, _ = terminated.recv() => {} }
        std::process::exit(1);
    });
    run_until(options, async move {
        let _ = (&mut stopped).await;
    })
    .await
}

/// Runs the operator until a future ends.
pub async fn run_until(options: Options, stop: impl Future<Output = ()>) -> Result<(), OperatorError> {
    let log = Log::start(options.service.log_level, options.service.log_format);
    let gates = Gates::parse(&options.deciding.feature_gates)?;
    let identity = lease::identity();
    tell_what_is_ignored(&options, &gates);

    // What is wrong with the options is told before anything is waited for.
    let settings = options.settings(&gates, seed(&identity))?;
    let mut stop = std::pin::pin!(stop);
    let Place { client, namespace, cloud, class, catalog } = tokio::select! {
        place = place(&options) => place?,
        () = &mut stop => return Ok(()),
    };
    let settings = Settings {
        class: ClassKind { group: class.group.to_owned(), kind: class.kind.to_owned() },
        repair: if gates.node_repair { repair_policies(&*cloud)? } else { Vec::new() },
        ..settings
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cloud = cloud.name(),
        catalog = catalog.source,
        types = catalog.types().len(),
        "starting"
    );
    let journal = match &options.service.journal {
        None => None,
        Some(path) => {
            let header = Header {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                catalog: catalog.source.clone(),
                settings: settings.clone(),
            };
            Some(Journal::begin(path, header)?)
        }
    };

    let memory = Memory::begin(
        settings.mode,
        &catalog.source,
        &catalog.modelled,
        options.service.observations.as_deref(),
    )?;
    let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::default()));
    let mut tasks = JoinSet::new();
    tasks
        .spawn(http::metrics(options.service.metrics_port, Arc::clone(&metrics), Arc::clone(&memory)).await?);
    tasks.spawn(http::probes(options.service.health_probe_port, Arc::clone(&health)).await?);

    let (event_sender, events) = mpsc::channel(drive::WAITING);
    let (effect_sender, effects) = mpsc::unbounded_channel();
    let (stop_sender, stop_receiver) = channel::channel(false);
    let tenure = Arc::new(Tenure::default());

    let (teller, notes) = Teller::new(client.clone(), class, log, Arc::clone(&metrics), memory);
    tasks.spawn(notes);
    for kind in Kind::ALL {
        if settings.mode == Mode::Companion && matches!(kind, Kind::NodePool | Kind::NodeClaim) {
            // Whoever buys nodes need not have them.
            health.does_without(kind);
        }
        if !is_watched(kind, &settings) {
            health.does_without(kind);
            let change = Change::Missing { why: "are switched off".to_owned() };
            health.listed(kind, true);
            // The channel is new and has room.
            let _ = event_sender.try_send(Event::Watched { kind, change });
            continue;
        }
        let watch = Watch {
            client: client.clone(),
            kind,
            class,
            events: event_sender.clone(),
            metrics: Arc::clone(&metrics),
            health: Arc::clone(&health),
        };
        tasks.spawn(watch.run());
    }
    let performer = Performer {
        client: client.clone(),
        cloud,
        class,
        rate: Rate::new(options.access.kube_client_qps, options.access.kube_client_burst),
        tenure: Arc::clone(&tenure),
        may_write: settings.mode != Mode::Observe,
        metrics: Arc::clone(&metrics),
    };
    let performing = tokio::spawn(perform::perform(performer, effects, event_sender.clone()));
    let driver = Driver {
        engine: Engine::new(settings, Arc::clone(catalog.types()), catalog.well_known.clone()),
        events,
        effects: effect_sender,
        teller,
        metrics,
        health,
        journal,
        stop: stop_receiver,
    };
    let mut driving = spawn(driver)?;

    let mut candidate = if options.election.disable_leader_election {
        tracing::warn!("acting without a lease: nothing else may provision in this cluster");
        tenure.extend_for_good();
        // The engine was just started; if it has ended already, that is noticed below.
        let _ = event_sender.send(Event::Leading(true)).await;
        None
    } else {
        let leases = Candidate::new(
            &client,
            options.lease(),
            &options.election,
            &namespace,
            identity,
            tenure,
            event_sender.clone(),
        );
        Some(leases.await)
    };
    let result = {
        let lost = async {
            match &mut candidate {
                Some(candidate) => candidate.lead().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut stop => Ok(()),
            error = lost => Err(error),
            () = ended(&mut driving) => Err(OperatorError::Ended("engine")),
        }
    };
    // The engine first, so that nothing new begins; what has begun may end; then somebody else may lead.
    let _ = stop_sender.send(true);
    ended(&mut driving).await;
    let _ = performing.await;
    if let (Some(candidate), Ok(())) = (&candidate, &result) {
        candidate.release().await;
    }
    tasks.shutdown().await;
    result
}

/// Whether anything that is switched on looks at a kind.
fn is_watched(kind: Kind, settings: &Settings) -> bool {
    match kind {
        Kind::NodeClass => settings.mode == Mode::Provisioner,
        Kind::NodeOverlay => settings.overlays,
        Kind::CronJob => settings.proactive.enabled,
        Kind::Deployment | Kind::PodTemplate | Kind::ResourceQuota | Kind::CapacityBuffer => {
            settings.proactive.is_on()
        }
        _ => true,
    }
}

/// Where the operator works: a cluster and a cloud that answer.
struct Place {
    client: Client,
    namespace: String,
    cloud: Arc<dyn Cloud>,
    class: Resource,
    catalog: Arc<Catalog>,
}

async fn place(options: &Options) -> Result<Place, OperatorError> {
    let Cluster { client, namespace } = connect(&options.access).await?;
    let cloud = cloud(&options.cloud, &client, &namespace)?;
    let (class, catalog) = catalog(&*cloud).await?;
    Ok(Place { client, namespace, cloud, class, catalog })
}

/// Starts the engine's thread; the receiver hears of its end.
fn spawn(driver: Driver) -> Result<channel::Receiver<()>, OperatorError> {
    let (alive, ended) = channel::channel(());
    let runtime = Handle::current();
    let run = move || {
        let _alive = alive;
        driver.run(&runtime);
    };
    thread::Builder::new().name("engine".to_owned()).spawn(run).map_err(OperatorError::Start)?;
    Ok(ended)
}

/// Waits for the end of the engine's thread.
async fn ended(driving: &mut channel::Receiver<()>) {
    while driving.changed().await.is_ok() {}
}

fn cloud(options: &CloudOptions, client: &Client, namespace: &str) -> Result<Arc<dyn Cloud>, OperatorError> {
    Ok(match options.cloud {
        CloudChoice::Kwok => {
            let catalog = Catalog::load(&options.catalog)?;
            Arc::new(Kwok::new(client, Arc::new(catalog), namespace))
        }
        CloudChoice::Testcloud => {
            Arc::new(TestCloud::new(options.testcloud_url.as_deref().unwrap_or_default())?)
        }
    })
}

/// The node class of a cloud, and what it sells.
async fn catalog(cloud: &dyn Cloud) -> Result<(Resource, Arc<Catalog>), OperatorError> {
    let failed = |source| OperatorError::Cloud { cloud: cloud.name(), source };
    let class = cloud.node_classes().first().and_then(resources::class);
    let class = class.ok_or_else(|| failed(CloudError::not_done("its node classes are not known here")))?;
    // No cloud there is sells different things to different classes yet.
    let any = ClassRef { group: class.group.to_owned(), kind: class.kind.to_owned(), name: String::new() };
    let mut last = CloudError::not_done(format!("no answer within {} s", PATIENCE.as_secs()));
    let asked = async {
        loop {
            match cloud.catalog(&any).await {
                Ok(catalog) => break Ok(catalog),
                Err(error @ CloudError::Transient { .. }) => {
                    tracing::warn!(cloud = cloud.name(), %error, "the cloud does not answer; waiting for it");
                    last = error;
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                Err(error) => break Err(error),
            }
        }
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => Ok((class, answer.map_err(failed)?)),
        Err(_) => Err(failed(last)),
    }
}

/// How the cloud wants sick nodes to be repaired; a set that makes no sense stops the start.
fn repair_policies(cloud: &dyn Cloud) -> Result<Vec<RepairPolicy>, OperatorError> {
    let policies = cloud.repair_policies();
    match Rules::new(&policies) {
        Ok(_) => Ok(policies),
        Err(source) => Err(OperatorError::Repair { cloud: cloud.name(), source }),
    }
}

fn tell_what_is_ignored(options: &Options, gates: &Gates) {
    let ignored = options.ignored.set();
    if !ignored.is_empty() {
        tracing::info!(options = ignored.join(", "), "accepted, but without effect here");
    }
    if !gates.unknown.is_empty() {
        tracing::warn!(gates = gates.unknown.join(", "), "unknown feature gates are ignored");
    }
}

/// Retries of different processes should not fall together.
fn seed(identity: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(identity)
}
