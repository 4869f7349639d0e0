//! A simulated Kubernetes cluster and cloud in virtual time, and the laws the engine must keep in it.
//!
//! ```text
//! seed ── swarm ──► Plan ── play ──► World: people, workloads, scheduler, kubelets, cloud, API server
//!                     ▲                │  wire: delay, loss
//!                  shrink              ▼
//!                     └── Verdict ◄── checks ◄── processes: engine + driver, lease, kill, pause
//! ```
//!
//! Everything comes from one seed and no clock is read, so a run repeats exactly. The engine inside is the real one.

#![warn(missing_docs)]

pub mod amounts;
pub mod api;
pub mod brain;
pub mod checks;
pub mod cloud;
pub mod controllers;
pub mod demo;
pub mod dice;
pub mod ensemble;
pub mod fault;
pub mod ground;
pub mod kubelet;
pub mod pairs;
pub mod people;
pub mod plan;
pub mod process;
pub mod scheduler;
pub mod shrink;
pub mod swarm;
pub mod timeline;
pub mod truth;
pub mod verdict;
pub mod waits;
pub mod wire;
pub mod world;
