//! Errors of the Kubernetes API as errors of a cloud.

use std::time::Duration;

use kube::Error;

use crate::error::{CloudError, Reason, chain};

/// The object does not exist.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

/// The object exists already.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}

/// A read that failed has changed nothing.
pub(super) fn reading(error: Error) -> CloudError {
    match writing(error) {
        CloudError::Transient { message, .. } => CloudError::not_done(message),
        error => error,
    }
}

/// A write that failed may have happened, unless the API server says otherwise.
pub(super) fn writing(error: Error) -> CloudError {
    let Error::Api(status) = error else { return CloudError::answer_lost(chain(&error)) };
    let message = format!("the API server says: {}", status.message);
    match status.code {
        403 | 401 => CloudError::Denied { message },
        429 => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            CloudError::Throttled { retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.into())) }
        }
        409 => CloudError::not_done(message),
        code if code >= 500 => CloudError::answer_lost(message),
        _ => CloudError::Permanent { reason: Reason::InvalidRequest, message },
    }
}
