//! Effects on the cloud.

use std::time::Duration;

use headstart_cloud::CloudError;
use headstart_cloud::port::{LaunchRequest, ProviderId};
use headstart_engine::{Fact, Outcome, Refusal};

use super::Performer;
use crate::clock;

/// How long the cloud has to answer. Clouds have limits of their own; this one is for those that forget.
const LIMIT: Duration = Duration::from_mins(1);

/// Who calls what, in upstream's words, which dashboards know.
struct Call {
    controller: &'static str,
    method: &'static str,
    pool: String,
}

impl Performer {
    pub(super) async fn launch(&self, request: &LaunchRequest) -> Outcome {
        let call = Call { pool: request.pool.clone(), ..call("nodeclaim.lifecycle", "Create") };
        outcome(self.call(call, self.cloud.launch(request)).await, |launch| Fact::Launched(Box::new(launch)))
    }

    pub(super) async fn terminate(&self, id: &ProviderId) -> Outcome {
        let call = call("nodeclaim.lifecycle", "Delete");
        outcome(self.call(call, self.cloud.terminate(id)).await, |()| Fact::Nothing)
    }

    pub(super) async fn reboot(&self, id: &ProviderId, operation: &str) -> Outcome {
        let call = call("nodeclaim.reboot", "Reboot");
        outcome(self.call(call, self.cloud.reboot(id, operation)).await, |()| Fact::Nothing)
    }

    pub(super) async fn inspect(&self, id: &ProviderId) -> Outcome {
        let call = call("nodeclaim.lifecycle", "Get");
        outcome(self.call(call, self.cloud.get(id)).await, |instance| Fact::Instance(Box::new(instance)))
    }

    pub(super) async fn instances(&self) -> Outcome {
        let call = call("nodeclaim.garbagecollection", "List");
        outcome(self.call(call, self.cloud.list()).await, Fact::Instances)
    }

    async fn call<T>(
        &self,
        call: Call,
        asked: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let Call { controller, method, pool } = call;
        let start = clock::stopwatch();
        let lost = || CloudError::answer_lost(format!("no answer within {} s", LIMIT.as_secs()));
        let answer = tokio::time::timeout(LIMIT, asked).await.unwrap_or_else(|_| Err(lost()));
        let labels = [("controller", controller), ("method", method), ("provider", self.cloud.name())];
        self.metrics.measure("cloudprovider_duration_seconds", &labels, start.elapsed().as_secs_f64());
        if let Err(error) = &answer {
            let labels = [labels[0], labels[1], labels[2], ("error", kind(error)), ("nodepool", &pool)];
            self.metrics.measure("cloudprovider_errors_total", &labels, 1.0);
        }
        answer
    }
}

const fn call(controller: &'static str, method: &'static str) -> Call {
    Call { controller, method, pool: String::new() }
}

fn outcome<T>(answer: Result<T, CloudError>, fact: impl FnOnce(T) -> Fact) -> Outcome {
    match answer {
        Ok(answer) => Outcome::Done(fact(answer)),
        Err(error) if error.outcome_unknown() => Outcome::Unknown { message: error.to_string() },
        Err(error) => Outcome::Refused(Refusal::Cloud(error)),
    }
}

/// COMPAT: v1.15.0's names of the errors that it tells apart.
fn kind(error: &CloudError) -> &'static str {
    match error {
        CloudError::NotFound { .. } => "NodeClaimNotFoundError",
        CloudError::InsufficientCapacity { .. } => "InsufficientCapacityError",
        CloudError::ClassNotReady { .. } => "NodeClassNotReadyError",
        CloudError::Throttled { .. }
        | CloudError::Denied { .. }
        | CloudError::Transient { .. }
        | CloudError::Permanent { .. } => "unknown",
    }
}
