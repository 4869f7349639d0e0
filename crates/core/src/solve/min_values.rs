//! Pools that want a choice: a number of distinct values among the instance types of a claim.

use std::collections::BTreeSet;

use crate::requirement::Requirement;
use crate::solve::problem::Problem;
use crate::solve::reqs::ReqId;

/// The labels for which these rows offer too few distinct values, and how many they offer.
pub(crate) fn shortfall(
    problem: &Problem<'_>,
    pool: usize,
    reqs: ReqId,
    rows: &[usize],
) -> Vec<(Requirement, u32)> {
    let requirements = problem.reqs.get(reqs);
    let mut short = Vec::new();
    for requirement in requirements.iter() {
        let Some(least) = requirement.min_values() else { continue };
        let mut values: BTreeSet<&str> = BTreeSet::new();
        for row in rows {
            let own = problem.pools[pool].rows.instance_type(*row).requirements.get(requirement.key());
            // Only values that the claim may still have count; an open-ended requirement lists what it excludes.
            let own = own.filter(|own| !own.is_complement());
            values
                .extend(own.into_iter().flat_map(Requirement::values).filter(|value| requirement.has(value)));
        }
        let found = u32::try_from(values.len()).unwrap_or(u32::MAX);
        if found < least {
            short.push((requirement.clone(), found));
        }
    }
    short
}

/// The requirement set with what is short asked for no longer.
pub(crate) fn relaxed(problem: &mut Problem<'_>, reqs: ReqId, short: Vec<(Requirement, u32)>) -> ReqId {
    let mut less = (**problem.reqs.get(reqs)).clone();
    for (mut requirement, found) in short {
        requirement.set_min_values(Some(found));
        less.replace(requirement);
    }
    problem.reqs.intern(less)
}
