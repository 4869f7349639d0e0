//! Pure decisions: from a snapshot to a plan with its reasons.
//!
//! Never here: clocks, network, environment, unseeded randomness, iteration over unordered maps.

#![warn(missing_docs)]

pub mod catalog;
pub mod labels;
pub mod price;
pub mod quantity;
pub mod requirement;
pub mod requirements;
pub mod resources;
