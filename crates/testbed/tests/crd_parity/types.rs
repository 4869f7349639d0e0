//! Our types, beside the API server: they read what it accepts and fill in what it fills in.

use std::fmt::Debug;

use headstart_api::{CapacityBuffer, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};
use kube::core::object::HasSpec;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::case::Kind;

/// What is wrong with how our types read an object that was sent and then stored, if anything.
pub(crate) fn disagreement(kind: Kind, sent: &Value, stored: &Value) -> Option<String> {
    match kind {
        Kind::NodePool => compare::<NodePool>(sent, stored, |pool| {
            let template = &mut pool.spec.template.spec;
            template.expire_after = Some(template.expire_after());
        }),
        Kind::NodeClaim => compare::<NodeClaim>(sent, stored, |claim| {
            claim.spec.expire_after = Some(claim.spec.expire_after());
        }),
        Kind::NodeOverlay => compare::<NodeOverlay>(sent, stored, |_| ()),
        Kind::KwokNodeClass => compare::<KwokNodeClass>(sent, stored, |_| ()),
        Kind::CapacityBuffer | Kind::OldCapacityBuffer => compare::<CapacityBuffer>(sent, stored, |buffer| {
            buffer.spec.provisioning_strategy = Some(buffer.spec.provisioning_strategy().to_owned());
        }),
    }
}

/// Reads both, fills in the defaults of the first, and compares their specs.
fn compare<T>(sent: &Value, stored: &Value, fill_in: impl FnOnce(&mut T)) -> Option<String>
where
    T: DeserializeOwned + HasSpec,
    T::Spec: PartialEq + Debug,
{
    let stored: T = match serde_json::from_value(stored.clone()) {
        Ok(stored) => stored,
        // The rules let pass durations that no program can hold; Karpenter cannot read them either.
        Err(error) if error.to_string().contains("longer than about 292 years") => return None,
        Err(error) => return Some(format!("cannot read what was stored: {error}")),
    };
    let mut sent: T = match serde_json::from_value(understood(sent)) {
        Ok(sent) => sent,
        Err(error) => return Some(format!("cannot read what was sent: {error}")),
    };
    fill_in(&mut sent);
    (sent.spec() != stored.spec()).then(|| {
        format!("read {:?} from what was sent, {:?} from what was stored", sent.spec(), stored.spec())
    })
}

/// An object that was sent, as the API server understands it: null is nothing, a whole number is a whole number
/// however it is written, and the status is not the sender's to say.
fn understood(sent: &Value) -> Value {
    fn settle(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let fields = map.iter().filter(|(_, value)| !value.is_null());
                fields.map(|(key, value)| (key.clone(), settle(value))).collect()
            }
            Value::Array(values) => values.iter().map(settle).collect(),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() && float.fract() == 0.0 => json!(float as i64),
                _ => value.clone(),
            },
            other => other.clone(),
        }
    }
    let mut object = settle(sent);
    object.as_object_mut().map(|object| object.remove("status"));
    object
}
