//! What must be there before anything can stand for a belief: a namespace, a priority, and an owner.

use headstart_api::labels::PLACEHOLDER;
use serde_json::{Value, json};

use crate::action::{Effect, ObjectRef};
use crate::errands::Errand;
use crate::kind::Kind;
use crate::out::Out;
use crate::outcome::{Fact, Outcome, Refusal};
use crate::report::Level;
use crate::settings::Leading;
use crate::store::{Store, uid};

/// The object that owns everything else: Kubernetes removes what it owns when it goes.
pub(super) const OWNER: &str = "headstart-companion";

/// What must be there first.
#[derive(Debug, Default)]
pub(super) struct Ground {
    /// The uid of the owner.
    owner: Option<String>,
    /// Whether there is an owner whose uid is to be read.
    is_known: bool,
    /// Whether it was said that something could not be made.
    is_told: bool,
}

/// The name of the priority class. Its value cannot be changed, so that each value has a class of its own.
pub(super) fn class_name(settings: &Leading) -> String {
    format!(
        "headstart-placeholder{}{}",
        if settings.priority < 0 { "-minus-" } else { "-" },
        settings.priority.unsigned_abs()
    )
}

impl Ground {
    /// Asks for what is missing; whether nothing is.
    pub(super) fn poll(&mut self, settings: &Leading, store: &Store, out: &mut Out<'_>) -> bool {
        let has_namespace = store.has(Kind::Namespace, "", &settings.namespace);
        let has_class = store.has(Kind::PriorityClass, "", &class_name(settings));
        if !has_namespace {
            make(Kind::Namespace, namespace(settings), out);
        }
        if !has_class {
            make(Kind::PriorityClass, class(settings), out);
        }
        if has_namespace && self.owner.is_none() {
            if self.is_known {
                let object = owner(settings, "");
                out.ask(errand(Kind::ConfigMap, OWNER), Effect::Read { object });
            } else {
                make(Kind::ConfigMap, owner_object(settings), out);
            }
        }
        has_namespace && has_class && self.owner.is_some()
    }

    /// Takes notice of how an effect ended.
    pub(super) fn ended(&mut self, kind: Kind, outcome: &Outcome, out: &mut Out<'_>) {
        match outcome {
            Outcome::Done(Fact::Object(object)) if kind == Kind::ConfigMap => {
                self.owner = Some(uid(object).to_owned());
            }
            Outcome::Refused(Refusal::AlreadyExists) => self.is_known = true,
            Outcome::Refused(Refusal::NotFound) => self.is_known = false,
            Outcome::Refused(Refusal::Forbidden { message } | Refusal::Invalid { message })
                if !self.is_told =>
            {
                self.is_told = true;
                let message = format!("cannot make what expected pods are shown by: {message}");
                out.line(Level::Error, message, &[("kind", &kind.to_string())]);
            }
            Outcome::Done(_) | Outcome::Refused(_) | Outcome::Unknown { .. } => {}
        }
    }

    /// The owner, as objects of ours name it.
    pub(super) fn reference(&self) -> Value {
        json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": OWNER, "uid": self.owner,
            // Nobody adopts what has a controller.
            "controller": true, "blockOwnerDeletion": false,
        }])
    }

    /// The owner, to be deleted.
    pub(super) fn owner(&self, settings: &Leading) -> Option<ObjectRef> {
        self.owner.as_ref().map(|uid| owner(settings, uid))
    }
}

/// What an effect on an object of ours is for.
pub(super) fn errand(kind: Kind, name: &str) -> Errand {
    Errand::Companion(kind, name.to_owned())
}

fn make(kind: Kind, object: Value, out: &mut Out<'_>) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    out.ask(errand(kind, &name), Effect::Create { kind, object });
}

fn owner(settings: &Leading, uid: &str) -> ObjectRef {
    ObjectRef {
        kind: Kind::ConfigMap,
        namespace: settings.namespace.clone(),
        name: OWNER.to_owned(),
        uid: uid.to_owned(),
    }
}

fn namespace(settings: &Leading) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": settings.namespace } })
}

fn class(settings: &Leading) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": class_name(settings) },
        "value": settings.priority,
        "preemptionPolicy": "Never",
        "description": "Pods that keep room for others and give way to them.",
    })
}

fn owner_object(settings: &Leading) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": OWNER, "namespace": settings.namespace, "labels": { PLACEHOLDER: "true" } },
        "data": { "about": "Owns what stands for expected pods. What it owns goes with it." },
    })
}
