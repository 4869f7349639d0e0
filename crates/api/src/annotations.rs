//! Annotation keys and the finalizer.

/// Keeps a node, claim or pod from being disrupted voluntarily: `true`, or on pods a Go duration since the pod
/// started.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Keeps a node from being repaired: `true`.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
/// What evicting the pod costs, as a 32-bit integer.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
/// The hash of the NodePool's template that a claim was made from.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// How [`NODEPOOL_HASH`] was computed.
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// When a claim's node must be gone, in RFC 3339.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Whether `minValues` was not insisted on for a claim.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// The DRA drivers whose devices a claim's pods were promised, separated by commas.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// The node's boot id before a reboot.
pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// How long a drain before a reboot may take, as a Go duration.
pub const REBOOT_TERMINATION_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
/// Marks an instance type whose price an overlay changed.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// Marks an instance type whose resources an overlay changed.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Marks a pod that only stands for a buffer's room: `true`.
pub const BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// The buffer such a pod stands for.
pub const BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// The namespace of that buffer.
pub const BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// Which sources expected the pods that a claim was made for, the most first, separated by commas; absent if they were
/// there.
pub const EXPECTED_BY: &str = "headstart.dev/expected-by";
/// Why those pods were expected, in words.
pub const BECAUSE: &str = "headstart.dev/because";
/// The most that the node of a claim may cost, in dollars an hour: what was decided upon if there is a cap on what may be
/// spent for pods that are expected.
pub const AT_MOST: &str = "headstart.dev/at-most";

/// Tells Cluster Autoscaler that a pod need not keep its node: `true`.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The finalizer on nodes and NodeClaims that keeps them until their machine is gone.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
