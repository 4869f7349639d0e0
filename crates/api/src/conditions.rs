//! Conditions: their types and reasons, reading them, and keeping `Ready` true to the others.

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The sum of an object's other conditions.
pub const READY: &str = "Ready";

/// Condition types of NodeClaims.
pub mod nodeclaim {
    /// The machine was launched.
    pub const LAUNCHED: &str = "Launched";
    /// The node joined the cluster.
    pub const REGISTERED: &str = "Registered";
    /// The node is ready for pods.
    pub const INITIALIZED: &str = "Initialized";
    /// The node has been left alone by pods for long enough.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// The node no longer matches its NodePool or node class.
    pub const DRIFTED: &str = "Drifted";
    /// The pods are gone.
    pub const DRAINED: &str = "Drained";
    /// The volumes are detached.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// The machine is being terminated.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// The node is what was asked for.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// The node was chosen for disruption; the reason says why.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
    /// The node is being rebooted.
    pub const REBOOTING: &str = "Rebooting";

    /// The conditions that make a NodeClaim ready.
    pub const READY_WHEN: &[&str] = &[LAUNCHED, REGISTERED, INITIALIZED];
}

/// Condition types of NodePools.
pub mod nodepool {
    /// Nothing is wrong with the NodePool's settings.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// The node class exists and is ready.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// Nodes of the NodePool have been joining the cluster.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

    /// The conditions that make a NodePool ready.
    pub const READY_WHEN: &[&str] = &[VALIDATION_SUCCEEDED, NODE_CLASS_READY];
}

/// Condition types of NodeOverlays.
pub mod nodeoverlay {
    /// The overlay can be applied.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

    /// The conditions that make a NodeOverlay ready.
    pub const READY_WHEN: &[&str] = &[VALIDATION_SUCCEEDED];
}

/// Condition types of CapacityBuffers, which have no `Ready`.
pub mod capacitybuffer {
    /// The buffer's shape and size are known.
    pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
    /// The room is there.
    pub const PROVISIONING: &str = "Provisioning";
    /// Quotas keep the buffer smaller than it asks for.
    pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";
}

/// Reasons, one CamelCase word each.
pub mod reasons {
    /// Nothing has been found out yet.
    pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
    /// `Ready` waits for other conditions.
    pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";
    /// `Ready` is false since another condition is.
    pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";

    /// Launched: the provider refused, with no reason of its own.
    pub const LAUNCH_FAILED: &str = "LaunchFailed";
    /// Registered, Initialized: there is no node yet.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// Registered: several nodes claim to be the claim's.
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
    /// Registered: a provider's hook is not done.
    pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
    /// Initialized: the node is not ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// Initialized: a startup taint is still there.
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    /// Initialized: a taint that vanishes by itself is still there.
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    /// Initialized: the node does not offer a resource that was requested.
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    /// Initialized: a DRA driver has not published its devices.
    pub const DRA_DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
    /// Initialized: the node is rebooting.
    pub const REBOOTING: &str = "Rebooting";
    /// Drained: pods are leaving.
    pub const DRAINING: &str = "Draining";
    /// `VolumesDetached`: volumes are still attached.
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    /// `VolumesDetached`: there was no more time to wait.
    pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
    /// `ConsistentStateFound`: the node is not what was asked for.
    pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";

    /// Drifted: the NodePool's template changed.
    pub const NODEPOOL_DRIFTED: &str = "NodePoolDrifted";
    /// Drifted: the NodePool's requirements no longer allow the node.
    pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
    /// Drifted: the instance type is no longer offered.
    pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";

    /// Rebooting: asked for.
    pub const REBOOT_REQUESTED: &str = "RebootRequested";
    /// Rebooting: the provider was told.
    pub const REBOOT_ISSUED: &str = "RebootIssued";
    /// Rebooting: done.
    pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
    /// Rebooting: given up.
    pub const REBOOT_FAILED: &str = "RebootFailed";

