//! A cloud that has run dry, here and there or everywhere, and nodes that turn out to be of no use.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headstart_cloud::catalog::Source;
use headstart_cloud::port::Taint;
use headstart_core::labels::{CAPACITY_TYPE, ON_DEMAND, SPOT};
use headstart_testbed::workload;
use headstart_testcloud::fault::Order;
use headstart_testcloud::settings::Pattern;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::harness::{Cluster, TestCloud, deployment, eventually, named_deployment, number};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dry_is_stepped_over_and_what_comes_back_is_found() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let cloud = TestCloud::start(&cluster, Source::Kwok).await?;
    let [kind, url] = cloud.args();
    let operator = cluster.run("headstart", &[&kind, &url])?;
    operator.ready().await?;
    cluster.apply_all(workload::open_pool()).await?;
    cluster.pool_says("general", "Ready", "True").await?;
    let tally = cluster.tally();

    // Spot is the cheapest, and there is none of it.
    let spot = Pattern { capacity_type: Some(SPOT.to_owned()), ..Pattern::default() };
    cloud.order(Order::Dry { which: spot, lasts: None }).await?;
    cluster.apply(deployment(20)).await?;
    cluster.running(20).await.with_context(|| operator.log())?;
    let claims = cluster.claims().list(&ListParams::default()).await?.items;
    ensure!(claims.iter().all(|claim| claim.labels()[CAPACITY_TYPE] == ON_DEMAND));
    ensure!(tally.n() == claims.len(), "{} claims were made for {}", tally.n(), claims.len());
    ensure!(!operator.said("ran dry, took").is_empty(), "it does not say so:\n{}", operator.log());

    // Then there is nothing at all, for a while.
    cloud.order(Order::Dry { which: Pattern::default(), lasts: None }).await?;
    let before = tally.n();
    cluster.apply(named_deployment("late", 1, &needing("60"))).await?;
    let names = async || -> Result<Vec<String>> {
        let pods = cluster.pods().list(&ListParams::default().labels("app=late")).await?;
        Ok(pods.iter().map(ResourceExt::name_any).collect())
    };
    eventually("word that there is nothing", async || {
        let [pod] = &names().await?[..] else { return Ok(false) };
        let told = cluster.told(pod, "FailedScheduling").await?;
        Ok(told.iter().any(|message| message.contains("no capacity")))
    })
    .await
    .with_context(|| operator.log())?;
    let seconds = number("DRY_SECONDS", 15);
    let a_while = Duration::from_secs(seconds as u64) / 4;
    tokio::time::sleep(a_while).await;
    let held = operator.memory_kib()?;
    tokio::time::sleep(a_while * 3).await;
    let holds = operator.memory_kib()?;
    let attempts = tally.n() - before;
    eprintln!(
        "{attempts} attempts in {seconds} s while everything was dry; {held} KiB after a quarter of it, {holds} at the end"
    );
    ensure!(holds < held + 16 * 1024, "memory grew from {held} to {holds} KiB");
    // Waits grow to some fifteen seconds, and one attempt is made after each.
    ensure!(
        (1..=10 + seconds / 10).contains(&attempts),
        "{attempts} claims were made in vain:\n{}",
        operator.log()
    );
    ensure!(cluster.n_running().await? == 20);

    cloud.order(Order::Clear).await?;
    cluster.running(21).await.with_context(|| operator.log())?;
    cloud.clean(&cluster).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_somebody_else_taints_are_not_bought_again_and_again() -> Result<()> {
    let cluster = Cluster::whole().await?;
    let cloud = TestCloud::start(&cluster, Source::Kwok).await?;
    let [kind, url] = cloud.args();
    let operator = cluster.run("headstart", &[&kind, &url])?;
    operator.ready().await?;
    let taint = Taint { key: "somebody.else/hold".into(), value: String::new(), effect: "NoSchedule".into() };
    cloud.order(Order::WrongTaint { taint, count: 1000 }).await?;
    cluster.apply_all(workload::open_pool()).await?;
    let tally = cluster.tally();
    cluster.apply(deployment(10)).await?;
    cluster.apply(named_deployment("other", 5, &needing("3"))).await?;

    // Fewer than 35 in five minutes is what is promised; the first minute is the busiest.
    let minutes = number("MINUTES", 1);
    eventually("a first node", async || Ok(tally.n() > 0)).await?;
    tokio::time::sleep(Duration::from_mins(minutes as u64)).await;
    eprintln!("{} claims in {minutes} minutes", tally.n());
    ensure!(tally.n() < 7 * minutes, "{} claims in {minutes} minutes:\n{}", tally.n(), operator.log());
    ensure!(cluster.n_running().await? == 0, "nothing tolerates the taint");
    Ok(())
}

/// Pods that ask for so many CPUs.
fn needing(cpu: &str) -> serde_json::Value {
    json!({"containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "2Gi"}}}]})
}
