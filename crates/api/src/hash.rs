//! The hash of a NodePool's template, by which drift is noticed.
//!
//! COMPAT: equal to Karpenter's `NodePool.Hash()` (v1.15, hash version `v3`), bit for bit, so that the annotations of
//! one operator mean something to the other. There it is a generic walk over Go values by reflection
//! (mitchellh/hashstructure, format 2, with zero values ignored and slices as sets); here it is that walk written out
//! for the one type it is used on. Its peculiarities:
//! - a field that is absent does not count, but an empty map or list does;
//! - a list of two equal taints hashes like an empty one, since elements are combined by exclusive or;
//! - `expireAfter: Never` hashes like no `expireAfter` at all, and requirements do not count.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Time};

use crate::{
    NodePool,
    duration::{GoDuration, NillableDuration},
    nodeclaim::NodeClassReference,
    nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, TemplateMeta},
};

/// How the hash is computed; hashes of different versions are not compared.
pub const NODEPOOL_HASH_VERSION: &str = "v3";

impl NodePool {
    /// The hash of the NodePool's template, as written to the annotation `karpenter.sh/nodepool-hash`.
    pub fn hash(&self) -> String {
        template(&self.spec.template).to_string()
    }
}

fn template(template: &NodeClaimTemplate) -> u64 {
    Record::new("NodeClaimTemplate")
        .field("ObjectMeta", (!template.metadata.is_empty()).then(|| metadata(&template.metadata)))
        .field("Spec", Some(spec(&template.spec)))
        .hash
}

fn metadata(metadata: &TemplateMeta) -> u64 {
    Record::new("ObjectMeta")
        .field("Labels", metadata.labels.as_ref().map(map))
        .field("Annotations", metadata.annotations.as_ref().map(map))
        .hash
}

fn spec(spec: &NodeClaimTemplateSpec) -> u64 {
    let expire_after = spec.expire_after.as_ref().and_then(NillableDuration::duration);
    Record::new("NodeClaimTemplateSpec")
        .field("Taints", spec.taints.as_deref().map(taints))
        .field("StartupTaints", spec.startup_taints.as_deref().map(taints))
        .field("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)))
        .field("TerminationGracePeriod", spec.termination_grace_period.map(duration))
        .field("ExpireAfter", expire_after.map(nillable_duration))
        .hash
}

fn node_class_ref(reference: &NodeClassReference) -> u64 {
    Record::new("NodeClassReference")
        .text("Kind", &reference.kind)
        .text("Name", &reference.name)
        .text("Group", &reference.group)
        .hash
}

fn taints(taints: &[Taint]) -> u64 {
    taints.iter().map(taint).fold(0, |set, element| set ^ element)
}

fn taint(taint: &Taint) -> u64 {
    Record::new("Taint")
        .text("Key", &taint.key)
        .text("Value", taint.value.as_deref().unwrap_or_default())
        .text("Effect", &taint.effect)
        .field("TimeAdded", taint.time_added.as_ref().map(time))
        .hash
}

/// A duration that is a field of its own: no time at all counts as no value, inside a field that is there.
fn duration(duration: GoDuration) -> u64 {
    let nanos = duration.as_nanos();
    Record::new("Duration").field("Duration", (nanos != 0).then(|| fnv1(&nanos.to_le_bytes()))).hash
}

/// A duration behind a pointer: no time at all is still a value.
fn nillable_duration(duration: GoDuration) -> u64 {
    Record::new("NillableDuration").field("Duration", Some(fnv1(&duration.as_nanos().to_le_bytes()))).hash
}

/// A moment, in Go's binary form of a time.
///
/// COMPAT: that form holds the offset of the zone Karpenter runs in, since it reads times into local time. Containers
/// run in UTC, which is offset 0 there.
fn time(time: &Time) -> u64 {
    const NANOS: i128 = 1_000_000_000;
    const SECONDS_FROM_YEAR_1_TO_1970: i128 = 62_135_596_800;

    let nanos = time.0.as_nanosecond();
    let seconds = (nanos.div_euclid(NANOS) + SECONDS_FROM_YEAR_1_TO_1970) as i64;
    let nanos = nanos.rem_euclid(NANOS) as u32;
    let mut binary = [0; 15];
    binary[0] = 1;
    binary[1..9].copy_from_slice(&seconds.to_be_bytes());
    binary[9..13].copy_from_slice(&nanos.to_be_bytes());
    Record::new("Time").field("Time", Some(fnv1(&binary))).hash
}

fn map(map: &BTreeMap<String, String>) -> u64 {
    let entries = map.iter().map(|(key, value)| pair(fnv1(key.as_bytes()), fnv1(value.as_bytes())));
    harden(entries.fold(0, |set, entry| set ^ entry))
}

/// A Go struct: its type's name, then its fields in the order they are declared.
struct Record {
    hash: u64,
}

impl Record {
    fn new(type_name: &str) -> Self {
        Self { hash: fnv1(type_name.as_bytes()) }
    }

    /// Adds a field with the hash of its value, or leaves it out.
    fn field(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self { hash: harden(self.hash ^ pair(fnv1(name.as_bytes()), value)) },
            None => self,
        }
    }

    /// Adds a text field, unless it is empty.
    fn text(self, name: &str, value: &str) -> Self {
        self.field(name, (!value.is_empty()).then(|| fnv1(value.as_bytes())))
    }
}

