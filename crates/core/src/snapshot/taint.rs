//! Taints and what tolerates them.

use std::fmt;
use std::sync::Arc;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// They are not scheduled.
    NoSchedule,
    /// They are scheduled only when nothing else will do.
    PreferNoSchedule,
    /// They are not scheduled, and evicted when running.
    NoExecute,
}

impl Effect {
    /// The name used in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A mark on a node that repels pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The taint key.
    pub key: Arc<str>,
    /// The taint value, often empty.
    pub value: Arc<str>,
    /// What it does.
    pub effect: Effect,
}

/// Taint keys that a node sheds while it starts; the last one is a prefix.
const EPHEMERAL: [(&str, Option<Effect>); 5] = [
    ("node.kubernetes.io/not-ready", None),
    ("node.kubernetes.io/unreachable", Some(Effect::NoSchedule)),
    ("node.cloudprovider.kubernetes.io/uninitialized", Some(Effect::NoSchedule)),
    ("karpenter.sh/unregistered", Some(Effect::NoExecute)),
    ("karpenter.sh/rebooting", Some(Effect::NoSchedule)),
];
const EPHEMERAL_PREFIX: &str = "readiness.k8s.io/";

impl Taint {
    /// Whether the taint disappears by itself before a starting or rebooting node is usable.
    pub fn is_ephemeral(&self) -> bool {
        self.key.starts_with(EPHEMERAL_PREFIX)
            || EPHEMERAL
                .iter()
                .any(|(key, effect)| *key == &*self.key && effect.is_none_or(|e| e == self.effect))
    }

    /// Whether two taints are the same mark: key and effect, whatever the value.
    pub fn same_mark(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect.as_str())
    }
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    /// The values are equal.
    #[default]
    Equal,
    /// Any value will do.
    Exists,
    /// The taint's integer is below the toleration's.
    Lt,
    /// The taint's integer is above the toleration's.
    Gt,
}

/// What a pod puts up with.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The taint key; empty with `Exists` means every key.
    pub key: Arc<str>,
    /// How values compare.
    pub operator: TolerationOperator,
    /// The value to compare with.
    pub value: Arc<str>,
    /// The effect tolerated; none means every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether this toleration covers the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !self.key.is_empty() && self.value == taint.value,
            TolerationOperator::Lt => numbers().is_some_and(|(taint, own)| taint < own),
            TolerationOperator::Gt => numbers().is_some_and(|(taint, own)| taint > own),
        }
    }
}

/// The first taint that no toleration covers.
///
/// COMPAT: `PreferNoSchedule` counts like the others until a pod is relaxed, as in Karpenter.
pub fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(text: &str) -> Taint {
        let (mark, effect) = text.rsplit_once(':').unwrap();
        let (key, value) = mark.split_once('=').unwrap_or((mark, ""));
        let effect = match effect {
            "NoSchedule" => Effect::NoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => Effect::PreferNoSchedule,
        };
        Taint { key: key.into(), value: value.into(), effect }
    }

    #[test]
    fn tolerations_cover_key_value_and_effect() {
        let equal = Toleration { key: "a".into(), value: "1".into(), ..Toleration::default() };
        assert!(equal.tolerates(&taint("a=1:NoSchedule")));
        assert!(!equal.tolerates(&taint("a=2:NoSchedule")));
        let any = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
        assert!(any.tolerates(&taint("b=2:NoExecute")));
        let effect = Toleration { effect: Some(Effect::NoExecute), ..any };
        assert!(!effect.tolerates(&taint("b=2:NoSchedule")));
        let above = Toleration {
            key: "sla".into(),
            operator: TolerationOperator::Gt,
            value: "90".into(),
            effect: None,
        };
        assert!(
            above.tolerates(&taint("sla=95:NoSchedule")) && !above.tolerates(&taint("sla=90:NoSchedule"))
        );
    }

    #[test]
    fn starting_nodes_shed_known_taints() {
        assert!(taint("node.kubernetes.io/not-ready:NoExecute").is_ephemeral());
        assert!(taint("readiness.k8s.io/network:NoSchedule").is_ephemeral());
        assert!(!taint("node.kubernetes.io/unreachable:NoExecute").is_ephemeral());
        assert!(!taint("dedicated=db:NoSchedule").is_ephemeral());
    }
}
