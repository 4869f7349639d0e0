//! What is wrong with a pool that its schema cannot tell.

use std::collections::BTreeSet;

use headstart_api::{NodePool, Operator};
use headstart_core::labels::{CAPACITY_TYPE, HOSTNAME, NODE_POOL, ON_DEMAND, RESERVED, SPOT};
use k8s_openapi::api::core::v1::Taint;

/// Everything that is wrong, each with the field it is about.
pub(crate) fn faults(pool: &NodePool) -> Vec<String> {
    let template = &pool.spec.template;
    let mut faults = Vec::new();
    for (key, value) in template.metadata.labels.iter().flatten() {
        let field = format!("spec.template.metadata.labels[{key}]");
        if key == NODE_POOL || key == HOSTNAME || is_reserved(key) {
            faults.push(format!("{field}: the key is restricted"));
        } else if !is_qualified(key) {
            faults.push(format!("{field}: {key:?} is no label key"));
        }
        if !is_value(value) {
            faults.push(format!("{field}: {value:?} is no label value"));
        }
    }
    let mut marks = BTreeSet::new();
    let lists = [("taints", &template.spec.taints), ("startupTaints", &template.spec.startup_taints)];
    for (list, taints) in lists {
        for (i, taint) in taints.iter().flatten().enumerate() {
            let field = format!("spec.template.spec.{list}[{i}]");
            faults.extend(taint_fault(taint).map(|fault| format!("{field}: {fault}")));
            if !marks.insert((&taint.key, &taint.effect)) {
                faults
                    .push(format!("{field}: duplicate taint Key/Effect pair {}={}", taint.key, taint.effect));
            }
        }
    }
    for (i, requirement) in template.spec.requirements.iter().enumerate() {
        let field = format!("spec.template.spec.requirements[{i}]");
        let key = requirement.key.as_str();
        if key == NODE_POOL || key == HOSTNAME || (is_reserved(key) && key != CAPACITY_TYPE) {
            faults.push(format!("{field}: the key {key} is restricted"));
        } else if !is_qualified(key) {
            faults.push(format!("{field}: {key:?} is no label key"));
        }
        let known = |value: &&String| [SPOT, ON_DEMAND, RESERVED].contains(&value.as_str());
        let least = requirement.min_values.unwrap_or(1).max(1) as usize;
        if key == CAPACITY_TYPE
            && requirement.operator == Operator::In
            && requirement.values.iter().filter(known).count() < least
        {
            faults
                .push(format!("{field}: too few of the values {:?} are capacity types", requirement.values));
        }
    }
    faults
}

fn taint_fault(taint: &Taint) -> Option<String> {
    if !is_qualified(&taint.key) {
        return Some(format!("{:?} is no taint key", taint.key));
    }
    if !is_value(taint.value.as_deref().unwrap_or_default()) {
        return Some(format!("{:?} is no taint value", taint.value));
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    (!effects.contains(&taint.effect.as_str())).then(|| format!("{:?} is no taint effect", taint.effect))
}

/// Keys that only Karpenter may set.
fn is_reserved(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    key != CAPACITY_TYPE && (domain == "karpenter.sh" || domain.ends_with(".karpenter.sh"))
}

/// Whether a text is a name, perhaps with a domain before it.
fn is_qualified(key: &str) -> bool {
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    let is_domain = |domain: &str| {
        !domain.is_empty()
            && domain.len() <= 253
            && domain.split('.').all(|part| {
                is_name(part) && part.bytes().all(|c| !c.is_ascii_uppercase() && c != b'_' && c != b'.')
            })
    };
    !name.is_empty() && is_name(name) && domain.is_none_or(is_domain)
}

fn is_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// Whether a text consists of letters, digits, dashes, dots and underscores, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let ends = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.bytes().next())
        && ends(text.bytes().last())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
}
