//! State over time: events in, actions out.
//!
//! ```text
//! Event ── apply ──► Store ─┐                        ┌─► Action::Do ──► API server, cloud ──► Event::Ended
//!          (what was seen)  ├─► View ─► concerns ────┤
//!        what was asked for ┘   (decide, in order)   └─► Action::Tell ─► events, log, metrics
//! ```
//!
//! The whole contract with a driver: hand over every [`Event`](event::Event) with [`Engine::apply`], then call
//! [`Engine::decide`] and perform what it returns, and call it again when [`Engine::next_wake`] comes. Calling more often, or
//! late, is harmless. Everything that can be lost when the process dies is found again in the API server and the cloud.
//!
//! Never here: clocks, network, threads, unseeded chance, iteration over unordered maps.

#![warn(missing_docs)]

pub mod action;
mod agenda;
mod backoff;
mod batch;
mod capacity;
mod claims;
mod collect;
mod companion;
mod demand;
mod disrupt;
mod drain;
mod engine;
mod errands;
pub mod event;
mod fixed;
pub mod journal;
pub mod kind;
mod machines;
pub mod observation;
mod out;
pub mod outcome;
pub mod overview;
mod pools;
mod provision;
mod reboot;
pub mod report;
pub mod settings;
mod shadow;
mod store;
pub mod time;
mod watch_over;

pub use action::{Action, Effect, EffectId, ObjectRef, Part};
pub use disrupt::outlook::{Going, NoOutlook, Outlook};
pub use engine::Engine;
pub use event::{Change, Event};
pub use kind::{Kind, Resource};
pub use observation::Observation;
pub use outcome::{Fact, Outcome, Refusal};
pub use report::{Gauge, Level, Measure, Report};
pub use settings::{Consolidation, Mode, Settings};
pub use time::{Now, Time, Wall};
