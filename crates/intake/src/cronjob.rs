//! CronJobs, as the pods of their next run.

use headstart_core::demand::Overlap;
use serde::Deserialize;

use crate::decode::nullable;
use crate::meta::Meta;
use crate::workload::WorkloadSpec;

/// A CronJob.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CronJob {
    pub(crate) metadata: Meta,
    pub(crate) spec: CronJobSpec,
    #[serde(deserialize_with = "nullable")]
    status: CronJobStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) schedule: String,
    pub(crate) time_zone: Option<String>,
    #[serde(deserialize_with = "nullable")]
    suspend: bool,
    #[serde(deserialize_with = "nullable")]
    concurrency_policy: String,
    starting_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    job_template: JobTemplate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    #[serde(deserialize_with = "nullable")]
    spec: WorkloadSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CronJobStatus {
    last_schedule_time: Option<jiff::Timestamp>,
}

impl CronJob {
    /// What its jobs are made from.
    pub(crate) fn job(&self) -> &WorkloadSpec {
        &self.spec.job_template.spec
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.spec.suspend || self.job().is_suspended() || self.metadata.is_leaving()
    }

    pub(crate) fn overlap(&self) -> Overlap {
        match self.spec.concurrency_policy.as_str() {
            "Forbid" => Overlap::Forbid,
            "Replace" => Overlap::Replace,
            _ => Overlap::Allow,
        }
    }

    /// How late a run may begin, in milliseconds.
    pub(crate) fn deadline(&self) -> Option<i64> {
        self.spec.starting_deadline_seconds.map(|seconds| seconds.saturating_mul(1000))
    }

    /// When it last ran as far as it says itself or, if it never has, when it was made, in milliseconds since 1970.
    pub(crate) fn last(&self) -> i64 {
        let made = self.metadata.creation_timestamp;
        self.status.last_schedule_time.max(made).map_or(0, jiff::Timestamp::as_millisecond)
    }
}
