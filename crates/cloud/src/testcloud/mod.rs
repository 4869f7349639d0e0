//! The test cloud, seen from outside: a client for the program `testcloud`, and the messages both speak.

mod admin;
mod client;
mod http;
pub mod wire;

pub use admin::Admin;
pub use client::{BadEndpoint, TestCloud};
