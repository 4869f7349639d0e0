//! `headstart run` on a real control plane, with exactly the rights that the install manifest gives.

mod capacity;
mod crash;
mod harness;
mod quiet;
mod scale;
mod service;
mod takeover;
mod wrong;
