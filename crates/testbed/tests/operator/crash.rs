//! Operators that are killed, sleep through their lease or lose their API server in the middle of buying.
//!
//! The judge is the test cloud's own ledger: in the end every pod runs, nothing is left over, nothing was bought twice.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headstart_cloud::catalog::Source;
use headstart_testbed::Component;
use headstart_testbed::workload::{self, Dice};
use headstart_testcloud::delay::Delay;
use headstart_testcloud::fault::Order;
use headstart_testcloud::settings::Call;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::{Cluster, Operator, TestCloud, deployment, eventually, number};

/// A pool of machines of up to eight CPUs, so that there is much to buy.
fn small_machines() -> Vec<Value> {
    let requirements = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["9"]},
    ]);
    vec![workload::node_class(), workload::node_pool("general", &requirements)]
}

/// Nodes that take their time, answers that come late or never, and too few of them.
async fn a_bad_day(cloud: &TestCloud) -> Result<()> {
    let between = |from: u64, to: u64| Delay::Uniform(Duration::from_millis(from), Duration::from_millis(to));
    cloud.order(Order::JoinDelay { delay: between(500, 4000) }).await?;
    cloud.order(Order::Slow { delay: between(20, 400) }).await?;
    cloud.order(Order::Throttle { per_second: 8.0, burst: 4, call: Some(Call::Launch) }).await?;
    cloud.order(Order::LoseAnswers { count: 8, call: Some(Call::Launch) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_it_neither_forgets_nor_buys_twice() -> Result<()> {
    let (n_kills, n_pods) = (number("KILLS", 5), number("PODS", 120));
    let mut dice = Dice::new(number("SEED", 1) as u64);
    let cluster = Cluster::whole().await?;
    let cloud = TestCloud::start(&cluster, Source::Kwok).await?;
    a_bad_day(&cloud).await?;
    cluster.apply_all(small_machines()).await?;
    let [kind, url] = cloud.args();
    // The one before is dead for certain, so that there is no lease to wait for: killings come faster.
    let args = [&*kind, &*url, "--disable-leader-election"];
    for kill in 0..n_kills {
        // More pods each time, so that something is always being bought.
        cluster.apply(deployment(n_pods * (kill + 1) / n_kills)).await?;
        let operator = cluster.run("headstart", &args)?;
        if kill == n_kills / 2 {
            cluster.plane.restart(Component::ApiServer).await?;
        }
        // Most of them in the midst of something, some while it gets up.
        if !dice.once_in(4) {
            until_it_acts(&operator).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.below(1500) as u64)).await;
        ensure!(cluster.plane.exited("headstart")?.is_none(), "it ended by itself:\n{}", operator.log());
        operator.kill()?;
        let begun = cluster.claims().list(&ListParams::default()).await?.items.len();
        eprintln!("kill {}: {begun} claims, {} pods run", kill + 1, cluster.n_running().await?);
    }
    let operator = cluster.run("headstart", &args)?;
    cluster.running(n_pods).await.with_context(|| operator.log())?;

    let audit = cloud.clean(&cluster).await.with_context(|| operator.log())?;
    let status = cloud.status().await?;
    eprintln!(
        "{} instances were launched, {} of them run; faults that fired: {}",
        audit.instances.len(),
        audit.instances.iter().filter(|bill| bill.runs()).count(),
        status["fired"]
    );
    ensure!(status["fired"]["lose-answer"].as_u64() > Some(0), "no answer was lost: {status}");
    // An operator that forgot what it had bought would have bought it once more each time.
    let fewest = n_pods.div_ceil(7);
    ensure!(audit.instances.len() <= 2 * fewest, "{} instances for {n_pods} pods", audit.instances.len());
    Ok(())
}

/// Waits until an operator buys something, or has had time enough to find that there is nothing to buy.
async fn until_it_acts(operator: &Operator<'_>) {
    let n_acts = || operator.said("NodeClaim for").len() + operator.said("launched nodeclaim").len();
    let (before, start) = (n_acts(), Instant::now());
    while n_acts() == before && start.elapsed() < Duration::from_secs(8) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_leader_sleeps_another_goes_on_and_the_sleeper_does_no_harm() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let cloud = TestCloud::start(&cluster, Source::Kwok).await?;
    a_bad_day(&cloud).await?;
    cluster.apply_all(small_machines()).await?;
    let [kind, url] = cloud.args();
    let first = cluster.run("first", &[&kind, &url])?;
    first.ready().await?;
    let second = cluster.run("second", &[&kind, &url])?;
    eventually("the second to wait", async || Ok(!second.said("another one leads").is_empty())).await?;

    cluster.apply(deployment(40)).await?;
    eventually("a first launch", async || Ok(!first.said("launched nodeclaim").is_empty())).await?;
    first.signal(|process| process.pause())?;
    cluster.apply(deployment(80)).await?;
    eventually("the second leader", async || Ok(!second.said("leading").is_empty())).await?;
    first.signal(|process| process.resume())?;
    let code = first.exit_code().await?;
    ensure!(code == 1, "the sleeper ended with {code}:\n{}", first.log());
    cluster.running(80).await.with_context(|| second.log())?;

    let audit = cloud.clean(&cluster).await.with_context(|| second.log())?;
    eprintln!("{} instances were launched", audit.instances.len());
    second.end().await
}
