//! What can be wrong with a catalog.

use std::fmt;
use std::path::PathBuf;

/// Why a catalog cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The name is none of ours and not a file either.
    #[error("unknown catalog {0:?}: it is neither kwok, aws nor azure, and there is no such file")]
    Unknown(String),
    /// The file cannot be read.
    #[error("cannot read catalog {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file as a whole is not in the format of a catalog.
    #[error("catalog {file}: {message}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong with it.
        message: String,
    },
    /// Some rows cannot be used.
    #[error("{}", BadRows(.0))]
    Rows(Vec<BadRow>),
}

/// A row of a table, or an entry of a list, that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// The file or embedded table.
    pub file: String,
    /// Which row: a line number, or an index with a name.
    pub row: String,
    /// Which column or field.
    pub column: String,
    /// What stands there.
    pub value: String,
    /// What should stand there.
    pub expected: &'static str,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, row, column, value, expected } = self;
        write!(f, "catalog {file}, {row}, {column}: {value} is not {expected}")
    }
}

struct BadRows<'a>(&'a [BadRow]);

impl fmt::Display for BadRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no bad row"),
            [row] => row.fmt(f),
            [row, rest @ ..] => write!(f, "{row} (and {} more)", rest.len()),
        }
    }
}
