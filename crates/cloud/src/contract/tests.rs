//! The suite has teeth: an honest cloud in memory passes, and each dishonest one is caught at the right point.

use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::catalog::{self, Catalog, Source};
use crate::error::Reason;
use crate::notice::{Cursor, Notice, NoticeKind, Notices};
use crate::port::{ClassKind, DryOffering, State};
use crate::repair::{RepairAction, RepairPolicy};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    IgnoresTokens,
    TakesAnyList,
    TakesAnyClass,
    SeesLabels,
    HidesDry,
    GivesUpAtDry,
    SpendsTokenWhenDry,
    StaysDry,
    HidesTime,
    ForgetsTags,
    EndedStays,
    EndsTwiceBadly,
    EndsAtOnce,
    UnknownIsTransient,
    TakesUnknownOffering,
    LaunchesThenFails,
    LostIsRefused,
    ThrottlesWithoutTime,
    SilentDeath,
    InterruptsAtOnce,
    RepeatsNews,
    RelaunchesEnded,
    Unordered,
    NoFallback,
}

/// A cloud in memory.
struct Fake {
    bug: Option<Bug>,
    catalog: Arc<Catalog>,
    state: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    now: Duration,
    lives: Vec<Life>,
    notices: Vec<Notice>,
    dry: Vec<(OfferingKey, Option<Duration>)>,
    end_delay: Duration,
    lose: Option<Call>,
    fail: bool,
    deny: bool,
    /// Calls left before throttling begins.
    calls: Option<u32>,
}

#[derive(Clone)]
struct Life {
    launch: Launch,
    digest: String,
    labels: BTreeMap<String, String>,
    dies_at: Option<Duration>,
    ends_at: Option<Duration>,
    ended: bool,
}

fn fake(bug: Option<Bug>) -> Arc<Fake> {
    let catalog = Arc::new(Catalog::load(&Source::Kwok).unwrap());
    Arc::new(Fake { bug, catalog, state: Mutex::default() })
}

