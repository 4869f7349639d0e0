//! Pure decisions: from a snapshot to a plan with its reasons.
//!
//! ```text
//! Snapshot ── solve ──► Plan            where every pod goes, what it costs, what it could cost at least
//!          └─ obstacles ──► [Obstacle]  why one pod goes nowhere
//!                └─ remedy ──► [Change]  what would give it a place, tried before it is told
//! Facts ── expect ──► Beliefs           which pods will come, and why; they join the snapshot
//! Fleet ──── decide ──► Decision        which nodes may go, what takes their place, and why others stay
//! Count ──── step ──► Step             what a pool that keeps a number of nodes has too few or too many
//! ```
//!
//! Words: a *pool* is where nodes come from, a *claim* a node to be bought, a *shape* what a pod needs, a *class* all pods of
//! one shape, a *row* an instance type with one allocatable vector, a *group* a constraint between pods.
//!
//! Speed comes from the shape of the data. Distinct requirement sets are numbered and their products tabled, so that labels
//! are compared as strings only once. Pods of one class share every conclusion: a place that refuses one for good is never
//! asked again for another. A claim stores what it must hold, not the hundreds of types that could; those follow.
//!
//! Never here: clocks, network, environment, unseeded randomness, iteration over unordered maps. Nothing here can fail: a pod
//! that fits nowhere is a result with a reason. Work is limited by counting, never by time.

#![warn(missing_docs)]

pub mod catalog;
pub mod cloud;
pub mod cron;
pub mod default_spread;
pub mod demand;
pub mod disrupt;
pub mod explain;
pub mod fixed;
pub mod hash;
pub mod labels;
pub mod overlay;
pub mod plan;
pub mod price;
pub mod quantity;
pub mod remedy;
pub mod repair;
pub mod requirement;
pub mod requirements;
pub mod resources;
pub mod snapshot;
pub mod solve;
pub mod types;
