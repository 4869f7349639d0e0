//! The messages between the test cloud and its clients: JSON over HTTP.
//!
//! | call | path |
//! |---|---|
//! | catalog | `GET /v1/catalog` |
//! | launch | `POST /v1/instances` with a [`LaunchRequest`](crate::port::LaunchRequest) |
//! | list, get, terminate | `GET /v1/instances`, `GET` and `DELETE /v1/instances/{id}` |
//! | tag, reboot, drift | `PUT …/{id}/tags`, `POST …/{id}/reboot`, `GET …/{id}/drift` |
//! | notices | `GET /v1/notices?after=…&waitMs=…` |
//!
//! An error is an [`ErrorBody`] with a fitting status.

use std::time::Duration;

use headstart_core::catalog::{InstanceType, Offering, Overhead};
use headstart_core::labels::WellKnown;
use headstart_core::price::Price;
use headstart_core::requirement::{Requirement, RequirementError};
use headstart_core::requirements::Requirements;
use headstart_core::resources::Resources;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::error::{CloudError, Reason};
use crate::port::{ClassRef, DryOffering, Instance, ProviderId};

/// What ids of the test cloud's instances begin with.
pub const ID_PREFIX: &str = "testcloud:///";

/// The answer to a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancesBody {
    /// The instances, by id.
    pub instances: Vec<Instance>,
}

/// A request to restart an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootBody {
    /// The id of the operation; the same one restarts once.
    pub operation: String,
}

/// The answer to a drift check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftBody {
    /// The reason, if it drifted.
    pub reason: Option<String>,
}

/// An answer without content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: WireError,
}

/// An error as it crosses the wire; every class but "answer lost", which by its nature cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum WireError {
    /// There is no such instance.
    NotFound {
        /// Its id.
        id: ProviderId,
    },
    /// Nothing on the list could be bought.
    InsufficientCapacity {
        /// What was tried.
        dry: Vec<DryOffering>,
        /// A sentence.
        message: String,
    },
    /// The node class cannot be used.
    ClassNotReady {
        /// Which class.
        class: ClassRef,
        /// Why.
        message: String,
    },
    /// Too many calls.
    Throttled {
        /// When to call again.
        retry_after_ms: u64,
    },
    /// Not allowed.
    Denied {
        /// Why.
        message: String,
    },
    /// Failed before anything was done.
    Internal {
        /// A sentence.
        message: String,
    },
    /// Will not work however often it is sent.
    Refused {
        /// Why not.
        reason: Reason,
        /// A sentence.
        message: String,
    },
}

impl WireError {
    /// The HTTP status that goes with it.
    pub fn status(&self) -> u16 {
        match self {
            Self::NotFound { .. } => 404,
            Self::InsufficientCapacity { .. } => 503,
            Self::ClassNotReady { .. } => 412,
            Self::Throttled { .. } => 429,
            Self::Denied { .. } => 403,
            Self::Internal { .. } => 500,
            Self::Refused { reason: Reason::TokenReused, .. } => 409,
            Self::Refused { .. } => 400,
        }
    }
}

impl From<WireError> for CloudError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::NotFound { id } => Self::NotFound { id },
            WireError::InsufficientCapacity { dry, message } => Self::InsufficientCapacity { dry, message },
            WireError::ClassNotReady { class, message } => Self::ClassNotReady { class, message },
            WireError::Throttled { retry_after_ms } => {
                Self::Throttled { retry_after: Some(Duration::from_millis(retry_after_ms)) }
            }
            WireError::Denied { message } => Self::Denied { message },
            WireError::Internal { message } => Self::not_done(message),
            WireError::Refused { reason, message } => Self::Permanent { reason, message },
        }
    }
}

