//! Taints that are part of a node's life.

use k8s_openapi::api::core::v1::Taint;

/// On a node that is being taken away, with the effect [`NO_SCHEDULE`].
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// On a node that has not yet been recognized as a claim's, with the effect [`NO_EXECUTE`].
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// On a node that is about to reboot, with the effect [`NO_SCHEDULE`].
pub const REBOOTING: &str = "karpenter.sh/rebooting";

/// Keeps pods from being scheduled on the node.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Keeps pods from being scheduled on the node where another will do.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Keeps pods from being scheduled on the node, and removes those that run there.
pub const NO_EXECUTE: &str = "NoExecute";

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// The taint of a node that is being taken away.
pub fn disrupted() -> Taint {
    taint(DISRUPTED, NO_SCHEDULE)
}

/// The taint of a node that has not yet been recognized as a claim's.
pub fn unregistered() -> Taint {
    taint(UNREGISTERED, NO_EXECUTE)
}

/// The taint of a node that is about to reboot.
pub fn rebooting() -> Taint {
    taint(REBOOTING, NO_SCHEDULE)
}

/// Whether a taint is expected to vanish by itself while a new node is getting ready.
///
/// Key and effect decide; as upstream, a value does not.
pub fn is_ephemeral(taint: &Taint) -> bool {
    let known = matches!(
        (taint.key.as_str(), taint.effect.as_str()),
        (NOT_READY, NO_SCHEDULE | NO_EXECUTE)
            | (UNREACHABLE | CLOUD_UNINITIALIZED, NO_SCHEDULE)
            | (UNREGISTERED, NO_EXECUTE)
    );
    known || taint.key.starts_with(READINESS_PREFIX)
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_of_a_starting_node_are_ephemeral() {
        for (key, effect) in [
            (NOT_READY, NO_SCHEDULE),
            (NOT_READY, NO_EXECUTE),
            (UNREACHABLE, NO_SCHEDULE),
            (CLOUD_UNINITIALIZED, NO_SCHEDULE),
            (UNREGISTERED, NO_EXECUTE),
            ("readiness.k8s.io/network", PREFER_NO_SCHEDULE),
        ] {
            assert!(is_ephemeral(&taint(key, effect)), "{key}:{effect}");
        }
        for (key, effect) in [
            (NOT_READY, PREFER_NO_SCHEDULE),
            (UNREACHABLE, NO_EXECUTE),
            (UNREGISTERED, NO_SCHEDULE),
            (DISRUPTED, NO_SCHEDULE),
            ("example.com/dedicated", NO_SCHEDULE),
        ] {
            assert!(!is_ephemeral(&taint(key, effect)), "{key}:{effect}");
        }
    }
}
