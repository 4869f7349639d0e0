//! The install manifest: it parses, fits together, and gives the rights that are used, and no others.

use std::collections::{BTreeMap, BTreeSet};

use headstart_engine::{Kind, Resource};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde_json::Value;

const CLASS: Resource = Resource {
    group: "karpenter.kwok.sh",
    version: "v1alpha1",
    kind: "KWOKNodeClass",
    plural: "kwoknodeclasses",
    namespaced: false,
};

fn manifest<T: DeserializeOwned>(kind: &str) -> Vec<T> {
    let text = include_str!("../../../deploy/headstart.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("it is no YAML");
    let wanted = documents.into_iter().filter(|document| document["kind"] == kind);
    wanted.map(|document| serde_json::from_value(document).expect("it is no such object")).collect()
}

/// The verbs on each resource of each group in the whole cluster.
fn rights() -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut rights: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let rules =
        manifest::<ClusterRole>("ClusterRole").into_iter().flat_map(|role| role.rules.unwrap_or_default());
    for PolicyRule { api_groups, resources, resource_names, verbs, .. } in rules {
        let only = resource_names.map_or_else(String::new, |names| format!("/{}", names.join("/")));
        for group in api_groups.unwrap_or_default() {
            for resource in resources.clone().unwrap_or_default() {
                rights.entry((group.clone(), format!("{resource}{only}"))).or_default().extend(verbs.clone());
            }
        }
    }
    rights
}

fn on(group: &str, resource: &str) -> Vec<String> {
    rights().remove(&(group.to_owned(), resource.to_owned())).into_iter().flatten().collect()
}

#[test]
fn every_watched_kind_may_be_read() {
    let rights = rights();
    for kind in Kind::ALL {
        let resource = kind.resource(CLASS);
        let verbs = rights.get(&(resource.group.to_owned(), resource.plural.to_owned()));
        let verbs = verbs.unwrap_or_else(|| panic!("nothing is said about {kind}"));
        assert!(["get", "list", "watch"].iter().all(|verb| verbs.contains(*verb)), "{kind}: {verbs:?}");
    }
}

#[test]
fn only_what_is_written_may_be_written() {
    let reading = ["get", "list", "watch"];
    let mut writing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((_, resource), verbs) in rights() {
        let verbs: Vec<String> = verbs.into_iter().filter(|verb| !reading.contains(&verb.as_str())).collect();
        if !verbs.is_empty() {
            writing.insert(resource, verbs);
        }
    }
    let found: Vec<String> =
        writing.iter().map(|(resource, verbs)| format!("{resource}: {}", verbs.join(" "))).collect();
    let expected = [
        "capacitybuffers/status: patch",
        "events: create patch",
        "leases/karpenter-leader-election: update",
        "nodeclaims: create delete patch",
        "nodeclaims/finalizers: update",
        "nodeclaims/status: patch",
        "nodeoverlays/status: patch",
        "nodepools: patch",
        "nodepools/finalizers: update",
        "nodepools/status: patch",
        "nodes: create delete patch",
        "nodes/status: patch",
        "pods: delete",
        "pods/eviction: create",
        "pods/status: patch",
    ];
    assert_eq!(found, expected);
    assert_eq!(on("coordination.k8s.io", "leases"), ["list"]);
}

#[test]
fn the_parts_fit_together() {
    let account = |subject: &k8s_openapi::api::rbac::v1::Subject| {
        (subject.kind.as_str(), subject.name.as_str(), subject.namespace.as_deref())
            == ("ServiceAccount", "headstart", Some("kube-system"))
    };
    let roles: BTreeSet<_> =
        manifest::<ClusterRole>("ClusterRole").into_iter().filter_map(|role| role.metadata.name).collect();
    for binding in manifest::<ClusterRoleBinding>("ClusterRoleBinding") {
        assert!(
            roles.contains(&binding.role_ref.name)
                && binding.subjects.unwrap_or_default().iter().all(account)
        );
    }
    assert_eq!(manifest::<Role>("Role").len(), 1);
    assert!(
        manifest::<RoleBinding>("RoleBinding").iter().all(|binding| binding.role_ref.name == "headstart")
    );
    let deployment = manifest::<Deployment>("Deployment").remove(0);
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.service_account_name.as_deref(), Some("headstart"));
    let security = pod.containers[0].security_context.clone().unwrap();
    assert_eq!(
        (security.read_only_root_filesystem, security.allow_privilege_escalation),
        (Some(true), Some(false))
    );
    assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
}
