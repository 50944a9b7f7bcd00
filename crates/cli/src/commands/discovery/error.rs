//! Why a description is not shown.

use std::io;
use std::path::PathBuf;

use thiserror::Error as ThisError;
use windlass_discovery::Error as DescriptionError;

use crate::exit::Code;
use crate::settings::{TomlError, UnknownApi};

/// Why a description is not shown.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error(transparent)]
    Unknown(#[from] UnknownApi),
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Toml(TomlError),
    #[error("{}", path.display())]
    Unusable {
        path: PathBuf,
        source: DescriptionError,
    },
}

impl Error {
    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> Code {
        match self {
            Self::Unknown(_) => Code::Usage,
            Self::Unreadable { .. } => Code::CannotBegin,
            Self::Toml(_) | Self::Unusable { .. } => Code::Failure,
        }
    }

    /// What can be done about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Unusable {
                source: DescriptionError::Document { .. },
                ..
            } => Some("`windlass discovery --check` tells all that is wrong with it".to_owned()),
            Self::Unknown(_) | Self::Unreadable { .. } | Self::Toml(_) | Self::Unusable { .. } => {
                None
            }
        }
    }
}
