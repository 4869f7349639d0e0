//! Catalogs: what can be bought, where and for how much.

mod aws;
mod azure;
mod csv;
mod error;
mod file;
mod kwok;
mod model;

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use headstart_core::catalog::{InstanceType, Offering};
use headstart_core::labels::WellKnown;
use headstart_core::types::Types;

pub use error::{BadRow, CatalogError};

pub use headstart_core::cloud::{key_of, labels_of};

use crate::port::OfferingKey;

/// Everything a cloud sells.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// Where it comes from: `kwok`, `aws`, `azure`, or a file.
    pub source: String,
    /// What in it is modelled rather than known, in sentences fit to be shown beside prices; often empty.
    pub modelled: Vec<String>,
    /// Label keys that a launch fills in.
    pub well_known: WellKnown,
    types: Arc<Types>,
}

/// Which catalog is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The generated types of Karpenter's KWOK provider.
    Kwok,
    /// AWS, us-east-1.
    Aws,
    /// Azure, eastus.
    Azure,
    /// A file in the instance-types format of Karpenter's KWOK provider.
    File(PathBuf),
}

impl Catalog {
    /// Loads a catalog and refuses it if a row is bad.
    pub fn load(source: &Source) -> Result<Self, CatalogError> {
        let (catalog, bad) = Self::load_leniently(source)?;
        if bad.is_empty() { Ok(catalog) } else { Err(CatalogError::Rows(bad)) }
    }

    /// Loads a catalog and returns the rows that could not be used beside it.
    pub fn load_leniently(source: &Source) -> Result<(Self, Vec<BadRow>), CatalogError> {
        match source {
            Source::Kwok => Ok((kwok::catalog(), Vec::new())),
            Source::Aws => aws::catalog(),
            Source::Azure => azure::catalog(),
            Source::File(path) => file::read(path),
        }
    }

    /// A catalog of given types; of two with the same name the first is found by it.
    pub fn new(source: impl Into<String>, types: Vec<InstanceType>, well_known: WellKnown) -> Self {
        let types = Arc::new(types.into_iter().map(Arc::new).collect());
        Self { source: source.into(), modelled: Vec::new(), well_known, types }
    }

    /// The instance types in catalog order.
    pub fn types(&self) -> &Arc<Types> {
        &self.types
    }

    /// An instance type by name.
    pub fn get(&self, name: &str) -> Option<&Arc<InstanceType>> {
        self.types.named(name)
    }

    /// What an offering's key stands for.
    pub fn offering(&self, key: &OfferingKey) -> Option<(&Arc<InstanceType>, &Offering)> {
        let instance_type = self.get(&key.instance_type)?;
        let offering = instance_type.offerings.iter().find(|o| key_of(instance_type, o) == *key)?;
        Some((instance_type, offering))
    }
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "kwok" => Self::Kwok,
            "aws" => Self::Aws,
            "azure" => Self::Azure,
            path => Self::File(path.into()),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kwok => f.write_str("kwok"),
            Self::Aws => f.write_str("aws"),
            Self::Azure => f.write_str("azure"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
