//! Which nodes are sick, and what would cure them.
//!
//! ```text
//! conditions of a node ── Rules::diagnose ──► Diagnosis   what to do now, or when to look again
//! ```
//!
//! COMPAT: matching, merging and scores are those of v1.15.0 (`node/health`, `RepairPolicyMatcher`).

use std::collections::BTreeSet;
use std::time::Duration;

use regex::Regex;

use crate::cloud::{RepairAction, RepairPolicy};

/// How long a sick node waits to be as urgent as a fresh one of the next higher priority.
const AGING: Duration = Duration::from_mins(30);
/// The highest priority there is.
const MOST_PRIORITY: u8 = 100;

/// A cloud's repair policies, understood; without any, no node is ever sick.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    policy: RepairPolicy,
    /// `None` for the fallback.
    reason: Option<Regex>,
    /// How many lower priorities there are.
    rank: usize,
}

/// What a node says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Symptom<'a> {
    /// The condition's type.
    pub condition: &'a str,
    /// Its status.
    pub status: &'a str,
    /// Its reason.
    pub reason: &'a str,
    /// Since when it says so, in milliseconds since 1970.
    pub since: i64,
}

/// What is to be done about a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// What would cure it, if something was tolerated long enough.
    pub remedy: Option<Remedy>,
    /// When something will have been tolerated long enough, in milliseconds since 1970.
    pub next: Option<i64>,
}

/// What would cure a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// What to do.
    pub action: RepairAction,
    /// The condition that calls for it.
    pub condition: String,
    /// The reason of that condition.
    pub reason: String,
    /// The bound of the drain, if a policy has one.
    pub grace: Option<Duration>,
    /// How urgent it is; higher goes first.
    pub score: f64,
}

/// Why a set of repair policies cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is nothing to repair by.
    #[error("there are no repair policies")]
    None,
    /// Not exactly one policy is the fallback.
    #[error("{0} repair policies have no reason pattern; exactly one must, and is the fallback")]
    Fallbacks(usize),
    /// The fallback does not replace.
    #[error("the fallback of the repair policies must replace the node")]
    FallbackReboots,
    /// A policy has no condition.
    #[error("a repair policy has no condition type")]
    NoCondition,
    /// A status is none.
    #[error("the repair policy for {condition} has the status {status:?}; it must be True, False or Unknown")]
    Status {
        /// The policy's condition.
        condition: String,
        /// Its status.
        status: String,
    },
    /// A priority is too high.
    #[error("the repair policy for {condition} has the priority {priority}, above {MOST_PRIORITY}")]
    Priority {
        /// The policy's condition.
        condition: String,
        /// Its priority.
        priority: u8,
    },
    /// A pattern cannot be read.
    #[error("the repair policy for {condition} has a reason pattern that cannot be read: {pattern:?}")]
    Pattern {
        /// The policy's condition.
        condition: String,
        /// Its pattern.
        pattern: String,
    },
}

impl Rules {
    /// Understands a cloud's repair policies.
    pub fn new(policies: &[RepairPolicy]) -> Result<Self, RuleError> {
        if policies.is_empty() {
            return Err(RuleError::None);
        }
        let priorities: BTreeSet<u8> = policies.iter().map(|policy| policy.priority).collect();
        let rules: Vec<Rule> = policies
            .iter()
            .map(|policy| rule(policy, priorities.range(..policy.priority).count()))
            .collect::<Result<_, _>>()?;
        let fallbacks: Vec<&Rule> = rules.iter().filter(|rule| rule.reason.is_none()).collect();
        match fallbacks[..] {
            [fallback] if fallback.policy.action == RepairAction::Replace => Ok(Self { rules }),
            [_] => Err(RuleError::FallbackReboots),
            _ => Err(RuleError::Fallbacks(fallbacks.len())),
        }
    }

    /// Whether a condition means trouble, however short.
    pub fn is_trouble(&self, symptom: &Symptom<'_>) -> bool {
        self.rules.iter().any(|rule| rule.names(symptom))
    }

