//! Development only: a real Kubernetes control plane, the test cloud and peers on loopback.
//!
//! ```text
//! binaries ─► components ─► ControlPlane ─► peers (the real Karpenter) ─► suites (upstream's own end-to-end tests)
//!                               └ keeper: ends every process and directory, however their owner ends
//! ```
//!
//! Nothing here is shipped, and nothing here decides anything for the product: it is the world that judges it.

pub mod beside;
pub mod binaries;
pub mod cases;
mod certs;
pub mod churned;
mod components;
mod control_plane;
pub mod crowd;
pub mod http;
pub mod instance_types;
pub mod judge;
mod keeper;
mod kubeconfig;
mod options;
pub mod peers;
mod ports;
mod process;
pub mod reaction;
pub mod shrink;
mod stages;
pub mod suites;
mod template;
pub mod usage;
pub mod workload;

pub use control_plane::{ControlPlane, connect};
pub use options::{Component, Options, Rate, Stages};
pub use process::{Process, Program};
