//! The solver as users meet it: given a cluster, what is planned.

#![allow(clippy::unwrap_used)]

mod catalog;
mod check;
mod demand;
mod fixture;
mod min_values;
mod overlay;
mod properties;
mod provisioning;
mod topology;
