//! What one label may be: Karpenter's requirement algebra for a single key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::labels;

/// How a requirement relates a label to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    Gt,
    /// The label is an integer below the value.
    Lt,
    /// The label is an integer of at least the value.
    Gte,
    /// The label is an integer of at most the value.
    Lte,
}

impl Operator {
    /// The name used in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// Whether a node without the label satisfies the operator.
    pub const fn allows_absence(self) -> bool {
        matches!(self, Self::NotIn | Self::DoesNotExist)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Operator {
    type Err = RequirementError;

    fn from_str(name: &str) -> Result<Self, RequirementError> {
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte]
            .into_iter()
            .find(|operator| operator.as_str() == name)
            .ok_or_else(|| RequirementError::UnknownOperator(name.to_owned()))
    }
}

/// Why a requirement cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// The operator is none of the eight.
    #[error("unknown operator {0:?}")]
    UnknownOperator(String),
    /// A numeric operator needs exactly one integer.
    #[error("operator {operator} on {key} needs one integer, not {values:?}")]
    NotAnInteger {
        /// The label key.
        key: String,
        /// The operator.
        operator: Operator,
        /// What was given.
        values: Vec<String>,
    },
}

/// The values one label may take.
///
/// A set of values or its complement, with inclusive integer bounds. `Gt` and `Lt` become bounds. A label that must
/// be absent is the empty set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Arc<str>,
    complement: bool,
    /// Sorted, without duplicates.
    values: Vec<Arc<str>>,
    gte: Option<i64>,
    lte: Option<i64>,
    min_values: Option<u32>,
}

/// A requirement as manifests write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The label key.
    pub key: Arc<str>,
    /// The operator.
    pub operator: Operator,
    /// The values, in order.
    pub values: Vec<Arc<str>>,
    /// How many distinct values the instance types of a claim must offer.
    pub min_values: Option<u32>,
}

impl Requirement {
    /// A requirement from its parts; the key is normalized.
    pub fn new<V: AsRef<str>>(
        key: &str,
        operator: Operator,
        values: &[V],
        min_values: Option<u32>,
    ) -> Result<Self, RequirementError> {
        let bound = || match values {
            [value] => value.as_ref().parse::<i64>().ok(),
            _ => None,
        };
        let number = || {
            bound().ok_or_else(|| RequirementError::NotAnInteger {
                key: key.to_owned(),
                operator,
                values: values.iter().map(|value| value.as_ref().to_owned()).collect(),
            })
        };
        let mut requirement = Self { min_values, ..Self::exists(key) };
        match operator {
            Operator::Exists => {}
            Operator::In => return Ok(Self { min_values, ..Self::any_of(key, values) }),
            Operator::NotIn => requirement.values = sorted(values),
            Operator::DoesNotExist => requirement.complement = false,
            Operator::Gt => match number()?.checked_add(1) {
                Some(bound) => requirement.gte = Some(bound),
                None => requirement.complement = false,
            },
            Operator::Lt => match number()?.checked_sub(1) {
                Some(bound) => requirement.lte = Some(bound),
                None => requirement.complement = false,
            },
            Operator::Gte => requirement.gte = Some(number()?),
            Operator::Lte => requirement.lte = Some(number()?),
        }
        Ok(requirement)
    }

    /// The label has one of these values.
    pub fn any_of<V: AsRef<str>>(key: &str, values: &[V]) -> Self {
        Self { complement: false, values: sorted(values), ..Self::exists(key) }
    }

    /// The label is present.
    pub fn exists(key: &str) -> Self {
        let key = labels::normalize(key).into();
        Self { key, complement: true, values: Vec::new(), gte: None, lte: None, min_values: None }
    }

    /// The label is absent.
    pub fn absent(key: &str) -> Self {
        Self { complement: false, ..Self::exists(key) }
    }

