//! Failures, and what a cloud announces by itself.

use std::time::Duration;

use super::{Bench, Call, Checked, Point, Trouble, ensure, equal, error, fails, points};
use crate::error::CloudError;
use crate::notice::{Cursor, Notice, NoticeKind};
use crate::port::{ProviderId, State};

pub(super) const POINTS: &[Point] = points! {
    "a termination whose answer was lost has happened" => lost_terminate,
    "a failure before the effect launches nothing" => failed,
    "a denied call launches nothing" => denied,
    "a throttled call says when to come back" => throttled,
    "an interruption is announced and then happens" => interrupted,
    "a death is announced" => died,
    "without news a reader waits and keeps its place" => no_news,
};

async fn lost_terminate(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    bench.harness.lose_answer(Call::Terminate).await?;
    fails("a termination whose answer is lost", bench.cloud().terminate(&id).await, "answer_lost")?;
    bench.harness.settle().await;
    fails("get afterwards", bench.cloud().get(&id).await, "not_found").map(|_| ())
}

async fn failed(bench: &Bench<'_>) -> Checked {
    bench.harness.fail().await?;
    let error = fails("a call that fails", bench.launch(1).await, "transient")?;
    ensure(!error.outcome_unknown(), || "the outcome counts as unknown".to_owned())?;
    equal("what was launched", &bench.listed(1).await?, &Vec::new())?;
    bench.launch(1).await?;
    Ok(())
}

async fn denied(bench: &Bench<'_>) -> Checked {
    bench.harness.deny().await?;
    fails("a call that is denied", bench.launch(1).await, "denied")?;
    equal("what was launched", &bench.listed(1).await?, &Vec::new())
}

async fn throttled(bench: &Bench<'_>) -> Checked {
    bench.harness.throttle().await?;
    let (first, second) = (bench.launch(1).await, bench.launch(2).await);
    bench.harness.unthrottle().await?;
    first?;
    match error("a call too many", second)? {
        CloudError::Throttled { retry_after: Some(wait) } if !wait.is_zero() => {}
        CloudError::Throttled { .. } => {
            return Err(Trouble::Broken("it does not say for how long".to_owned()));
        }
        error => return Err(error.into()),
    }
    equal("what the second launched", &bench.listed(2).await?, &Vec::new())
}

/// All notices about an instance.
async fn about(bench: &Bench<'_>, id: &ProviderId) -> Result<Vec<NoticeKind>, CloudError> {
    let notices = bench.cloud().notices(None, Duration::ZERO).await?.notices;
    let kind = |notice: Notice| (notice.instance == *id).then_some(notice.kind);
    Ok(notices.into_iter().filter_map(kind).collect())
}

/// Where the stream of notices ends now.
async fn end(bench: &Bench<'_>) -> Result<Option<Cursor>, CloudError> {
    Ok(bench.cloud().notices(None, Duration::ZERO).await?.next)
}

async fn interrupted(bench: &Bench<'_>) -> Checked {
    let left = Duration::from_mins(2);
    let id = bench.launch(1).await?.instance.id;
    bench.harness.settle().await;
    let before = end(bench).await?;
    bench.harness.interrupt(&id, left).await?;
    let news = bench.cloud().notices(before.as_ref(), Duration::from_secs(5)).await?;
    let expected = Notice { instance: id.clone(), kind: NoticeKind::Interruption { left } };
    equal("the news", &news.notices, &vec![expected])?;
    equal("its state meanwhile", &bench.cloud().get(&id).await?.state, &State::Running)?;
    bench.harness.advance(left).await?;
    bench.harness.settle().await;
    fails("get after the interruption", bench.cloud().get(&id).await, "not_found")?;
    let later = bench.cloud().notices(news.next.as_ref(), Duration::from_secs(5)).await?.notices;
    let died = Notice { instance: id.clone(), kind: NoticeKind::Died };
    equal("the later news", &later, &vec![died])?;
    equal("all news", &about(bench, &id).await?.len(), &2)
}

async fn died(bench: &Bench<'_>) -> Checked {
    let id = bench.launch(1).await?.instance.id;
    bench.harness.settle().await;
    bench.harness.kill(&id).await?;
    bench.harness.settle().await;
    fails("get after the death", bench.cloud().get(&id).await, "not_found")?;
    equal("the news", &about(bench, &id).await?, &vec![NoticeKind::Died])
}

async fn no_news(bench: &Bench<'_>) -> Checked {
    let before = end(bench).await?;
    let news = bench.cloud().notices(before.as_ref(), Duration::from_millis(20)).await?;
    equal("the news", &news.notices, &Vec::new())?;
    equal("the place", &news.next, &before)
}
