//! The audit finds a leak, a double launch and a zombie that were planted, and nothing else.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod bench;

use std::collections::BTreeMap;
use std::time::Duration;

use bench::{Bench, request};
use headstart_cloud::Cloud;
use headstart_testcloud::audit::{self, Audit, Claim, Evidence, Finding, NodeSeen};
use headstart_testcloud::fault::Order;

const HOUR: Duration = Duration::from_hours(1);

/// The claim that owns what `bench.launch(name)` launched.
fn claim(name: &str, instance: &str) -> Claim {
    Claim {
        name: name.into(),
        uid: format!("uid-{name}"),
        instance: Some(instance.into()),
        ..Claim::default()
    }
}

fn node(instance: &str) -> NodeSeen {
    NodeSeen { name: instance.into(), instance: instance.into() }
}

fn judge(bench: &Bench, evidence: Option<&Evidence>) -> Audit {
    let books = bench.books();
    let last = books.records.last().unwrap().at;
    audit::audit(&books, evidence, last)
}

#[tokio::test]
async fn an_honest_day_is_clean_and_billed() {
    let bench = Bench::new().await;
    let (a, _) = (bench.launch("a").await, bench.launch("b").await);
    bench.advance(HOUR).await;
    bench.cloud().terminate(&a.id).await.unwrap();
    bench.advance(HOUR).await;
    bench.launch("c").await;
    let evidence = Evidence {
        claims: vec![claim("b", "i-00000002"), claim("c", "i-00000003")],
        nodes: vec![node("i-00000002"), node("i-00000003")],
    };
    let audit = judge(&bench, Some(&evidence));
    assert_eq!(audit.findings, []);
    let ran: Vec<u64> = audit.instances.iter().map(|bill| bill.running_ms / 1000).collect();
    assert_eq!(ran, [3600, 7200, 0]);
    // Four CPUs and 16 GiB on spot: (4 × 0.025 + 17.179869184 × 0.001) × 0.7 dollars an hour.
    let price = 82_025_908;
    assert_eq!(audit.instances[0].price_nanos, price);
    assert_eq!(audit.total_nanos(), 3 * price);
}

#[tokio::test]
async fn exactly_what_was_planted_is_found() {
    let bench = Bench::new().await;
    // Honest neighbors: one that lives, one that lived.
    bench.launch("honest").await;
    let gone = bench.launch("gone").await;
    bench.cloud().terminate(&gone.id).await.unwrap();
    // A leak: its claim was deleted, the instance was forgotten.
    bench.launch("leaked").await;
    // A double launch: the answer is lost, and the cloud ignores the token of the retry.
    bench.order(Order::LoseAnswers { count: 1, call: None }).await;
    bench.cloud().launch(&request("double")).await.unwrap_err();
    bench.order(Order::IgnoreTokens { count: 1 }).await;
    bench.launch("double").await;
    // Zombies: a Node whose instance died, a claim that believes in a termination that never was.
    let died = bench.launch("died").await;
    bench.order(Order::Kill { id: died.id.0.clone() }).await;
    bench.launch("undead").await;
    let evidence = Evidence {
        claims: vec![
            claim("honest", "i-00000001"),
            claim("double", "i-00000005"),
            Claim { says_terminated: true, deleting: true, ..claim("undead", "i-00000007") },
        ],
        nodes: vec![node("i-00000001"), node("i-00000005"), node("i-00000006"), node("i-00000007")],
    };

    let audit = judge(&bench, Some(&evidence));

    let died_at = audit.instances[5].ended.unwrap().to_string();
    let text = audit::table(&audit).replace(&died_at, "<then>");
    insta::assert_snapshot!(text.split("\n\n").next().unwrap(), @r"
    1 leak, 1 double launch, 2 zombies. 7 instances (5 not ended), 0.00 instance-hours, $0.000000.
      ✗ leak           i-00000003 (s-4x-amd64-linux test-zone-a spot, 0s): its NodeClaim leaked (uid uid-leaked) does not exist
      ✗ double launch  i-00000004 and i-00000005 ran at the same time for uid-double; 2 not ended
      ✗ zombie         Node i-00000006: it stands for instance i-00000006, which ended at <then>
      ✗ zombie         NodeClaim undead: it says that its instance is terminated, but i-00000007 runs
    ");
    assert_eq!(audit.findings.len(), 4);
}

#[tokio::test]
async fn without_a_cluster_only_the_books_are_judged() {
    let bench = Bench::new().await;
    bench.launch("a").await;
    bench.order(Order::IgnoreTokens { count: 1 }).await;
    bench.launch("a").await;
    let audit = judge(&bench, None);
    let instances = vec!["i-00000001".to_owned(), "i-00000002".to_owned()];
    assert_eq!(audit.findings, [Finding::DoubleLaunch { owner: "uid-a".into(), instances, running: 2 }]);
    assert!(audit::table(&audit).contains("Owners were not checked"));
}

#[tokio::test]
async fn a_double_launch_is_found_after_both_have_ended() {
    let bench = Bench::new().await;
    let first = bench.launch("a").await;
    bench.order(Order::IgnoreTokens { count: 1 }).await;
    bench.advance(HOUR).await;
    let second = bench.launch("a").await;
    for id in [&first.id, &second.id] {
        bench.advance(HOUR).await;
        bench.cloud().terminate(id).await.unwrap();
    }
    let findings = judge(&bench, None).findings;
    assert!(matches!(&findings[..], [Finding::DoubleLaunch { running: 0, .. }]), "{findings:?}");
}

#[tokio::test]
async fn one_after_the_other_is_not_a_double_launch() {
    let bench = Bench::new().await;
    let first = bench.launch("a").await;
    bench.advance(HOUR).await;
    bench.cloud().terminate(&first.id).await.unwrap();
    bench.order(Order::IgnoreTokens { count: 1 }).await;
    bench.launch("a").await;
    assert_eq!(judge(&bench, None).findings, []);
}

#[tokio::test]
async fn an_instance_stripped_of_its_tags_is_a_leak() {
    let bench = Bench::new().await;
    let id = bench.launch("a").await.id;
    let short = id.0.rsplit('/').next().unwrap().to_owned();
    assert_eq!(judge(&bench, None).findings, []);
    bench.cloud().set_tags(&id, &BTreeMap::new()).await.unwrap();
    let message = "it has no tag that names an owner".to_owned();
    assert_eq!(judge(&bench, None).findings, [Finding::Leak { instance: short, message }]);
}
