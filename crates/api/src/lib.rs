//! The custom resources Headstart serves and consumes, as types.
