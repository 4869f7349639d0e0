//! Failures, with what transports know about them.

pub use headstart_core::cloud::{CloudError, Effect, Reason};

/// An error with its sources, those left out that it repeats.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
