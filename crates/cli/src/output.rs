//! How documents are printed.

use std::{env, fmt, io::IsTerminal};

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

/// Whether and how text is colored; color only repeats what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    colored: bool,
}

impl Paint {
    /// No color at all.
    pub(crate) const PLAIN: Self = Self { colored: false };

    /// Color on a terminal that shows it, unless `NO_COLOR` is set.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let simple = env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        Self { colored: stream.is_terminal() && !unwanted && !simple }
    }

    pub(crate) fn bold(self, text: impl fmt::Display) -> String {
        self.with(1, &text)
    }

    pub(crate) fn green(self, text: impl fmt::Display) -> String {
        self.with(32, &text)
    }

    pub(crate) fn yellow(self, text: impl fmt::Display) -> String {
        self.with(33, &text)
    }

    pub(crate) fn red(self, text: impl fmt::Display) -> String {
        self.with(31, &text)
    }

    fn with(self, code: u8, text: &dyn fmt::Display) -> String {
        if self.colored { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_goes_around_the_text_or_nowhere() {
        assert_eq!(Paint::PLAIN.red("x"), "x");
        assert_eq!(Paint { colored: true }.red("x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