impl Fake {
    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        let mut state = self.state.lock().unwrap();
        let now = state.now;
        let mut news = Vec::new();
        for life in state.lives.iter_mut().filter(|life| !life.ended) {
            let died = life.dies_at.is_some_and(|at| at <= now);
            if died || life.ends_at.is_some_and(|at| at <= now) {
                life.ended = true;
            }
            if died && self.bug != Some(Bug::SilentDeath) {
                news.push(Notice { instance: life.launch.instance.id.clone(), kind: NoticeKind::Died });
            }
        }
        state.notices.extend(news);
        state
    }

    fn find(&self, state: &Memory, id: &ProviderId) -> Result<usize, CloudError> {
        let alive = |life: &Life| life.launch.instance.id == *id && (!life.ended || self.is(Bug::EndedStays));
        state.lives.iter().position(alive).ok_or_else(|| {
            if self.is(Bug::UnknownIsTransient) {
                CloudError::not_done("who knows")
            } else {
                CloudError::NotFound { id: id.clone() }
            }
        })
    }

    fn launch_now(&self, state: &mut Memory, request: &LaunchRequest) -> Result<Launch, CloudError> {
        let permanent = |reason| Err(CloudError::Permanent { reason, message: "no".into() });
        let known =
            state.lives.iter().rev().find(|l| l.launch.instance.token.as_ref() == Some(&request.token));
        if let Some(life) = known.filter(|_| !self.is(Bug::IgnoresTokens)) {
            let any = self.is(Bug::TakesAnyList) && request.class == class()
                || self.is(Bug::TakesAnyClass) && request.class != class();
            if !any && life.digest != request.digest()
                || self.is(Bug::SeesLabels) && life.labels != request.node.labels
            {
                return permanent(Reason::TokenReused);
            }
            if !life.ended {
                return Ok(life.launch.clone());
            }
            if !self.is(Bug::RelaunchesEnded) {
                return permanent(Reason::InstanceEnded);
            }
        }
        if request.class.name == "unready" {
            let message = "not yet".to_owned();
            return Err(CloudError::ClassNotReady { class: request.class.clone(), message });
        }
        let unknown = request.offerings.iter().any(|key| self.catalog.offering(key).is_none());
        if request.offerings.is_empty() || unknown && !self.is(Bug::TakesUnknownOffering) {
            return permanent(Reason::InvalidRequest);
        }
        let mut dry = Vec::new();
        let mut chosen = None;
        for key in request.offerings.iter().filter(|key| self.catalog.offering(key).is_some()) {
            let lasting = |until: &Option<Duration>| until.is_none_or(|until| until > state.now);
            let stuck = self.is(Bug::StaysDry);
            let found = state.dry.iter().find(|(dry, until)| dry == key && (stuck || lasting(until)));
            let Some((_, until)) = found else {
                chosen = Some(key);
                break;
            };
            let until = until.filter(|_| !self.is(Bug::HidesTime));
            let lasts = until.map(|until| until.saturating_sub(state.now));
            dry.push(DryOffering { offering: key.clone(), lasts });
            if self.is(Bug::GivesUpAtDry) {
                break;
            }
        }
        let ended = chosen.is_none();
        if ended && !self.is(Bug::SpendsTokenWhenDry) {
            return Err(CloudError::InsufficientCapacity { dry, message: "none".into() });
        }
        let key = chosen.unwrap_or(&request.offerings[0]);
        let (t, o) = self.catalog.offering(key).unwrap();
        if self.is(Bug::HidesDry) {
            dry.clear();
        }
        let instance = Instance {
            id: ProviderId(format!("fake:///{:03}", state.lives.len())),
            token: Some(request.token.clone()),
            offering: key.clone(),
            state: State::Running,
            capacity: t.capacity.clone(),
            allocatable: t.allocatable(),
            labels: catalog::labels_of(t, o),
            tags: if self.is(Bug::ForgetsTags) { request.tags.clone() } else { request.all_tags() },
            image: None,
        };
        let launch = Launch { instance, dry };
        state.lives.push(Life {
            launch: launch.clone(),
            digest: request.digest(),
            labels: request.node.labels.clone(),
            dies_at: None,
            ends_at: None,
            ended,
        });
        Ok(launch)
    }
}

