//! The life of an instance: launched, seen, ended.

use std::time::Duration;

use headstart_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};

use super::{Bench, Checked, Point, ensure, equal, fails, list, points};
use crate::port::{ProviderId, State, tag};

pub(super) const POINTS: &[Point] = points! {
    "a launch gives the first offering and says what it is" => launch,
    "an instance bears the tags of its owner" => tags,
    "get shows what launch gave" => get,
    "list shows it, ordered by id" => listed,
    "a terminated instance is not found" => terminate,
    "terminating again is harmless" => terminate_twice,
    "an ending instance is shown as ending until it is gone" => ending,
    "unknown ids are not found" => unknown,
    "a fresh instance has not drifted" => drift,
    "an operation reboots once" => reboot,
};

async fn launch(bench: &Bench<'_>) -> Checked {
    let launch = bench.launch(1).await?;
    let (instance, first) = (&launch.instance, &bench.harness.offerings()[0]);
    equal("the offering", &instance.offering, first)?;
    equal("the state", &instance.state, &State::Running)?;
    ensure(launch.dry.is_empty(), || format!("dry: {}", list(launch.dry.iter().map(|d| &d.offering))))?;
    for (key, value) in
        [(INSTANCE_TYPE, &first.instance_type), (ZONE, &first.zone), (CAPACITY_TYPE, &first.capacity_type)]
    {
        equal(key, &instance.labels.get(key), &Some(value))?;
    }
    ensure(!instance.capacity.is_empty(), || "it has no capacity".to_owned())?;
    for (resource, usable) in instance.allocatable.iter() {
        let whole = instance.capacity.get(resource);
        ensure(usable <= whole, || format!("{resource}: {usable} of {whole} are allocatable"))?;
    }
    ensure(!instance.allocatable.is_empty(), || "nothing is allocatable".to_owned())
}

async fn tags(bench: &Bench<'_>) -> Checked {
    let request = bench.request(1);
    let instance = bench.launch(1).await?.instance;
    equal("the token", &instance.token, &Some(request.token.clone()))?;
    for (key, value) in [
        (tag::CLAIM, &request.claim),
        (tag::CLAIM_UID, &request.token.0),
        (tag::POOL, &request.pool),
        ("example.com/purpose", &"contract".to_owned()),
    ] {
        equal(key, &instance.tags.get(key), &Some(value))?;
    }
    Ok(())
}

async fn get(bench: &Bench<'_>) -> Checked {
    let launched = bench.launch(1).await?.instance;
    bench.harness.settle().await;
    let got = bench.cloud().get(&launched.id).await?;
    equal("what get shows", &got, &launched)
}

async fn listed(bench: &Bench<'_>) -> Checked {
    let launched = [bench.launch(1).await?.instance, bench.launch(2).await?.instance];
    bench.harness.settle().await;
    let all = bench.cloud().list().await?;
    for instance in &launched {
        let shown = all.iter().filter(|i| i.id == instance.id).collect::<Vec<_>>();
        equal(&format!("what the list shows of {}", instance.id), &shown, &vec![instance])?;
    }
    ensure(all.is_sorted_by(|a, b| a.id < b.id), || "the list is not ordered by id".to_owned())
}

async fn terminate(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    bench.cloud().terminate(&id).await?;
    bench.harness.settle().await;
    fails("get of a terminated instance", bench.cloud().get(&id).await, "not_found")?;
    fails("terminate of a terminated instance", bench.cloud().terminate(&id).await, "not_found")?;
    let all = bench.cloud().list().await?;
    ensure(all.iter().all(|instance| instance.id != id), || format!("the list still shows {id}"))
}

async fn terminate_twice(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    bench.cloud().terminate(&id).await?;
    match bench.cloud().terminate(&id).await {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn ending(bench: &Bench<'_>) -> Checked {
    let delay = Duration::from_secs(30);
    bench.harness.slow_ending(delay).await?;
    let result = ending_slowly(bench, delay).await;
    bench.harness.slow_ending(Duration::ZERO).await?;
    result
}

async fn ending_slowly(bench: &Bench<'_>, delay: Duration) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    bench.cloud().terminate(&id).await?;
    equal("its state", &bench.cloud().get(&id).await?.state, &State::Ending)?;
    bench.cloud().terminate(&id).await?;
    bench.harness.advance(delay).await?;
    bench.harness.settle().await;
    fails("get after the end", bench.cloud().get(&id).await, "not_found").map(|_| ())
}

async fn unknown(bench: &Bench<'_>) -> Checked {
    let known = bench.launch(1).await?.instance.id;
    let class = bench.harness.class();
    for id in [format!("{known}0"), "other:///zone/i-1".to_owned(), String::new()].map(ProviderId) {
        let cloud = bench.cloud();
        fails(&format!("get of {id:?}"), cloud.get(&id).await, "not_found")?;
        fails(&format!("terminate of {id:?}"), cloud.terminate(&id).await, "not_found")?;
        fails(&format!("reboot of {id:?}"), cloud.reboot(&id, "op").await, "not_found")?;
        fails(&format!("drift of {id:?}"), cloud.drift(&id, &class).await, "not_found")?;
    }
    bench.cloud().get(&known).await?;
    Ok(())
}

async fn drift(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    bench.harness.settle().await;
    equal("the drift", &bench.cloud().drift(&id, &bench.harness.class()).await?, &None)
}

async fn reboot(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    bench.harness.settle().await;
    bench.cloud().reboot(&id, "operation-1").await?;
    bench.cloud().reboot(&id, "operation-1").await?;
    equal("its id afterwards", &bench.cloud().get(&id).await?.id, &id)
}
