//! An error in a TOML file, on one line.

use std::path::{Path, PathBuf};

use thiserror::Error;
use toml::de;

/// The message and its line.
#[derive(Debug, Error)]
#[error("{}:{line}: {message}, in `{source_line}`", path.display())]
pub(crate) struct TomlError {
    path: PathBuf,
    line: usize,
    message: String,
    source_line: String,
}

impl TomlError {
    pub(crate) fn new(path: &Path, text: &str, error: &de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        let line = line_of(text, at);
        Self {
            path: path.to_owned(),
            line,
            message: error.message().replace('\n', ", "),
            source_line: text
                .lines()
                .nth(line - 1)
                .unwrap_or_default()
                .trim()
                .to_owned(),
        }
    }
}

/// Returns the line of a byte, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
