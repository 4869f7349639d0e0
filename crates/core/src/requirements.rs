//! What a whole set of labels may be.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::labels::WellKnown;
use crate::requirement::{Expression, Requirement};

/// Requirements on several labels, at most one for each key, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements(BTreeMap<Arc<str>, Requirement>);

/// The first label on which two sets of requirements exclude each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// The incoming requirement needs a label that nothing defines.
    #[error("label {key:?} is not defined{}", hint.as_ref().map(|h| format!(" (did you mean {h:?}?)")).unwrap_or_default())]
    Undefined {
        /// The label key.
        key: Arc<str>,
        /// A known key that looks much like it.
        hint: Option<Arc<str>>,
    },
    /// No value satisfies both.
    #[error("{incoming} excludes {existing}")]
    NoCommonValue {
        /// What was asked.
        incoming: Box<Requirement>,
        /// What is there.
        existing: Box<Requirement>,
    },
}

impl Requirements {
    /// No requirement at all.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// One exact value for each label.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        labels.into_iter().map(|(key, value)| Requirement::any_of(key, &[value])).collect()
    }

    /// Adds a requirement, narrowing the one already there for its key.
    pub fn add(&mut self, requirement: Requirement) {
        match self.0.get_mut(requirement.key()) {
            Some(existing) => *existing = requirement.intersection(existing),
            None => {
                self.0.insert(requirement.key().into(), requirement);
            }
        }
    }

    /// Adds every requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for requirement in other.iter() {
            self.add(requirement.clone());
        }
    }

    /// Replaces whatever was required of the key.
    pub fn replace(&mut self, requirement: Requirement) {
        self.0.insert(requirement.key().into(), requirement);
    }

    /// Drops whatever was required of the key.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// The requirement on a key, if there is one.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    /// Whether there is a requirement on the key.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Whether the requirements allow this value of a label; an unmentioned label may be anything.
    pub fn allow(&self, key: &str, value: &str) -> bool {
        self.get(key).is_none_or(|requirement| requirement.has(value))
    }

    /// Requirements in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Requirement> {
        self.0.values()
    }

    /// How many keys are mentioned.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some requirement asks for a number of distinct values.
    pub fn has_min_values(&self) -> bool {
        self.iter().any(|requirement| requirement.min_values().is_some())
    }

    /// The requirements as manifests write them, in key order.
    pub fn expressions(&self) -> Vec<Expression> {
        self.iter().flat_map(Requirement::expressions).collect()
    }

    /// Whether what is asked by `incoming` can be met here.
    ///
    /// Keys that are not mentioned here are refused unless they are well known or the label may be absent.
    pub fn compatible(&self, incoming: &Self, well_known: &WellKnown) -> Result<(), Incompatible> {
        for requirement in incoming.iter() {
            let key = requirement.key();
            if !well_known.has(key) && !self.has(key) && !requirement.operator().allows_absence() {
                return Err(Incompatible::Undefined { key: key.into(), hint: self.hint(key, well_known) });
            }
        }
        self.intersects(incoming)
    }

    /// Whether every key mentioned on both sides has a value that satisfies both.
    pub fn intersects(&self, incoming: &Self) -> Result<(), Incompatible> {
        for requirement in incoming.iter() {
            let Some(existing) = self.get(requirement.key()) else { continue };
            if !conflict(existing, requirement) {
                continue;
            }
            return Err(Incompatible::NoCommonValue {
                incoming: Box::new(requirement.clone()),
                existing: Box::new(existing.clone()),
            });
        }
        Ok(())
    }

    /// A key that `key` may be a misspelling of.
    fn hint(&self, key: &str, well_known: &WellKnown) -> Option<Arc<str>> {
        let name = key.rsplit('/').next().unwrap_or(key);
        well_known
            .iter()
            .chain(self.0.keys().map(|known| &**known))
            .find(|known| known.contains(key) || known.rsplit('/').next() == Some(name))
            .map(Into::into)
    }
}