#[async_trait]
impl Cloud for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn node_classes(&self) -> &'static [ClassKind] {
        &[ClassKind { group: "fake.dev", kind: "FakeClass" }]
    }

    async fn catalog(&self, _: &ClassRef) -> Result<Arc<Catalog>, CloudError> {
        Ok(Arc::clone(&self.catalog))
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Launch, CloudError> {
        let mut state = self.lock();
        match &mut state.calls {
            Some(0) => {
                let wait = (!self.is(Bug::ThrottlesWithoutTime)).then_some(Duration::from_secs(1));
                return Err(CloudError::Throttled { retry_after: wait });
            }
            Some(left) => *left -= 1,
            None => {}
        }
        if std::mem::take(&mut state.deny) {
            return Err(CloudError::Denied { message: "no".into() });
        }
        let failing = std::mem::take(&mut state.fail);
        if failing && !self.is(Bug::LaunchesThenFails) {
            return Err(CloudError::not_done("no"));
        }
        let launched = self.launch_now(&mut state, request);
        if failing {
            return Err(CloudError::not_done("no"));
        }
        match state.lose.take_if(|call| *call == Call::Launch) {
            Some(_) if self.is(Bug::LostIsRefused) => Err(CloudError::not_done("gone")),
            Some(_) => Err(CloudError::answer_lost("gone")),
            None => launched,
        }
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        let state = self.lock();
        let life = &state.lives[self.find(&state, id)?];
        let state = if life.ends_at.is_some() { State::Ending } else { State::Running };
        Ok(Instance { state, ..life.launch.instance.clone() })
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let state = self.lock();
        let alive = state.lives.iter().filter(|life| !life.ended || self.is(Bug::EndedStays));
        let mut all: Vec<Instance> = alive.map(|life| life.launch.instance.clone()).collect();
        if self.is(Bug::Unordered) {
            all.reverse();
        }
        Ok(all)
    }

    async fn terminate(&self, id: &ProviderId) -> Result<(), CloudError> {
        let mut state = self.lock();
        let index = self.find(&state, id)?;
        if self.is(Bug::EndsTwiceBadly) && state.lives[index].ends_at.is_some() {
            return Err(CloudError::Denied { message: "already".into() });
        }
        let slow = !self.is(Bug::EndsAtOnce);
        let ends_at = state.now + if slow { state.end_delay } else { Duration::ZERO };
        let life = &mut state.lives[index];
        life.ends_at = life.ends_at.or(Some(ends_at));
        state
            .lose
            .take_if(|call| *call == Call::Terminate)
            .map_or(Ok(()), |_| Err(CloudError::answer_lost("gone")))
    }

    async fn reboot(&self, id: &ProviderId, _: &str) -> Result<(), CloudError> {
        self.get(id).await.map(|_| ())
    }

    async fn drift(&self, id: &ProviderId, _: &ClassRef) -> Result<Option<String>, CloudError> {
        self.get(id).await.map(|_| None)
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        vec![RepairPolicy {
            condition: "Ready".into(),
            status: "False".into(),
            reason: self.is(Bug::NoFallback).then(|| "x".into()),
            toleration: Duration::ZERO,
            grace: None,
            priority: 0,
            action: RepairAction::Replace,
        }]
    }

    async fn notices(&self, after: Option<&Cursor>, _: Duration) -> Result<Notices, CloudError> {
        let state = self.lock();
        let from: usize = after.map_or(0, |Cursor(cursor)| cursor.parse().unwrap());
        let from = if self.is(Bug::RepeatsNews) { 0 } else { from };
        Ok(Notices {
            notices: state.notices[from..].to_vec(),
            next: Some(Cursor(state.notices.len().to_string())),
        })
    }
}

struct OnBench(Arc<Fake>);

#[async_trait]
impl Harness for OnBench {
    fn cloud(&self) -> Arc<dyn Cloud> {
        Arc::clone(&self.0) as Arc<dyn Cloud>
    }

    fn class(&self) -> ClassRef {
        class()
    }

    fn offerings(&self) -> Vec<OfferingKey> {
        let t = self.0.catalog.get("s-4x-amd64-linux").unwrap();
        t.offerings.iter().take(3).map(|o| catalog::key_of(t, o)).collect()
    }

    fn run(&self) -> String {
        "fake".into()
    }

    async fn settle(&self) {}

    async fn dry(&self, offering: &OfferingKey, lasts: Option<Duration>) -> Can {
        let mut state = self.0.lock();
        let until = lasts.map(|lasts| state.now + lasts);
        state.dry.push((offering.clone(), until));
        Ok(())
    }

    async fn wet(&self, offering: &OfferingKey) -> Can {
        self.0.lock().dry.retain(|(dry, _)| dry != offering);
        Ok(())
    }

    async fn advance(&self, by: Duration) -> Can {
        self.0.lock().now += by;
        Ok(())
    }

    async fn unready_class(&self) -> Can<ClassRef> {
        Ok(ClassRef { name: "unready".into(), ..class() })
    }

    async fn missing_class(&self) -> Can<ClassRef> {
        Err(Cannot("it has no classes"))
    }

    async fn slow_ending(&self, delay: Duration) -> Can {
        self.0.lock().end_delay = delay;
        Ok(())
    }

    async fn lose_answer(&self, call: Call) -> Can {
        self.0.lock().lose = Some(call);
        Ok(())
    }

    async fn fail(&self) -> Can {
        self.0.lock().fail = true;
        Ok(())
    }

    async fn deny(&self) -> Can {
        self.0.lock().deny = true;
        Ok(())
    }

    async fn throttle(&self) -> Can {
        self.0.lock().calls = Some(1);
        Ok(())
    }

    async fn unthrottle(&self) -> Can {
        self.0.lock().calls = None;
        Ok(())
    }

