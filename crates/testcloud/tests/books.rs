//! The books survive crashes, torn lines and curious hands.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod bench;

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use bench::{Bench, request};
use headstart_cloud::Cloud;
use headstart_cloud::catalog::{Catalog, Source};
use headstart_testcloud::delay::Delay;
use headstart_testcloud::fault::Order;
use headstart_testcloud::record::Fact;
use headstart_testcloud::settings::Pattern;
use headstart_testcloud::{Options, Server, Time};

async fn start_on(path: std::path::PathBuf) -> Result<Server, String> {
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        ledger: path,
        catalog: Catalog::load(&Source::Kwok).unwrap(),
        cluster: None,
        time: Time::ByHand,
    };
    Server::start(options).await.map_err(|error| error.to_string())
}

fn append(bench: &Bench, text: &str) {
    OpenOptions::new().append(true).open(bench.ledger()).unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let bench = Bench::new().await;
    let (kept, ended) = (bench.launch("kept").await, bench.launch("ended").await);
    bench.cloud().terminate(&ended.id).await.unwrap();
    bench.order(Order::EndDelay { delay: Delay::Fixed(Duration::from_mins(5)) }).await;
    let ending = bench.launch("ending").await;
    bench.cloud().terminate(&ending.id).await.unwrap();
    bench.order(Order::Dry { which: Pattern::default(), lasts: Some(Duration::from_mins(1)) }).await;
    bench.order(Order::Interrupt { id: kept.id.0.clone(), left: Duration::from_mins(9) }).await;
    let before = bench.cloud().list().await.unwrap();

    bench.crash().await;
    bench.start().await;

    assert_eq!(bench.cloud().list().await.unwrap(), before);
    assert_eq!(bench.launch("kept").await, kept);
    assert_eq!(bench.cloud().launch(&request("ended")).await.unwrap_err().kind(), "permanent");
    assert_eq!(bench.cloud().launch(&request("new")).await.unwrap_err().kind(), "insufficient_capacity");
    bench.advance(Duration::from_mins(1)).await;
    let new = bench.launch("new").await;
    assert!(before.iter().all(|instance| instance.id != new.id), "ids are never used again");
    bench.advance(Duration::from_mins(4)).await;
    assert!(bench.cloud().get(&ending.id).await.unwrap_err().is_not_found());
    bench.advance(Duration::from_mins(4)).await;
    assert!(bench.cloud().get(&kept.id).await.unwrap_err().is_not_found());
    assert_eq!(bench.cloud().notices(None, Duration::ZERO).await.unwrap().notices.len(), 2);
}

#[tokio::test]
async fn a_torn_last_line_is_dropped_and_reported() {
    let bench = Bench::new().await;
    let kept = bench.launch("kept").await;
    bench.settle().await;
    bench.crash().await;
    append(&bench, "{\"at\":\"2026-11-15T00:00:00Z\",\"fact\":\"ended\",\"id\":\"i-000");
    assert_eq!(bench.books().torn_bytes, 55);

    bench.start().await;

    assert_eq!(bench.cloud().list().await.unwrap(), [kept]);
    let books = bench.books();
    assert_eq!(books.torn_bytes, 0);
    assert_eq!(books.records.last().unwrap().fact, Fact::Torn { bytes: 55 });
}

#[tokio::test]
async fn a_crash_while_the_first_line_was_written_is_mended() {
    let bench = Bench::new().await;
    bench.crash().await;
    std::fs::write(bench.ledger(), "{\"at\":\"2026-1").unwrap();
    bench.start().await;
    bench.launch("a").await;
    bench.settle().await;
    let books = bench.books();
    assert_eq!(books.records.len(), 4, "opened, torn, launched, joined");
    assert_eq!(books.records[1].fact, Fact::Torn { bytes: 13 });
}

#[tokio::test]
async fn a_bad_line_in_the_middle_stops_everything() {
    let bench = Bench::new().await;
    bench.crash().await;
    append(&bench, "nonsense\n");
    let error = start_on(bench.ledger()).await.err().unwrap();
    assert!(error.contains("cloud.ledger, line 2 makes no sense: expected"), "{error}");
}

#[tokio::test]
async fn a_ledger_of_another_version_is_refused() {
    let bench = Bench::new().await;
    bench.crash().await;
    let text = std::fs::read_to_string(bench.ledger()).unwrap().replace("\"version\":1", "\"version\":2");
    std::fs::write(bench.ledger(), text).unwrap();
    let error = start_on(bench.ledger()).await.err().unwrap();
    assert!(error.ends_with("has version 2, but this program reads version 1; begin a new one"), "{error}");
}

#[tokio::test]
async fn other_files_are_refused_and_left_alone() {
    let bench = Bench::new().await;
    let path = bench.ledger().with_file_name("notes.txt");
    for text in ["{\"a\":1}\n", "hello\n", "hello"] {
        std::fs::write(&path, text).unwrap();
        let error = start_on(path.clone()).await.err().unwrap();
        assert!(error.contains("notes.txt is not a ledger of a test cloud"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn two_clouds_cannot_share_a_ledger() {
    let bench = Bench::new().await;
    let error = start_on(bench.ledger()).await.err().unwrap();
    assert!(error.ends_with("is in use by another test cloud; give each one a ledger of its own"), "{error}");
}
