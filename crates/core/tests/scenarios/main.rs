//! The solver as users meet it: given a cluster, what is planned.

#![allow(clippy::unwrap_used)]

mod catalog;
mod check;
mod demand;
mod disruption;
mod explain;
mod fixture;
mod launches;
mod min_values;
mod offerings;
mod overlay;
mod properties;
mod provisioning;
mod reserved;
mod topology;
mod volumes;
