//! Upstream's end-to-end suites, compiled from its module, run against an operator on clusters of their own.

mod compare;
mod group;
mod report;
mod run;

pub use compare::compare;
pub use group::{Group, Suite, groups};
pub use report::{Spec, Verdict, known_failure, table};
pub use run::run_group;