    /// `ValidationSucceeded`: the NodePool's settings are wrong.
    pub const NODEPOOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// `NodeClassReady`: there is no such node class.
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    /// `NodeClassReady`: the node class is being deleted.
    pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
    /// `NodeClassReady`: the node class does not say.
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
    /// `NodeRegistrationHealthy`: nodes did not join the cluster.
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";

    /// `ValidationSucceeded`: the overlay's settings are wrong.
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// `ValidationSucceeded`: another overlay of the same weight says otherwise.
    pub const CONFLICT: &str = "Conflict";

    /// `ReadyForProvisioning`: shape and size are known.
    pub const RESOLVED: &str = "Resolved";
    /// `ReadyForProvisioning`: there is no such workload.
    pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
    /// `ReadyForProvisioning`: there is no such PodTemplate.
    pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
    /// `ReadyForProvisioning`: shape or size could not be found out.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// Provisioning: all of the buffer fits on nodes that exist.
    pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
    /// Provisioning: nodes are missing.
    pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
    /// Provisioning: shape or size are not known.
    pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
    /// Provisioning: the buffer asks for nothing.
    pub const BUFFER_EMPTY: &str = "BufferEmpty";
}

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    Unknown,
}

impl Status {
    /// The status as it stands in a condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// What is said about this type; a condition that is missing says nothing.
pub fn status_of(conditions: &[Condition], type_: &str) -> Status {
    match find(conditions, type_).map(|condition| condition.status.as_str()) {
        Some("True") => Status::True,
        Some("False") => Status::False,
        _ => Status::Unknown,
    }
}

/// Whether this condition holds.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    status_of(conditions, type_) == Status::True
}

/// An object's conditions, to be changed.
///
/// COMPAT: order, times, and the words of `Ready` are those of Karpenter's condition library (operatorpkg `status`),
/// so that neither operator rewrites what the other wrote.
#[derive(Debug)]
pub struct ConditionSet<'a> {
    /// The conditions.
    pub conditions: &'a mut Vec<Condition>,
    /// The conditions that make up `Ready`; without any, there is no `Ready`.
    pub ready_when: &'a [&'a str],
    /// The object's generation.
    pub generation: Option<i64>,
    /// When the object was created: the first transition of `Ready` and what makes it up.
    pub created: Time,
    /// The present time.
    pub now: Time,
}

impl ConditionSet<'_> {
    /// Adds `Ready` and what makes it up where they are missing, as unknown.
    pub fn initialize(&mut self) {
        if self.ready_when.is_empty() {
            return;
        }
        for type_ in [READY].iter().chain(self.ready_when) {
            if find(self.conditions, type_).is_none() {
                let message = "object is awaiting reconciliation";
                self.set(type_, Status::Unknown, reasons::AWAITING_RECONCILIATION, message);
            }
        }
    }

    /// Says that a condition holds, with its own name as the reason.
    pub fn set_true(&mut self, type_: &str) -> bool {
        self.set(type_, Status::True, type_, "")
    }

    /// Sets a condition, and `Ready` with it; tells whether anything changed.
    pub fn set(&mut self, type_: &str, status: Status, reason: &str, message: &str) -> bool {
        let changed = self.replace(type_, status, reason, message);
        if changed && type_ != READY && !self.ready_when.is_empty() {
            self.recompute_ready();
        }
        changed
    }

    fn replace(&mut self, type_: &str, status: Status, reason: &str, message: &str) -> bool {
        let old = self.conditions.iter().position(|condition| condition.type_ == type_);
        let last_transition_time = match old.map(|i| &self.conditions[i]) {
            Some(old) if old.status == status.as_str() => old.last_transition_time.clone(),
            None if type_ == READY || self.ready_when.contains(&type_) => self.created.clone(),
            _ => self.now.clone(),
        };
        let new = Condition {
            type_: type_.to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: self.generation,
            last_transition_time,
        };
        if let Some(i) = old {
            if self.conditions[i] == new {
                return false;
            }
            self.conditions.remove(i);
        }
        self.conditions.push(new);
        self.conditions.sort_by(|a, b| by_age(a).cmp(&by_age(b)));
        true
    }

    fn recompute_ready(&mut self) {
        let mut open: Vec<_> = self
            .conditions
            .iter()
            .filter(|condition| self.ready_when.contains(&condition.type_.as_str()))
            .filter(|condition| {
                condition.status != Status::True.as_str() || condition.observed_generation != self.generation
            })
            .collect();
        if open.is_empty() {
            self.replace(READY, Status::True, READY, "");
            return;
        }
        open.sort_by_key(|condition| Reverse(condition.last_transition_time.clone()));
        let message: Vec<_> = open.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        let failed = open.iter().any(|condition| {
            condition.status == Status::False.as_str() && condition.observed_generation == self.generation
        });
        let (status, reason) = if failed {
            (Status::False, reasons::UNHEALTHY_DEPENDENTS)
        } else {
            (Status::Unknown, reasons::RECONCILING_DEPENDENTS)
        };
        self.replace(READY, status, reason, &message.join(", "));
    }
}

