//! What an answer of the API server, or the lack of one, says about an effect.

use std::error::Error as _;
use std::time::Duration;

use headstart_engine::{Outcome, Refusal};
use kube::Error;
use kube::core::Status;

use crate::error::root;

/// What was asked for, as far as answers to it mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Create,
    Change,
    Evict,
    Read,
}

/// How long the API server has to answer.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// What a pod covered by several budgets is told. It is an internal error, but one that will be back.
const SEVERAL_BUDGETS: &str = "more than one PodDisruptionBudget";

/// The outcome that an error means.
pub(super) fn refused(asked: Asked, error: &Error) -> Outcome {
    match error {
        Error::Api(status) => by_status(asked, status),
        // These are noticed before a request is sent.
        Error::Auth(_)
        | Error::BuildRequest(_)
        | Error::HttpError(_)
        | Error::InferConfig(_)
        | Error::InferKubeconfig(_)
        | Error::RustlsTls(_)
        | Error::TlsRequired
        | Error::ProxyProtocolUnsupported { .. }
        | Error::ProxyProtocolDisabled { .. } => unavailable(root(error)),
        _ if never_connected(error) => unavailable(root(error)),
        _ => lost(asked, root(error)),
    }
}

/// The outcome of having waited in vain.
pub(super) fn timed_out(asked: Asked) -> Outcome {
    lost(asked, format!("no answer within {} s", LIMIT.as_secs()))
}

fn by_status(asked: Asked, status: &Status) -> Outcome {
    let message = status.message.clone();
    let refusal = match status.code {
        404 => Refusal::NotFound,
        409 if asked == Asked::Create && status.reason != "Conflict" => Refusal::AlreadyExists,
        409 => Refusal::Conflict,
        401 | 403 => Refusal::Forbidden { message },
        429 if asked == Asked::Evict && names_budget(status) => Refusal::Blocked { message },
        429 => Refusal::Throttled { after: retry_after(status) },
        500 if asked == Asked::Evict && message.contains(SEVERAL_BUDGETS) => Refusal::Blocked { message },
        // Whoever says this has not passed the request on; a server that fell silent in the middle says 500 or 504.
        503 => Refusal::Unavailable { message },
        code if code < 500 => Refusal::Invalid { message },
        _ => return lost(asked, message),
    };
    Outcome::Refused(refusal)
}

/// Whether a throttled eviction was stopped by a budget, not by a busy server.
fn names_budget(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "DisruptionBudget")
}

fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Whether there was no connection to send anything over.
fn never_connected(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        cause = error.source();
    }
    false
}

fn unavailable(message: String) -> Outcome {
    Outcome::Refused(Refusal::Unavailable { message })
}

/// A question that was not answered has at least done nothing.
fn lost(asked: Asked, message: String) -> Outcome {
    match asked {
        Asked::Read => unavailable(message),
        Asked::Create | Asked::Change | Asked::Evict => Outcome::Unknown { message },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(asked: Asked, code: u16, reason: &str, details: &serde_json::Value) -> String {
        let status = json!({ "status": "Failure", "code": code, "reason": reason, "message": "m", "details": details });
        let status: Status = serde_json::from_value(status).unwrap();
        named(&refused(asked, &Error::Api(status.boxed())))
    }

    fn named(outcome: &Outcome) -> String {
        match outcome {
            Outcome::Done(_) => "done".to_owned(),
            Outcome::Unknown { .. } => "unknown".to_owned(),
            Outcome::Refused(refusal) => format!("{refusal:?}").split([' ', '(']).next().unwrap().to_owned(),
        }
    }

    #[test]
    fn each_answer_means_something() {
        use Asked::{Change, Create, Evict, Read};
        let cases = [
            (Create, 409, "AlreadyExists", "AlreadyExists"),
            (Create, 409, "Conflict", "Conflict"),
            (Change, 409, "Conflict", "Conflict"),
            (Evict, 409, "Conflict", "Conflict"),
            (Change, 404, "NotFound", "NotFound"),
            (Create, 422, "Invalid", "Invalid"),
            (Create, 400, "BadRequest", "Invalid"),
            (Create, 403, "Forbidden", "Forbidden"),
            (Create, 401, "Unauthorized", "Forbidden"),
            (Change, 429, "TooManyRequests", "Throttled"),
            (Evict, 429, "TooManyRequests", "Throttled"),
            (Change, 500, "InternalError", "unknown"),
            (Create, 504, "Timeout", "unknown"),
            (Create, 503, "ServiceUnavailable", "Unavailable"),
            (Read, 500, "InternalError", "Unavailable"),
        ];
        for (asked, code, reason, expected) in cases {
            assert_eq!(answer(asked, code, reason, &json!(null)), expected, "{asked:?} {code}");
        }
    }

    #[test]
    fn a_budget_is_told_from_a_busy_server() {
        let budget = json!({ "causes": [{ "reason": "DisruptionBudget", "message": "needs 2, has 2" }] });
        assert_eq!(answer(Asked::Evict, 429, "TooManyRequests", &budget), "Blocked");
        assert_eq!(answer(Asked::Change, 429, "TooManyRequests", &budget), "Throttled");
        let several =
            Status { code: 500, message: format!("This pod has {SEVERAL_BUDGETS}"), ..Status::default() };
        assert_eq!(named(&refused(Asked::Evict, &Error::Api(several.boxed()))), "Blocked");
    }

    #[test]
    fn a_server_may_say_how_long_to_wait() {
        let status = Status { code: 429, ..Status::failure("slow down", "TooManyRequests") };
        let mut status = serde_json::to_value(status).unwrap();
        status["details"] = json!({ "retryAfterSeconds": 3 });
        let error = Error::Api(serde_json::from_value::<Status>(status).unwrap().boxed());
        let Outcome::Refused(refusal) = refused(Asked::Change, &error) else { panic!("it was not refused") };
        assert_eq!(refusal, Refusal::Throttled { after: Some(Duration::from_secs(3)) });
    }

    #[test]
    fn silence_is_no_refusal() {
        assert_eq!(named(&timed_out(Asked::Create)), "unknown");
        assert_eq!(named(&timed_out(Asked::Read)), "Unavailable");
        let broken = Error::Service("connection reset".into());
        assert_eq!(named(&refused(Asked::Change, &broken)), "unknown");
    }

    #[tokio::test]
    async fn where_nobody_listens_nothing_was_done() {
        let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        let error = client.apiserver_version().await.unwrap_err();
        assert_eq!(named(&refused(Asked::Create, &error)), "Unavailable", "{error:?}");
    }
}
