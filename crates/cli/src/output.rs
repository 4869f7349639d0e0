//! How documents are printed.

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use serde_saphyr::SerializerOptions;

/// A format for documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, and for `kubectl apply`.
    Yaml,
    /// For programs.
    Json,
}

impl Format {
    /// The ending of files in this format, without the dot.
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Json => "json",
        }
    }
}

/// One document as YAML, ending in a newline. Long texts stay on one line, so that what they say can be searched.
pub(crate) fn yaml<T: Serialize>(document: &T) -> anyhow::Result<String> {
    let mut options = SerializerOptions::default();
    options.prefer_block_scalars = false;
    serde_saphyr::to_string_with_options(document, options).context("cannot write YAML")
}

/// One document as indented JSON, ending in a newline.
pub(crate) fn json<T: Serialize>(document: &T) -> anyhow::Result<String> {
    serde_json::to_string_pretty(document).map(|text| text + "\n").context("cannot write JSON")
}
