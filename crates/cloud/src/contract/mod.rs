//! The contract suite: what every cloud must do, tried on a real one.
//!
//! An implementation brings a [`Harness`] that puts its cloud into situations. What it cannot be put into it declares,
//! with a reason, and [`Report::assert`] compares the declared points with those expected, so that none is skipped in
//! silence.

mod calls;
mod faults;
mod life;
mod ours;
mod tokens;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headstart_core::resources::Resources;

use crate::error::CloudError;
use crate::port::{
    ClassRef, Cloud, Instance, Launch, LaunchRequest, NodeTemplate, OfferingKey, ProviderId, Taint, Token,
};

/// Why a cloud cannot be put into a situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cannot(pub &'static str);

/// Whether a cloud could be put into a situation.
pub type Can<T = ()> = Result<T, Cannot>;

/// A call whose answer can be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Launching.
    Launch,
    /// Terminating.
    Terminate,
}

/// A cloud on the test bench.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The cloud.
    fn cloud(&self) -> Arc<dyn Cloud>;

    /// A node class that is ready.
    fn class(&self) -> ClassRef;

    /// At least three offerings with capacity.
    fn offerings(&self) -> Vec<OfferingKey>;

    /// A text that no other run of the suite against this cloud has, fit for a name.
    fn run(&self) -> String;

    /// Lets everything happen that is due now.
    async fn settle(&self);

    /// Takes the capacity of an offering away, for a while or for good.
    async fn dry(&self, offering: &OfferingKey, lasts: Option<Duration>) -> Can;

    /// Gives the capacity of an offering back.
    async fn wet(&self, offering: &OfferingKey) -> Can;

    /// Lets time pass in the cloud.
    async fn advance(&self, by: Duration) -> Can;

    /// A node class that exists and is not ready.
    async fn unready_class(&self) -> Can<ClassRef>;

    /// A node class that does not exist, in a cloud that looks.
    async fn missing_class(&self) -> Can<ClassRef>;

    /// Makes instances take this long to end.
    async fn slow_ending(&self, delay: Duration) -> Can;

    /// Loses the answer to the next such call, after its effect.
    async fn lose_answer(&self, call: Call) -> Can;

    /// Fails the next call before its effect.
    async fn fail(&self) -> Can;

    /// Denies the next call.
    async fn deny(&self) -> Can;

    /// Throttles the calls after the next one, until [`Self::unthrottle`].
    async fn throttle(&self) -> Can;

    /// Ends the throttling.
    async fn unthrottle(&self) -> Can;

    /// Announces that an instance is taken back, and does it after that time.
    async fn interrupt(&self, id: &ProviderId, left: Duration) -> Can;

    /// Ends an instance without being asked to.
    async fn kill(&self, id: &ProviderId) -> Can;

    /// Whether the cloud remembers the tokens of instances that ended.
    fn remembers_ended(&self) -> Can;

    /// Crashes whatever part of the cloud can crash, and brings it back.
    async fn restart(&self) -> Can;
}

/// What the suite found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The verdict on each point, in the order of the suite.
    pub points: Vec<(&'static str, Verdict)>,
}

/// The verdict on one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The cloud does it.
    Kept,
    /// The cloud cannot be put into that situation.
    Cannot(&'static str),
    /// The cloud does something else.
    Broken(String),
}

/// Runs the whole suite.
pub async fn run(harness: &dyn Harness) -> Report {
    let points: Vec<Point> =
        [ours::POINTS, life::POINTS, tokens::POINTS, calls::POINTS, faults::POINTS].concat();
    let mut verdicts = Vec::with_capacity(points.len());
    for (name, check) in points {
        let bench = Bench { harness, point: name };
        let verdict = match check(&bench).await {
            Ok(()) => Verdict::Kept,
            Err(Trouble::Cannot(Cannot(why))) => Verdict::Cannot(why),
            Err(Trouble::Broken(how)) => Verdict::Broken(how),
        };
        verdicts.push((name, verdict));
    }
    Report { points: verdicts }
}

