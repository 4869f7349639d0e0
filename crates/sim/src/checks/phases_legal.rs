//! A NodeClaim goes forward only: launched, registered, initialized; and what it says about its node never changes.

use headstart_engine::Kind;
use serde_json::Value;

use super::{Broken, Check};
use crate::api::{Verb, array, text};
use crate::ground::{Fact, Ground};

pub(super) struct PhasesLegal;

/// Each needs the one before.
const PHASES: [&str; 3] = ["Launched", "Registered", "Initialized"];

impl Check for PhasesLegal {
    fn name(&self) -> &'static str {
        "phases_legal"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Changed(Kind::NodeClaim, index) = fact else { return Ok(()) };
        let entry = &ground.api.log(Kind::NodeClaim)[*index];
        if entry.verb == Verb::Removed {
            return Ok(());
        }
        let before = entry.before.as_deref().unwrap_or(&Value::Null);
        let problem = problem(before, &entry.object);
        problem.map_or(Ok(()), |problem| {
            Err(Broken::new(format!("claim {}: {problem}", entry.key)).about(Kind::NodeClaim, &*entry.key))
        })
    }
}

fn problem(before: &Value, after: &Value) -> Option<String> {
    for phases in PHASES.windows(2) {
        if holds(after, phases[1]) && !holds(after, phases[0]) {
            return Some(format!("{} but not {}", phases[1], phases[0]));
        }
    }
    for phase in PHASES {
        // A node that is restarted where it is must be initialized anew.
        let is_rebooting = phase == "Initialized" && holds(after, "Rebooting");
        if holds(before, phase) && !holds(after, phase) && !is_rebooting {
            return Some(format!("{phase} no more"));
        }
    }
    for field in ["/status/providerID", "/status/nodeName"] {
        let (was, is) = (text(before, field), text(after, field));
        if !was.is_empty() && was != is {
            return Some(format!("{field} was {was} and is {is:?}"));
        }
    }
    if holds(after, "Launched") && text(after, "/status/providerID").is_empty() {
        return Some("Launched without a provider id".to_owned());
    }
    None
}

fn holds(claim: &Value, kind: &str) -> bool {
    array(claim, "/status/conditions").any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(provider_id: &str, phases: &[&str]) -> Value {
        let conditions: Vec<Value> = phases.iter().map(|p| json!({ "type": p, "status": "True" })).collect();
        json!({ "status": { "providerID": provider_id, "conditions": conditions } })
    }

    #[test]
    fn only_forward() {
        let launched = claim("i", &["Launched"]);
        assert_eq!(problem(&claim("", &[]), &launched), None);
        assert_eq!(problem(&launched, &claim("", &[])).unwrap(), "Launched no more");
        let initialized = claim("i", &PHASES);
        assert_eq!(problem(&initialized, &claim("i", &PHASES[..2])).unwrap(), "Initialized no more");
        let rebooting = claim("i", &["Launched", "Registered", "Rebooting"]);
        assert_eq!(problem(&initialized, &rebooting), None);
        assert_eq!(
            problem(&launched, &claim("j", &["Launched"])).unwrap(),
            "/status/providerID was i and is \"j\""
        );
        assert_eq!(problem(&launched, &claim("i", &["Registered"])).unwrap(), "Registered but not Launched");
        assert_eq!(
            problem(&Value::Null, &claim("", &["Launched"])).unwrap(),
            "Launched without a provider id"
        );
    }
}
