//! Claims as lifecycles see them.

use headstart_api::annotations::TERMINATION_FINALIZER;
use headstart_api::conditions::{self, nodeclaim as condition};
use headstart_api::labels;
use headstart_api::nodeclaim::{NodeClaimSpec, NodeClaimStatus};
use headstart_core::cloud::{ClassRef, ProviderId};
use headstart_core::labels::NODE_POOL;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;

use crate::store::meta::Meta;
use crate::time::Wall;

/// A claim for a node.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Claim {
    pub(crate) metadata: Meta,
    pub(crate) spec: NodeClaimSpec,
    #[serde(default)]
    pub(crate) status: NodeClaimStatus,
    /// Asked for, but not yet seen: nothing is done to it.
    #[serde(skip)]
    pub(crate) is_assumed: bool,
}

impl Claim {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn pool(&self) -> &str {
        self.metadata.label(NODE_POOL)
    }

    pub(crate) fn capacity_type(&self) -> &str {
        self.metadata.label(labels::CAPACITY_TYPE)
    }

    pub(crate) fn provider_id(&self) -> Option<ProviderId> {
        self.status.provider_id.clone().filter(|id| !id.is_empty()).map(ProviderId)
    }

    pub(crate) fn class(&self) -> ClassRef {
        let class = &self.spec.node_class_ref;
        ClassRef { group: class.group.clone(), kind: class.kind.clone(), name: class.name.clone() }
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        conditions::find(&self.status.conditions, kind)
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        conditions::is_true(&self.status.conditions, kind)
    }

    pub(crate) fn is_launched(&self) -> bool {
        self.is(condition::LAUNCHED)
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.is(condition::REGISTERED)
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.is(condition::INITIALIZED)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.metadata.is_leaving()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.metadata.has_finalizer(TERMINATION_FINALIZER)
    }

    /// Since when a condition says what it says.
    pub(crate) fn since(&self, kind: &str) -> Wall {
        self.condition(kind).map_or_else(|| self.metadata.created(), |c| c.last_transition_time.0.into())
    }

    /// Drops what nobody asks for once the machine is known: hundreds of instance types.
    pub(crate) fn slim(&mut self) {
        if self.is_launched() {
            self.spec.requirements = Vec::new();
        }
    }
}