/// Combines a name and a value, which are not to be swapped.
fn pair(a: u64, b: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    fnv1(&bytes)
}

/// Keeps hashes that were combined by exclusive or from cancelling others later.
fn harden(hash: u64) -> u64 {
    fnv1(&hash.to_le_bytes())
}

/// The 64-bit FNV-1 hash, which multiplies before it mixes in a byte (FNV-1a does so after).
fn fnv1(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the hash of a template whose metadata is `metadata` and whose spec has `fields` besides the required
    /// ones. The expected hashes are what Karpenter 1.15.0 gives.
    fn check(metadata: &str, fields: &str, expected: &str) {
        let json = format!(
            r#"{{"metadata":{{}},"spec":{{"template":{{"metadata":{metadata},"spec":{{
                "nodeClassRef":{{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}},
                "requirements":[{{"key":"a","operator":"Exists"}}]{fields}}}}}}}}}"#
        );
        let pool: NodePool = serde_json::from_str(&json).unwrap();
        assert_eq!(pool.hash(), expected, "{metadata} {fields}");
    }

    #[test]
    fn hashes_are_karpenters() {
        check("{}", "", "7428780003907761376");
        check("{}", r#","expireAfter":"720h""#, "12745407319442031341");
        check("{}", r#","expireAfter":"0s","terminationGracePeriod":"0s""#, "11201156090959835969");
        check(r#"{"labels":{}}"#, r#","taints":[]"#, "16023863355318403112");
        check(
            r#"{"labels":{"team":"a","tier":"web"},"annotations":{"note":"x"}}"#,
            r#","taints":[{"key":"k","value":"v","effect":"NoSchedule","timeAdded":"2024-05-06T07:08:09.5Z"}],
               "startupTaints":[{"key":"s","effect":"NoExecute"}],
               "terminationGracePeriod":"1h30m","expireAfter":"48h""#,
            "15793025162747746037",
        );
    }

    #[test]
    fn some_differences_do_not_count() {
        check("{}", r#","expireAfter":"Never""#, "7428780003907761376");
        let twice = r#"{"key":"s","effect":"NoExecute"},{"key":"s","effect":"NoExecute"}"#;
        check(r#"{"labels":{}}"#, &format!(r#","taints":[{twice}]"#), "16023863355318403112");
        check("{}", r#","expireAfter":"43200m""#, "12745407319442031341");
    }
}
