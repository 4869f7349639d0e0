//! The real world for an engine: watches, performed effects, a lease, a log, metrics, probes.
//!
//! ```text
//! watch ──┐                                  ┌─► perform ──► API server, cloud
//! lease ──┼─► events ─► drive (a thread) ────┤      │ asks lease before each act
//! perform ┘   bounded   owns the engine      └─► tell: log, Kubernetes events, metrics
//! ```
//!
//! Never here: a decision, or a second try. What failed is told to the engine, which knows what to do.

mod clock;
mod connect;
mod drive;
mod error;
mod health;
mod http;
mod journal;
mod lease;
mod metrics;
mod observe;
mod options;
mod perform;
#[cfg(test)]
mod reference;
mod remember;
mod resources;
mod run;
mod tell;
mod watch;

pub use error::OperatorError;
pub use observe::{Note, ObserveOptions, View, observe};
pub use options::Options;
pub use run::{run, run_until};
