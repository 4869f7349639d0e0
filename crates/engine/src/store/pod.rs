//! Pods as lifecycles see them.

use std::sync::Arc;

use headstart_api::{GoDuration, taints};
use headstart_core::snapshot::{Effect, Toleration, TolerationOperator};
pub(crate) use headstart_intake::KeptPod as Pod;

use crate::action::ObjectRef;
use crate::kind::Kind;
use crate::time::Wall;

/// Namespace and name.
pub(crate) type PodKey = (Arc<str>, Arc<str>);

/// What lifecycles ask of a pod.
pub(crate) trait PodLife {
    fn key(&self) -> PodKey;
    fn object(&self) -> ObjectRef;
    /// When it was created.
    fn since(&self) -> Wall;
    /// When its time to end is over, if it was asked to.
    fn ends(&self) -> Option<Wall>;
    /// Whether it asks not to be disturbed now.
    fn is_protected(&self, now: Wall) -> bool;
    /// Whether it stays on a node that goes away.
    fn tolerates_disruption(&self) -> bool;
}

impl PodLife for Pod {
    fn key(&self) -> PodKey {
        (self.namespace().clone(), self.name().clone())
    }

    fn object(&self) -> ObjectRef {
        ObjectRef {
            kind: Kind::Pod,
            namespace: self.namespace().to_string(),
            name: self.name().to_string(),
            uid: self.uid().to_string(),
        }
    }

    fn since(&self) -> Wall {
        Wall(self.created())
    }

    fn ends(&self) -> Option<Wall> {
        self.deleted().map(Wall)
    }

    fn is_protected(&self, now: Wall) -> bool {
        match self.protection() {
            None => false,
            Some("true") => true,
            // For so long after it started.
            Some(text) => text.parse::<GoDuration>().is_ok_and(|duration| {
                let since = self.started().unwrap_or(self.created());
                now.0 < since.saturating_add(duration.as_nanos() / 1_000_000)
            }),
        }
    }

    fn tolerates_disruption(&self) -> bool {
        let tolerates = |toleration: &Toleration| {
            let exists = toleration.operator == TolerationOperator::Exists;
            let key = (toleration.key.is_empty() && exists) || &*toleration.key == taints::DISRUPTED;
            let value = exists || toleration.value.is_empty();
            key && value && toleration.effect.is_none_or(|effect| effect == Effect::NoSchedule)
        };
        self.tolerations().iter().any(tolerates)
    }
}
