//! A test cloud in this process, with its books in a directory of its own and its clock moved by hand.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of it, and all of it is test code"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headstart_cloud::Cloud;
use headstart_cloud::catalog::{Catalog, Source, key_of};
use headstart_cloud::port::{ClassRef, Instance, LaunchRequest, NodeTemplate, OfferingKey, Token};
use headstart_cloud::testcloud::{Admin, TestCloud};
use headstart_core::resources::Resources;
use headstart_testcloud::fault::Order;
use headstart_testcloud::ledger::{self, Contents};
use headstart_testcloud::{Options, Server, Time};
use tempfile::TempDir;
use tokio::sync::Mutex;

/// A running test cloud.
pub(crate) struct Bench {
    catalog: Source,
    dir: TempDir,
    server: Mutex<Option<Server>>,
    endpoint: std::sync::Mutex<String>,
}

impl Bench {
    /// A fresh cloud selling the `kwok` catalog.
    pub(crate) async fn new() -> Self {
        Self::on(Source::Kwok, tempfile::tempdir().unwrap()).await
    }

    /// A fresh cloud selling what a file with this text lists.
    pub(crate) async fn selling(types: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("types.json");
        std::fs::write(&file, types).unwrap();
        Self::on(Source::File(file), dir).await
    }

    async fn on(catalog: Source, dir: TempDir) -> Self {
        let bench = Self { catalog, dir, server: Mutex::default(), endpoint: std::sync::Mutex::default() };
        bench.start().await;
        bench
    }

    /// Where the books are.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.dir.path().join("cloud.ledger")
    }

    /// What the books say.
    pub(crate) fn books(&self) -> Contents {
        ledger::read(&self.ledger()).unwrap()
    }

    /// Starts the server on its books.
    pub(crate) async fn start(&self) {
        let options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            ledger: self.ledger(),
            catalog: Catalog::load(&self.catalog).unwrap(),
            cluster: None,
            time: Time::ByHand,
        };
        let server = Server::start(options).await.unwrap();
        *self.endpoint.lock().unwrap() = server.endpoint();
        *self.server.lock().await = Some(server);
    }

    /// Ends the server as a crash would.
    pub(crate) async fn crash(&self) {
        if let Some(server) = self.server.lock().await.take() {
            server.kill().await;
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        self.endpoint.lock().unwrap().clone()
    }

    pub(crate) fn cloud(&self) -> Arc<TestCloud> {
        Arc::new(TestCloud::new(&self.endpoint()).unwrap())
    }

    /// A client that does not wait long.
    pub(crate) fn impatient(&self, deadline: Duration) -> TestCloud {
        TestCloud::with_deadline(&self.endpoint(), deadline).unwrap()
    }

    pub(crate) async fn order(&self, order: Order) {
        Admin::new(&self.endpoint()).unwrap().order(&order).await.unwrap();
    }

    pub(crate) async fn advance(&self, by: Duration) {
        self.order(Order::Advance { by }).await;
        self.settle().await;
    }

    /// Waits until everything that is due has happened.
    pub(crate) async fn settle(&self) {
        let admin = Admin::new(&self.endpoint()).unwrap();
        while admin.status().await.unwrap()["due"] != 0 {
            tokio::task::yield_now().await;
        }
    }

    /// How often a fault fired.
    pub(crate) async fn fired(&self, fault: &str) -> u64 {
        let status = Admin::new(&self.endpoint()).unwrap().status().await.unwrap();
        status["fired"][fault].as_u64().unwrap_or_default()
    }

    pub(crate) async fn launch(&self, name: &str) -> Instance {
        self.cloud().launch(&request(name)).await.unwrap().instance
    }
}

pub(crate) fn class() -> ClassRef {
    ClassRef { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into(), name: "default".into() }
}

/// Spot and on-demand in zone a, then spot in zone b, of a type with four CPUs.
pub(crate) fn offerings() -> Vec<OfferingKey> {
    let catalog = Catalog::load(&Source::Kwok).unwrap();
    let t = catalog.get("s-4x-amd64-linux").unwrap();
    t.offerings.iter().take(3).map(|o| key_of(t, o)).collect()
}

/// The request of the claim with this name.
pub(crate) fn request(name: &str) -> LaunchRequest {
    LaunchRequest {
        token: Token(format!("uid-{name}")),
        claim: name.into(),
        pool: "general".into(),
        class: class(),
        offerings: offerings(),
        node: NodeTemplate::default(),
        requests: Resources::new(),
        tags: BTreeMap::new(),
    }
}
