//! What objects mean together with what can be bought.

#![allow(clippy::unwrap_used)]

mod catalog;
mod launches;
mod overlays;
mod removals;
