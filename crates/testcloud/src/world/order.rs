//! Obeying the orders that make the cloud misbehave.

use headstart_cloud::notice::NoticeKind;
use headstart_cloud::testcloud::wire::WireError;
use jiff::Timestamp;

use super::{Decision, Machine, World};
use crate::clock::later;
use crate::fault::Order;
use crate::record::{Cause, Fact};
use crate::settings::{Armed, Dry, Quota, Settings, Shot, Throttle};

impl World {
    /// Obeys an order.
    pub(crate) fn obey(&mut self, now: Timestamp, order: Order) -> Decision<Result<(), WireError>> {
        let mut settings = self.settings.clone();
        match order {
            Order::Dry { which, lasts } => {
                settings.dry.retain(|dry| dry.which != which && dry.until.is_none_or(|until| until > now));
                settings.dry.push(Dry { which, until: lasts.map(|lasts| later(now, lasts)) });
            }
            Order::Wet { which } => settings.dry.retain(|dry| dry.which != which),
            Order::Quota { instances, vcpus, per_type } => {
                settings.quota = Quota { instances, vcpus, per_type: per_type.into_iter().collect() };
            }
            Order::JoinDelay { delay } => settings.join_delay = delay,
            Order::EndDelay { delay } => settings.end_delay = delay,
            Order::Slow { delay } => settings.slow = delay,
            Order::StaleList { lag } => settings.list_lag = lag,
            Order::Throttle { per_second, burst, call } => {
                settings.throttle = (per_second > 0.0).then_some(Throttle { per_second, burst, call });
            }
            Order::OnEnd { what } => settings.on_end = what,
            Order::Image { name } => settings.image = name,
            Order::Unready { class, message } => {
                settings.unready.insert(class, message);
            }
            Order::Ready { class } => {
                settings.unready.remove(&class);
            }
            Order::Seed { seed } => settings.seed = seed,
            Order::Clear => {
                self.armed.clear();
                settings = Settings { seed: settings.seed, image: settings.image, ..Settings::default() };
            }
            Order::LoseAnswers { count, call } => return self.arm(Shot::LoseAnswer { call }, count),
            Order::Fail { count, call } => return self.arm(Shot::Fail { call }, count),
            Order::Deny { count, call } => return self.arm(Shot::Deny { call }, count),
            Order::NeverJoin { count } => return self.arm(Shot::NeverJoin, count),
            Order::WrongTaint { taint, count } => return self.arm(Shot::WrongTaint { taint }, count),
            Order::LessAllocatable { percent, count } => {
                return self.arm(Shot::LessAllocatable { percent }, count);
            }
            Order::IgnoreTokens { count } => return self.arm(Shot::IgnoreToken, count),
            Order::Interrupt { id, left } => {
                let notice = NoticeKind::Interruption { left };
                return self.on_instance(&id, |machine| vec![machine.notice(notice, Some(later(now, left)))]);
            }
            Order::Rebalance { id } => {
                return self.on_instance(&id, |machine| vec![machine.notice(NoticeKind::Rebalance, None)]);
            }
            Order::Kill { id } => {
                return self.on_instance(&id, |machine| {
                    let mut facts = machine.end(Cause::Died, now, now);
                    facts.push(machine.notice(NoticeKind::Died, None));
                    facts
                });
            }
            // The clock is moved by who owns it; what becomes due by that happens afterwards.
            Order::Advance { .. } => return Decision { answer: Ok(()), facts: Vec::new() },
        }
        Decision { answer: Ok(()), facts: vec![Fact::Set(Box::new(settings))] }
    }

    /// The faults that are armed.
    pub(crate) fn armed(&self) -> &[Armed] {
        &self.armed
    }

    fn arm(&mut self, fault: Shot, count: u32) -> Decision<Result<(), WireError>> {
        self.armed.push(Armed { fault, left: count });
        Decision { answer: Ok(()), facts: Vec::new() }
    }

    fn on_instance(
        &self,
        id: &str,
        facts: impl FnOnce(&Machine) -> Vec<Fact>,
    ) -> Decision<Result<(), WireError>> {
        match self.alive(id) {
            Ok(machine) => Decision { answer: Ok(()), facts: facts(machine) },
            Err(error) => Decision { answer: Err(error), facts: Vec::new() },
        }
    }
}
