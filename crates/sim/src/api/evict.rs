//! The Eviction API and disruption budgets.

use std::sync::Arc;

use headstart_engine::{Kind, ObjectRef, Refusal};
use serde_json::{Value, json};

use super::{Actor, Api, Entry, Verb, field, label, number, text, uid};
use crate::controllers::NAMESPACE;
use crate::timeline::Moment;

/// A disruption budget: of the pods with a label so many must stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The value of the label `app` that its pods have.
    pub app: String,
    /// How many of them must be running.
    pub min_available: usize,
}

impl Api {
    /// Asks a pod to leave.
    pub fn evict(&mut self, now: Moment, by: Actor, object: &ObjectRef) -> Result<(), Refusal> {
        let key = format!("{}/{}", object.namespace, object.name);
        let pod = Arc::clone(self.get(Kind::Pod, &key).ok_or(Refusal::NotFound)?);
        if !object.uid.is_empty() && object.uid != uid(&pod) {
            return Err(Refusal::Conflict);
        }
        let going = field(&pod, "/metadata/deletionTimestamp").is_some();
        let running = text(&pod, "/status/phase") == "Running";
        if running
            && !going
            && let Some(budget) = self.blocking(&pod)
        {
            let message = format!("the disruption budget of {} needs {}", budget.app, budget.min_available);
            return Err(Refusal::Blocked { message });
        }
        self.delete(now, by, object, None).map(|_| ())
    }

    /// Puts a budget into force.
    pub fn protect(&mut self, now: Moment, budget: Budget) {
        let object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": format!("{}-{}", budget.app, self.budgets.len()), "namespace": NAMESPACE },
            "spec": {
                "selector": { "matchLabels": { "app": budget.app } },
                "minAvailable": budget.min_available,
            },
            "status": { "disruptionsAllowed": 0 },
        });
        let _ = self.create(now, Actor::Person, Kind::PodDisruptionBudget, object);
        let app = budget.app.clone();
        self.budgets.push(budget);
        self.count_budgets(now, &app);
    }

    /// Lifts all budgets.
    pub fn unprotect(&mut self, now: Moment) {
        self.budgets.clear();
        let keys: Vec<String> = self.all(Kind::PodDisruptionBudget).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let name = key.split_once('/').map_or("", |(_, name)| name).to_owned();
            let (kind, namespace) = (Kind::PodDisruptionBudget, NAMESPACE.to_owned());
            let object = ObjectRef { kind, namespace, name, uid: String::new() };
            let _ = self.delete(now, Actor::Person, &object, None);
        }
    }

    /// Says on the budgets of an app how many of its pods may go.
    pub fn count_budgets(&mut self, now: Moment, app: &str) {
        if self.budgets.is_empty() {
            return;
        }
        let running = self.running(app);
        let of_app: Vec<(usize, usize)> = (0..)
            .zip(&self.budgets)
            .filter(|(_, budget)| budget.app == app)
            .map(|(at, budget)| (at, running.saturating_sub(budget.min_available)))
            .collect();
        for (at, allowed) in of_app {
            let key = format!("{NAMESPACE}/{app}-{at}");
            let known = self.get(Kind::PodDisruptionBudget, &key);
            let said = known.map(|known| number(known, "/status/disruptionsAllowed"));
            if said.is_some_and(|said| usize::try_from(said) != Ok(allowed)) {
                self.edit(now, Actor::Controller, Kind::PodDisruptionBudget, &key, |budget| {
                    budget["status"]["disruptionsAllowed"] = json!(allowed);
                });
            }
        }
    }

    /// How many pods of an app are running and not asked to end.
    pub fn running(&self, app: &str) -> usize {
        self.running.get(app).copied().unwrap_or(0)
    }

    /// Keeps that number right.
    pub(super) fn count_running(&mut self, entry: &Entry) {
        let runs = |pod: &Value| {
            text(pod, "/status/phase") == "Running" && field(pod, "/metadata/deletionTimestamp").is_none()
        };
        let Some(app) = label(&entry.object, "app") else { return };
        let before = entry.before.as_deref().is_some_and(runs);
        let after = entry.verb != Verb::Removed && runs(&entry.object);
        if before != after {
            let count = self.running.entry(app.to_owned()).or_default();
            *count = if after { *count + 1 } else { *count - 1 };
        }
    }

    fn blocking(&self, pod: &Value) -> Option<&Budget> {
        let app = label(pod, "app")?;
        let of_app = self.budgets.iter().filter(|budget| budget.app == app);
        let mut of_app = of_app.peekable();
        of_app.peek()?;
        let running = self.running(app);
        of_app.into_iter().find(|budget| running <= budget.min_available)
    }
}
