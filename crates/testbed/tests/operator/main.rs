//! `headstart run` on a real control plane, with exactly the rights that the install manifest gives.
//!
//! | variable | raises | in every run |
//! |---|---|---|
//! | `KILLS`, `PODS`, `SEED` | how often it is killed while how many pods are created, and when | 5, 120, 1 |
//! | `NODES` | how many nodes it takes over from Karpenter | 10 |
//! | `DRY_SECONDS` | how long the cloud has nothing to sell | 15 |
//! | `FLEET`, `PEACE_MINUTES` | how many nodes shrink, and for how long nothing may happen afterwards | 20, 1 |
//! | `MINUTES` | how long somebody else taints every node | 1 |
//! | `HEADSTART_BIN` | the program that is tried | built from here |

mod capacity;
mod crash;
mod cron_job;
mod harness;
mod quiet;
mod scale;
mod service;
mod shrink;
mod takeover;
mod wrong;