    /// The label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The values listed: those allowed, or those excluded when [`Self::is_complement`].
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(|value| &**value)
    }

    /// Whether the listed values are excluded rather than allowed.
    pub const fn is_complement(&self) -> bool {
        self.complement
    }

    /// The inclusive lower and upper bound.
    pub const fn bounds(&self) -> (Option<i64>, Option<i64>) {
        (self.gte, self.lte)
    }

    /// How many distinct values the instance types of a claim must offer.
    pub const fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Sets how many distinct values the instance types of a claim must offer.
    pub const fn set_min_values(&mut self, min_values: Option<u32>) {
        self.min_values = min_values;
    }

    /// The operator this requirement amounts to; bounds alone count as `Exists`.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// How many values are allowed, or `None` when there is no end to them.
    pub fn len(&self) -> Option<usize> {
        (!self.complement).then_some(self.values.len())
    }

    /// Whether no value is allowed.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The only allowed value, if there is exactly one.
    pub fn single(&self) -> Option<&str> {
        match (&*self.values, self.complement) {
            ([value], false) => Some(value),
            _ => None,
        }
    }

    /// Whether the label may have this value.
    pub fn has(&self, value: &str) -> bool {
        self.lists(value) != self.complement && within(value, self.gte, self.lte)
    }

    /// The values both requirements allow.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (gte, lte) = self.common_bounds(other);
        let min_values = self.min_values.max(other.min_values);
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) {
            return Self { min_values, ..Self::absent(&self.key) };
        }
        let complement = self.complement && other.complement;
        let mut values: Vec<Arc<str>> = match (self.complement, other.complement) {
            (true, true) => self.values.iter().chain(&other.values).cloned().collect(),
            (true, false) => other.values.iter().filter(|value| !self.lists(value)).cloned().collect(),
            (false, true) => self.values.iter().filter(|value| !other.lists(value)).cloned().collect(),
            (false, false) => self.values.iter().filter(|value| other.lists(value)).cloned().collect(),
        };
        values.retain(|value| within(value, gte, lte));
        values.sort_unstable();
        values.dedup();
        let (gte, lte) = if complement { (gte, lte) } else { (None, None) };
        Self { key: self.key.clone(), complement, values, gte, lte, min_values }
    }

    /// Whether some value is allowed by both, without building the intersection.
    pub fn intersects(&self, other: &Self) -> bool {
        let (gte, lte) = self.common_bounds(other);
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) {
            return false;
        }
        let (listed, rest) = match (self.complement, other.complement) {
            (true, true) => return true,
            (true, false) => (other, self),
            (false, _) => (self, other),
        };
        listed.values.iter().any(|value| rest.lists(value) != rest.complement && within(value, gte, lte))
    }

    /// The requirement as manifests write it: two expressions when it has both bounds, else one.
    ///
    /// COMPAT: values excluded beside a bound are not written, as in Karpenter 1.15.
    pub fn expressions(&self) -> Vec<Expression> {
        let expression = |operator, values| Expression {
            key: self.key.clone(),
            operator,
            values,
            min_values: self.min_values,
        };
        let bounds: Vec<_> = [(Operator::Gte, self.gte), (Operator::Lte, self.lte)]
            .into_iter()
            .filter_map(|(operator, bound)| Some(expression(operator, vec![bound?.to_string().into()])))
            .collect();
        if bounds.is_empty() { vec![expression(self.operator(), self.values.clone())] } else { bounds }
    }

    fn lists(&self, value: &str) -> bool {
        self.values.binary_search_by(|listed| (**listed).cmp(value)).is_ok()
    }

    fn common_bounds(&self, other: &Self) -> (Option<i64>, Option<i64>) {
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (self.gte.max(other.gte), lte)
    }
}

