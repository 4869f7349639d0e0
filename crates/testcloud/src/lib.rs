//! A test cloud: an infrastructure provider over HTTP that can be made to misbehave and keeps its own books.
//!
//! Flow: a request meets the armed faults (`cloud`), the state decides (`world`), what it decided is on disk
//! (`ledger`) before the answer leaves (`server`). `timeline` makes happen what happens by itself and registers Nodes.
//! [`audit`] reads the books and nothing else, and tells who leaked, launched twice or walks on dead.
//!
//! Never here: Headstart's engine, or anything of ours that decides. Nothing of ours may be the judge of our leaks.

pub mod audit;
pub mod clock;
mod cloud;
pub mod delay;
mod dice;
pub mod fault;
pub mod ledger;
mod nodes;
pub mod record;
pub mod server;
pub mod settings;
mod timeline;
mod world;

pub use server::{Options, Server, Time};
