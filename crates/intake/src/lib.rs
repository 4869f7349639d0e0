//! Kubernetes objects in, the solver's model out.
//!
//! ```text
//! text ── read ──► values ── World::add ──► slim objects ── World::snapshot ──► Snapshot
//!                                  └──────────► Diagnostic: which object, which field, what is wrong
//! ```
//!
//! Objects are decoded into structs that have only the fields scheduling looks at; nothing else is kept. A malformed object
//! becomes a diagnostic that names the field, and never hides its neighbors. Shared by everything that sees objects: files,
//! watches and the simulator.
//!
//! Never here: network, clocks, decisions.

#![warn(missing_docs)]

mod affinity;
mod cronjob;
mod decode;
mod diagnostic;
mod foresee;
mod kept;
mod limit_range;
mod meta;
mod names;
mod node;
mod overlay;
mod places;
mod pod;
mod pool;
mod pooled;
mod quota;
mod read;
mod requests;
mod scheduler_config;
mod snapshot;
mod spread;
mod storage;
mod workload;
mod world;

pub use decode::Expression;
pub use diagnostic::Diagnostic;
pub use foresee::{Choice, Drawing, MakerRef, Run};
pub use kept::KeptPod;
pub use node::{KeptClaim, KeptNode};
pub use pod::TaintSpec;
pub use read::{Document, read};
pub use scheduler_config::{SchedulerConfig, SchedulerConfigError};
pub use snapshot::{Plain, Rejected, Resident, Sight, Standing, Taken, Waiting};
pub use world::{Put, World};