/// A whole catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogBody {
    source: String,
    modelled: Vec<String>,
    well_known: Vec<String>,
    types: Vec<TypeBody>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TypeBody {
    name: String,
    requirements: Vec<RequirementBody>,
    offerings: Vec<OfferingBody>,
    capacity: Resources,
    #[serde(rename = "kubeReserved")]
    kube_reserved: Resources,
    #[serde(rename = "systemReserved")]
    system_reserved: Resources,
    #[serde(rename = "evictionThreshold")]
    eviction_threshold: Resources,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfferingBody {
    requirements: Vec<RequirementBody>,
    /// Billionths of a dollar per hour.
    price_nanos: i64,
    available: bool,
    reservation_capacity: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RequirementBody {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl From<&Catalog> for CatalogBody {
    fn from(catalog: &Catalog) -> Self {
        Self {
            source: catalog.source.clone(),
            modelled: catalog.modelled.clone(),
            well_known: catalog.well_known.iter().map(str::to_owned).collect(),
            types: catalog.types().iter().map(|t| TypeBody::from(&**t)).collect(),
        }
    }
}

impl TryFrom<CatalogBody> for Catalog {
    type Error = RequirementError;

    fn try_from(body: CatalogBody) -> Result<Self, RequirementError> {
        let types = body.types.into_iter().map(InstanceType::try_from).collect::<Result<_, _>>()?;
        let well_known: WellKnown = body.well_known.iter().map(String::as_str).collect();
        let mut catalog = Self::new(body.source, types, well_known);
        catalog.modelled = body.modelled;
        Ok(catalog)
    }
}

impl From<&InstanceType> for TypeBody {
    fn from(t: &InstanceType) -> Self {
        let offering = |o: &Offering| OfferingBody {
            requirements: to_wire(&o.requirements),
            price_nanos: o.price.nanos(),
            available: o.available,
            reservation_capacity: o.reservation_capacity,
        };
        Self {
            name: t.name.to_string(),
            requirements: to_wire(&t.requirements),
            offerings: t.offerings.iter().map(offering).collect(),
            capacity: t.capacity.clone(),
            kube_reserved: t.overhead.kube_reserved.clone(),
            system_reserved: t.overhead.system_reserved.clone(),
            eviction_threshold: t.overhead.eviction_threshold.clone(),
        }
    }
}

impl TryFrom<TypeBody> for InstanceType {
    type Error = RequirementError;

    fn try_from(body: TypeBody) -> Result<Self, RequirementError> {
        let offering = |o: OfferingBody| {
            Ok(Offering {
                requirements: from_wire(o.requirements)?,
                price: Price::from_nanos(o.price_nanos),
                available: o.available,
                reservation_capacity: o.reservation_capacity,
                ..Offering::default()
            })
        };
        Ok(Self {
            name: body.name.into(),
            requirements: from_wire(body.requirements)?,
            offerings: body.offerings.into_iter().map(offering).collect::<Result<_, _>>()?,
            capacity: body.capacity,
            overhead: Overhead {
                kube_reserved: body.kube_reserved,
                system_reserved: body.system_reserved,
                eviction_threshold: body.eviction_threshold,
            },
            ..Self::default()
        })
    }
}

fn to_wire(requirements: &Requirements) -> Vec<RequirementBody> {
    requirements
        .expressions()
        .into_iter()
        .map(|e| RequirementBody {
            key: e.key.to_string(),
            operator: e.operator.to_string(),
            values: e.values.iter().map(ToString::to_string).collect(),
        })
        .collect()
}

fn from_wire(requirements: Vec<RequirementBody>) -> Result<Requirements, RequirementError> {
    requirements.into_iter().map(|r| Requirement::new(&r.key, r.operator.parse()?, &r.values, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Source;

    #[test]
    fn catalogs_cross_the_wire_unchanged() {
        for source in [Source::Kwok, Source::Aws, Source::Azure] {
            let ours = Catalog::load(&source).unwrap();
            let text = serde_json::to_string(&CatalogBody::from(&ours)).unwrap();
            let body: CatalogBody = serde_json::from_str(&text).unwrap();
            let theirs = Catalog::try_from(body).unwrap();
            assert_eq!(ours.types()[..], theirs.types()[..]);
            assert_eq!(ours.well_known, theirs.well_known);
            assert_eq!(ours.modelled, theirs.modelled);
        }
    }

    #[test]
    fn errors_cross_the_wire_as_the_class_they_are() {
        let class = ClassRef { group: "g".into(), kind: "K".into(), name: "n".into() };
        for (error, kind, status) in [
            (WireError::NotFound { id: ProviderId("testcloud:///z/i-1".into()) }, "not_found", 404),
            (
                WireError::InsufficientCapacity { dry: vec![], message: "m".into() },
                "insufficient_capacity",
                503,
            ),
            (WireError::ClassNotReady { class, message: "m".into() }, "class_not_ready", 412),
            (WireError::Throttled { retry_after_ms: 1200 }, "throttled", 429),
            (WireError::Denied { message: "m".into() }, "denied", 403),
            (WireError::Internal { message: "m".into() }, "transient", 500),
            (WireError::Refused { reason: Reason::TokenReused, message: "m".into() }, "permanent", 409),
        ] {
            assert_eq!(error.status(), status);
            let text = serde_json::to_string(&ErrorBody { error: error.clone() }).unwrap();
            let back: ErrorBody = serde_json::from_str(&text).unwrap();
            assert_eq!(back.error, error);
            let error = CloudError::from(error);
            assert_eq!(error.kind(), kind);
            assert!(!error.outcome_unknown(), "an error that was answered has a known outcome");
        }
    }
}
