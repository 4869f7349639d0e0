//! The KWOKNodeClass.

use serde_json::{Value, json};

use crate::{
    case::{Case, Cases, Kind},
    values,
};

/// A KWOKNodeClass with nothing in it.
pub(crate) fn base() -> Value {
    Kind::KwokNodeClass.object(json!({}))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Cases::new(Kind::KwokNodeClass, base());
    cases.create("/spec", [json!(null), json!({}), json!([])]);
    cases.create_without("/spec");
    for at in ["/bogus", "/spec/bogus"] {
        cases.unknown_field(at);
    }
    cases.create("/spec/nodeRegistrationDelay", values::durations());
    cases.update("/spec/nodeRegistrationDelay", [json!("5s"), json!("soon")]);
    cases.create("/status", [json!({}), json!(null), json!({ "conditions": [] })]);
    for status in [json!(null), json!({})] {
        cases.status(status);
    }
    for conditions in values::conditions() {
        cases.status(json!({ "conditions": conditions }));
    }
    cases.done()
}