fn sorted<V: AsRef<str>>(values: &[V]) -> Vec<Arc<str>> {
    let mut values: Vec<Arc<str>> = values.iter().map(|value| value.as_ref().into()).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Once there are bounds, what is not an integer is outside them.
fn within(value: &str, gte: Option<i64>, lte: Option<i64>) -> bool {
    if gte.is_none() && lte.is_none() {
        return true;
    }
    value.parse::<i64>().is_ok_and(|n| gte.is_none_or(|gte| n >= gte) && lte.is_none_or(|lte| n <= lte))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        write!(f, "{} {}", self.key, self.operator())?;
        if !self.values.is_empty() {
            let shown = &self.values[..self.values.len().min(SHOWN)];
            write!(f, " [{}", shown.join(", "))?;
            if self.values.len() > SHOWN {
                write!(f, " and {} more", self.values.len() - SHOWN)?;
            }
            f.write_str("]")?;
        }
        if let Some(gte) = self.gte {
            write!(f, " >={gte}")?;
        }
        if let Some(lte) = self.lte {
            write!(f, " <={lte}")?;
        }
        if let Some(min_values) = self.min_values {
            write!(f, " minValues {min_values}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn req(operator: Operator, values: &[&str]) -> Requirement {
        Requirement::new("key", operator, values, None).unwrap()
    }

    /// Every value the generated requirements can tell apart.
    const UNIVERSE: [&str; 9] = ["a", "b", "c", "-1", "0", "1", "2", "3", "9"];

    fn requirement() -> impl Strategy<Value = Requirement> {
        let value = prop::sample::select(&UNIVERSE[..]);
        let set = prop::collection::vec(value, 0..5);
        let bound = prop::sample::select(&["-1", "0", "1", "2", "3"][..]);
        prop_oneof![
            set.clone().prop_map(|values| req(Operator::In, &values)),
            set.prop_map(|values| req(Operator::NotIn, &values)),
            Just(req(Operator::Exists, &[])),
            Just(req(Operator::DoesNotExist, &[])),
            bound.clone().prop_map(|value| req(Operator::Gt, &[value])),
            bound.clone().prop_map(|value| req(Operator::Lt, &[value])),
            bound.clone().prop_map(|value| req(Operator::Gte, &[value])),
            bound.prop_map(|value| req(Operator::Lte, &[value])),
        ]
    }

    fn allowed(requirement: &Requirement) -> Vec<&'static str> {
        UNIVERSE.into_iter().filter(|value| requirement.has(value)).collect()
    }

    proptest! {
        #[test]
        fn intersection_allows_what_both_allow(a in requirement(), b in requirement(), c in requirement()) {
            let expected: Vec<_> = allowed(&a).into_iter().filter(|value| b.has(value)).collect();
            prop_assert_eq!(allowed(&a.intersection(&b)), expected);
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            let all = a.intersection(&b).intersection(&c);
            let expected: Vec<_> = allowed(&a).into_iter().filter(|value| b.has(value) && c.has(value)).collect();
            prop_assert_eq!(allowed(&all), expected);
        }

        #[test]
        fn intersects_agrees_with_the_intersection(a in requirement(), b in requirement()) {
            prop_assert_eq!(a.intersects(&b), b.intersects(&a));
            prop_assert_eq!(a.intersects(&b), !a.intersection(&b).is_empty());
        }

        #[test]
        fn expressions_rebuild_the_requirement(a in requirement(), b in requirement()) {
            let both = a.intersection(&b);
            let rebuilt = both
                .expressions()
                .iter()
                .map(|e| Requirement::new(&e.key, e.operator, &e.values, e.min_values).unwrap())
                .reduce(|a, b| a.intersection(&b))
                .unwrap();
            let lossy = both.is_complement() && both.bounds() != (None, None);
            prop_assert!(rebuilt == both || lossy);
        }
    }

    #[test]
    fn strict_bounds_become_inclusive() {
        assert_eq!(req(Operator::Gt, &["3"]).to_string(), "key Exists >=4");
        assert_eq!(req(Operator::Lt, &["3"]).to_string(), "key Exists <=2");
        assert_eq!(req(Operator::Gt, &["9223372036854775807"]).operator(), Operator::DoesNotExist);
        let between = req(Operator::Gt, &["3"]).intersection(&req(Operator::Lt, &["6"]));
        assert_eq!(between.to_string(), "key Exists >=4 <=5");
        assert_eq!(between.expressions().len(), 2);
        let none = req(Operator::Gt, &["5"]).intersection(&req(Operator::Lt, &["5"]));
        assert_eq!(none.operator(), Operator::DoesNotExist);
        let concrete = between.intersection(&req(Operator::In, &["4", "7", "x"]));
        assert_eq!(concrete.to_string(), "key In [4]");
    }

    #[test]
    fn min_values_take_the_larger() {
        let with = |n| Requirement::new("key", Operator::Exists, &[] as &[&str], Some(n)).unwrap();
        assert_eq!(with(2).intersection(&with(3)).min_values(), Some(3));
        assert_eq!(with(2).intersection(&req(Operator::In, &["a"])).to_string(), "key In [a] minValues 2");
    }

    #[test]
    fn numeric_operators_need_one_integer() {
        for values in [&["x"][..], &[], &["1", "2"], &["1.5"]] {
            let error = Requirement::new("cpu", Operator::Gt, values, None).unwrap_err();
            assert!(matches!(error, RequirementError::NotAnInteger { .. }));
        }
        assert!("in".parse::<Operator>().is_err());
    }

    #[test]
    fn old_keys_are_normalized() {
        let requirement = Requirement::exists("failure-domain.beta.kubernetes.io/zone");
        assert_eq!(requirement.key(), labels::ZONE);
    }
}
