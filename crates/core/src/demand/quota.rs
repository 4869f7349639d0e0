//! What namespaces may still ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::quantity::Quantity;
use crate::resources::{PODS, Resources};
use crate::snapshot::Shape;

/// A `ResourceQuota` that counts pods of the usual kind.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What is left of each resource, by the names that pods use; `pods` counts pods.
    pub left: Resources,
}

/// What is left of all quotas while pods are counted against them.
pub(crate) struct Quotas<'a> {
    by_namespace: BTreeMap<&'a str, Vec<(&'a Quota, Resources)>>,
}

/// How many pods quotas allow.
pub(crate) struct Allowed<'a> {
    pub(crate) count: u32,
    /// The quota that allows no more.
    pub(crate) limited_by: Option<&'a str>,
}

impl<'a> Quotas<'a> {
    pub(crate) fn new(quotas: &'a [Quota]) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for quota in quotas {
            by_namespace.entry(&quota.namespace).or_default().push((quota, quota.left.clone()));
        }
        Self { by_namespace }
    }

    /// Counts pods against the quotas of a namespace, as many as they allow.
    pub(crate) fn take(
        &mut self,
        namespace: &str,
        shape: &Shape,
        count: u32,
        counts_pods: bool,
    ) -> Allowed<'a> {
        let Some(quotas) = self.by_namespace.get_mut(namespace) else {
            return Allowed { count, limited_by: None };
        };
        let counted = |name: &str| counts_pods || name != PODS;
        let mut allowed = Allowed { count, limited_by: None };
        for (quota, left) in quotas.iter() {
            for (name, left) in left.iter().filter(|(name, _)| counted(name)) {
                let most = whole(left, shape.requests.get(name)).unwrap_or(u32::MAX);
                if most < allowed.count {
                    allowed = Allowed { count: most, limited_by: Some(&quota.name) };
                }
            }
        }
        for (_, left) in quotas.iter_mut() {
            let rest: Vec<(Arc<str>, Quantity)> = left
                .iter()
                .map(|(name, left)| {
                    let taken = if counted(name) { shape.requests.get(name) } else { Quantity::default() };
                    (name.into(), left - taken.times(u64::from(allowed.count)))
                })
                .collect();
            for (name, rest) in rest {
                left.set(&name, rest);
            }
        }
        allowed
    }
}

/// How often an amount goes into another; none if there is nothing to divide by.
pub(crate) fn whole(available: Quantity, each: Quantity) -> Option<u32> {
    let (available, each) = (available.at_least_zero(), each.at_least_zero());
    if each == Quantity::default() {
        return None;
    }
    let guess = (available.as_f64() / each.as_f64()).floor().min(f64::from(u32::MAX)) as u32;
    // Division is by floats, which may be off by one where it matters.
    let fits = |count: u32| each.times(u64::from(count)) <= available;
    let mut count = guess;
    while count > 0 && !fits(count) {
        count -= 1;
    }
    while count < u32::MAX && fits(count + 1) {
        count += 1;
    }
    Some(count)
}