    /// What is to be done now about a node; nothing counts that was said before a time.
    pub fn diagnose<'a>(
        &self,
        symptoms: impl Iterator<Item = Symptom<'a>>,
        not_before: i64,
        now: i64,
    ) -> Diagnosis {
        let mut merged = Merged::default();
        for symptom in symptoms.filter(|symptom| self.is_trouble(symptom)) {
            let matches = |rule: &&Rule| {
                rule.names(&symptom) && rule.reason.as_ref().is_some_and(|of| of.is_match(symptom.reason))
            };
            let mut is_known = false;
            for rule in self.rules.iter().filter(matches) {
                is_known = true;
                merged.add(rule, &symptom, not_before, now);
            }
            if let Some(fallback) = self.rules.iter().find(|rule| rule.reason.is_none() && !is_known) {
                merged.add(fallback, &symptom, not_before, now);
            }
        }
        merged.diagnosis()
    }
}

fn rule(policy: &RepairPolicy, rank: usize) -> Result<Rule, RuleError> {
    let condition = policy.condition.clone();
    if condition.is_empty() {
        return Err(RuleError::NoCondition);
    }
    if !["True", "False", "Unknown"].contains(&policy.status.as_str()) {
        return Err(RuleError::Status { condition, status: policy.status.clone() });
    }
    if policy.priority > MOST_PRIORITY {
        return Err(RuleError::Priority { condition, priority: policy.priority });
    }
    let read = |pattern: &String| {
        let unreadable = |_| RuleError::Pattern { condition: condition.clone(), pattern: pattern.clone() };
        Regex::new(pattern).map_err(unreadable)
    };
    let reason = policy.reason.as_ref().map(read).transpose()?;
    Ok(Rule { policy: policy.clone(), reason, rank })
}

impl Rule {
    fn names(&self, symptom: &Symptom<'_>) -> bool {
        self.policy.condition == symptom.condition && self.policy.status == symptom.status
    }
}

/// What several rules together ask for.
#[derive(Default)]
struct Merged {
    /// The rule that decides what is done, and since when it could.
    chosen: Option<Chosen>,
    grace: Option<Duration>,
    score: f64,
    next: Option<i64>,
}

struct Chosen {
    action: RepairAction,
    priority: u8,
    /// Since when it could be done.
    due: i64,
    condition: String,
    reason: String,
}

impl Merged {
    fn add(&mut self, rule: &Rule, symptom: &Symptom<'_>, not_before: i64, now: i64) {
        let RepairPolicy { toleration, grace, priority, action, .. } = rule.policy;
        let due = symptom.since.max(not_before).saturating_add(toleration.as_millis() as i64);
        if due > now {
            self.next = Some(self.next.map_or(due, |next| next.min(due)));
            return;
        }
        let score = rule.rank as f64 + (now - due) as f64 / AGING.as_millis() as f64;
        self.score = if self.chosen.is_some() { self.score.max(score) } else { score };
        self.grace = [self.grace, grace].into_iter().flatten().min();
        let condition = symptom.condition;
        let is_better = self.chosen.as_ref().is_none_or(|chosen| {
            let by_age = || chosen.due.cmp(&due).then_with(|| chosen.condition.as_str().cmp(condition));
            action.cmp(&chosen.action).then(priority.cmp(&chosen.priority)).then_with(by_age).is_gt()
        });
        if is_better {
            let (condition, reason) = (condition.to_owned(), symptom.reason.to_owned());
            self.chosen = Some(Chosen { action, priority, due, condition, reason });
        }
    }

