//! Label selectors of affinity terms and spread constraints.

use std::sync::Arc;

use crate::requirement::Operator;
use crate::snapshot::Labels;

/// Which pods a term is about: all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    conditions: Vec<Condition>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Condition {
    key: Arc<str>,
    test: Test,
    values: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Test {
    In,
    NotIn,
    Exists,
    Absent,
}

impl Selector {
    /// A selector that every pod satisfies.
    pub const fn everything() -> Self {
        Self { conditions: Vec::new() }
    }

    /// Adds a condition; `None` when selectors do not know the operator.
    #[must_use]
    pub fn with<V: AsRef<str>>(mut self, key: &str, operator: Operator, values: &[V]) -> Option<Self> {
        let test = match operator {
            Operator::In => Test::In,
            Operator::NotIn => Test::NotIn,
            Operator::Exists => Test::Exists,
            Operator::DoesNotExist => Test::Absent,
            _ => return None,
        };
        let mut values: Vec<Arc<str>> = values.iter().map(|value| value.as_ref().into()).collect();
        values.sort_unstable();
        values.dedup();
        self.add(Condition { key: key.into(), test, values });
        Some(self)
    }

    /// A selector with the conditions of both.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for condition in &other.conditions {
            self.add(condition.clone());
        }
        self
    }

    /// Whether there is no condition.
    pub const fn is_everything(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Equal selectors must compare equal however they were written.
    fn add(&mut self, condition: Condition) {
        if let Err(at) = self.conditions.binary_search(&condition) {
            self.conditions.insert(at, condition);
        }
    }

    /// Whether labels satisfy every condition.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.conditions.iter().all(|condition| {
            let value = labels.get(&condition.key);
            let listed = || value.is_some_and(|value| condition.values.contains(value));
            match condition.test {
                Test::In => listed(),
                Test::NotIn => !listed(),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
            }
        })
    }

    /// Its conditions as manifests write them: key, operator and values.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<str>, Operator, &[Arc<str>])> {
        self.conditions.iter().map(|condition| {
            let operator = match condition.test {
                Test::In => Operator::In,
                Test::NotIn => Operator::NotIn,
                Test::Exists => Operator::Exists,
                Test::Absent => Operator::DoesNotExist,
            };
            (&condition.key, operator, condition.values.as_slice())
        })
    }

    /// The label keys the selector looks at.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.conditions.iter().map(|condition| &condition.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_must_hold() {
        let labels: Labels = [("app", "web"), ("tier", "front")]
            .map(|(key, value)| (key.into(), value.into()))
            .into_iter()
            .collect();
        let web = Selector::everything().with("app", Operator::In, &["web"]).unwrap();
        assert!(Selector::everything().matches(&labels) && web.matches(&labels));
        assert!(!web.clone().with("tier", Operator::NotIn, &["front"]).unwrap().matches(&labels));
        assert!(web.clone().with("zone", Operator::DoesNotExist, &[] as &[&str]).unwrap().matches(&labels));
        assert!(!web.clone().with("zone", Operator::Exists, &[] as &[&str]).unwrap().matches(&labels));
        assert!(web.with("n", Operator::Gt, &["1"]).is_none());
    }

    #[test]
    fn order_of_writing_does_not_matter() {
        let a = Selector::everything().with("a", Operator::In, &["1", "2"]).unwrap();
        let ab = a.clone().with("b", Operator::Exists, &[] as &[&str]).unwrap();
        let b = Selector::everything().with("b", Operator::Exists, &[] as &[&str]).unwrap();
        assert_eq!(ab, b.with("a", Operator::In, &["2", "1"]).unwrap());
    }
}
