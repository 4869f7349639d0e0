//! Pure decisions: from a snapshot to a plan with its reasons.
//!
//! Never here: clocks, network, environment, unseeded randomness, iteration over unordered maps.