    fn diagnosis(self) -> Diagnosis {
        let Self { chosen, grace, score, next } = self;
        let remedy = chosen.map(|Chosen { action, condition, reason, .. }| Remedy {
            action,
            condition,
            reason,
            grace,
            score,
        });
        Diagnosis { remedy, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn policy(condition: &str, status: &str, reason: Option<&str>, action: RepairAction) -> RepairPolicy {
        RepairPolicy {
            condition: condition.into(),
            status: status.into(),
            reason: reason.map(str::to_owned),
            toleration: Duration::from_mins(10),
            grace: None,
            priority: 0,
            action,
        }
    }

    /// A fallback for nodes that are not ready, a restart for a hung driver, a replacement for a broken disk.
    fn policies() -> Vec<RepairPolicy> {
        use RepairAction::{Reboot, Replace};
        vec![
            RepairPolicy { grace: Some(Duration::ZERO), ..policy("Ready", "False", None, Replace) },
            RepairPolicy { priority: 10, ..policy("Driver", "True", Some("^Hung"), Reboot) },
            RepairPolicy {
                priority: 50,
                grace: Some(Duration::from_mins(5)),
                ..policy("Disk", "True", Some("Broken|Lost"), Replace)
            },
        ]
    }

    fn check(symptoms: &[(&str, &str, &str, i64)], now: i64, expected: &str) {
        let rules = Rules::new(&policies()).unwrap();
        let symptoms = symptoms.iter().map(|&(condition, status, reason, since)| Symptom {
            condition,
            status,
            reason,
            since,
        });
        let Diagnosis { remedy, next } = rules.diagnose(symptoms, 5 * MINUTE, now);
        let told = match remedy {
            Some(Remedy { action, condition, reason, grace, score }) => {
                let grace = grace.map_or("its own".to_owned(), |grace| format!("{grace:?}"));
                format!("{action:?} for {condition}/{reason} within {grace}, score {score}")
            }
            None => next.map_or("healthy".to_owned(), |next| format!("look again at {}", next / MINUTE)),
        };
        assert_eq!(told, expected, "at {now}");
    }

    #[test]
    fn trouble_is_tolerated_for_a_while_from_when_it_can_be_believed() {
        check(&[("Ready", "True", "", 0)], 99 * MINUTE, "healthy");
        // The node came, or was restarted, at minute 5.
        check(&[("Ready", "False", "", 0)], 14 * MINUTE, "look again at 15");
        check(&[("Ready", "False", "", 0)], 15 * MINUTE, "Replace for Ready/ within 0ns, score 0");
        check(&[("Ready", "False", "", 20 * MINUTE)], 29 * MINUTE, "look again at 30");
    }

    #[test]
    fn the_longer_and_the_higher_the_more_urgent() {
        let hung = ("Driver", "True", "HungTask", 0);
        check(&[hung], 15 * MINUTE, "Reboot for Driver/HungTask within its own, score 1");
        check(&[hung], 45 * MINUTE, "Reboot for Driver/HungTask within its own, score 2");
    }

    #[test]
    fn replacing_beats_restarting_and_the_shortest_bound_counts() {
        let (hung, broken) = (("Driver", "True", "HungTask", 0), ("Disk", "True", "IsBroken", 0));
        check(&[hung, broken], 15 * MINUTE, "Replace for Disk/IsBroken within 300s, score 2");
        let unready = ("Ready", "False", "", 0);
        check(&[unready, hung, broken], 15 * MINUTE, "Replace for Disk/IsBroken within 0ns, score 2");
        // What is not due yet does not count.
        let later = ("Disk", "True", "Broken", 30 * MINUTE);
        check(&[hung, later], 15 * MINUTE, "Reboot for Driver/HungTask within its own, score 1");
    }

    #[test]
    fn a_reason_that_nobody_knows_is_the_fallbacks() {
        check(
            &[("Driver", "True", "NotHung", 0)],
            15 * MINUTE,
            "Replace for Driver/NotHung within 0ns, score 0",
        );
        check(&[("Driver", "False", "NotHung", 0)], 15 * MINUTE, "healthy");
    }

    #[test]
    fn a_set_that_makes_no_sense_is_refused() {
        use RepairAction::{Reboot, Replace};
        let refused = |policies: &[RepairPolicy]| Rules::new(policies).unwrap_err();
        assert_eq!(refused(&[]), RuleError::None);
        assert_eq!(refused(&[policy("A", "True", Some("x"), Replace)]), RuleError::Fallbacks(0));
        let fallback = policy("A", "True", None, Replace);
        assert_eq!(refused(&[fallback.clone(), fallback.clone()]), RuleError::Fallbacks(2));
        assert_eq!(refused(&[policy("A", "True", None, Reboot)]), RuleError::FallbackReboots);
        assert_eq!(refused(&[policy("", "True", None, Replace)]), RuleError::NoCondition);
        assert!(matches!(refused(&[policy("A", "Yes", None, Replace)]), RuleError::Status { .. }));
        let too_high = RepairPolicy { priority: 101, ..fallback.clone() };
        assert!(matches!(refused(&[too_high]), RuleError::Priority { priority: 101, .. }));
        let bad = policy("A", "True", Some("("), Replace);
        assert!(matches!(refused(&[fallback, bad]), RuleError::Pattern { .. }));
    }
}