/// Whether no label state satisfies both; two requirements that an absent label meets never conflict.
pub(crate) fn conflict(existing: &Requirement, incoming: &Requirement) -> bool {
    let absent = existing.operator().allows_absence() && incoming.operator().allows_absence();
    !(absent || existing.intersects(incoming))
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut all = Self::new();
        for requirement in requirements {
            all.add(requirement);
        }
        all
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::labels;
    use crate::requirement::Operator;

    fn reqs(text: &str) -> Requirements {
        text.split(';')
            .filter(|part| !part.trim().is_empty())
            .map(|part| {
                let words: Vec<_> = part.split_whitespace().collect();
                Requirement::new(words[0], words[1].parse().unwrap(), &words[2..], None).unwrap()
            })
            .collect()
    }

    fn check(existing: &str, incoming: &str) -> String {
        match reqs(existing).compatible(&reqs(incoming), &WellKnown::default()) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn undefined_labels_are_refused_unless_well_known_or_negative() {
        assert_eq!(check("", "topology.kubernetes.io/zone In a"), "ok");
        assert_eq!(check("", "team In a"), "label \"team\" is not defined");
        assert_eq!(check("", "team NotIn a"), "ok");
        assert_eq!(check("", "team DoesNotExist"), "ok");
        assert_eq!(check("", "team Gt 3"), "label \"team\" is not defined");
        assert_eq!(
            check("", "zone In a"),
            "label \"zone\" is not defined (did you mean \"topology.kubernetes.io/zone\"?)"
        );
    }

    #[test]
    fn defined_labels_must_share_a_value() {
        assert_eq!(check("team In a b", "team In b c"), "ok");
        assert_eq!(check("team In a", "team NotIn a"), "team NotIn [a] excludes team In [a]");
        assert_eq!(check("team DoesNotExist", "team NotIn a"), "ok");
        assert_eq!(check("team DoesNotExist", "team Exists"), "team Exists excludes team DoesNotExist");
        assert_eq!(check("cpu In 4", "cpu Gt 3; cpu Lt 5"), "ok");
        assert_eq!(check("cpu In 4", "cpu Lt 4"), "cpu Exists <=3 excludes cpu In [4]");
    }

    #[test]
    fn adding_narrows() {
        let mut all = reqs("zone In a b; zone NotIn a; arch Exists");
        assert_eq!(all.to_string(), "arch Exists, zone In [b]");
        all.add(Requirement::any_of("zone", &["c"]));
        assert_eq!(all.to_string(), "arch Exists, zone DoesNotExist");
        assert!(all.allow("os", "linux") && !all.allow("zone", "b"));
        assert_eq!(
            Requirements::from_labels([("beta.kubernetes.io/os", "linux")]).to_string(),
            "kubernetes.io/os In [linux]"
        );
        assert!(labels::normalize(labels::OS) == labels::OS);
    }

    /// Label states as an oracle: `None` is an absent label.
    const STATES: [Option<&str>; 5] = [None, Some("a"), Some("b"), Some("1"), Some("2")];

    fn satisfied(requirement: &Requirement, state: Option<&str>) -> bool {
        state.map_or(requirement.operator().allows_absence(), |value| requirement.has(value))
    }

    proptest! {
        /// The bounded requirements are left out: a bound allows values outside the small universe.
        #[test]
        fn compatible_means_some_label_state_satisfies_both(
            a in (0usize..4, prop::collection::vec(1usize..5, 1..4)),
            b in (0usize..4, prop::collection::vec(1usize..5, 1..4)),
        ) {
            let build = |(operator, values): (usize, Vec<usize>)| {
                let operator = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist][operator];
                let values: Vec<_> = values.into_iter().filter_map(|i| STATES[i]).collect();
                Requirement::new("team", operator, &values, None).unwrap()
            };
            let (a, b) = (build(a), build(b));
            let common = STATES.into_iter().any(|state| satisfied(&a, state) && satisfied(&b, state))
                // Values outside the universe satisfy two complements.
                || (a.is_complement() && b.is_complement());
            let compatible = Requirements::from_iter([a]).compatible(&Requirements::from_iter([b]), &WellKnown::none());
            prop_assert_eq!(compatible.is_ok(), common);
        }
    }
}
