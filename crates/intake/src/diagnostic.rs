//! What is wrong with an object.

use std::fmt;

/// A field of an object that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The object, as `Kind namespace/name`, or where it was found when it has no name.
    pub object: String,
    /// The path of the field, such as `spec.containers[0].resources`; empty when the whole object is meant.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, field, message } = self;
        if field.is_empty() {
            write!(f, "{object}: {message}")
        } else {
            write!(f, "{object}: {field}: {message}")
        }
    }
}
