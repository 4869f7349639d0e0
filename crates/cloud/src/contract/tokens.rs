//! Tokens: one token, one instance, whatever happens in between.

use futures::future::join_all;

use super::{Bench, Call, Checked, Point, Trouble, ensure, equal, fails, list, points};
use crate::error::{CloudError, Reason};
use crate::port::ProviderId;

pub(super) const POINTS: &[Point] = points! {
    "the same request gives the same instance" => same,
    "the same request sent at the same time gives one instance" => at_once,
    "other tokens give other instances" => others,
    "a token with another list is refused" => other_list,
    "a token with another class is refused" => other_class,
    "labels edited between two attempts do not matter" => edited,
    "a launch whose answer was lost is found again" => lost_launch,
    "a request survives a restart" => restart,
    "the token of an ended instance launches nothing" => ended,
};

/// Fails unless exactly this instance is listed for the token of request one.
async fn only(bench: &Bench<'_>, id: &ProviderId) -> Checked {
    let ids: Vec<ProviderId> = bench.listed(1).await?.into_iter().map(|instance| instance.id).collect();
    ensure(ids == [id.clone()], || format!("the token has the instances [{}], not just {id}", list(&ids)))
}

async fn same(bench: &Bench<'_>) -> Checked {
    let (first, again) = (bench.launch(1).await?, bench.launch(1).await?);
    equal("the second answer", &again, &first)?;
    only(bench, &first.instance.id).await
}

async fn at_once(bench: &Bench<'_>) -> Checked {
    let answers = join_all((0..8).map(|_| bench.launch(1))).await;
    let id = bench.launch(1).await?.instance.id;
    for answer in answers {
        match answer {
            Ok(launch) => equal("the instance of one of eight", &launch.instance.id, &id)?,
            Err(CloudError::Transient { .. } | CloudError::Throttled { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    only(bench, &id).await
}

async fn others(bench: &Bench<'_>) -> Checked {
    let (one, two) = (bench.launch(1).await?.instance.id, bench.launch(2).await?.instance.id);
    ensure(one != two, || format!("two tokens gave {one}"))
}

async fn other_list(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    let mut other = bench.request(1);
    other.offerings.reverse();
    refused_as_reused("another list", bench.cloud().launch(&other).await.map(|_| ()))?;
    only(bench, &id).await
}

async fn other_class(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    let mut other = bench.request(1);
    other.class.name.push_str("-other");
    refused_as_reused("another class", bench.cloud().launch(&other).await.map(|_| ()))?;
    only(bench, &id).await
}

fn refused_as_reused(what: &str, answer: Result<(), CloudError>) -> Checked {
    match answer {
        Err(CloudError::Permanent { reason: Reason::TokenReused, .. }) => Ok(()),
        Err(error) => Err(Trouble::Broken(format!("{what} gave {} ({error})", error.kind()))),
        Ok(()) => Err(Trouble::Broken(format!("{what} was taken"))),
    }
}

async fn edited(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    let mut edited = bench.request(1);
    edited.node.labels.insert("example.com/team".into(), "green".into());
    edited.tags.clear();
    equal("the instance", &bench.cloud().launch(&edited).await?.instance.id, &id)?;
    only(bench, &id).await
}

async fn lost_launch(bench: &Bench<'_>) -> Checked {
    bench.harness.lose_answer(Call::Launch).await?;
    let error = fails("a launch whose answer is lost", bench.launch(1).await, "answer_lost")?;
    ensure(error.outcome_unknown(), || "the outcome counts as known".to_owned())?;
    let id = bench.launch(1).await?.instance.id;
    only(bench, &id).await
}

async fn restart(bench: &Bench<'_>) -> Checked {
    let before = bench.launch(1).await?;
    bench.harness.restart().await?;
    equal("the answer after a restart", &bench.launch(1).await?, &before)?;
    equal("what get shows", &bench.cloud().get(&before.instance.id).await?, &before.instance)?;
    only(bench, &before.instance.id).await
}

async fn ended(bench: &Bench<'_>) -> Checked {
    bench.harness.remembers_ended()?;
    let id = bench.launch(1).await?.instance.id;
    bench.cloud().terminate(&id).await?;
    bench.harness.settle().await;
    match bench.launch(1).await {
        Err(CloudError::Permanent { reason: Reason::InstanceEnded, .. }) => {}
        Err(error) => return Err(error.into()),
        Ok(launch) => return Err(Trouble::Broken(format!("it launched {}", launch.instance.id))),
    }
    equal("the list", &bench.listed(1).await?, &Vec::new())
}