    async fn interrupt(&self, id: &ProviderId, left: Duration) -> Can {
        let mut state = self.0.lock();
        let index = self.0.find(&state, id).unwrap();
        let at_once = self.0.is(Bug::InterruptsAtOnce);
        state.lives[index].dies_at = Some(if at_once { state.now } else { state.now + left });
        state.notices.push(Notice { instance: id.clone(), kind: NoticeKind::Interruption { left } });
        Ok(())
    }

    async fn kill(&self, id: &ProviderId) -> Can {
        let mut state = self.0.lock();
        let index = self.0.find(&state, id).unwrap();
        state.lives[index].dies_at = Some(state.now);
        Ok(())
    }

    fn remembers_ended(&self) -> Can {
        Ok(())
    }

    async fn restart(&self) -> Can {
        Err(Cannot("it lives in memory"))
    }
}

fn class() -> ClassRef {
    ClassRef { group: "fake.dev".into(), kind: "FakeClass".into(), name: "default".into() }
}

const IMPOSSIBLE: [&str; 2] = ["a request survives a restart", "a class that does not exist is no capacity"];

#[tokio::test]
async fn an_honest_cloud_passes() {
    run(&OnBench(fake(None))).await.assert(&IMPOSSIBLE);
}

#[tokio::test]
#[should_panic(expected = "other points than declared were impossible")]
async fn a_point_cannot_be_skipped_in_silence() {
    run(&OnBench(fake(None))).await.assert(&IMPOSSIBLE[1..]);
}

#[tokio::test]
async fn every_dishonest_cloud_is_caught() {
    for (bug, point) in [
        (Bug::IgnoresTokens, "the same request gives the same instance"),
        (Bug::IgnoresTokens, "the same request sent at the same time gives one instance"),
        (Bug::IgnoresTokens, "a launch whose answer was lost is found again"),
        (Bug::TakesAnyList, "a token with another list is refused"),
        (Bug::TakesAnyClass, "a token with another class is refused"),
        (Bug::SeesLabels, "labels edited between two attempts do not matter"),
        (Bug::HidesDry, "a dry offering falls to the next and is named"),
        (Bug::GivesUpAtDry, "a dry offering falls to the next and is named"),
        (Bug::SpendsTokenWhenDry, "when all are dry all are named and nothing is launched"),
        (Bug::HidesTime, "a drought says how long it lasts"),
        (Bug::StaysDry, "capacity comes back when it said so"),
        (Bug::ForgetsTags, "an instance bears the tags of its owner"),
        (Bug::EndedStays, "a terminated instance is not found"),
        (Bug::EndsTwiceBadly, "an ending instance is shown as ending until it is gone"),
        (Bug::EndsAtOnce, "an ending instance is shown as ending until it is gone"),
        (Bug::UnknownIsTransient, "unknown ids are not found"),
        (Bug::TakesUnknownOffering, "an unknown offering is refused"),
        (Bug::LaunchesThenFails, "a failure before the effect launches nothing"),
        (Bug::LostIsRefused, "a launch whose answer was lost is found again"),
        (Bug::ThrottlesWithoutTime, "a throttled call says when to come back"),
        (Bug::SilentDeath, "a death is announced"),
        (Bug::InterruptsAtOnce, "an interruption is announced and then happens"),
        (Bug::RepeatsNews, "without news a reader waits and keeps its place"),
        (Bug::RelaunchesEnded, "the token of an ended instance launches nothing"),
        (Bug::Unordered, "list shows it, ordered by id"),
        (Bug::NoFallback, "repair policies have one fallback, which replaces"),
    ] {
        let cloud = fake(Some(bug));
        if bug == Bug::RepeatsNews {
            let instance = ProviderId("fake:///000".into());
            cloud.lock().notices.push(Notice { instance, kind: NoticeKind::Rebalance });
        }
        let report = run(&OnBench(cloud)).await;
        let verdict = report.points.iter().find(|(name, _)| *name == point);
        assert!(
            matches!(verdict, Some((_, Verdict::Broken(_)))),
            "{bug:?} was not caught at {point:?}\n{report}"
        );
    }
}
