//! The HTTP side of the cloud, and the server that can be embedded in tests.

mod admin;
mod api;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use headstart_cloud::Catalog;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::cloud::Cloud;
use crate::ledger::{self, LedgerError};
use crate::timeline;
use crate::world::World;

pub use admin::Status;

/// What a server is started with.
pub struct Options {
    /// Where to listen; port zero takes a free one.
    pub listen: SocketAddr,
    /// The books.
    pub ledger: PathBuf,
    /// What is sold.
    pub catalog: Catalog,
    /// Whose Nodes are registered, if anybody's.
    pub cluster: Option<kube::Client>,
    /// How time goes.
    pub time: Time,
}

/// How time goes in a cloud.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Time {
    /// So many times as fast as real time.
    Running(f64),
    /// Only when moved by hand.
    ByHand,
}

/// Why a server does not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The books cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The books broke while running.
    #[error("{0}")]
    Stopped(String),
}

/// A running server; dropping it stops it at once, like a crash.
pub struct Server {
    address: SocketAddr,
    torn_bytes: u64,
    n_records: usize,
    clock: Clock,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    failed: watch::Receiver<Option<String>>,
}

impl Server {
    /// Reads the books, listens, and begins to serve.
    pub async fn start(options: Options) -> Result<Self, ServerError> {
        let Options { listen, ledger, catalog, cluster, time } = options;
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|source| ServerError::Listen { address: listen, source })?;
        let address =
            listener.local_addr().map_err(|source| ServerError::Listen { address: listen, source })?;
        let (books, contents) = ledger::open(&ledger, &catalog)?;
        let last = contents.records.last().map(|record| record.at);
        let clock = match time {
            Time::Running(scale) => Clock::running(scale, last),
            Time::ByHand => Clock::by_hand(last.unwrap_or_default()),
        };
        let world = World::new(Arc::new(catalog), &contents.records);
        let cloud = Arc::new(Cloud::new(world, books, clock.clone()));
        let (stop, stopping) = watch::channel(false);
        let (failure, failed) = watch::channel(None);
        let router = api::router(Arc::clone(&cloud), stopping.clone());
        let serve = async move {
            let mut stopping = stopping;
            let stopped = async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            // Accepting connections never ends with an error.
            let _ = axum::serve(listener, router).with_graceful_shutdown(stopped).await;
        };
        let watch_books = {
            let cloud = Arc::clone(&cloud);
            async move {
                let why = cloud.books_closed().await;
                failure.send_replace(Some(why.to_string()));
            }
        };
        let tasks =
            vec![tokio::spawn(timeline::run(cloud, cluster)), tokio::spawn(watch_books), tokio::spawn(serve)];
        let (torn_bytes, n_records) = (contents.torn_bytes, contents.records.len());
        Ok(Self { address, torn_bytes, n_records, clock, stop, tasks, failed })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as clients write it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The cloud's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How much of a cut-off last line was dropped from the books.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// How many records the books had.
    pub fn n_records(&self) -> usize {
        self.n_records
    }

    /// Waits until the server cannot go on.
    pub async fn failed(&self) -> ServerError {
        let why = self.failed.clone().wait_for(Option::is_some).await.map(|why| why.clone());
        ServerError::Stopped(why.ok().flatten().unwrap_or_else(|| "the server ended".to_owned()))
    }

    /// Answers what is under way, writes the books and ends.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(serving) = self.tasks.pop() {
            let _ = serving.await;
        }
        self.end_tasks().await;
    }

    /// Ends without answering anybody, as a crash would.
    pub async fn kill(mut self) {
        self.end_tasks().await;
    }

    async fn end_tasks(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn hint(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has that port; choose another, or port 0 for a free one".to_owned()
        }
        io::ErrorKind::PermissionDenied => "no permission; ports below 1024 need root".to_owned(),
        _ => error.to_string(),
    }
}
