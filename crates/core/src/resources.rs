//! Amounts of several resources, in name order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::Quantity;

/// The resource `cpu`, in cores.
pub const CPU: &str = "cpu";
/// The resource `memory`, in bytes.
pub const MEMORY: &str = "memory";
/// The resource `pods`: how many may run on a node.
pub const PODS: &str = "pods";
/// The resource `ephemeral-storage`, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The pseudo-resource `nodes`, which only pool limits use.
pub const NODES: &str = "nodes";
/// What the names of huge page resources start with.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// A list of resources and their amounts; a resource that is absent counts as zero.
///
/// There are few of them, so a sorted list is smaller and faster than a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources(Vec<(Arc<str>, Quantity)>);

/// Names that nearly every list has, so that lists need not have them each.
static COMMON: LazyLock<[Arc<str>; 6]> =
    LazyLock::new(|| [CPU, MEMORY, PODS, EPHEMERAL_STORAGE, "hugepages-1Gi", "hugepages-2Mi"].map(Arc::from));

fn shared(name: &str) -> Arc<str> {
    COMMON.iter().find(|common| &***common == name).map_or_else(|| name.into(), Arc::clone)
}

impl Resources {
    /// The empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// The amount of a resource; when absent it is listed first, with this amount.
    fn entry(&mut self, name: &str, absent: Quantity) -> &mut Quantity {
        let at = self.find(name).unwrap_or_else(|at| {
            self.0.reserve_exact(1);
            self.0.insert(at, (shared(name), absent));
            at
        });
        &mut self.0[at].1
    }

    /// The amount of a resource, zero when absent.
    pub fn get(&self, name: &str) -> Quantity {
        self.listed(name).unwrap_or_default()
    }

    /// The amount of a resource if it is listed.
    pub fn listed(&self, name: &str) -> Option<Quantity> {
        self.find(name).ok().map(|at| self.0[at].1)
    }

    /// Sets the amount of a resource.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        *self.entry(name, amount) = amount;
    }

    /// Resources and amounts in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// How many resources are listed.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no resource is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Self) {
        for (at, (name, amount)) in other.0.iter().enumerate() {
            // Most lists have the same resources, so that the place of one is known from the other.
            match self.0.get_mut(at) {
                Some((own, sum)) if Arc::ptr_eq(own, name) => *sum += *amount,
                _ => *self.entry(name, Quantity::default()) += *amount,
            }
        }
    }

    /// Subtracts every amount of `other`; results may be negative.
    pub fn sub(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            *self.entry(name, Quantity::default()) -= amount;
        }
    }

    /// Raises every amount to at least that of `other`.
    pub fn max(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let mine = self.entry(name, amount);
            *mine = (*mine).max(amount);
        }
    }

    /// For each resource the lesser amount of both lists.
    #[must_use]
    pub fn at_most(&self, other: &Self) -> Self {
        let names = self.iter().chain(other.iter()).map(|(name, _)| name);
        names.map(|name| (name, self.get(name).min(other.get(name)))).collect()
    }

    /// Replaces the amounts that `other` lists.
    pub fn merge(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            self.set(name, amount);
        }
    }

    /// Whether these requests fit into `available`.
    ///
    /// COMPAT: like Karpenter's `resources.Fits`, an available amount below zero means that nothing fits, even if
    /// that resource is not requested.
    pub fn fits(&self, available: &Self) -> bool {
        available.iter().all(|(_, amount)| !amount.is_negative())
            && self.iter().all(|(name, amount)| amount <= available.get(name))
    }
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let amounts: BTreeMap<Box<str>, Quantity> = BTreeMap::deserialize(deserializer)?;
        Ok(Self(amounts.into_iter().map(|(name, amount)| (shared(&name), amount)).collect()))
    }
}

impl<'a> FromIterator<(&'a str, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (&'a str, Quantity)>>(amounts: I) -> Self {
        let mut all = Self::new();
        for (name, amount) in amounts {
            all.set(name, amount);
        }
        all
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, amount)) in self.iter().enumerate() {
            write!(f, "{}{name} {amount}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> Resources {
        text.split_whitespace()
            .map(|part| part.split_once('=').unwrap())
            .map(|(name, amount)| (name, amount.parse().unwrap()))
            .collect()
    }

    #[test]
    fn lists_combine_by_name() {
        let mut sum = list("cpu=1 memory=1Gi");
        sum.add(&list("cpu=500m pods=1"));
        assert_eq!(sum.to_string(), "cpu 1500m, memory 1Gi, pods 1");
        sum.sub(&list("cpu=2"));
        assert_eq!(sum.to_string(), "cpu -500m, memory 1Gi, pods 1");
        sum.max(&list("cpu=3 memory=1Mi gpu=1"));
        assert_eq!(sum.to_string(), "cpu 3, gpu 1, memory 1Gi, pods 1");
        assert_eq!(
            sum.at_most(&list("cpu=4 pods=2 x=-1")).to_string(),
            "cpu 3, gpu 0, memory 0, pods 1, x -1"
        );
        sum.merge(&list("memory=2Gi"));
        assert_eq!(sum.get(MEMORY), "2Gi".parse().unwrap());
    }

    #[test]
    fn requests_fit_when_every_amount_does() {
        let node = list("cpu=2 memory=4Gi pods=10");
        assert!(list("cpu=2 memory=4Gi").fits(&node));
        assert!(!list("cpu=2001m").fits(&node));
        assert!(!list("gpu=1").fits(&node));
        assert!(list("gpu=0").fits(&node));
        assert!(!list("cpu=1").fits(&list("cpu=2 memory=-1")));
    }

    proptest! {
        #[test]
        fn what_was_added_fits_what_it_was_added_to(a in 0i64..1000, b in 0i64..1000, c in 0i64..1000) {
            let one: Resources = [("x", Quantity::from_units(a)), ("y", Quantity::from_units(b))].into_iter().collect();
            let other: Resources = [("y", Quantity::from_units(c))].into_iter().collect();
            let mut sum = one.clone();
            sum.add(&other);
            prop_assert!(one.fits(&sum) && other.fits(&sum));
            sum.sub(&other);
            prop_assert_eq!(sum.get("y"), one.get("y"));
        }
    }
}
