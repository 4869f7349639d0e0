//! The Eviction API and disruption budgets.

use std::sync::Arc;

use headstart_engine::{Kind, ObjectRef, Refusal};
use serde_json::Value;

use super::{Actor, Api, field, label, text, uid};
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
    pub fn protect(&mut self, budget: Budget) {
        self.budgets.push(budget);
    }

    /// Lifts all budgets.
    pub fn unprotect(&mut self) {
        self.budgets.clear();
    }

    fn blocking(&self, pod: &Value) -> Option<&Budget> {
        let app = label(pod, "app")?;
        let healthy = |pod: &Value| {
            label(pod, "app") == Some(app)
                && text(pod, "/status/phase") == "Running"
                && field(pod, "/metadata/deletionTimestamp").is_none()
        };
        let of_app = self.budgets.iter().filter(|budget| budget.app == app);
        let mut of_app = of_app.peekable();
        of_app.peek()?;
        let running = self.all(Kind::Pod).filter(|(_, pod)| healthy(pod)).count();
        of_app.into_iter().find(|budget| running <= budget.min_available)
    }
}
