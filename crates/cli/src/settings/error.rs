//! Errors in the settings, with their place.

use std::io;
use std::path::PathBuf;

use thiserror::Error as ThisError;

use super::Origin;
use super::toml_error::TomlError;
use super::value::ValueError;

/// Why the settings cannot be used.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error("the configuration file {} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Toml(TomlError),
    #[error("{}:{line}: there is no setting `{name}`", path.display())]
    UnknownKey {
        name: String,
        path: PathBuf,
        line: usize,
        nearest: Option<&'static str>,
    },
    #[error("{}:{line}: this build of windlass is without `{table}`, so [{table}] cannot be set", path.display())]
    Excluded {
        table: &'static str,
        path: PathBuf,
        line: usize,
    },
    #[error("{}:{line}: `{key}` takes text, a number, true or false", path.display())]
    Kind {
        key: &'static str,
        path: PathBuf,
        line: usize,
    },
    #[error("{variable} is not UTF-8")]
    NotUnicode { variable: String },
    #[error("{key} ({origin})")]
    Value {
        key: &'static str,
        origin: Origin,
        source: ValueError,
    },
    #[error("{key} ({origin}): {requirement}")]
    Rule {
        key: &'static str,
        origin: Origin,
        requirement: &'static str,
    },
}

impl Error {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey {
                nearest: Some(nearest),
                ..
            } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownKey { nearest: None, .. } => {
                Some("`windlass serve --check-config` prints all settings".to_owned())
            }
            Self::Excluded { table, .. } => Some(format!(
                "remove the section, or build windlass with the feature `{table}`"
            )),
            Self::Unreadable { .. }
            | Self::Toml(_)
            | Self::Kind { .. }
            | Self::NotUnicode { .. }
            | Self::Value { .. }
            | Self::Rule { .. } => None,
        }
    }
}
