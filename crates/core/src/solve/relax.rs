//! The ladder of a pod's wishes: first all of them, then one fewer at a time.

use crate::requirements::Requirements;
use crate::snapshot::{Effect, PodTerm, Preferences, Shape, Spread, Toleration, TolerationOperator};

/// What of a pod's wishes is still insisted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    required: Vec<Requirements>,
    preferred: Vec<Requirements>,
    near: Vec<PodTerm>,
    apart: Vec<PodTerm>,
    pub(crate) spread: Vec<Spread>,
    pub(crate) tolerations: Vec<Toleration>,
    /// What was given up to get here.
    pub(crate) dropped: Option<Dropped>,
}

/// A wish that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The first of several node affinity alternatives.
    NodeAffinityAlternative,
    /// The heaviest preference to be near other pods.
    PodAffinityPreference,
    /// The heaviest preference to stay away from other pods.
    PodAntiAffinityPreference,
    /// The heaviest node preference.
    NodePreference,
    /// A spread constraint that may be violated.
    SpreadPreference,
    /// The wish to avoid nodes tainted `PreferNoSchedule`.
    AvoidedTaint,
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NodeAffinityAlternative => "its first choice of node affinity",
            Self::PodAffinityPreference => "the wish to be near other pods",
            Self::PodAntiAffinityPreference => "the wish to stay away from other pods",
            Self::NodePreference => "a preference for some nodes",
            Self::SpreadPreference => "the wish to be spread",
            Self::AvoidedTaint => "the wish to avoid tainted nodes",
        })
    }
}

impl Wishes {
    /// All wishes of a pod.
    fn all(shape: &Shape, preferences: Preferences) -> Self {
        let respect = preferences == Preferences::Respect;
        let by_weight = |terms: &[crate::snapshot::Weighted<PodTerm>]| {
            let mut terms: Vec<_> = terms.iter().filter(|_| respect).collect();
            terms.sort_by_key(|term| -term.weight);
            terms.into_iter().map(|term| term.term.clone()).collect::<Vec<_>>()
        };
        let mut preferred: Vec<_> = shape.preferred.iter().filter(|_| respect).collect();
        preferred.sort_by_key(|term| -term.weight);
        Self {
            required: shape.required.clone(),
            preferred: preferred.into_iter().map(|term| term.term.clone()).collect(),
            near: by_weight(&shape.affinity.preferred),
            apart: by_weight(&shape.anti_affinity.preferred),
            spread: shape.spread.iter().filter(|spread| respect || spread.required).cloned().collect(),
            tolerations: shape.tolerations.clone(),
            dropped: None,
        }
    }

    /// Gives up one wish, in Karpenter's order; `None` when there is nothing left to give up.
    fn relaxed(&self, avoidable_taints: bool) -> Option<Self> {
        let mut less = self.clone();
        let dropped = if less.required.len() > 1 {
            less.required.remove(0);
            Dropped::NodeAffinityAlternative
        } else if !less.near.is_empty() {
            less.near.remove(0);
            Dropped::PodAffinityPreference
        } else if !less.apart.is_empty() {
            less.apart.remove(0);
            Dropped::PodAntiAffinityPreference
        } else if !less.preferred.is_empty() {
            less.preferred.remove(0);
            Dropped::NodePreference
        } else if let Some(at) = less.spread.iter().position(|spread| !spread.required) {
            less.spread.swap_remove(at);
            Dropped::SpreadPreference
        } else if avoidable_taints && !less.tolerations.contains(&tolerate_avoided()) {
            less.tolerations.push(tolerate_avoided());
            Dropped::AvoidedTaint
        } else {
            return None;
        };
        less.dropped = Some(dropped);
        Some(less)
    }

    /// What nodes must be like: selector, heaviest preference and first alternative.
    pub(crate) fn requirements(&self, shape: &Shape) -> Requirements {
        let mut all = self.strict_requirements(shape);
        if let Some(preferred) = self.preferred.first() {
            all.add_all(preferred);
        }
        all
    }

    /// The same without preferences.
    pub(crate) fn strict_requirements(&self, shape: &Shape) -> Requirements {
        let mut all = shape.node_selector.clone();
        if let Some(required) = self.required.first() {
            all.add_all(required);
        }
        all
    }

    /// Every combination of selector and remaining alternative.
    pub(crate) fn alternatives(&self, shape: &Shape) -> Vec<Requirements> {
        if self.required.is_empty() {
            return vec![shape.node_selector.clone()];
        }
        let with = |term: &Requirements| {
            let mut all = shape.node_selector.clone();
            all.add_all(term);
            all
        };
        self.required.iter().map(with).collect()
    }

    /// Pods to be near, required ones first.
    pub(crate) fn near<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = &'a PodTerm> {
        shape.affinity.required.iter().chain(&self.near)
    }

    /// Pods to stay away from, required ones first.
    pub(crate) fn apart<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = &'a PodTerm> {
        shape.anti_affinity.required.iter().chain(&self.apart)
    }
}

/// The ladder from all wishes down to the bare necessities.
pub(crate) fn ladder(shape: &Shape, preferences: Preferences, avoidable_taints: bool) -> Vec<Wishes> {
    let mut steps = vec![Wishes::all(shape, preferences)];
    while let Some(next) = steps.last().and_then(|last| last.relaxed(avoidable_taints)) {
        steps.push(next);
    }
    steps
}

/// A toleration for every taint that only asks to be avoided.
pub(crate) fn tolerate_avoided() -> Toleration {
    Toleration {
        operator: TolerationOperator::Exists,
        effect: Some(Effect::PreferNoSchedule),
        ..Toleration::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::Requirement;
    use crate::snapshot::Weighted;

    fn zone(zone: &str) -> Requirements {
        [Requirement::any_of("zone", &[zone])].into_iter().collect()
    }

    #[test]
    fn wishes_are_given_up_in_order() {
        let shape = Shape {
            required: vec![zone("a"), zone("b")],
            preferred: vec![Weighted { weight: 1, term: zone("b") }, Weighted { weight: 9, term: zone("a") }],
            ..Shape::default()
        };
        let steps = ladder(&shape, Preferences::Respect, true);
        let shown: Vec<_> =
            steps.iter().map(|step| (step.dropped, step.requirements(&shape).to_string())).collect();
        let expected = [
            (None, "zone In [a]"),
            (Some(Dropped::NodeAffinityAlternative), "zone DoesNotExist"),
            (Some(Dropped::NodePreference), "zone In [b]"),
            (Some(Dropped::NodePreference), "zone In [b]"),
            (Some(Dropped::AvoidedTaint), "zone In [b]"),
        ];
        assert_eq!(shown, expected.map(|(dropped, text)| (dropped, text.to_owned())));
        assert_eq!(ladder(&shape, Preferences::Ignore, false).len(), 2);
    }
}
