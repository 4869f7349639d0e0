//! Where the API server keeps things.

use headstart_cloud::port::ClassKind;
use headstart_engine::{Kind, ObjectRef, Resource};
use kube::core::Request;

/// The node classes of the clouds that exist here.
pub(crate) const CLASSES: [Resource; 1] = [Resource {
    group: "karpenter.kwok.sh",
    version: "v1alpha1",
    kind: "KWOKNodeClass",
    plural: "kwoknodeclasses",
    namespaced: false,
}];

/// Where node classes of a kind are kept, if that is known.
pub(crate) fn class(kind: &ClassKind) -> Option<Resource> {
    CLASSES.into_iter().find(|known| known.group == kind.group && known.kind == kind.kind)
}

/// The `apiVersion` of a resource.
pub(crate) fn api_version(resource: &Resource) -> String {
    match resource.group {
        "" => resource.version.to_owned(),
        group => format!("{group}/{}", resource.version),
    }
}

/// Requests about the objects of a kind, in a namespace if they have one.
pub(super) fn request(kind: Kind, class: Resource, namespace: &str) -> Request {
    let resource = kind.resource(class);
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let space = if resource.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    Request::new(format!("{root}/{}{space}/{}", api_version(&resource), resource.plural))
}

/// Requests about an object and its neighbors.
pub(super) fn request_for(object: &ObjectRef, class: Resource) -> Request {
    request(object.kind, class, &object.namespace)
}

#[cfg(test)]
mod tests {
    use headstart_cloud::Cloud;
    use headstart_cloud::testcloud::TestCloud;

    use super::*;

    fn path(kind: Kind) -> String {
        request(kind, CLASSES[0], "shop").url_path
    }

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(path(Kind::Pod), "/api/v1/namespaces/shop/pods");
        assert_eq!(path(Kind::Node), "/api/v1/nodes");
        assert_eq!(path(Kind::NodeClaim), "/apis/karpenter.sh/v1/nodeclaims");
        assert_eq!(path(Kind::NodeClass), "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses");
    }

    #[test]
    fn the_classes_of_all_clouds_are_known() {
        let cloud = TestCloud::new("http://127.0.0.1:1").unwrap();
        assert!(cloud.node_classes().iter().all(|kind| class(kind).is_some()));
    }
}