impl Report {
    /// Panics with the whole report unless every point is kept but those expected to be impossible.
    ///
    /// # Panics
    /// When a point is broken, or the impossible ones are not exactly the expected ones.
    pub fn assert(&self, impossible: &[&str]) {
        let is = |wanted: fn(&Verdict) -> bool| -> Vec<&str> {
            self.points.iter().filter(|(_, verdict)| wanted(verdict)).map(|(name, _)| *name).collect()
        };
        let broken = is(|verdict| matches!(verdict, Verdict::Broken(_)));
        let cannot = is(|verdict| matches!(verdict, Verdict::Cannot(_)));
        assert!(broken.is_empty(), "the contract is broken\n{self}");
        assert_eq!(cannot, impossible, "other points than declared were impossible\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in &self.points {
            match verdict {
                Verdict::Kept => writeln!(f, "  ✓ {name}")?,
                Verdict::Cannot(why) => writeln!(f, "  – {name}: {why}")?,
                Verdict::Broken(how) => writeln!(f, "  ✗ {name}: {how}")?,
            }
        }
        Ok(())
    }
}

/// A point of the contract: its name and how it is checked.
type Point = (&'static str, Check);
type Check = for<'a> fn(&'a Bench<'a>) -> Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;
type Checked = Result<(), Trouble>;

/// Why a point is not kept.
enum Trouble {
    Cannot(Cannot),
    Broken(String),
}

impl From<Cannot> for Trouble {
    fn from(cannot: Cannot) -> Self {
        Self::Cannot(cannot)
    }
}

impl From<CloudError> for Trouble {
    fn from(error: CloudError) -> Self {
        Self::Broken(format!("unexpected error ({}): {error}", error.kind()))
    }
}

/// What a check works with.
struct Bench<'a> {
    harness: &'a dyn Harness,
    point: &'static str,
}

impl Bench<'_> {
    fn cloud(&self) -> Arc<dyn Cloud> {
        self.harness.cloud()
    }

    /// A request of this point; requests with the same number are equal.
    fn request(&self, number: u32) -> LaunchRequest {
        let point: String = self.point.split(' ').filter_map(|word| word.chars().next()).collect();
        let claim = format!("contract-{}-{point}-{number}", self.harness.run());
        LaunchRequest {
            token: Token(format!("uid-{claim}")),
            claim,
            pool: "contract".into(),
            class: self.harness.class(),
            offerings: self.harness.offerings(),
            node: NodeTemplate {
                labels: BTreeMap::from([("example.com/team".into(), "blue".into())]),
                annotations: BTreeMap::from([("example.com/note".into(), "a note".into())]),
                taints: vec![Taint {
                    key: "example.com/t".into(),
                    value: "v".into(),
                    effect: "NoSchedule".into(),
                }],
                startup_taints: Vec::new(),
            },
            requests: Resources::new(),
            tags: BTreeMap::from([("example.com/purpose".into(), "contract".into())]),
        }
    }

    async fn launch(&self, number: u32) -> Result<Launch, CloudError> {
        self.cloud().launch(&self.request(number)).await
    }

    /// The instances that a list shows for a request's token, once things have settled.
    async fn listed(&self, number: u32) -> Result<Vec<Instance>, CloudError> {
        self.harness.settle().await;
        let token = self.request(number).token;
        let all = self.cloud().list().await?;
        Ok(all.into_iter().filter(|instance| instance.token.as_ref() == Some(&token)).collect())
    }
}

/// Fails the point unless the condition holds.
fn ensure(condition: bool, message: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { Err(Trouble::Broken(message())) }
}

/// Fails the point unless both are equal.
fn equal<T: PartialEq + fmt::Debug>(what: &str, is: &T, should: &T) -> Checked {
    ensure(is == should, || format!("{what} is {is:?} and should be {should:?}"))
}

/// The error of a call that must fail.
fn error<T: fmt::Debug>(what: &str, result: Result<T, CloudError>) -> Result<CloudError, Trouble> {
    result.err().ok_or_else(|| Trouble::Broken(format!("{what} was taken")))
}

/// Fails the point unless a call failed with this class of error.
fn fails<T: fmt::Debug>(
    what: &str,
    result: Result<T, CloudError>,
    kind: &str,
) -> Result<CloudError, Trouble> {
    let error = error(what, result)?;
    let is = error.kind();
    ensure(is == kind, || format!("{what} gave {is} ({error}) and should give {kind}"))?;
    Ok(error)
}

/// Several names as one text.
fn list(names: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let mut text = String::new();
    for name in names {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}{name}");
    }
    text
}

/// Makes a list of points out of async functions.
macro_rules! points {
    ($($name:literal => $check:ident),+ $(,)?) => {
        &[$(($name, |bench| Box::pin($check(bench)))),+]
    };
}
use points;

#[cfg(test)]
mod tests;
