//! Feature gates, by upstream's names.

use crate::error::OperatorError;

/// The gates that exist here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a gate is on or off")]
pub(crate) struct Gates {
    /// Reserved capacity is used.
    pub(crate) reserved_capacity: bool,
    /// Overlays change what is bought.
    pub(crate) node_overlay: bool,
    /// Room is kept for buffers.
    pub(crate) capacity_buffer: bool,
    /// Spot nodes are replaced by cheaper spot nodes.
    pub(crate) spot_to_spot: bool,
    /// Sick nodes are repaired.
    pub(crate) node_repair: bool,
    /// Pools that want a number of nodes get it.
    pub(crate) static_capacity: bool,
    /// Drifted nodes that cannot be replaced first go first.
    pub(crate) terminate_first_drift: bool,
    /// Broken nodes that cannot be replaced first go first.
    pub(crate) terminate_first_repair: bool,
    /// Names that nobody knows.
    pub(crate) unknown: Vec<String>,
}

/// Upstream's gates that do not exist here yet; a user who turns one on relies on what it does.
const MISSING: [&str; 1] = ["PodDeletionCostManagement"];

impl Gates {
    /// Reads `A=true,B=false`.
    ///
    /// COMPAT: v1.15.0 `ParseFeatureGates` has these defaults, spelling and later-one-wins rule, and ignores unknown names.
    pub(crate) fn parse(text: &str) -> Result<Self, OperatorError> {
        let mut gates = Self { reserved_capacity: true, ..Self::default() };
        let mut missing = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let malformed = || OperatorError::BadGate(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(malformed)?;
            let on = match value.trim() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => return Err(malformed()),
            };
            match name.trim() {
                "ReservedCapacity" => gates.reserved_capacity = on,
                "NodeOverlay" => gates.node_overlay = on,
                "CapacityBuffer" => gates.capacity_buffer = on,
                "SpotToSpotConsolidation" => gates.spot_to_spot = on,
                "NodeRepair" => gates.node_repair = on,
                "StaticCapacity" => gates.static_capacity = on,
                "TerminateFirstDrift" => gates.terminate_first_drift = on,
                "TerminateFirstRepair" => gates.terminate_first_repair = on,
                name if MISSING.contains(&name) => {
                    missing.retain(|other| other != name);
                    if on {
                        missing.push(name.to_owned());
                    }
                }
                name => gates.unknown.push(name.to_owned()),
            }
        }
        if missing.is_empty() { Ok(gates) } else { Err(OperatorError::MissingGates(missing)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_upstreams() {
        let gates = Gates::parse("").unwrap();
        let expected = Gates { reserved_capacity: true, ..Gates::default() };
        assert_eq!(gates, expected);
    }

    #[test]
    fn gates_are_switched_and_strangers_are_named() {
        let gates =
            Gates::parse(" NodeOverlay=true, ReservedCapacity=false,NodeRepair=false,Drift=true,").unwrap();
        assert_eq!((gates.reserved_capacity, gates.node_overlay), (false, true));
        assert_eq!(gates.unknown, ["Drift"]);
    }

    #[test]
    fn a_gate_that_we_lack_stops_the_start() {
        let error = Gates::parse("PodDeletionCostManagement=True,StaticCapacity=true").unwrap_err();
        assert!(error.to_string().contains("PodDeletionCostManagement"), "{error}");
        assert!(Gates::parse("PodDeletionCostManagement=true,PodDeletionCostManagement=false").is_ok());
    }

    #[test]
    fn what_is_no_gate_is_quoted() {
        for bad in ["NodeOverlay", "NodeOverlay=yes", "NodeOverlay:true"] {
            let error = Gates::parse(bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }
}
