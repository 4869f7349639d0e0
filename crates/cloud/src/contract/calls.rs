//! Choosing among offerings, and requests that cannot be met.

use std::time::Duration;

use super::{Bench, Checked, Point, Trouble, ensure, equal, error, fails, points};
use crate::error::{CloudError, Reason};
use crate::port::OfferingKey;

pub(super) const POINTS: &[Point] = points! {
    "a dry offering falls to the next and is named" => falls,
    "a drought says how long it lasts" => lasts,
    "when all are dry all are named and nothing is launched" => all_dry,
    "capacity comes back when it said so" => comes_back,
    "an unknown offering is refused" => unknown_offering,
    "an empty list is refused" => empty,
    "a class that is not ready is named" => unready,
    "a class that does not exist is no capacity" => missing_class,
};

async fn falls(bench: &Bench<'_>) -> Checked {
    let offerings = bench.harness.offerings();
    bench.harness.dry(&offerings[0], None).await?;
    let launched = bench.launch(1).await;
    bench.harness.wet(&offerings[0]).await?;
    let launch = launched?;
    equal("the offering", &launch.instance.offering, &offerings[1])?;
    let dry: Vec<&OfferingKey> = launch.dry.iter().map(|dry| &dry.offering).collect();
    equal("the dry ones", &dry, &vec![&offerings[0]])?;
    // The answer does not change when the capacity comes back: the instance is what it is.
    equal("the answer to a retry", &bench.launch(1).await?, &launch)
}

async fn lasts(bench: &Bench<'_>) -> Checked {
    let offerings = bench.harness.offerings();
    bench.harness.dry(&offerings[0], Some(Duration::from_secs(90))).await?;
    let launched = bench.launch(1).await;
    bench.harness.wet(&offerings[0]).await?;
    let lasts = launched?.dry.first().and_then(|dry| dry.lasts);
    let sane = lasts.is_some_and(|lasts| !lasts.is_zero() && lasts <= Duration::from_secs(90));
    ensure(sane, || format!("it lasts {lasts:?}, not up to 90 s"))
}

async fn all_dry(bench: &Bench<'_>) -> Checked {
    let offerings = bench.harness.offerings();
    for offering in &offerings {
        bench.harness.dry(offering, None).await?;
    }
    let launched = bench.launch(1).await;
    let listed = bench.listed(1).await;
    for offering in &offerings {
        bench.harness.wet(offering).await?;
    }
    match error("a launch without capacity", launched)? {
        CloudError::InsufficientCapacity { dry, .. } => {
            let dry: Vec<OfferingKey> = dry.into_iter().map(|dry| dry.offering).collect();
            equal("the dry ones", &dry, &offerings)?;
        }
        error => return Err(error.into()),
    }
    equal("what was launched", &listed?, &Vec::new())?;
    // The token is not spent: what could not be bought can be bought now.
    equal("the offering", &bench.launch(1).await?.instance.offering, &offerings[0])
}

async fn comes_back(bench: &Bench<'_>) -> Checked {
    let offerings = bench.harness.offerings();
    bench.harness.dry(&offerings[0], Some(Duration::from_mins(1))).await?;
    let before = bench.launch(1).await?.instance.offering;
    bench.harness.advance(Duration::from_secs(61)).await?;
    let after = bench.launch(2).await?.instance.offering;
    equal("what is bought before and after", &(before, after), &(offerings[1].clone(), offerings[0].clone()))
}

async fn unknown_offering(bench: &Bench<'_>) -> Checked {
    let mut request = bench.request(1);
    request.offerings[0].instance_type = "no-such-type".into();
    invalid("an unknown type", bench.cloud().launch(&request).await.map(|_| ()))?;
    equal("what was launched", &bench.listed(1).await?, &Vec::new())
}

async fn empty(bench: &Bench<'_>) -> Checked {
    let mut request = bench.request(1);
    request.offerings.clear();
    invalid("an empty list", bench.cloud().launch(&request).await.map(|_| ()))
}

fn invalid(what: &str, answer: Result<(), CloudError>) -> Checked {
    match error(what, answer)? {
        CloudError::Permanent { reason: Reason::InvalidRequest, .. } => Ok(()),
        error => Err(Trouble::Broken(format!("{what} gave {} ({error})", error.kind()))),
    }
}

async fn unready(bench: &Bench<'_>) -> Checked {
    let mut request = bench.request(1);
    request.class = bench.harness.unready_class().await?;
    match error("a class that is not ready", bench.cloud().launch(&request).await)? {
        CloudError::ClassNotReady { class, message } => {
            equal("the class", &class, &request.class)?;
            ensure(!message.is_empty(), || "it does not say why".to_owned())?;
        }
        error => return Err(error.into()),
    }
    equal("what was launched", &bench.listed(1).await?, &Vec::new())
}

async fn missing_class(bench: &Bench<'_>) -> Checked {
    let mut request = bench.request(1);
    request.class = bench.harness.missing_class().await?;
    let answer = bench.cloud().launch(&request).await;
    fails("a class that does not exist", answer, "insufficient_capacity")?;
    equal("what was launched", &bench.listed(1).await?, &Vec::new())
}
