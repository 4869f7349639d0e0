//! The cloud port: what Headstart asks of an infrastructure provider, with catalogs and clouds.
//!
//! - [`port`] is the trait and its vocabulary, [`error`] the classes of failure callers act on.
//! - [`kwok`] is Karpenter's KWOK cloud; [`testcloud`] the client of a cloud that can be made to misbehave.
//! - [`catalog`] knows what can be bought: `kwok`, `aws`, `azure`, or a file.
//!
//! Never here: retries, back-off, or a choice between offerings. A cloud performs one call and tells how it ended.

#![warn(missing_docs)]

pub mod catalog;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod error;
/// What a cloud announces by itself.
pub mod notice {
    pub use headstart_core::cloud::{Cursor, Notice, NoticeKind, Notices};
}
pub mod kwok;
pub mod port;
pub mod repair;
pub mod testcloud;

pub use catalog::Catalog;
pub use error::CloudError;
pub use port::Cloud;
