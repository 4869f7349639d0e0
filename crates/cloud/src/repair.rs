//! When an unhealthy node is repaired, and how.

pub use headstart_core::cloud::{RepairAction, RepairPolicy};
