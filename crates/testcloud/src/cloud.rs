//! The running cloud: one state, one clock, one set of books, shared by all parts of the server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headstart_cloud::testcloud::wire::WireError;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::clock::{Clock, between};
use crate::ledger::{Ledger, Written};
use crate::record::{Fact, Record};
use crate::settings::{Call, Shot, Throttle};
use crate::world::{Decision, World};

/// The running cloud.
pub(crate) struct Cloud {
    pub(crate) clock: Clock,
    state: Mutex<State>,
    written: Written,
    /// Counts changes, so that whoever waits for one can tell.
    changes: watch::Sender<u64>,
}

struct State {
    world: World,
    ledger: Ledger,
    bucket: Bucket,
    slow_answers: u64,
}

/// The tokens left for calls.
#[derive(Default)]
struct Bucket {
    tokens: f64,
    at: Option<Timestamp>,
}

/// The books can no longer be written, so nothing can be promised.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the ledger can no longer be written: {0}")]
pub(crate) struct BooksClosed(Arc<str>);

/// What is to become of an answer once the effect is on disk.
pub(crate) struct Passage {
    call: Call,
}

impl Cloud {
    pub(crate) fn new(world: World, ledger: Ledger, clock: Clock) -> Self {
        let written = ledger.written();
        let state = State { world, ledger, bucket: Bucket::default(), slow_answers: 0 };
        Self { clock, state: Mutex::new(state), written, changes: watch::Sender::new(0) }
    }

    /// Looks at the state; the answer may be given once everything it shows is on disk.
    pub(crate) async fn look<T>(&self, look: impl FnOnce(&World, Timestamp) -> T) -> Result<T, BooksClosed> {
        self.change(|world, now| Decision { answer: look(world, now), facts: Vec::new() }).await
    }

    /// Decides something, writes it down, and gives the answer once it is on disk.
    pub(crate) async fn change<T>(
        &self,
        decide: impl FnOnce(&mut World, Timestamp) -> Decision<T>,
    ) -> Result<T, BooksClosed> {
        let (answer, entry, changed) = {
            let mut state = self.lock();
            let now = self.clock.now();
            let Decision { answer, facts } = decide(&mut state.world, now);
            let entry = state.record(now, facts);
            (answer, entry.0, entry.1)
        };
        if changed {
            self.changes.send_modify(|n| *n += 1);
        }
        self.written.clone().wait(entry).await.map_err(BooksClosed)?;
        Ok(answer)
    }

    /// Lets a call in, or tells why not.
    pub(crate) fn admit(&self, call: Call) -> Result<Passage, WireError> {
        let concerns = |wanted: &Option<Call>| wanted.is_none_or(|wanted| wanted == call);
        let mut state = self.lock();
        let now = self.clock.now();
        let throttle = state.world.settings.throttle.clone();
        if let Some(throttle) = throttle.filter(|throttle| concerns(&throttle.call))
            && let Err(wait) = state.bucket.take(now, &throttle)
        {
            state.world.count("throttle");
            return Err(WireError::Throttled { retry_after_ms: (wait.as_millis() as u64).max(1) });
        }
        if state.world.shoot(|shot| matches!(shot, Shot::Deny { call } if concerns(call))).is_some() {
            return Err(WireError::Denied { message: format!("{call} is denied on purpose") });
        }
        if state.world.shoot(|shot| matches!(shot, Shot::Fail { call } if concerns(call))).is_some() {
            return Err(WireError::Internal {
                message: format!("{call} fails on purpose, before any effect"),
            });
        }
        Ok(Passage { call })
    }

    /// Delays the answer of a call that was let in, and tells whether it arrives.
    pub(crate) async fn dismiss(&self, passage: Passage) -> bool {
        let (slow, lost) = {
            let mut state = self.lock();
            state.slow_answers += 1;
            let settings = &state.world.settings;
            let slow = settings.slow.draw(settings.seed, "slow", state.slow_answers);
            if !slow.is_zero() {
                state.world.count("slow");
            }
            let concerns = |shot: &Shot| matches!(shot, Shot::LoseAnswer { call } if call.is_none_or(|call| call == passage.call));
            (slow, state.world.shoot(concerns).is_some())
        };
        if !slow.is_zero() {
            self.clock.sleep(slow).await;
        }
        !lost
    }

    /// A counter that moves whenever something changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until the books can no longer be written.
    pub(crate) async fn books_closed(&self) -> BooksClosed {
        BooksClosed(self.written.clone().broken().await)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while the lock was held is a bug that the test which caused it will show.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Applies and queues facts; returns the entry to wait for and whether anything changed.
    fn record(&mut self, at: Timestamp, facts: Vec<Fact>) -> (u64, bool) {
        let records: Vec<Record> = facts.into_iter().map(|fact| Record { at, fact }).collect();
        for record in &records {
            self.world.apply(record);
        }
        (self.ledger.append(&records), !records.is_empty())
    }
}

impl Bucket {
    /// Takes one token, or tells how long it takes until there is one.
    fn take(&mut self, now: Timestamp, throttle: &Throttle) -> Result<(), Duration> {
        let burst = f64::from(throttle.burst.max(1));
        let refilled = self.at.map_or(burst, |at| between(at, now).as_secs_f64() * throttle.per_second);
        self.tokens = (self.tokens + refilled).min(burst);
        self.at = Some(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.tokens) / throttle.per_second;
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }
}