/// The older transition first, and `Ready` last.
fn by_age(condition: &Condition) -> (bool, &Time) {
    (condition.type_ == READY, &condition.last_transition_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    /// Changes the conditions of a NodeClaim created at second 100, and prints them one per line.
    fn after(
        conditions: &mut Vec<Condition>,
        second: i64,
        change: impl FnOnce(&mut ConditionSet<'_>),
    ) -> String {
        let mut set = ConditionSet {
            conditions,
            ready_when: nodeclaim::READY_WHEN,
            generation: Some(1),
            created: at(100),
            now: at(second),
        };
        set.initialize();
        change(&mut set);
        let line = |c: &Condition| {
            let age = c.last_transition_time.0.as_second();
            format!("{}={} {} {} @{age}", c.type_, c.status, c.reason, c.message)
        };
        conditions.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_new_object_waits_for_everything() {
        assert_eq!(
            after(&mut vec![], 105, |_| ()),
            "Launched=Unknown AwaitingReconciliation object is awaiting reconciliation @100\n\
             Registered=Unknown AwaitingReconciliation object is awaiting reconciliation @100\n\
             Initialized=Unknown AwaitingReconciliation object is awaiting reconciliation @100\n\
             Ready=Unknown ReconcilingDependents Launched=Unknown, Registered=Unknown, Initialized=Unknown @100"
        );
    }

    #[test]
    fn ready_follows_the_others() {
        let mut conditions = vec![];
        after(&mut conditions, 105, |set| {
            assert!(set.set_true(nodeclaim::LAUNCHED));
        });
        after(&mut conditions, 110, |set| {
            assert!(set.set_true(nodeclaim::REGISTERED));
            assert!(!set.set_true(nodeclaim::LAUNCHED), "nothing new");
        });
        assert_eq!(status_of(&conditions, READY), Status::Unknown);
        let text = after(&mut conditions, 115, |set| {
            set.set(nodeclaim::INITIALIZED, Status::False, "Broken", "it broke");
        });
        assert_eq!(
            text,
            "Launched=True Launched  @105\n\
             Registered=True Registered  @110\n\
             Initialized=False Broken it broke @115\n\
             Ready=False UnhealthyDependents Initialized=False @115"
        );
        after(&mut conditions, 120, |set| {
            set.set_true(nodeclaim::INITIALIZED);
            set.set_true(nodeclaim::CONSOLIDATABLE);
        });
        assert!(is_true(&conditions, READY));
        assert_eq!(find(&conditions, READY).unwrap().last_transition_time, at(120));
        assert_eq!(conditions.last().unwrap().type_, READY);
    }

    #[test]
    fn a_condition_of_an_older_generation_does_not_count() {
        let mut conditions = vec![];
        after(&mut conditions, 105, |set| {
            for type_ in nodeclaim::READY_WHEN {
                set.set_true(type_);
            }
        });
        assert!(is_true(&conditions, READY));
        after(&mut conditions, 110, |set| {
            set.generation = Some(2);
            set.set_true(nodeclaim::LAUNCHED);
        });
        assert_eq!(status_of(&conditions, READY), Status::Unknown);
        assert_eq!(status_of(&[], READY), Status::Unknown);
    }
}
